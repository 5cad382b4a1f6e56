#!/usr/bin/env python3
"""How well a quorum hides the stalls of single ranks: mean step times with stalls and without, for all ranks and a
quorum.

    python3 benchmarks/stalls.py                     # 3 ranks that compute; one of them stalls for 0.3 s every 1.5 s
    python3 benchmarks/stalls.py --stall 0.5 --every 3 --repeat 5

A GPT of 4 layers of 128, one thread a rank. Every --every seconds a random rank is stopped (SIGSTOP) for --stall
seconds. "sync" waits for all ranks. "quorum" has one server, and waits for all ranks but one. "hidden" is 1 - (time
that quorum loses) / (time that sync loses), from medians over the rounds; each round runs all systems. The goal is 0.9
or more.
"""

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
from pathlib import Path

from peers.known_gpt import prepare, train_flags
from support.checked_arguments import least
from support.loss_curve import steps_of
from support.slowed_run import pid_of_rank, run
from support.training_run import find_zero, print_table

WARM_UP = 10  # steps


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ranks", type=int, default=3, help="that compute")
    a.add_argument("--stall", type=float, default=0.3, help="seconds")
    a.add_argument("--every", type=float, default=1.5, help="seconds between the beginnings of two stalls")
    a.add_argument("--steps", type=int, default=150)
    a.add_argument("--batch", type=int, default=4, help="samples of a rank")
    a.add_argument("--repeat", type=int, default=3)
    a.add_argument("--zero", default=find_zero())
    args = a.parse_args()
    least(a, "--steps", args.steps, WARM_UP + 2, f"the first {WARM_UP + 1} do not count")
    least(a, "--ranks", args.ranks, 2, "a quorum leaves out one rank")
    least(a, "--repeat", args.repeat, 1, "no round runs")
    return args


def stalls(args, first, drawn):
    """A function for run() that stops random ranks among those that compute; their numbers begin at `first`."""

    def stall(launcher, over):
        while not over.wait(args.every - args.stall):
            pid = pid_of_rank(launcher.pid, first + drawn.randrange(args.ranks))
            if pid is None:
                continue
            try:
                os.kill(pid, signal.SIGSTOP)
                over.wait(args.stall)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                return

    return stall


def step_seconds(args, has_quorum, has_stalls, drawn, folder):
    servers = 1 if has_quorum else 0
    keys = {"train.steps": args.steps, "train.log_every": 1, "run.dir": folder / "run"}
    if has_quorum:
        keys |= {"sync.servers": servers, "sync.quorum": args.ranks - 1}
    prepare(args.zero, folder, evaluated=1)
    run(
        [
            args.zero,
            "train",
            *train_flags(folder, args.ranks * args.batch, keys),
            "-n",
            args.ranks + servers,
            "--overwrite",
        ],
        0,
        1,
        beside=stalls(args, servers, drawn) if has_stalls else None,
    )
    times = [step["t"] for step in steps_of(folder / "run/metrics.jsonl")]
    return (times[-1] - times[WARM_UP]) / (len(times) - 1 - WARM_UP)


def main():
    args = arguments()
    drawn = random.Random(1)
    found = {}
    for _ in range(args.repeat):
        for has_quorum in (False, True):
            for has_stalls in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    found.setdefault((has_quorum, has_stalls), []).append(
                        step_seconds(args, has_quorum, has_stalls, drawn, Path(folder))
                    )
                print(
                    f"quorum {has_quorum}, stalls {has_stalls}: {1000 * found[has_quorum, has_stalls][-1]:.1f} ms",
                    file=sys.stderr,
                    flush=True,
                )
    ms = {key: 1000 * statistics.median(values) for key, values in found.items()}
    print(
        f"{args.ranks} ranks that compute, {args.batch} samples each; "
        f"a stall of {args.stall:g} s every {args.every:g} s; mean step times, medians of {args.repeat} rounds\n"
    )
    print_table(
        ["", "without stalls, ms", "with stalls, ms"],
        [
            [name, f"{ms[quorum, False]:.1f}", f"{ms[quorum, True]:.1f}"]
            for name, quorum in (("sync", False), ("quorum, all but one", True))
        ],
    )
    lost = {quorum: ms[quorum, True] - ms[quorum, False] for quorum in (False, True)}
    print(f"\nhidden: {1 - lost[True] / lost[False]:.2f} of the stalls")


if __name__ == "__main__":
    main()
