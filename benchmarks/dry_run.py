#!/usr/bin/env python3
"""Compares the step time that a dry run predicts with the measured time, for each example.

    benchmarks/dry_run.py [-n RANKS] [--steps N] [EXAMPLE ...]

A dry run comes right before the run, which takes N steps (100). The median step counts. The script prints both times
and predicted / measured: below 1 the prediction was too short. The prediction leaves out messages between ranks, so
with several ranks it is shorter than the measured time.
Exit status 0: all examples were measured; 1: at least one failed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from support.training_run import ROOT, find_zero

EXAMPLES = [
    "linear",
    "mnist_mlp",
    "mnist_cnn",
    "mnist_lstm",
    "bert_classification",
    "shakespeare",
    "shakespeare_lstm",
    "shakespeare_llama",
]


def measure(zero, example, ranks, steps, folder):
    """Milliseconds of a step, predicted and measured. Raises RuntimeError with the text of a command that failed."""
    run = Path(folder) / example
    command = [
        zero,
        "train",
        f"examples/{example}/{example}.toml",
        "-n",
        str(ranks),
        "--train.steps",
        str(steps),
        "--train.eval_every",
        "0",
        "--schedule.warmup",
        "0",
        "--run.dir",
        str(run),
    ]

    def output_of(*more):
        done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"status {done.returncode}")
        return done.stdout

    said = json.loads(output_of("--dry-run", "--json"))["run"]["step_seconds"]
    output_of()
    return said * 1e3, json.loads((run / "report.json").read_text())["step_s_median"] * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("examples", nargs="*", default=EXAMPLES, metavar="EXAMPLE")
    parser.add_argument("-n", type=int, default=1, dest="ranks")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    failed = False
    print(f"{'example':22}{'said':>10}{'taken':>10}{'said / taken':>15}")
    with tempfile.TemporaryDirectory() as folder:
        for example in arguments.examples:
            try:
                said, taken = measure(find_zero(), example, arguments.ranks, arguments.steps, folder)
            except RuntimeError as error:
                failed = True
                print(f"{example:22}{error}")
                continue
            print(f"{example:22}{said:7.2f} ms{taken:7.2f} ms{said / taken:15.2f}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
