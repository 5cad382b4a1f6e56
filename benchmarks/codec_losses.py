#!/usr/bin/env python3
"""The validation loss of a GPT over its steps, for each codec and for fp32: docs/codec_losses.csv and its picture.

    python3 benchmarks/codec_losses.py                         # two ranks, 300 steps, evaluated every 20: some minutes
    python3 benchmarks/codec_losses.py --steps 40 --every 20   # into another file with --output
    python3 benchmarks/codec_losses.py --missing               # runs only the columns that the file lacks

Each row of the file is an evaluation, each column a way of sending. Ways differ only in the keys of WAYS; model, data,
seed and stage are the same. Their losses do not depend on the machine's load. tools/charts/codec_chart.py draws
docs/codec_losses.svg from the file.
"""

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.training_run import ROOT, find_zero

LOCAL = {"sync.mode": "local", "sync.local_steps": 10}
NO_MOMENTUM = {"sync.outer_lr": 1, "sync.outer_momentum": 0}
WAYS = {
    "fp32": {},
    "int8 sums": {"comm.reduce_wire": "int8"},
    "int8 sums and gathers": {"comm.reduce_wire": "int8", "comm.gather_wire": "int8"},
    "int4 sums": {"comm.reduce_wire": "int4"},
    "int8 sums, int4 gathers": {"comm.reduce_wire": "int8", "comm.gather_wire": "int4"},
    "int8 between copies": {"zero.group": 1, "comm.outer_wire": "int8"},
    "int4 between copies": {"zero.group": 1, "comm.outer_wire": "int4"},
    "local": LOCAL,
    "local, no momentum": {**LOCAL, **NO_MOMENTUM},
    "local, topk 0.1, no momentum": {**LOCAL, **NO_MOMENTUM, "comm.outer_wire": "topk", "comm.outer_topk": 0.1},
}


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--steps", type=int, default=300)
    a.add_argument("--every", type=int, default=20, help="steps between evaluations")
    a.add_argument("--seed", type=int, default=1337)
    a.add_argument("--missing", action="store_true", help="keep the columns that the file has, and run only the others")
    a.add_argument("--output", type=Path, default=ROOT / "docs/codec_losses.csv")
    a.add_argument("--zero", default=find_zero())
    return a.parse_args()


def losses(args, keys, run):
    """{step: validation loss} of one run."""
    shutil.rmtree(run, ignore_errors=True)
    settings = {
        "zero.stage": 3,
        "train.steps": args.steps,
        "train.eval_every": args.every,
        "train.seed": args.seed,
        "train.sample": 0,
        "run.dir": run,
        "run.threads": 1,
        "checkpoint.every": 0,
        **keys,
    }
    command = [
        args.zero,
        "train",
        "examples/shakespeare/shakespeare.toml",
        "-n",
        "2",
        *(f"--{k}={v}" for k, v in settings.items()),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"codec_losses.py: {' '.join(map(str, command))}\n{done.stderr[-2000:]}")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["val_loss"] for line in lines if "val_loss" in line}


def taken(file):
    """{way: {step: loss}} of an existing file."""
    with file.open(encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    return {name: {int(row["step"]): float(row[name]) for row in rows} for name in rows[0] if name != "step"}


def main():
    args = arguments()
    known = taken(args.output) if args.missing else {}
    with tempfile.TemporaryDirectory() as folder:
        columns = {}
        for name, keys in WAYS.items():
            columns[name] = known[name] if name in known else losses(args, keys, Path(folder) / "run")
            print(f"{name}: {list(columns[name].values())[-1]:.4f}", flush=True)
    steps = sorted(set.intersection(*(set(column) for column in columns.values())))
    with args.output.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["step", *columns])
        rows.writerows([step, *(f"{column[step]:.5f}" for column in columns.values())] for step in steps)
    print(f"wrote {args.output}; draw it: tools/charts/codec_chart.py")


if __name__ == "__main__":
    main()
