#!/usr/bin/env python3
"""The largest GPT for which `zero plan` finds room on one GPU, the host and a disk, and the largest by a formula.

    python3 benchmarks/gpu_largest.py --zero zero --disk /nvme --share 40 -- --data.path text.txt --model.width 4096 ...

Budgets: four fifths of the GPU's free memory, and --share percent of the free memory of the host and of the disk. The
formula counts only 16 bytes a parameter (bf16 with AdamW). The plan also counts gathered units, tiles and activations.
The script plans the formula's number of layers, then one layer less, until the plan fits. The flags of the run follow
`--`; the script itself sets --model.layers. It trains nothing.

Prints one JSON object; with its `flags`, `zero train` trains that model. Exit status 77, with the reason: `zero plan`
finds no GPU here, or not even half of the formula's layers fit.
"""

import argparse
import json
import subprocess
import sys

CANNOT_RUN_HERE = 77
STATE_BYTES = 16  # bytes a parameter: bf16 twice, and fp32 three times
GPU_SHARE = 0.8  # as zero.device_memory = "auto"


def leave(reason):
    print(f"gpu_largest.py: {reason}")
    sys.exit(CANNOT_RUN_HERE)


class Planner:
    def __init__(self, options):
        self.command = [
            options.zero,
            "plan",
            "--json",
            *options.flags,
            "--run.device",
            "cuda",
            "--zero.disk",
            options.disk,
        ]
        self.said = ""

    def plan(self, *flags):
        """The plan, or None if it is refused; then `said` is the reason."""
        done = subprocess.run([*self.command, *map(str, flags)], capture_output=True, text=True)
        self.said = done.stderr.strip()
        return json.loads(done.stdout) if done.returncode == 0 else None

    def has_room(self, *flags):
        plan = self.plan(*flags)
        if plan is None:
            return None
        memory = plan["memory"]
        lacking = [memory["lacking_bytes"], memory["host"]["lacking_bytes"], memory["disk"]["lacking_bytes"]]
        self.said = plan.get("refused") or f"bytes missing on GPU, host and disk: {lacking}"
        return plan if memory["fits"] and not any(lacking) and not plan.get("refused") else None


def largest(planner, share):
    one, two = (planner.plan("--model.layers", layers) for layers in (1, 2))
    if one is None or two is None:
        leave(planner.said)
    memory = one["memory"]
    if memory["free_bytes"] is None or "host" not in memory:
        leave("zero plan does not know the free memory of a GPU here")
    budget = {
        "device": int(GPU_SHARE * memory["free_bytes"]),
        "host": memory["host"]["free_bytes"] * share // 100,
        "disk": memory["disk"]["free_bytes"] * share // 100,
    }
    layer = two["num_parameters"] - one["num_parameters"]
    room = sum(budget.values()) // STATE_BYTES
    formula = 1 + (room - one["num_parameters"]) // layer
    budgets = [word for tier, size in budget.items() for word in (f"--zero.{tier}_memory", f"{size >> 20}MiB")]
    for layers in range(formula, formula // 2, -1):
        flags = ["--model.layers", layers, *budgets]
        if (plan := planner.has_room(*flags)) is not None:
            parameters = plan["num_parameters"]
            return {
                "flags": [*map(str, flags), "--zero.disk", planner.command[-1]],
                "layers": layers,
                "num_parameters": parameters,
                "state_bytes": STATE_BYTES * parameters,
                "budget_bytes": budget,
                "formula_layers": formula,
                "formula_parameters": one["num_parameters"] + (formula - 1) * layer,
                "share_of_budget": STATE_BYTES * parameters / sum(budget.values()),
                "planned_bytes": {tier: found["total"] for tier, found in plan.get("tiers", {}).items()},
            }
    leave(f"not even {formula // 2 + 1} layers have room: {planner.said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zero", default="zero", help="the command")
    parser.add_argument("--disk", required=True, help="folder on a disk for states")
    parser.add_argument("--share", type=int, default=40, help="percent of the host's free memory, and of the disk's")
    parser.add_argument("flags", nargs="*", help="flags of the run, after --")
    options = parser.parse_args()
    print(json.dumps(largest(Planner(options), options.share)))


if __name__ == "__main__":
    main()
