#!/usr/bin/env python3
"""The cost of a checkpoint in zero.cpp, torch.save, PyTorch's distributed checkpoint and DeepSpeed, as Markdown tables.

    benchmarks/save.py                                        # a small model
    benchmarks/save.py --layers 12 --width 768 --vocab 50257 --rounds 5 --python venv/bin/python   # GPT-2: 1.5 GB

Every system saves parameters and both moments of Adam in fp32, about 12 bytes a parameter, from all ranks to one disk.
Each round starts every system again, one after the other, so a slow minute of the machine affects all. If a start makes
several saves, the first is left out (buffers, imports). A cell is the median of the remaining saves over all rounds.

waited      time that training paused; in percent of the time of zero.cpp's steps between two saves
published   until the system reports that the checkpoint is written; an asynchronous save of zero.cpp reports it at the
            end of a step
durable     until every file and folder is also synced, by this benchmark if the system does not do it: only then does
            the checkpoint survive a power cut
MB/s        bytes on disk / durable

Second table: a run that saves every K steps, and continues for almost K steps after its last save. Beside it is a run
of the same round that saves nothing. Both are timed from the end of the first step to the end of the last. The overhead
is the whole cost of saving, as the median over the rounds.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from support.training_run import find_zero, print_table, train

HERE = Path(__file__).resolve().parent
SHM = Path("/dev/shm")
PEERS = {
    "torch.save, rank 0": "torch-save",
    "torch DCP": "dcp",
    "torch DCP async": "dcp-async",
    "DeepSpeed ZeRO-1": "deepspeed1",
    "DeepSpeed ZeRO-3": "deepspeed3",
}
SYNCS = {
    "zero.cpp": "all",
    "torch.save, rank 0": "nothing",
    "torch DCP": "files, no folder",
    "torch DCP async": "files, no folder",
    "DeepSpeed ZeRO-1": "nothing",
    "DeepSpeed ZeRO-3": "nothing",
}
LINE = re.compile(r"checkpoint: step (\d+), .* a rank in ([0-9.]+) s, of which training waited ([0-9.]+) s")


def disk_bytes(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def later(saves):
    return saves[1:] or saves


def num_steps(args):
    """Number of measured steps. The steps after the last save cover its asynchronous part."""
    return (args.saves + 1) * args.every - 2


class Zero:
    """Runs of `zero train`; its saves are durable when they are reported."""

    def __init__(self, args, scratch):
        self.args, self.folder = args, f"{scratch}/zero"
        self.keys = {
            "model.layers": args.layers,
            "model.width": args.width,
            "model.heads": max(1, args.width // 64),
            "model.context": args.context,
            "model.vocab": args.vocab,
            "data.context": args.context,
            "train.batch": 1,
            "train.steps": num_steps(args) + 1,
            "zero.stage": 3,
            "run.threads": 1,
        }

    def run(self, every, asynchronous=True):
        """(saves, seconds of all steps but the first, parameters); with `every` = 0 it saves nothing."""
        os.sync()
        keys = {
            **self.keys,
            "checkpoint.every": every,
            "checkpoint.keep": 1,
            "checkpoint.async": str(asynchronous).lower(),
        }
        run = train(self.args.zero, keys, self.args.ranks, self.folder, timeout=self.args.timeout)
        if not run.ok:
            sys.exit(f"{run.log()[-2000:]}save.py: {run.reason}")
        times = [
            line["t"]
            for line in map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
            if "step_seconds" in line
        ]
        num_bytes = disk_bytes(next(iter((run.folder / "checkpoints").glob("step-*")))) if every else 0
        saves = [
            {"waited": float(waited), "published": float(done), "durable": float(done), "bytes": num_bytes}
            for step, done, waited in LINE.findall(run.log())
            if every and int(step) % every == 0
        ]
        parameters = run.report["num_parameters"]
        shutil.rmtree(self.folder)
        return saves, times[-1] - times[0], parameters


def peer_saves(args, system, scratch):
    report, folder = Path(scratch) / "report.json", Path(scratch) / "peer"
    report.unlink(missing_ok=True)
    folder.mkdir()
    before = set(SHM.glob("deepspeed_*"))
    try:
        done = subprocess.run(
            [
                args.python,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                str(args.ranks),
                HERE / "peers/save_peer.py",
                "--system",
                system,
                "--layers",
                str(args.layers),
                "--width",
                str(args.width),
                "--vocab",
                str(args.vocab),
                "--folder",
                folder,
                "--saves",
                str(args.saves),
                "--json",
                report,
            ],
            capture_output=True,
            text=True,
            timeout=args.timeout,
        )
    except subprocess.TimeoutExpired:
        return "took too long"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for left in set(SHM.glob("deepspeed_*")) - before:  # DeepSpeed leaves its buffers there
            left.unlink(missing_ok=True)
    if done.returncode != 0 or not report.exists():
        return done.stderr[-1500:]
    return json.loads(report.read_text())


def versions_of_peers(args):
    """{module: version} of torch and DeepSpeed, if --python has them."""
    found = {}
    for module in ("torch", "deepspeed"):
        done = subprocess.run(
            [args.python, "-c", f"import {module}; print({module}.__version__)"], capture_output=True, text=True
        )
        if done.returncode == 0:
            found[module] = done.stdout.split()[-1]
    return found


def peers_of(versions):
    return {
        name: system
        for name, system in PEERS.items()
        if "torch" in versions and ("deepspeed" in versions or not system.startswith("deepspeed"))
    }


def measure(args, peers, scratch):
    """(saves by name, spans of whole runs by name, parameters, failures)."""
    zero, saves, spans, failed = Zero(args, scratch), {}, {}, {}
    for number in range(args.rounds):
        for name, *how in (
            ("nothing", 0),
            ("zero.cpp, async", args.every, True),
            ("zero.cpp, sync", args.every, False),
        ):
            told, span, parameters = zero.run(*how)
            spans.setdefault(name, []).append(span)
            if told:
                saves.setdefault(name, []).extend(later(told))
        for name, system in peers.items():
            result = peer_saves(args, system, scratch) if name not in failed else failed[name]
            if isinstance(result, str):
                failed[name] = result
            else:
                saves.setdefault(name, []).extend(later(result))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    return saves, spans, parameters, failed


def row(name, saves, between):
    """`between`: seconds of training from one save to the next."""

    def of(key):
        return statistics.median(save[key] for save in saves)

    synced = next(what for system, what in SYNCS.items() if name.startswith(system))
    return [
        name,
        f"{1e3 * of('waited'):.0f}",
        f"{100 * of('waited') / between:.1f}",
        f"{of('published'):.2f}",
        f"{of('durable'):.2f}",
        f"{of('bytes') / 1e6 / of('durable'):,.0f}",
        f"{of('bytes') / 1e6:,.1f}",
        synced,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zero", default=find_zero())
    parser.add_argument(
        "--python", default=sys.executable, help="a Python with torch and deepspeed; without: only zero.cpp"
    )
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--saves", type=int, default=3, help="saves of one start")
    parser.add_argument("--every", type=int, default=10, help="steps between two saves of zero.cpp's runs")
    parser.add_argument("--folder", help="folder on the measured disk; default: the folder for temporary files")
    parser.add_argument("--timeout", type=int, default=3600)
    args = parser.parse_args()
    if args.every < 2:  # the last step also saves, and must not be a measured one
        parser.error("--every: at least 2")
    versions = versions_of_peers(args)
    with tempfile.TemporaryDirectory(prefix="zero-save-", dir=args.folder) as scratch:
        saves, spans, parameters, failed = measure(args, peers_of(versions), scratch)
    print(
        f"{parameters / 1e6:.1f} million parameters, {args.ranks} ranks, {args.rounds} rounds of {args.saves} saves"
        + "".join(f"; {module} {version}" for module, version in versions.items())
        + ("" if versions else "; no torch and DeepSpeed in --python")
        + "\n"
    )
    steps = num_steps(args)
    between = args.every * statistics.median(spans["nothing"]) / steps
    print_table(
        ["", "waited, ms", "%", "published, s", "durable, s", "MB/s", "MB on disk", "syncs by itself"],
        [row(name, told, between) for name, told in saves.items()],
    )

    def overhead(told):
        return statistics.median(100 * (span / none - 1) for span, none in zip(told, spans["nothing"]))

    print_table(
        [f"{steps} steps, a save every {args.every}", "seconds", "ms a step", "overhead"],
        [
            [
                name,
                f"{statistics.median(told):.2f}",
                f"{1e3 * statistics.median(told) / steps:.1f}",
                f"{overhead(told):+.1f} %",
            ]
            for name, told in spans.items()
        ],
    )
    for name, why in failed.items():
        print(f"{name}: failed\n{why}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
