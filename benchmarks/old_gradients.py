#!/usr/bin/env python3
"""Accuracy of models trained with old gradients: momentum SGD with eight workers, over several seeds.

    python3 benchmarks/old_gradients.py                     # seeds 1, 2 and 3
    python3 benchmarks/old_gradients.py --seeds 1 --steps 300 --compensation 10

The perceptron of examples/mnist_mlp, with SGD of learning rate 0.05 and momentum 0.9. First row: two ranks that wait
for each other. Other rows: eight workers of one server, whose gradients are about seven updates old. Their gradients
count with lr / (1 + age) (sync.stale_lr 1, the default) or in full (0), each uncorrected and corrected for the updates
since (sync.compensation). All rows are run without and with clipping. A cell is the validation accuracy after the last
step, or "diverged" if gradients became infinite.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from support.training_run import ROOT, find_zero, print_table

KEYS = {
    "optimizer.name": "sgd",
    "optimizer.lr": 0.05,
    "optimizer.momentum": 0.9,
    "optimizer.weight_decay": 0,
    "schedule.name": "constant",
    "train.eval_every": 0,
    "train.sample": 0,
    "run.threads": 1,
    "checkpoint.every": 0,
}
SERVED = {"sync.mode": "async", "sync.staleness": 8}


def rows(compensation):
    """Rows of the table, {name: (ranks, keys)}."""
    found = {"two ranks, no servers": (2, {})}
    for exponent in (1, 0):
        keys = {**SERVED, "sync.stale_lr": exponent}
        found[f"eight workers, sync.stale_lr {exponent}"] = (9, keys)
        found[f"eight workers, sync.stale_lr {exponent}, sync.compensation {compensation:g}"] = (
            9,
            {**keys, "sync.compensation": compensation},
        )
    return found


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--seeds", default="1,2,3")
    a.add_argument("--steps", type=int, default=600)
    a.add_argument("--compensation", type=float, default=1, help="sync.compensation of the corrected rows")
    a.add_argument("--zero", default=find_zero())
    return a.parse_args()


def trained(args, ranks, keys, seed, folder):
    """The report of one run, or None if its last gradients were not finite."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    settings = {**KEYS, **keys, "train.steps": args.steps, "train.seed": seed, "run.dir": run}
    command = [
        args.zero,
        "train",
        "examples/mnist_mlp/mnist_mlp.toml",
        "-n",
        str(ranks),
        "--overwrite",
        *(f"--{k}={v}" for k, v in settings.items()),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 3 and "is not finite, the last of" in done.stderr:
        return None
    if done.returncode != 0:
        sys.exit(f"old_gradients.py: {' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return json.loads((run / "report.json").read_text())


def main():
    args = arguments()
    seeds = [int(seed) for seed in args.seeds.split(",")]
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for clip in (0, 1):
            for name, (ranks, keys) in rows(args.compensation).items():
                reports = [trained(args, ranks, {**keys, "train.clip": clip}, seed, Path(folder)) for seed in seeds]
                found = [100 * report["val_accuracy"] if report else 0 for report in reports]
                ages = [report["served"]["mean_age"] for report in reports if report and "served" in report]
                age = f"{statistics.median(ages):.1f}" if ages else ""
                cells = [f"{one:.2f} %" if one else "diverged" for one in (*found, statistics.median(found))]
                table.append([name, str(clip) if clip else "none", age, *cells])
                print(" | ".join(map(str, table[-1])), file=sys.stderr, flush=True)
    print_table(["", "train.clip", "mean age", *(f"seed {seed}" for seed in seeds), "median"], table)


if __name__ == "__main__":
    main()
