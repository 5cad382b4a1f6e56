#!/usr/bin/env python3
"""The cost of an operator that a rank of a pipeline walks past, and its share of a step.

    python3 benchmarks/walking_past.py                        # a GPT of 6 x 768, two positions, 4 micro-batches
    python3 benchmarks/walking_past.py --layers 4 --width 128 --heads 4

A forward pass of the lookups (section 0 of a GPT) computes one operator, and walks past all others. The first run has
as many layers, but so few numbers that this operator costs no more than the others. The cost is the time of such a
pass over its operators: the least and the median of all passes. Other programs make passes longer, so the least is the
better figure on a busy machine. The second run gives the step. The share is that of the rank that walks past most
operators: their number in a step, times the median cost, over the median step.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
from pathlib import Path

from support.training_run import find_zero, train


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--layers", type=int, default=6)
    a.add_argument("--width", type=int, default=768)
    a.add_argument("--heads", type=int, default=12)
    a.add_argument("--context", type=int, default=128)
    a.add_argument("--batch", type=int, default=4, help="samples of a micro-batch")
    a.add_argument("--micros", type=int, default=4)
    a.add_argument("--steps", type=int, default=4)
    a.add_argument("--zero", default=find_zero())
    return a.parse_args()


def sections_of(plan):
    """(rank, number of operators) of each section, from the text of plan.txt."""
    found = re.findall(r"^section \d+ on rank (\d+) of a line: (\d+) operators", plan, re.M)
    return [(int(rank), int(operators)) for rank, operators in found]


def walked(sections, micros):
    """Operators that each rank walks past in a step: each of its sections runs each forward pass whole."""
    total = sum(operators for _, operators in sections)
    ranks = {rank: 0 for rank, _ in sections}
    for rank, operators in sections:
        ranks[rank] += micros * (total - operators)
    return ranks


def lookup_passes(timeline):
    """Microseconds of the forward passes of section 0."""
    return [
        span["dur"]
        for span in timeline["traceEvents"]
        if span.get("ph") == "X" and re.fullmatch(r"forward \d+\.0", span["name"])
    ]


def pipelined(args, folder, shape, steps):
    """One run; its folder, and its median step in milliseconds."""
    keys = {
        "model.layers": args.layers,
        **shape,
        "train.accumulate": args.micros,
        "train.steps": steps,
        "train.sample": 0,
        "run.threads": 1,
        "parallel.pipeline": 2,
        "run.timeline": "timeline.json",
    }
    run = train(args.zero, keys, ranks=2, folder=folder)
    if not run.ok:
        raise SystemExit(run.reason)
    return folder, run.step_ms


def main():
    args = arguments()
    small = {"model.width": 32, "model.heads": 2, "model.context": 8, "data.context": 8, "train.batch": 1}
    whole = {
        "model.width": args.width,
        "model.heads": args.heads,
        "model.context": args.context,
        "data.context": args.context,
        "train.batch": args.batch,
    }
    with tempfile.TemporaryDirectory() as folder:
        few, _ = pipelined(args, Path(folder) / "few", small, steps=20)
        passes = lookup_passes(json.loads((few / "timeline.json").read_text()))
        sections = sections_of((few / "plan.txt").read_text())
        _, step_ms = pipelined(args, Path(folder) / "whole", whole, args.steps)
    others = sum(operators for _, operators in sections[1:])
    least, median = min(passes) / others, statistics.median(passes) / others
    most = max(walked(sections, args.micros).values())
    print(
        f"{len(passes)} passes walk past {others} operators each: {least:.2f} us an operator at least, "
        f"{median:.2f} us in the median pass"
    )
    print(
        f"{args.layers} x {args.width}, {args.micros} micro-batches of {args.batch} x {args.context}: a step of "
        f"{step_ms:.0f} ms walks past {most} operators on one rank, {100 * most * median / 1000 / step_ms:.2f} %"
    )
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
