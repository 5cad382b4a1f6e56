#!/usr/bin/env python3
"""What a checkpoint costs: zero.cpp beside torch.save, PyTorch's distributed checkpoint and DeepSpeed, as Markdown tables.

    benchmarks/save.py                                        # a small model
    benchmarks/save.py --layers 12 --width 768 --vocab 50257 --rounds 5 --python venv/bin/python   # GPT-2: 1.5 GB

Every system saves parameters and both moments of Adam in fp32, about 12 bytes a parameter, from all ranks on one disk, and
is started anew in each round, one after the other, so that a slow minute of the machine is everybody's. The first save of
a start is left out where there are more (buffers, imports); a cell is the median of the rest over all rounds.

waited    what training stood still for
done      until the system says that the checkpoint is written; a save of zero.cpp's that runs beside training says so at the
          end of a step
durable   until every file and folder of it was synced, too, by this benchmark where the system does not do it: only then
          does a power cut leave it
MB/s      bytes on disk / durable

Second table: steps of a run that saves every K steps, beside one that saves nothing, from the end of the first step to the
end of the last: what saving costs the training as a whole.
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

from training_run import find_zero, print_table, train

HERE = Path(__file__).resolve().parent
SHM = Path("/dev/shm")
PEERS = {"torch.save, rank 0": "torch-save", "torch DCP": "dcp", "torch DCP async": "dcp-async", "DeepSpeed ZeRO-1": "deepspeed1",
         "DeepSpeed ZeRO-3": "deepspeed3"}
SYNCS = {"zero.cpp": "all", "torch.save, rank 0": "nothing", "torch DCP": "files, no folder",
         "torch DCP async": "files, no folder", "DeepSpeed ZeRO-1": "nothing", "DeepSpeed ZeRO-3": "nothing"}
LINE = re.compile(r"checkpoint: step (\d+), .* a rank in ([0-9.]+) s, of which training waited ([0-9.]+) s")


def disk_bytes(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def later(saves):
    return saves[1:] or saves


class Zero:
    """Runs of `zero train`; saves are durable when they are told."""

    def __init__(self, args, scratch):
        self.args, self.folder = args, f"{scratch}/zero"
        self.keys = {"model.layers": args.layers, "model.width": args.width, "model.heads": max(1, args.width // 64),
                     "model.context": args.context, "model.vocab": args.vocab, "data.context": args.context, "train.batch": 1,
                     "train.steps": args.saves * args.every + 1, "zero.stage": 3, "run.threads": 1}

    def run(self, **keys):
        os.sync()
        run = train(self.args.zero, {**self.keys, **keys}, self.args.ranks, self.folder, timeout=self.args.timeout)
        if not run.ok:
            sys.exit(f"{run.log()[-2000:]}save.py: {run.reason}")
        times = [line["t"] for line in map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
                 if "step_seconds" in line]
        num_bytes = disk_bytes(next(iter((run.folder / "checkpoints").glob("step-*")))) if keys else 0
        saves = [{"waited": float(waited), "done": float(done), "durable": float(done), "bytes": num_bytes}
                 for step, done, waited in LINE.findall(run.log()) if int(step) % self.args.every == 0]
        parameters = run.report["num_parameters"]
        shutil.rmtree(self.folder)
        return saves, times[-1] - times[0], parameters

    def saving(self, asynchronous):
        return self.run(**{"checkpoint.every": self.args.every, "checkpoint.keep": 1,
                           "checkpoint.async": "true" if asynchronous else "false"})


def peer_saves(args, system, scratch):
    report, folder = Path(scratch) / "report.json", Path(scratch) / "peer"
    report.unlink(missing_ok=True)
    folder.mkdir()
    before = set(SHM.glob("deepspeed_*"))
    done = subprocess.run([args.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.ranks),
                           HERE / "save_peer.py", "--system", system, "--layers", str(args.layers), "--width", str(args.width),
                           "--vocab", str(args.vocab), "--folder", folder, "--saves", str(args.saves), "--json", report],
                          capture_output=True, text=True, timeout=args.timeout)
    shutil.rmtree(folder, ignore_errors=True)
    for left in set(SHM.glob("deepspeed_*")) - before:  # DeepSpeed leaves its buffers there
        left.unlink(missing_ok=True)
    if done.returncode != 0 or not report.exists():
        return done.stderr[-1500:]
    return json.loads(report.read_text())


def versions_of_peers(args):
    """Of torch and DeepSpeed, or None."""
    found = subprocess.run([args.python, "-c", "import torch, deepspeed; print(torch.__version__, deepspeed.__version__)"],
                           capture_output=True, text=True)
    return found.stdout.split()[-2:] if found.returncode == 0 else None


def measure(args, peers, scratch):
    """(saves by name, spans of whole runs by name, parameters, what failed)."""
    zero, saves, spans, failed = Zero(args, scratch), {}, {}, {}
    for number in range(args.rounds):
        for name, asynchronous in (("nothing", None), ("zero.cpp, async", True), ("zero.cpp, sync", False)):
            told, span, parameters = zero.run() if asynchronous is None else zero.saving(asynchronous)
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


def row(name, saves):
    def of(key):
        return statistics.median(save[key] for save in saves)
    synced = next(what for system, what in SYNCS.items() if name.startswith(system))
    return [name, f"{of('waited'):.3f}", f"{of('done'):.3f}", f"{of('durable'):.3f}", f"{of('bytes') / 1e6 / of('durable'):,.0f}",
            f"{of('bytes') / 1e6:,.1f}", synced]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zero", default=find_zero())
    parser.add_argument("--python", default=sys.executable, help="one that has torch and deepspeed; without: zero.cpp alone")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--saves", type=int, default=3, help="of one start")
    parser.add_argument("--every", type=int, default=10, help="steps, in zero.cpp's runs")
    parser.add_argument("--folder", help="on the disk that is measured (default: the temporary folder's)")
    parser.add_argument("--timeout", type=int, default=3600)
    args = parser.parse_args()
    versions = versions_of_peers(args)
    with tempfile.TemporaryDirectory(prefix="zero-save-", dir=args.folder) as scratch:
        saves, spans, parameters, failed = measure(args, PEERS if versions else {}, scratch)
    print(f"{parameters / 1e6:.1f} million parameters, {args.ranks} ranks, {args.rounds} rounds of {args.saves} saves"
          + (f"; torch {versions[0]}, DeepSpeed {versions[1]}" if versions else "; no torch and DeepSpeed in --python") + "\n")
    print_table(["", "waited, s", "done, s", "durable, s", "MB/s", "MB on disk", "syncs by itself"],
                [row(name, told) for name, told in saves.items()])
    none = statistics.median(spans["nothing"])
    steps = args.saves * args.every
    print_table([f"{steps} steps, a save every {args.every}", "seconds", "ms a step", "overhead"],
                [[name, f"{statistics.median(told):.2f}", f"{1e3 * statistics.median(told) / steps:.1f}",
                  f"{100 * (statistics.median(told) / none - 1):+.1f} %"] for name, told in spans.items()])
    for name, why in failed.items():
        print(f"{name}: failed\n{why}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
