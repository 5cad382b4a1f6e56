#!/usr/bin/env python3
"""Whether a change makes training slower: alternating steps of two builds of `zero`.

    python3 benchmarks/two_builds.py --before old/zero --after build/release/bin/zero
    python3 benchmarks/two_builds.py --before old/zero --after new/zero --only "stage 3" --repeat 9

A GPT of 4 layers of 128, 2 ranks with one thread each. "ratio" is the median over the rounds of after / before, each
the median step of a run; below 1 the newer build is faster. "spread" has the quartiles of the rounds' ratios.
"shortest" is the ratio of the shortest of these steps of each build, on which other work of the machine has the least
effect. "losses" says whether both builds computed the same losses, bit by bit.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

from support.checked_arguments import each_known, least
from support.training_run import find_zero, print_table, train

SHAPE = {
    "model.layers": 4,
    "model.width": 128,
    "model.heads": 4,
    "model.context": 64,
    "train.batch": 4,
    "run.threads": 1,
}
CASES = {
    "stage 0": {"zero.stage": 0},
    "stage 1": {"zero.stage": 1},
    "stage 2": {"zero.stage": 2},
    "stage 3": {"zero.stage": 3},
    "stage 3, bf16": {"zero.stage": 3, "train.dtype": "bf16"},
    "stage 3, all states on the host": {
        "zero.stage": 3,
        "zero.parameter": "{host = 1}",
        "zero.optimizer": "{host = 1}",
    },
}

UNCOUNTED = 11  # first steps


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--before", required=True, help="a path, or a command on the PATH")
    a.add_argument("--after", default=find_zero())
    a.add_argument("--steps", type=int, default=120)
    a.add_argument("--repeat", type=int, default=5)
    a.add_argument("--only", default="", help="run only cases whose names contain this text")
    args = a.parse_args()
    least(a, "--steps", args.steps, UNCOUNTED + 1, f"the first {UNCOUNTED} do not count")
    least(a, "--repeat", args.repeat, 1, "no round runs")
    each_known(a, "--only", [args.only], CASES)
    for option in ("before", "after"):
        found = shutil.which(getattr(args, option))
        if found is None:
            a.error(f"--{option} {getattr(args, option)}: no such command: use the path of a built zero")
        setattr(args, option, str(Path(found).resolve()))
    return args


def measured(zero, keys, steps, folder):
    run = train(zero, {**SHAPE, **keys, "train.steps": steps}, ranks=2, folder=folder)
    if not run.ok:
        raise SystemExit(f"{zero}: {run.reason}")
    steps = run.metrics()
    return statistics.median(step["step_seconds"] for step in steps[UNCOUNTED - 1 :]) * 1e3, [
        step["loss"] for step in steps
    ]


def main():
    args = arguments()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, keys in CASES.items():
            if args.only not in name:
                continue
            before, after, same = [], [], True
            for round_ in range(args.repeat):
                builds = [(args.before, before), (args.after, after)]
                losses = []
                for zero, times in builds if round_ % 2 == 0 else reversed(builds):
                    ms, run_losses = measured(zero, keys, args.steps, Path(folder) / "run")
                    times.append(ms)
                    losses.append(run_losses)
                same = same and losses[0] == losses[1]
            ratios = [new / old for old, new in zip(before, after)]
            quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
            rows.append(
                [
                    name,
                    f"{statistics.median(before):.2f}",
                    f"{statistics.median(after):.2f}",
                    f"{statistics.median(ratios):.3f}",
                    f"{quartiles[0]:.3f} to {quartiles[2]:.3f}",
                    f"{min(after) / min(before):.3f}",
                    "equal" if same else "DIFFER",
                ]
            )
    print_table(["2 ranks", "before, ms", "after, ms", "ratio", "spread", "shortest", "losses"], rows)


if __name__ == "__main__":
    main()
