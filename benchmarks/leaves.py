#!/usr/bin/env python3
"""The cost of train.leaves: step times of the GPT of examples/shakespeare with leaves and without, in turns.

    python3 benchmarks/leaves.py                          # 1 and 2 ranks, 4 leaves, 12 samples a step
    python3 benchmarks/leaves.py --leaves 8 --samples 24 --repeat 7

For each number of ranks a round runs, in turn: the plain step (a rank computes its samples at once), the step with as
many micro-batches as leaves (train.accumulate), and the step with leaves for both values of train.reduce. A cell is the
median over the rounds of a run's median step; the ratio is to the plain step and to the one with micro-batches, round
by round. One thread a rank.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from raw_rounds import RawRounds, spread
from training_run import find_zero, print_table, train

SHAPE = {"model.layers": 4, "model.width": 128, "model.heads": 4, "model.context": 64, "data.context": 64}


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ranks", default="1,2")
    a.add_argument("--leaves", type=int, default=4)
    a.add_argument("--samples", type=int, default=12, help="samples of a step")
    a.add_argument("--steps", type=int, default=40)
    a.add_argument("--stage", type=int, default=2)
    a.add_argument("--repeat", type=int, default=5)
    a.add_argument("--output", help="file for the figures of every run, as JSON")
    a.add_argument("--zero", default=find_zero())
    return a.parse_args()


def ways(args, ranks):
    """The keys of each way to compute a step, by name."""
    of_rank, micros = args.samples // ranks, args.leaves // ranks
    found = {"plain": {"train.batch": of_rank},
             "micro-batches": {"train.batch": of_rank // micros, "train.accumulate": micros}}
    for reduce in ("each", "last"):
        found[f"leaves, reduce {reduce}"] = {"train.leaves": args.leaves, "train.global_batch": args.samples, "train.reduce": reduce}
    return found


def main():
    args = arguments()
    rounds, rows = RawRounds(args.output), []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in map(int, args.ranks.split(",")):
            for number in range(args.repeat):
                for name, keys in ways(args, ranks).items():
                    run = train(args.zero, {**SHAPE, "run.threads": 1, "train.steps": args.steps, "zero.stage": args.stage, **keys}, ranks,
                                Path(folder) / "run")
                    if not run.ok:
                        raise SystemExit(f"{name}, {ranks} ranks: {run.reason}")
                    rounds.add(ranks=ranks, round=number, way=name, ms=run.step_ms)
            for name in ways(args, ranks):
                own = rounds.values("ms", ranks=ranks, way=name)
                ratios = [statistics.median(a / b for a, b in zip(own, rounds.values("ms", ranks=ranks, way=base)))
                          for base in ("plain", "micro-batches")]
                rows.append([f"{ranks} ranks, {name}", f"{statistics.median(own):.1f}", f"{100 * spread(own):.0f} %",
                             *(f"{ratio:.3f}" for ratio in ratios)])
    print_table([f"{args.leaves} leaves, {args.samples} samples a step, stage {args.stage}, {args.repeat} rounds", "step ms", "spread",
                 "of plain", "of micro-batches"], rows)


if __name__ == "__main__":
    main()
