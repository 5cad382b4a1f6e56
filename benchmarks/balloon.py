#!/usr/bin/env python3
"""Trains under a hard memory cap while another program in the same group takes and gives back memory at random.

    sudo benchmarks/balloon.py --steps 200

The same run is done twice: alone, and beside the balloon. Printed are the processes that the kernel killed (none is
right), how often states moved, and whether losses and weights are bit for bit the same. The cap leaves room for the
balloon only if zero.cpp gives way. Needs root (memory_cap.py says why not where it can't; the exit status is 77 then).
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

from memory_cap import CapError, MemoryCap
from training_run import find_zero, mib, parse_bytes

CANNOT_RUN_HERE = 77  # exit status: no cap to be had
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "shakespeare", "input.txt")


def balloon(most_bytes, bytes_per_second, seed):
    """For ever: grows to a random size, at the given speed or down to a quarter of it, stays a while, shrinks."""
    random.seed(seed)
    chunk = 4 << 20
    while True:
        block = mmap.mmap(-1, random.randrange(most_bytes // 2, most_bytes))
        speed = random.uniform(bytes_per_second / 4, bytes_per_second)
        for begin in range(0, len(block), chunk):
            end = min(begin + chunk, len(block))
            block[begin:end:mmap.PAGESIZE] = b"\1" * len(range(begin, end, mmap.PAGESIZE))
            time.sleep(chunk / speed)
        time.sleep(random.uniform(0.5, 3))
        block.close()
        time.sleep(random.uniform(0.5, 3))


def command(args, folder, name):
    keys = {"model.name": "gpt2", "model.layers": args.layers, "model.width": args.width, "model.heads": 8,
            "model.context": 64, "model.vocab": 256, "data.kind": "text", "data.path": TEXT, "data.validation": 0,
            "train.steps": args.steps, "train.batch": 2, "schedule.warmup": 0, "zero.stage": 3,
            "zero.disk": json.dumps([folder]), "checkpoint.every": 0, "run.dir": f"{folder}/{name}"}
    flags = [part for key, value in keys.items() for part in (f"--{key}", str(value))]
    return [args.zero, "train", "-n", str(args.ranks), *flags]


def run(args, folder, name, with_balloon):
    with MemoryCap(parse_bytes(args.cap)) as cap:
        child = os.fork() if with_balloon else 0
        if with_balloon and child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            (cap.folder / "cgroup.procs").write_text(str(os.getpid()))
            balloon(parse_bytes(args.balloon), parse_bytes(args.speed), args.seed)
        try:
            use = cap.run(command(args, folder, name), log=f"{folder}/{name}.log", timeout=args.timeout)
        finally:
            if child:
                burst = os.waitpid(child, os.WNOHANG) != (0, 0)
                if not burst:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
    if use.status != 0:
        sys.exit(f"{name}: ended with status {use.status}, {use.num_killed} processes killed\n"
                 + open(f"{folder}/{name}.log").read()[-2000:])
    with open(f"{folder}/{name}/report.json") as file:
        return use, json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--cap", default="1664MiB")
    parser.add_argument("--balloon", default="900MiB", help="what it takes at most")
    parser.add_argument("--speed", default="100MiB", help="bytes a second at which it grows at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--disk", help="folder for states; default: for temporary files")
    parser.add_argument("--timeout", type=float, default=1800)
    parser.add_argument("--zero", default=find_zero())
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("balloon.py: ended by SIGTERM"))  # group and folder go, too
    with tempfile.TemporaryDirectory(dir=args.disk) as folder:
        try:
            print(f"two runs of {args.steps} steps, a few minutes", file=sys.stderr)
            alone_use, alone = run(args, folder, "alone", with_balloon=False)
            print("alone: done; now beside the balloon", file=sys.stderr)
            use, beside = run(args, folder, "beside", with_balloon=True)
        except CapError as error:
            print(f"balloon.py: {error}", file=sys.stderr)
            return CANNOT_RUN_HERE
        with open(f"{folder}/beside.log") as log:
            replans = [line.strip() for line in log if "memory is short (" in line or "memory is free again" in line]
    print(f"cap {args.cap}; alone the ranks hold {mib(alone_use.held)} MiB, the balloon takes up to {args.balloon}")
    print(f"killed by the kernel: {use.num_killed}")
    print(f"states moved {beside['replans']} times, {mib(beside['moved_bytes'])} MiB on rank 0:")
    for line in replans[:6]:
        print(f"  {line}")
    same = all(alone[key] == beside[key] for key in ("loss_bits", "parameters_sha256"))
    print(f"losses and weights: {'bit for bit the same' if same else 'DIFFERENT'}; "
          f"{1e3 * alone['step_s_median']:,.0f} ms a step alone, {1e3 * beside['step_s_median']:,.0f} ms beside the balloon")
    return 0 if same and use.num_killed == 0 and beside["replans"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
