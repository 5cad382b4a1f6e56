#!/usr/bin/env python3
"""Trains under a hard memory cap while another program in the same control group takes and returns memory at random.

    sudo benchmarks/balloon.py --steps 200

With R bytes in reserve ([zero] memory_reserve) a run makes a promise. The kernel kills no process as long as other
programs take at most R / 2 during one step. The balloon takes just less than R / 2 each time that the run reports a
step, so a busy machine slows both equally. The balloon is half full when the run begins, and grows once before the
first step. `--share 3` takes six times as much in a step, which breaks the condition.

The script trains twice: without and with the balloon. It prints the number of killed processes (which should be 0), and
the promised speed on this machine. It also prints the number of moves of states, and whether losses and weights agree
bit for bit. Under the cap, the balloon fits only if zero.cpp moves states out of memory. Needs root: without it
support/memory_cap.py prints the reason, and the exit status is 77.
"""

import argparse
import json
import mmap
import os
import random
import signal
import sys
import tempfile
import time

from support.memory_cap import CapError, MemoryCap
from support.training_run import find_zero, mib, parse_bytes

CANNOT_RUN_HERE = 77  # exit status: no cap can be set
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "shakespeare", "input.txt")


class Balloon:
    """Another program: it grows at each reported step, keeps its size for some steps, shrinks, and waits for some
    steps."""

    def __init__(self, log, most_bytes, bytes_per_step, seed):
        random.seed(seed)
        self.log, self.most, self.per_step = log, most_bytes, bytes_per_step // mmap.PAGESIZE * mmap.PAGESIZE
        self.blocks = []
        self.take(most_bytes // 2)
        self.seen = 0

    def take(self, num_bytes):
        if num_bytes > 0:
            block = mmap.mmap(-1, num_bytes)
            block[:: mmap.PAGESIZE] = b"\1" * len(range(0, num_bytes, mmap.PAGESIZE))
            self.blocks.append(block)

    def num_reports(self):
        """Number of reports so far: the plan, which precedes all allocations, and the steps."""
        if not os.path.exists(self.log):
            return 0
        with open(self.log, errors="replace") as file:
            return sum(line.startswith(("plan:", "step ")) and "val_loss" not in line for line in file)

    def wait(self, num_reports):
        """Waits for `num_reports` more reports of the run."""
        until = self.seen + num_reports
        while self.seen < until:
            time.sleep(0.005)
            self.seen = self.num_reports()

    def live(self):
        while True:
            target = random.randrange(self.most // 2, self.most)
            while (held := sum(map(len, self.blocks))) < target:
                self.wait(1)
                self.take(min(self.per_step, (target - held + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE))
                self.seen = self.num_reports()  # reports during a slow take() count as used
            self.wait(random.randint(1, 6))
            for block in self.blocks:
                block.close()
            self.blocks.clear()
            self.wait(random.randint(1, 16))  # states come back after 8 calm steps


def command(args, folder, name):
    keys = {
        "model.name": "gpt2",
        "model.layers": args.layers,
        "model.width": args.width,
        "model.heads": 8,
        "model.context": 64,
        "model.vocab": 256,
        "data.kind": "text",
        "data.path": TEXT,
        "data.validation": 0,
        "train.steps": args.steps,
        "train.batch": 2,
        "train.log_every": 1,
        "schedule.warmup": 0,
        "zero.stage": 3,
        "zero.memory_reserve": args.reserve,
        "zero.disk": json.dumps([folder]),
        "checkpoint.every": 0,
        "run.dir": f"{folder}/{name}",
    }
    flags = [part for key, value in keys.items() for part in (f"--{key}", str(value))]
    return [args.zero, "train", "-n", str(args.ranks), *flags]


def bytes_per_step(args):
    return int(args.share * parse_bytes(args.reserve))


def run(args, folder, name, with_balloon):
    with MemoryCap(parse_bytes(args.cap)) as cap:
        blown_up, tell = os.pipe()
        child = os.fork() if with_balloon else 0
        if with_balloon and child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            (cap.folder / "cgroup.procs").write_text(str(os.getpid()))
            balloon = Balloon(f"{folder}/{name}.log", parse_bytes(args.balloon), bytes_per_step(args), args.seed)
            os.write(tell, b"1")
            balloon.live()
        os.close(tell)
        if with_balloon:
            os.read(blown_up, 1)
        try:
            use = cap.run(command(args, folder, name), log=f"{folder}/{name}.log", timeout=args.timeout)
        finally:
            if child:
                burst = os.waitpid(child, os.WNOHANG) != (0, 0)
                if not burst:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
    if use.status != 0:
        sys.exit(
            f"{name}: ended with status {use.status}, {use.num_killed} processes killed\n"
            + open(f"{folder}/{name}.log").read()[-2000:]
        )
    with open(f"{folder}/{name}/report.json") as file:
        return use, json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--cap", default="1664MiB")
    parser.add_argument("--balloon", default="900MiB", help="largest size of the balloon")
    parser.add_argument("--reserve", default="64MiB", help="[zero] memory_reserve of the run")
    parser.add_argument("--share", type=float, default=0.48, help="share of the reserve taken in a step; promised: 0.5")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--disk", help="folder for states; default: the folder for temporary files")
    parser.add_argument("--timeout", type=float, default=1800)
    parser.add_argument("--zero", default=find_zero())
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("balloon.py: ended by SIGTERM"))  # also removes group and folder
    with tempfile.TemporaryDirectory(dir=args.disk) as folder:
        try:
            print(f"two runs of {args.steps} steps, a few minutes", file=sys.stderr)
            alone_use, alone = run(args, folder, "alone", with_balloon=False)
            print("without the balloon: done; now with it", file=sys.stderr)
            use, beside = run(args, folder, "beside", with_balloon=True)
        except CapError as error:
            print(f"skipped: {error}", file=sys.stderr)
            return CANNOT_RUN_HERE
        with open(f"{folder}/beside.log") as log:
            replans = [line.strip() for line in log if "memory is short (" in line or "memory is free again" in line]
    print(
        f"cap {args.cap}; without the balloon the ranks hold {mib(alone_use.held)} MiB, "
        f"the balloon takes up to {args.balloon}"
    )
    slowest = max(beside["step_seconds"])
    print(
        f"promised: no process is killed while other programs take at most half of {args.reserve} in a step, here "
        f"{mib(parse_bytes(args.reserve) / 2 / slowest)} MiB/s in the slowest step of {slowest:.2f} s; "
        f"the balloon took {mib(bytes_per_step(args))} MiB a step"
    )
    print(f"killed by the kernel: {use.num_killed}")
    print(f"states moved {beside['replans']} times, {mib(beside['moved_bytes'])} MiB on rank 0:")
    for line in replans[:6]:
        print(f"  {line}")
    same = all(alone[key] == beside[key] for key in ("loss_bits", "parameters_sha256"))
    print(
        f"losses and weights: {'bit for bit the same' if same else 'DIFFERENT'}; "
        f"{1e3 * alone['step_s_median']:,.0f} ms a step without the balloon, "
        f"{1e3 * beside['step_s_median']:,.0f} ms with it"
    )
    return 0 if same and use.num_killed == 0 and beside["replans"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
