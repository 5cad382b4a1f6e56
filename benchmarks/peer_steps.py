#!/usr/bin/env python3
"""A step of a GPT in zero.cpp, DDP, ZeroRedundancyOptimizer, FSDP2 and DeepSpeed on the CPU: time, bytes, memory,
losses.

    python3 benchmarks/peer_steps.py --python PYTHON                        # GPT-2 (124M)
    python3 benchmarks/peer_steps.py --python PYTHON --model small          # 6 layers of 384
    python3 benchmarks/peer_steps.py --python PYTHON --offload --disk DIR   # states on the host and on the disk of DIR
    python3 benchmarks/peer_steps.py --from rounds.json                     # the table of an earlier run (--output)

A rank has 1 sample of 128 tokens of GPT-2, or 4 samples of 256 tokens of the small model.

PYTHON has torch 2.11, for DeepSpeed's rows also deepspeed 0.19.8 (DS_ACCELERATOR=cpu), and for ds3-nvme libaio's
headers. The script names the systems that PYTHON lacks, and leaves them out. All systems begin with the same weights,
draw the same samples, and use AdamW in fp32 with one thread a rank (peers/peer_step_rank.py). Their losses must
therefore agree; the last column shows it. Each round runs every system once. Peers and `compute` use a C library that
keeps freed memory, except with --stock-heap.

Columns, as medians over the rounds: the median step after the first three; its ratio to the step of `compute` (only
forward and backward) in the same round; megabytes that a rank sent in a step (of peers, by the machine's loopback
device); the highest memory of a rank (RSS), and its memory at the end (PSS); the distance of the losses from those of
our first row.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers.known_gpt import has, prepare, train_flags
from peers.peer_step_rank import MODELS, WARM_UP
from support.checked_arguments import each_known, least
from support.raw_rounds import RawRounds, spread, widest
from support.training_run import ROOT, find_zero, mib, print_table

SAMPLES = {"tiny": (4, 64), "small": (4, 256), "gpt2": (1, 128)}  # samples of a rank, and tokens of a sample
HOST = {"zero.optimizer": "{host=1}", "zero.gradient": "{host=1}"}
DISK = {"zero.parameter": "{disk=1}", "zero.optimizer": "{disk=1}", "zero.gradient": "{host=1}"}
OURS = {f"zero.cpp stage {stage}": {"zero.stage": stage} for stage in range(4)}
OURS["zero.cpp stage 3, min"] = {"zero.stage": 3, "zero.device_memory": "min"}
OFFLOADED = {
    "zero.cpp stage 2, host": {"zero.stage": 2, **HOST},
    "zero.cpp stage 3, host": {"zero.stage": 3, **HOST},
    "zero.cpp stage 3, disk": {"zero.stage": 3, **DISK},
    "zero.cpp stage 3, disk, least": {"zero.stage": 3, **DISK, "zero.device_memory": "min"},
}
PEERS = {
    "compute": "compute",
    "DDP": "ddp",
    "ZeroRedundancyOptimizer": "zero_redundancy",
    "FSDP2": "fsdp2",
    "DeepSpeed ZeRO-1": "ds1",
    "DeepSpeed ZeRO-2": "ds2",
    "DeepSpeed ZeRO-3": "ds3",
}
OFFLOADED_PEERS = {
    "compute": "compute",
    "DeepSpeed ZeRO-2, offload": "ds2-offload",
    "DeepSpeed ZeRO-3, offload": "ds3-offload",
    "DeepSpeed ZeRO-3, NVMe": "ds3-nvme",
}


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", choices=MODELS, default="gpt2")
    a.add_argument("--offload", action="store_true", help="states off the device instead of all on it")
    a.add_argument("--disk", help="folder on a disk for states; default: no disk is used")
    a.add_argument("--ranks", type=int, default=2)
    a.add_argument("--steps", type=int, default=8)
    a.add_argument("--repeat", type=int, default=2, help="rounds; each runs all systems")
    a.add_argument("--systems", default="", help="run only systems with one of these words (word,word)")
    a.add_argument("--stock-heap", action="store_true", help="run peers with the C library's default heap")
    a.add_argument("--output", help="file for the figures of every run, as JSON")
    a.add_argument("--from", dest="measured", help="an earlier --output: print its table, and run nothing")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that has torch")
    args = a.parse_args()
    least(a, "--steps", args.steps, WARM_UP + 1, f"the first {WARM_UP} do not count")
    least(a, "--repeat", args.repeat, 1, "no round runs")
    ours, peers = (OFFLOADED, OFFLOADED_PEERS) if args.offload else (OURS, PEERS)
    each_known(a, "--systems", args.systems.split(","), [*peers, *ours])
    return args


# ---- measuring -------------------------------------------------------------------------------------------------------


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.own, self.context = SAMPLES[args.model]
        self.systems = self.chosen()
        prepare(args.zero, folder, evaluated=1, shape=MODELS[args.model])

    def chosen(self):
        """{name: a function without arguments that runs the system}."""
        args = self.args
        ours, peers = (OFFLOADED, OFFLOADED_PEERS) if args.offload else (OURS, PEERS)
        lacking = [module for module in ("torch", "deepspeed") if not has(args.python, module)]
        words = args.systems.split(",")
        found, left_out = {}, []
        for name, system in [*peers.items(), *ours.items()]:
            needs = "" if name in ours else "deepspeed" if system.startswith("ds") else "torch"
            needs_disk = "disk" in name or "NVMe" in name
            if not any(word in name for word in words):
                continue
            if needs in lacking or "torch" in lacking and needs or needs_disk and not args.disk:
                left_out.append(name)
                continue
            found[name] = (lambda keys=system: self.zero(keys)) if name in ours else (lambda s=system: self.peer(s))
        if left_out:
            print(f"peer_steps.py: without torch, deepspeed or --disk: left out {', '.join(left_out)}", file=sys.stderr)
        if not found:
            sys.exit("peer_steps.py: no system is left to run")
        return found

    def zero(self, keys):
        run = self.folder / "run"
        settings = {
            "train.steps": self.args.steps,
            "data.context": self.context,
            "run.dir": run,
            **MODELS[self.args.model].keys(),
            **keys,
        }
        if "disk" in str(keys):
            settings["zero.disk"] = self.args.disk
        command = [
            self.args.zero,
            "train",
            *train_flags(self.folder, self.own * self.args.ranks, settings),
            "-n",
            str(self.args.ranks),
            "--overwrite",
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        report = json.loads((run / "report.json").read_text())
        return {
            "times": report["step_seconds"],
            "losses": report["losses"],
            "sent": max(report["sent_bytes_per_step"]),
            "peak_rss": max(report["peak_rss"]),
            "pss": max(report["steady_pss"]),
        }

    def peer(self, system, ranks=None):
        report, ranks = self.folder / "peer.json", ranks or self.args.ranks
        job = {
            "system": system,
            "model": self.args.model,
            "context": self.context,
            "samples": self.own * ranks,
            "steps": self.args.steps,
            "keep_heap": not self.args.stock_heap,
            "folder": str(self.folder),
            "report": str(report),
        }
        with tempfile.TemporaryDirectory(dir=self.args.disk) as disk:
            return self.finished(ranks, {**job, "disk": disk}, report)

    def finished(self, ranks, job, report):
        command = [
            self.args.python,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(ranks),
            str(ROOT / "benchmarks/peers/peer_step_rank.py"),
            json.dumps(job),
        ]
        settings = {
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "DS_ACCELERATOR": "cpu",
            "LOCAL_SIZE": str(ranks),
        }
        path = f"{Path(self.args.python).parent}:{os.environ['PATH']}"  # DeepSpeed looks for ninja there
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings, "PATH": path})
        if not report.exists():
            sys.exit(f"{job['system']} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        figures = json.loads(report.read_text())
        report.unlink()
        return figures


def measure(args, rounds):
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args, Path(folder))
        for number in range(args.repeat):
            for name, run in bench.systems.items():
                figures = run()
                rounds.add(system=name, round=number, step=statistics.median(figures["times"][WARM_UP:]), **figures)


# ---- the table -------------------------------------------------------------------------------------------------------


def print_steps(rounds):
    names = list(dict.fromkeys(record["system"] for record in rounds.records))
    compared = next((name for name in names if name.startswith("zero.cpp")), names[0])
    known = rounds.of(system=compared)[0]["losses"]
    table = []
    for name in names:
        steps, computed = rounds.values("step", system=name), rounds.values("step", system="compute")
        ratio = f"{statistics.median(a / b for a, b in zip(steps, computed)):.2f}" if computed else ""
        losses = rounds.of(system=name)[0]["losses"]
        apart = max(abs(a - b) / b for a, b in zip(losses, known))
        table.append(
            [
                name,
                f"{1e3 * statistics.median(steps):,.0f}",
                ratio,
                "" if name == "compute" else f"{rounds.median('sent', system=name) / 1e6:,.0f}",
                mib(rounds.median("peak_rss", system=name)),
                mib(rounds.median("pss", system=name)),
                "" if name == "compute" else f"{apart:.0e}",
            ]
        )
    print_table(
        ["system", "step ms", "of compute", "sent MB a step", "peak RSS, MiB a rank", "PSS", "losses differ by"], table
    )
    spreads = {name: spread(rounds.values("step", system=name)) for name in names if len(rounds.of(system=name)) > 1}
    if spreads:
        print(f"largest spread of a step between rounds: {widest(spreads)}")


def main():
    args = arguments()
    if args.measured:
        rounds = RawRounds.read(args.measured)
    else:
        rounds = RawRounds(args.output)
        measure(args, rounds)
    print_steps(rounds)


if __name__ == "__main__":
    main()
