#!/usr/bin/env python3
"""Samples a second where one rank computes k times slower than the others: equal shares, measured ones, the best, and DDP.

    python3 benchmarks/stragglers.py                                  # two ranks, k = 1, 2 and 4
    python3 benchmarks/stragglers.py --ranks 4 --factors 1,4 --python /path/with/torch/bin/python3

A GPT of 4 layers of 128, one thread a rank. The last rank is stopped (SIGSTOP) for (k - 1)/k of each 10 ms (--period),
whatever the system. A run's figure is what its steps after the first 20 took, in the median; a cell is the median over
the rounds, in which the systems take turns. "of the sum": of what all ranks could do together if none waited, which is
the speed with equal shares at k = 1, times (ranks - 1 + 1/k) / ranks. "best": the whole samples with which the ranks end
together if their time is that of their samples, as a run is told them; "of the sum" these could reach at most
"by shares". Without a Python that has torch, DDP is left out.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from slowed_run import PERIOD, SHAPE, ddp_report, has_torch, run
from training_run import BASE, find_zero, print_table

WARM_UP = 20   # steps


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ranks", type=int, default=2)
    a.add_argument("--factors", default="1,2,4")
    a.add_argument("--steps", type=int, default=80)
    a.add_argument("--batch", type=int, default=16, help="samples of a rank, in the mean")
    a.add_argument("--repeat", type=int, default=3)
    a.add_argument("--period", type=float, default=PERIOD, help="seconds from stop to stop")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that may have torch")
    return a.parse_args()


# ---- the systems: samples a second -----------------------------------------------------------------------------------


def samples_per_second(args, seconds):
    return args.batch * args.ranks / statistics.median(seconds[WARM_UP:])


def best_shares(args, factor):
    """One sample after the other to the rank that would end first."""
    paces, shares = [1.0] * (args.ranks - 1) + [factor], [1] * args.ranks
    for _ in range(args.batch * args.ranks - args.ranks):
        first = min(range(args.ranks), key=lambda rank: (shares[rank] + 1) * paces[rank])
        shares[first] += 1
    return shares


def by_shares(args, factor, shares):
    """Of the sum of speeds, if a rank's time is that of its samples."""
    slowest = max(max(shares[:-1], default=0), shares[-1] * factor)
    return sum(shares) / slowest / (args.ranks - 1 + 1 / factor)


def run_zero(args, factor, folder, share):
    if share == "best":
        share = "[" + ",".join(map(str, best_shares(args, factor))) + "]"
    keys = {**BASE, **{f"model.{key}": value for key, value in SHAPE.items()}, "train.steps": args.steps, "train.batch": args.batch,
            "train.share": share, "run.threads": 1, "run.dir": folder / "run", "checkpoint.every": 0}
    run([args.zero, "train", "-n", str(args.ranks), "--overwrite", *(f"--{key}={value}" for key, value in keys.items())], args.ranks - 1, factor,
        period=args.period)
    report = json.loads((folder / "run/report.json").read_text())
    return samples_per_second(args, report["step_seconds"]), report["shares"]


def run_ddp(args, factor, folder):
    report = ddp_report(args, factor, folder)
    return samples_per_second(args, report["seconds"]), [args.batch] * args.ranks


def main():
    args = arguments()
    systems = {f"zero.cpp, share {share}": lambda k, folder, share=share: run_zero(args, k, folder, share) for share in ("equal", "auto", "best")}
    if has_torch(args.python):
        systems["DDP"] = lambda k, folder: run_ddp(args, k, folder)
    factors = [float(factor) for factor in args.factors.split(",")]
    found = {(name, k): [] for name in systems for k in {1.0, *factors}}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.repeat):
            for name, k in found:
                found[name, k].append(systems[name](k, Path(folder)))
    speed = {cell: statistics.median(rate for rate, _ in runs) for cell, runs in found.items()}

    def row(name, k):
        shares = found[name, k][-1][1]
        alone = speed[name if name == "DDP" else "zero.cpp, share equal", 1.0]
        of_sum = speed[name, k] / (alone * (args.ranks - 1 + 1 / k) / args.ranks)
        return [name, f"{k:g}", f"{speed[name, k]:,.0f}", f"{of_sum:.2f}", f"{by_shares(args, k, shares):.2f}", " + ".join(map(str, shares))]

    print(f"{args.ranks} ranks, {args.batch * args.ranks} samples a step, stops every {1e3 * args.period:g} ms, medians of {args.repeat} rounds\n")
    print_table(["system", "k", "samples/s", "of the sum", "by shares", "shares"], [row(name, k) for name in systems for k in factors])


if __name__ == "__main__":
    main()
