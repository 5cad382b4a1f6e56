#!/usr/bin/env python3
"""Prints the results of tools/gpu_check.sh on a GPU as tables, in the form of docs/gpu.md.

tools/charts/gpu_tables.py right.json speed.json offload.json      # one or more batches
"""

import argparse
import json
import sys
from pathlib import Path

RUNS = {  # check: (description of the model, check with PyTorch's figures)
    "gpt_124m": ("124 million parameters, batch 16, bf16", "plain_124m"),
    "gpt_124m_tf32": ("the same in fp32 with tf32 products", ""),
    "gpt_124m_muon": ("124 million, batch 16, bf16, Muon", ""),
    "gpt_1b5": ("1.56 billion, batch 8, bf16, activation checkpoints", "plain_1b5"),
    "b3_resident": ("2.99 billion, batch 16, bf16, activation checkpoints, all on the GPU", "plain_3b"),
    "b3_half_16k": ("the same, half of the moments and master weights on the host", ""),
    "b3_half_4k": ("the same with batch 4", ""),
    "b3_half_64k": ("the same with batch 64", ""),
    "b7_capped": ("6.65 billion, batch 16, bf16, activation checkpoints, in 30 GiB of the GPU", ""),
    "largest": ("the largest (see below), batch 4, bf16, activation checkpoints", ""),
    "resident": ("304 million, batch 8, bf16, activation checkpoints, all on the GPU", "plain_offload"),
    "half_on_host": ("the same, half of the moments and master weights on the host", ""),
    "moments_on_host": ("the same, all of them on the host", "plain_offload/offload"),
    "moments_on_disk": ("the same, all of them on a disk", ""),
    "in_8_gib": ("1.56 billion, batch 8, bf16, in 8 GiB of the GPU", ""),
}


def table(head, rows):
    lines = [head, ["---"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n" if rows else ""


def step_ms(peer):
    return f"{peer['step_ms']:.0f}" if peer and "step_ms" in peer else "–"


def steps(figures):
    rows = []
    for name, (model, beside) in RUNS.items():
        run = figures.get(name + "_figures", {})
        if not run.get("step_seconds_median"):
            continue
        check, _, system = beside.partition("/")
        plain = figures.get(check + "_figures", {}) if check else {}
        rows.append(
            [
                model,
                f"{1000 * run['step_seconds_median']:.0f}",
                step_ms(plain.get(system or "fsdp2")),
                step_ms(plain.get("compute") if not system else None),
            ]
        )
    return table(["model", "zero.cpp, ms a step", "FSDP2", "compute"], rows)


def gib(size):
    return f"{size / 2**30:.1f}"


def percent(share):
    return "–" if share is None else f"{100 * share:.0f} %"


def offloaded(figures):
    """Runs with states off the GPU: predicted times, hidden shares, and bytes of states by tier."""
    rows = []
    for name in RUNS:
        run = figures.get(name + "_figures", {})
        state, formula = run.get("state_bytes"), run.get("formula_bytes")
        if (
            not state
            or not formula
            or not run.get("step_seconds_median")
            or not state["host"] + state["disk"]
            and name != "b3_resident"
        ):
            continue
        predicted = (run.get("predicted") or {}).get("seconds")
        foreseen = figures.get(f"foresee_{name}_figures", {}).get("seconds")
        rows.append(
            [
                name,
                f"{run.get('tokens_per_step', 0):.0f}",
                f"{1000 * run['step_seconds_median']:.0f}",
                f"{1000 * predicted:.0f}" if predicted else "–",
                f"{1000 * foreseen:.0f}" if foreseen else "–",
                percent(run.get("link_hidden")),
                percent(run.get("disk_hidden")),
                " + ".join(gib(state[tier]) for tier in ("device", "host", "disk")),
                f"{sum(state.values()) / formula:.3f}",
            ]
        )
    return table(
        [
            "run",
            "tokens a step",
            "ms",
            "predicted",
            "by zero plan --profile",
            "link hidden",
            "disk hidden",
            "GiB of state on GPU, host, disk",
            "of the formula's",
        ],
        rows,
    )


def largest(figures):
    found = figures.get("largest_plan_figures")
    if not found:
        return ""
    run = figures.get("largest_figures", {})
    state = run.get("state_bytes") or {}
    rows = [
        [
            "GiB of the GPU, host and disk to fill",
            " + ".join(gib(found["budget_bytes"][tier]) for tier in ("device", "host", "disk")),
        ],
        [
            "the formula: billion parameters, layers",
            f"{found['formula_parameters'] / 1e9:.2f}, {found['formula_layers']}",
        ],
        ["zero plan: billion parameters, layers", f"{found['num_parameters'] / 1e9:.2f}, {found['layers']}"],
        ["its states, of that room", f"{found['share_of_budget']:.3f}"],
        ["trained: GiB of state", gib(sum(state.values())) if state else "no"],
    ]
    return table(["the largest model", "found"], rows)


def same_bits(figures):
    rows = [
        [
            name,
            each["like"],
            "the same bits"
            if each["same"]
            else "another number of losses"
            if each["apart"] is None
            else f"differs, losses by {each['apart']:.1e}",
        ]
        for name, each in figures.get("same_bits", {}).items()
    ]
    return table(["run", "beside", "found"], rows)


def peers(figures):
    rows = []
    for check in ("plain_offload_figures", "deepspeed_figures"):
        for system, found in figures.get(check, {}).items():
            if isinstance(found, dict) and system != "compute":
                rows.append(
                    [
                        system,
                        step_ms(found) if "step_ms" in found else found.get("error", "–"),
                        str(found.get("peak_mib") or "–"),
                    ]
                )
    return table(["304 million parameters, batch 8", "ms a step", "MiB of the GPU"], rows)


def updates(figures):
    rows = [
        [name.removeprefix("update_").removesuffix("_figures"), f"{found['ratio_median']:.2f}"]
        for name, found in figures.items()
        if name.startswith("update_") and "ratio_median" in found
    ]
    return table(["update on the GPU", "of a copy of as many bytes"], rows)


def matrices(figures):
    rows = [
        [
            f"{found['rows']} x {found['columns']}",
            f"{1000 * found['zero_median_s']:.2f}",
            f"{found['zero_flops_per_second'] / 1e12:.1f}",
            f"{found['ratio_flops_per_second']:.2f}",
            f"{found['ratio_seconds']:.2f}",
        ]
        for name, found in figures.items()
        if name.startswith("muon_") and "zero_flops_per_second" in found
    ]
    return table(
        ["a matrix of Muon's on the GPU", "ms", "TFLOP/s", "of libtorch's in fp32", "time, of libtorch's"], rows
    )


def copies(figures):
    found = figures.get("copies_figures", {})
    rows = [
        [name, f"{each['bytes'] / each['median_s'] / 1e9:.1f}", f"{each['ratio_median']:.2f}"]
        for name, each in found.get("copies", {}).items()
    ]
    rows += [
        [name.replace("_", " "), f"{1000 * found[name]['median_s']:.0f} ms", f"{found[name]['ratio_median']:.2f}"]
        for name in ("step_on_host", "step_on_disk")
        if name in found
    ]
    return table(["copies, and steps with moments elsewhere", "GB/s", "ratio to the limit"], rows)


def collectives(figures):
    rows = [
        [
            f"{transport['transport']}, {size['bytes'] / 2**20:g} MiB",
            *(f"{size[kind]['ratio_median']:.2f}" for kind in ("gather", "sum")),
        ]
        for transport in figures.get("collectives_figures", {}).get("transports", [])
        for size in transport["sizes"]
    ]
    return table(["a unit between ranks that share the GPU: copies over its time", "gather", "sum"], rows)


def outcomes(checks):
    return table(
        ["check", "seconds", "found"],
        [
            [
                check["check"],
                f"{check['seconds']:g}",
                check["status"] + (f": {check['reason']}" if check["reason"] else ""),
            ]
            for check in checks
            if not check["check"].endswith("_figures")
        ],
    )


def tables_of(documents):
    """The tables in Markdown, from the JSON of batches."""
    checks = [check for document in documents for check in document["checks"]]
    figures = {check["check"]: check["figures"] for check in checks if "figures" in check}
    about = "\n".join(
        f"Batch {d['batch']}: {d['gpu'] or d.get('skipped')}, {d['time']}, "
        f"commit {d['built'].get('commit', 'unknown')}, torch {d['built'].get('torch', 'unknown')}"
        for d in documents
    )
    return "\n".join(
        part
        for part in (
            about + "\n",
            steps(figures),
            offloaded(figures),
            largest(figures),
            peers(figures),
            same_bits(figures),
            updates(figures),
            matrices(figures),
            copies(figures),
            collectives(figures),
            outcomes(checks),
        )
        if part
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    documents = []
    for file in parser.parse_args().files:
        try:
            documents.append(json.loads(file.read_text()))
        except (OSError, ValueError) as error:
            sys.exit(f"gpu_tables.py: {file}: {error}")
    print(tables_of(documents), end="")


if __name__ == "__main__":
    main()
