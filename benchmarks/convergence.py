#!/usr/bin/env python3
"""Losses of models whose ranks exchange less or use old gradients: local steps, codecs and a server beside a plain run,
over several seeds.

    python3 benchmarks/convergence.py                                   # all tasks, seeds 1, 2 and 3
    python3 benchmarks/convergence.py --only mnist_cnn --seeds 1

Each run is an example on two ranks with additional keys, shortened (--steps). "async" has four workers and a server,
and as many samples in a step. A column has the validation loss or accuracy of each seed after the last step, and their
median. "beside sync" compares it with the plain run: the ratio of losses, or the difference of accuracies in points.
"mean age" is the mean age of a gradient, as the median over the seeds: about 3 if three other workers push meanwhile.

Goals: DiLoCo with 50 local steps within 3 % of the plain loss, and sums in int8 within 0.5 %. MNIST with 10 to 200
local steps at most half a point below.
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


PLAIN = (2, {})  # ranks, keys
INT8 = (2, {"comm.reduce_wire": "int8"})


def local(steps, **keys):
    return 2, {"sync.mode": "local", "sync.local_steps": steps, **keys}


def damped(*steps):
    """Local steps with half the outer momentum. Few rounds would otherwise reach ten times their value."""
    return {f"local, {n} steps, outer_momentum 0.5": local(n, **{"sync.outer_momentum": 0.5}) for n in steps}


def served(**keys):
    """Workers that may be eight clocks apart, so they hardly wait for each other."""
    return {"async, four workers": (5, {"sync.mode": "async", "sync.servers": 1, "sync.staleness": 8, **keys})}


TEXT_ROWS = {
    "sync": PLAIN,
    "sums in int8": INT8,
    **{f"local, {n} steps": local(n) for n in (10, 50, 200)},
    **damped(10, 50, 200),
    **served(),
}
TASKS = {  # example: (steps, compared measure, rows)
    "shakespeare": (800, "val_loss", TEXT_ROWS),
    "shakespeare_lstm": (800, "val_loss", TEXT_ROWS),
    "mnist_cnn": (
        1250,
        "val_accuracy",
        {"sync": PLAIN, "sums in int8": INT8}
        | {f"local, {n} steps": local(n) for n in (10, 50, 200)}
        | damped(10, 50, 200)
        | served(**{"train.batch": 16}),
    ),  # samples of each rank; 32 on two ranks
}


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--seeds", default="1,2,3")
    a.add_argument("--only", default="", help="run only tasks whose names contain this text")
    a.add_argument("--rows", default="", help="run only rows whose names contain one of these texts, separated by ;")
    a.add_argument("--steps", type=int, help="steps of each run; default: those of the task")
    a.add_argument("--zero", default=find_zero())
    return a.parse_args()


def trained(args, task, ranks, keys, seed, folder):
    """The report of one run."""
    steps = TASKS[task][0]
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    epochs = {"train.epochs": 0} if task == "mnist_cnn" else {}
    settings = {
        **epochs,
        "train.steps": args.steps or steps,
        "train.seed": seed,
        "train.eval_every": 0,
        "train.sample": 0,
        "run.dir": run,
        "run.threads": 1,
        "checkpoint.every": 0,
        **keys,
    }
    command = [
        args.zero,
        "train",
        f"examples/{task}/{task}.toml",
        "-n",
        str(ranks),
        "--overwrite",
        *(f"--{k}={v}" for k, v in settings.items()),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"convergence.py: {' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    return json.loads((run / "report.json").read_text())


def beside(measure, value, plain):
    return (
        f"{100 * (value - plain):+.2f} points" if measure == "val_accuracy" else f"{100 * (value / plain - 1):+.2f} %"
    )


def main():
    args = arguments()
    seeds = [int(seed) for seed in args.seeds.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for task, (steps, measure, rows) in TASKS.items():
            if args.only not in task or (args.only in TASKS and args.only != task):
                continue
            table, plain = [], None
            for name, (ranks, keys) in rows.items():
                if args.rows and not any(part in name for part in args.rows.split(";")):
                    continue
                reports = [trained(args, task, ranks, keys, seed, Path(folder)) for seed in seeds]
                found = [report[measure] for report in reports]
                ages = [report["served"]["mean_age"] for report in reports if "served" in report]
                age = f"{statistics.median(ages):.1f}" if ages else ""
                value = statistics.median(found)
                plain = value if name == "sync" else plain
                compared = "" if plain is None else beside(measure, value, plain)
                table.append([name, age, *(f"{one:.4f}" for one in found), f"{value:.4f}", compared])
                print(
                    f"{task}, {name}: {', '.join(f'{one:.4f}' for one in found)}{f'; mean age {age}' if age else ''}",
                    file=sys.stderr,
                    flush=True,
                )
            print(f"{task}, {args.steps or steps} steps, {measure}\n")
            print_table(["", "mean age", *(f"seed {seed}" for seed in seeds), "median", "beside sync"], table)


if __name__ == "__main__":
    main()
