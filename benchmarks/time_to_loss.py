#!/usr/bin/env python3
"""Seconds to a validation loss where one rank computes k times slower than the others, in every mode of training.

    python3 benchmarks/time_to_loss.py                                  # two ranks, k = 1, 2 and 4
    python3 benchmarks/time_to_loss.py --ranks 4 --factors 1,4 --python /path/with/torch/bin/python3

A GPT of 4 layers of 128 over Shakespeare's text, AdamW with 30 steps of warm-up, 16 samples a rank, one thread a rank.
The last rank is stopped (SIGSTOP) for (k - 1)/k of each 10 ms, whatever the system. Modes with servers have one rank
more, the server. A run is evaluated each 10 steps over 64 windows of validation text, and ends when its loss is reached. The time of evaluations does
not count. A cell is the median over the rounds, in which the systems take turns. DDP has another first model and draws
other samples: of its loss only the order of magnitude says something. Without a Python that has torch it is left out.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from slowed_run import ADAMW, SHAPE, WARM_UP, ddp_report, has_torch, run
from training_run import BASE, find_zero, print_table

MODES = {  # name: (servers, keys)
    "sync, share equal": (0, {}),
    "sync, share auto": (0, {"train.share": "auto"}),
    "quorum, all but one": (1, {"sync.servers": 1}),
    "stale, s = 1": (1, {"sync.mode": "stale", "sync.staleness": 1}),
    "async, s = 2": (1, {"sync.mode": "async", "sync.staleness": 2}),
    "async, s = 100": (1, {"sync.mode": "async", "sync.staleness": 100}),
    "local, 20 steps a round": (0, {"sync.mode": "local", "sync.local_steps": 20}),
}
EVAL_EVERY = 10


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--loss", type=float, default=2.6)
    a.add_argument("--ranks", type=int, default=2, help="that compute")
    a.add_argument("--factors", default="1,2,4")
    a.add_argument("--steps", type=int, default=600, help="after which a run is given up")
    a.add_argument("--batch", type=int, default=16, help="samples of a rank, in the mean")
    a.add_argument("--repeat", type=int, default=1)
    a.add_argument("--modes", help="those whose name has one of these words, with commas")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that may have torch")
    return a.parse_args()


def evals_of(metrics):
    """[[seconds of training, validation loss, step], ...] of a run's metrics.jsonl, as far as it is written."""
    found, first, evaluating = [], None, 0.0
    if not metrics.exists():
        return found
    for line in metrics.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # half a line: the run is writing it
            break
        if first is None:
            first = entry["t"] - entry.get("step_seconds", 0.0)
        if "val_loss" in entry:
            evaluating += entry["eval_seconds"]
            found.append([entry["t"] - first - evaluating, entry["val_loss"], entry["step"]])
    return found


def first_below(evals, loss):
    return next((one for one in evals if one[1] <= loss), None)


def run_zero(args, factor, folder, mode):
    servers, own = MODES[mode]
    ranks = args.ranks + servers
    own = dict(own, **({"sync.quorum": args.ranks - 1} if mode.startswith("quorum") else {}))
    keys = {**BASE, **{f"model.{key}": value for key, value in SHAPE.items()}, "data.validation": 0.1, "optimizer.lr": ADAMW["lr"],
            "optimizer.betas": list(ADAMW["betas"]), "optimizer.weight_decay": ADAMW["weight_decay"], "train.clip": 1, "schedule.warmup": WARM_UP,
            "train.steps": args.steps, "train.batch": args.batch, "train.eval_every": EVAL_EVERY,
            "train.eval_batches": 64 // (args.batch * args.ranks) or 1, "run.threads": 1, "run.dir": folder / "run", "checkpoint.every": 0, **own}
    metrics = folder / "run/metrics.jsonl"
    run([args.zero, "train", "-n", str(ranks), "--overwrite", *(f"--{key}={value}" for key, value in keys.items())], ranks - 1, factor,
        is_enough=lambda: first_below(evals_of(metrics), args.loss))
    return first_below(evals_of(metrics), args.loss)


def run_ddp(args, factor, folder):
    evals = ddp_report(args, factor, folder, eval_every=EVAL_EVERY, until_loss=args.loss)["evals"]
    return first_below([[*one, EVAL_EVERY * (i + 1)] for i, one in enumerate(evals)], args.loss)


def cell(results):
    if None in results:
        return "not reached"
    seconds, _, steps = zip(*results)
    return f"{statistics.median(seconds):.1f} ({statistics.median(steps):g})"


def main():
    args = arguments()
    words = args.modes.split(",") if args.modes else [""]
    systems = {mode: lambda k, folder, mode=mode: run_zero(args, k, folder, mode) for mode in MODES if any(word in mode for word in words)}
    if has_torch(args.python) and any(word in "DDP" for word in words):
        systems["DDP"] = lambda k, folder: run_ddp(args, k, folder)
    factors = [float(factor) for factor in args.factors.split(",")]
    found = {}
    for _ in range(args.repeat):
        for name in systems:
            for k in factors:
                with tempfile.TemporaryDirectory() as folder:
                    found.setdefault((name, k), []).append(systems[name](k, Path(folder)))
                print(f"{name}, k = {k:g}: {found[name, k][-1]}", file=sys.stderr, flush=True)
    print(f"{args.ranks} ranks that compute; seconds (and steps) to a validation loss of {args.loss:g}, medians of {args.repeat} rounds\n")
    print_table(["", *(f"k = {k:g}" for k in factors)], [[name, *(cell(found[name, k]) for k in factors)] for name in systems])


if __name__ == "__main__":
    main()
