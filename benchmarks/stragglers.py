#!/usr/bin/env python3
"""Samples a second where one rank computes k times slower than the others: equal shares, measured shares, and DDP.

    python3 benchmarks/stragglers.py                                  # two ranks, k = 1, 2 and 4
    python3 benchmarks/stragglers.py --ranks 4 --factors 1,4 --python /path/with/torch/bin/python3

A GPT of 4 layers of 128, one thread a rank. The last rank is stopped (SIGSTOP) for (k - 1)/k of each 40 ms, whatever the
system. A run's figure is what its steps after the first 20 took, in the median; a cell is the median over the rounds, in
which the systems take turns. "of the sum": of what all ranks could do together if none waited, which is the same system's
speed at k = 1, times (ranks - 1 + 1/k) / ranks. Without a Python that has torch, DDP is left out.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from training_run import BASE, ROOT, find_zero, print_table

PERIOD = 0.04  # seconds, of which a rank that is slowed down runs 1/k
WARM_UP = 20   # steps
SHAPE = {"layers": 4, "width": 128, "heads": 4, "context": 64}


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ranks", type=int, default=2)
    a.add_argument("--factors", default="1,2,4")
    a.add_argument("--steps", type=int, default=80)
    a.add_argument("--batch", type=int, default=16, help="samples of a rank, in the mean")
    a.add_argument("--repeat", type=int, default=3)
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that may have torch")
    a.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    return a.parse_args()


# ---- a rank that is slowed down --------------------------------------------------------------------------------------


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += [int(child), *descendants(int(child))]
        except OSError:
            pass
    return found


def pid_of_rank(launcher, rank):
    """The newest process below the launcher whose environment has this rank; None while there is none."""
    for pid in reversed(descendants(launcher)):
        try:
            if f"RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
        except OSError:
            pass
    return None


def slow_down(launcher, rank, factor, over):
    pid = None
    while not over.is_set():
        pid = pid or pid_of_rank(launcher.pid, rank)
        if pid is None:
            time.sleep(PERIOD)
            continue
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(PERIOD * (factor - 1) / factor)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(PERIOD / factor)


def run(command, args, factor, environment=None):
    launcher = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    over = threading.Event()
    slower = threading.Thread(target=slow_down, args=(launcher, args.ranks - 1, factor, over))
    if factor > 1:
        slower.start()
    said = launcher.communicate()[1]
    over.set()
    if factor > 1:
        slower.join()
    if launcher.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {launcher.returncode}:\n{said}")


# ---- the systems: samples a second -----------------------------------------------------------------------------------


def samples_per_second(args, seconds):
    return args.batch * args.ranks / statistics.median(seconds[WARM_UP:])


def run_zero(args, factor, folder, share):
    keys = {**BASE, **{f"model.{key}": value for key, value in SHAPE.items()}, "train.steps": args.steps, "train.batch": args.batch,
            "train.share": share, "run.threads": 1, "run.dir": folder / "run", "checkpoint.every": 0}
    run([args.zero, "train", "-n", str(args.ranks), "--overwrite", *(f"--{key}={value}" for key, value in keys.items())], args, factor)
    report = json.loads((folder / "run/report.json").read_text())
    return samples_per_second(args, report["step_seconds"]), report["shares"]


def run_ddp(args, factor, folder):
    report = folder / "ddp.json"
    command = [args.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks), __file__, "--peer",
               "--steps", str(args.steps), "--batch", str(args.batch)]
    run(command, args, factor, dict(os.environ, OMP_NUM_THREADS="1", REPORT=str(report)))
    return samples_per_second(args, json.loads(report.read_text())), [args.batch] * args.ranks


def peer_rank(args):
    import torch
    import torch.distributed as dist
    from torch import nn
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    width, context = SHAPE["width"], SHAPE["context"]

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, SHAPE["heads"], 4 * width, 0.0, "gelu", batch_first=True,
                                                                   norm_first=True) for _ in range(SHAPE["layers"]))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context))

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(torch.arange(context))
            for block in self.blocks:
                x = block(x, src_mask=self.mask, is_causal=True)
            return self.head(self.norm(x))

    model = nn.parallel.DistributedDataParallel(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    seconds = []
    for _ in range(args.steps):
        begin = time.perf_counter()
        tokens = torch.randint(0, 256, (args.batch, context))
        nn.functional.cross_entropy(model(tokens).view(-1, 256), tokens.view(-1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        Path(os.environ["REPORT"]).write_text(json.dumps(seconds))
    dist.destroy_process_group()


def main():
    args = arguments()
    if args.peer:
        peer_rank(args)
        return
    systems = {f"zero.cpp, share {share}": lambda k, folder, share=share: run_zero(args, k, folder, share) for share in ("equal", "auto")}
    if subprocess.run([args.python, "-c", "import torch"], capture_output=True).returncode == 0:
        systems["DDP"] = lambda k, folder: run_ddp(args, k, folder)
    factors = [float(factor) for factor in args.factors.split(",")]
    found = {(name, k): [] for name in systems for k in {1.0, *factors}}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.repeat):
            for name, k in found:
                found[name, k].append(systems[name](k, Path(folder)))
    speed = {cell: statistics.median(rate for rate, _ in runs) for cell, runs in found.items()}
    print(f"{args.ranks} ranks, {args.batch * args.ranks} samples a step, medians of {args.repeat} rounds\n")
    print_table(["system", "k", "samples/s", "of the sum", "shares"],
                [[name, f"{k:g}", f"{speed[name, k]:,.0f}", f"{speed[name, k] / (speed[name, 1.0] * (args.ranks - 1 + 1 / k) / args.ranks):.2f}",
                  " + ".join(map(str, found[name, k][-1][1]))] for name in systems for k in factors])


if __name__ == "__main__":
    main()
