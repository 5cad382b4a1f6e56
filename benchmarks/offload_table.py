#!/usr/bin/env python3
"""With and without offload: the same training with its states in different places, as two tables in Markdown.

    benchmarks/offload_table.py                                  # a small GPT on Shakespeare, a few minutes
    sudo benchmarks/offload_table.py --model gpt2 --disk /nvme   # 124M parameters; root for the second table

resident  everything on the device
host      gradients and optimizer state on the host (as ZeRO-Offload)
disk      parameters, gradients and optimizer state on disk, one unit on the device at a time (as ZeRO-Infinity)
auto      a budget of device memory, a quarter of it on the host, and a disk; the linear programme places the states

First table: memory is that of the rank that has most. Device, host and disk are report.json's ledger just before an
update. PSS is the process's after three steps, RSS its highest. The share of compute is compute seconds / step seconds.
Compute is the same for all placements, so it is measured once. It is the seconds of forward and backward in the
resident run, less those of its gathers and reductions (phase_seconds of metrics.jsonl). It is a median over the steps
after the first, like a step's time.

Second table: batch sizes under one cap on the memory of all ranks (a control group). The host's states of a placement
are added to the cap. On a machine with an accelerator they are in other memory; here both are the same. A cell is the
memory held, or "no".
"""

import argparse
import json
import statistics
import signal
import sys
import tempfile

from support.memory_cap import CapError
from support.training_run import find_zero, mib, parse_bytes, print_table, train

MODELS = {
    "small": {
        "model.layers": 6,
        "model.width": 512,
        "model.heads": 8,
        "model.context": 128,
        "model.vocab": 256,
        "data.context": 128,
        "train.batch": 1,
    },
    "gpt2": {
        "model.layers": 12,
        "model.width": 768,
        "model.heads": 12,
        "model.context": 1024,
        "model.vocab": 50257,
        "data.context": 128,
        "train.batch": 1,
    },
}
NO_CAP = 1 << 50
MARGIN = 1.05  # of the cap, over the bytes that the resident run holds
BUDGET = 0.6  # of auto, as a share of the resident run's bytes


def placements(disk, budget):
    folder = json.dumps([disk])
    return {
        "resident": {"zero.placement": "device"},
        "host": {"zero.gradient": "{host = 1}", "zero.optimizer": "{host = 1}"},
        "disk": {
            "zero.disk": folder,
            "zero.device_memory": "min",
            **{f"zero.{state}": "{disk = 1}" for state in ("parameter", "gradient", "optimizer")},
        },
        "auto": {"zero.disk": folder, "zero.device_memory": f"{budget}B", "zero.host_memory": f"{budget // 4}B"},
    }


def compute_seconds(resident):
    def of_step(step):
        phases = step["phase_seconds"]
        return phases["forward"] + phases["backward"] - phases["gather"] - phases["reduce"]

    return statistics.median(of_step(step) for step in resident.metrics())


def row(name, run, compute):
    return [
        name,
        *(mib(run.most(key, "total")) for key in ("memory_bytes", "host_memory_bytes", "disk_bytes")),
        mib(run.most("peak_memory_bytes", "total")),
        mib(run.most("steady_pss")),
        mib(run.most("peak_rss")),
        f"{run.step_ms:,.0f}",
        f"{run.report['losses'][-1]:.4f}",
        f"{1e3 * compute / run.step_ms:.0%}",
    ]


def required(run):
    if not run.ok:
        sys.exit(f"{run.log()[-2000:]}offload_table.py: {run.reason}")
    return run


def compare(args, keys, folder):
    """Prints the first table. Returns the runs by placement, and the budget of `auto`."""

    def trained(where):
        return required(train(args.zero, {**keys, **where}, args.ranks, f"{folder}/run", timeout=args.timeout))

    resident = trained(placements(folder, 0)["resident"])
    taken = resident.most("peak_memory_bytes", "total")
    budget = parse_bytes(args.device_memory) if args.device_memory else int(BUDGET * taken)
    compute = compute_seconds(resident)
    runs = {"resident": resident}
    for name, where in placements(folder, budget).items():
        if name not in runs:
            runs[name] = trained(where)
    print(
        f"{args.model}: {resident.report['num_parameters'] / 1e6:.1f} million parameters, {args.ranks} ranks, stage 3, "
        f"batch {keys['train.batch']} x {keys['data.context']} a rank, {args.steps} steps; "
        f"auto: device_memory = {mib(budget)} MiB\n"
    )
    names = {name: name for name in runs} | {"auto": f"auto, {mib(budget)} MiB"}
    print_table(
        [
            "placement",
            "device MiB",
            "host MiB",
            "disk MiB",
            "device peak",
            "PSS",
            "peak RSS",
            "ms a step",
            "final loss",
            "share of compute",
        ],
        [row(names[name], run, compute) for name, run in runs.items()],
    )
    same = len({run.report["parameters_sha256"] for run in runs.values()}) == 1
    print("All end with the same weights, bit for bit.\n" if same else "THE WEIGHTS DIFFER.\n")
    return runs, budget, same


def fit_batches(args, keys, folder, runs, budget):
    """Prints the second table."""
    keys = {**keys, "train.steps": 2}
    on_host = sum(rank["total"] for rank in runs["host"].report["host_memory_bytes"])

    def held(name, where, times, cap):
        allowed = cap + (on_host if name == "host" else 0)
        batch = {"train.batch": times * keys["train.batch"]}
        return train(args.zero, {**keys, **where, **batch}, args.ranks, f"{folder}/run", allowed, args.timeout)

    # Without a budget of its own, every placement uses the smallest one that works.
    choices = {name: {"zero.device_memory": "min", **where} for name, where in placements(folder, budget).items()}
    if args.cap:
        cap = parse_bytes(args.cap)
    else:
        cap = int(MARGIN * required(held("resident", choices["resident"], 1, NO_CAP)).use.held)
    rows = []
    for name, where in choices.items():
        tried = [held(name, where, times, cap) for times in (1, 2, 4)]
        rows.append([name, *(mib(run.use.held) if run.ok else "no" for run in tried)])
    print(f"Memory held in MiB by both ranks under a cap of {mib(cap)} MiB (host: plus the states there), or no:\n")
    print_table(["placement", *(f"batch {times * keys['train.batch']}" for times in (1, 2, 4))], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--disk", help="folder for states and runs; default: the folder for temporary files")
    parser.add_argument("--device-memory", help="budget of a rank for auto; default: 0.6 of the resident run's bytes")
    parser.add_argument("--cap", help="cap of the second table; default: the resident run's bytes, and 5 %%")
    parser.add_argument("--timeout", type=float, default=3600, help="time limit of a run in seconds")
    parser.add_argument("--zero", default=find_zero(), help="the command; default: that of the release build")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes all files and groups
    keys = {**MODELS[args.model], "zero.stage": 3, "train.steps": args.steps}
    with tempfile.TemporaryDirectory(prefix="zero_offload_", dir=args.disk) as folder:
        runs, budget, same = compare(args, keys, folder)
        try:
            fit_batches(args, keys, folder, runs, budget)
        except CapError as error:
            print(f"No table of batch sizes: {error}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
