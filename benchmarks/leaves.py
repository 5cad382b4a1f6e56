#!/usr/bin/env python3
"""The cost of train.leaves: step times of a GPT of 4 layers with leaves and without, in turns.

    python3 benchmarks/leaves.py                          # 1 and 2 ranks, 4 leaves, 12 samples a step
    python3 benchmarks/leaves.py --leaves 8 --samples 24 --repeat 7
    python3 benchmarks/leaves.py --width 256 --context 128
    python3 benchmarks/leaves.py --python PYTHON          # also the limit: plain PyTorch, if PYTHON has torch

For each number of ranks a round runs three steps in turn. In the plain step a rank computes its samples at once. The
second step has as many micro-batches as leaves (train.accumulate). The third has leaves, for both values of
train.reduce. A cell is the median over the rounds of a run's median step. The ratio is to the plain step and to the
step with micro-batches, round by round. One thread a rank.

The limit is a loop in plain PyTorch with the same GPT on one rank. Its steps in turn take all samples at once and in as
many parts as there are leaves. No partition, schedule or tree is in it. Its heap keeps freed memory, as zero.cpp does.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers.known_gpt import Shape, adamw_of, make_gpt
from peers.peer_step_rank import keep_heap
from support.raw_rounds import RawRounds, spread
from support.training_run import find_zero, print_table, train


def shape_of(args):
    return Shape(width=args.width, context=args.context)


def keys_of(shape):
    keys = {f"model.{name}": getattr(shape, name) for name in ("layers", "width", "heads", "context")}
    return {**keys, "data.context": shape.context}


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ranks", default="1,2")
    a.add_argument("--leaves", type=int, default=4)
    a.add_argument("--samples", type=int, default=12, help="samples of a step")
    a.add_argument("--width", type=int, default=128, help="of the GPT's layers")
    a.add_argument("--context", type=int, default=64, help="tokens of a sample")
    a.add_argument("--steps", type=int, default=40)
    a.add_argument("--stage", type=int, default=2)
    a.add_argument("--repeat", type=int, default=5)
    a.add_argument("--output", help="file for the figures of every run, as JSON")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", help="a Python that has torch")
    a.add_argument("--in-torch", action="store_true", help=argparse.SUPPRESS)  # this process is that Python
    return a.parse_args()


def limit(args):
    """Prints the median milliseconds of a step of plain PyTorch: at once, and in parts."""
    keep_heap()
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    shape = shape_of(args)
    model = make_gpt(shape)
    optimizer = adamw_of(model)
    tokens = torch.randint(shape.vocab, (args.samples, shape.context + 1))
    seconds = {1: [], args.leaves: []}
    for step in range(2 * args.steps):
        for parts, of_parts in seconds.items():
            begin = time.monotonic()
            for part in tokens.chunk(parts):
                (model(part[:, :-1], part[:, 1:]) / parts).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            if step >= args.steps // 4:
                of_parts.append(time.monotonic() - begin)
    print(*(1e3 * statistics.median(of_parts) for of_parts in seconds.values()))


def ways(args, ranks):
    """The keys of each way to compute a step, by name."""
    of_rank, micros = args.samples // ranks, args.leaves // ranks
    found = {
        "plain": {"train.batch": of_rank},
        "micro-batches": {"train.batch": of_rank // micros, "train.accumulate": micros},
    }
    for reduce in ("each", "last"):
        found[f"leaves, reduce {reduce}"] = {
            "train.leaves": args.leaves,
            "train.global_batch": args.samples,
            "train.reduce": reduce,
        }
    return found


def limit_rows(args, rounds):
    """Rows of plain PyTorch, a process a round."""
    words = ["--in-torch"]
    for name in ("leaves", "samples", "width", "context", "steps"):
        words += [f"--{name}", str(getattr(args, name))]
    ratios = []
    for number in range(args.repeat):
        done = subprocess.run([args.python, __file__, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        whole, parts = map(float, done.stdout.split())
        rounds.add(ranks=1, round=number, way="torch, at once", ms=whole)
        rounds.add(ranks=1, round=number, way="torch, in parts", ms=parts)
        ratios.append(parts / whole)
    own = {way: rounds.values("ms", ranks=1, way=f"torch, {way}") for way in ("at once", "in parts")}
    of_plain = {"at once": 1.0, "in parts": statistics.median(ratios)}
    return [
        [
            f"plain PyTorch, {way}",
            f"{statistics.median(ms):.1f}",
            f"{100 * spread(ms):.0f} %",
            f"{of_plain[way]:.3f}",
            "",
        ]
        for way, ms in own.items()
    ]


def main():
    args = arguments()
    if args.in_torch:
        return limit(args)
    rounds, rows = RawRounds(args.output), []
    if args.python:
        rows += limit_rows(args, rounds)
    with tempfile.TemporaryDirectory() as folder:
        for ranks in map(int, args.ranks.split(",")):
            for number in range(args.repeat):
                for name, keys in ways(args, ranks).items():
                    run = train(
                        args.zero,
                        {
                            **keys_of(shape_of(args)),
                            "run.threads": 1,
                            "train.steps": args.steps,
                            "zero.stage": args.stage,
                            **keys,
                        },
                        ranks,
                        Path(folder) / "run",
                    )
                    if not run.ok:
                        raise SystemExit(f"{name}, {ranks} ranks: {run.reason}")
                    rounds.add(ranks=ranks, round=number, way=name, ms=run.step_ms)
            for name in ways(args, ranks):
                own = rounds.values("ms", ranks=ranks, way=name)
                ratios = [
                    statistics.median(a / b for a, b in zip(own, rounds.values("ms", ranks=ranks, way=base)))
                    for base in ("plain", "micro-batches")
                ]
                rows.append(
                    [
                        f"{ranks} ranks, {name}",
                        f"{statistics.median(own):.1f}",
                        f"{100 * spread(own):.0f} %",
                        *(f"{ratio:.3f}" for ratio in ratios),
                    ]
                )
    samples = f"{args.samples} samples of {args.context} tokens"
    print_table(
        [
            f"{args.leaves} leaves, {samples}, width {args.width}, stage {args.stage}, {args.repeat} rounds",
            "step ms",
            "spread",
            "of plain",
            "of micro-batches",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
