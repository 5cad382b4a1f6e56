"""One `zero train` of a GPT: its keys, its result, and the reason if there is none.

    run = train(zero, {"model.layers": 24, "zero.stage": 3}, ranks=2, folder="/tmp/run", cap=2 << 30)
    run.ok, run.reason                       # False: "killed: out of memory"
    run.report["losses"], run.step_ms        # report.json; median after the first step
    run.use.held                             # under a cap: memory_cap.Use

zero: the command, "zero" or a path. Keys are those of `zero train --keys`. Without a cap the memory is not limited.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path

from support.memory_cap import MemoryCap, Use

ROOT = Path(__file__).resolve().parents[2]
BASE = {
    "model.name": "gpt2",
    "data.kind": "text",
    "data.path": ROOT / "examples/shakespeare/input.txt",
    "data.validation": 0,
    "train.eval_every": 0,
    "train.log_every": 1,
    "optimizer.lr": 3e-4,
    "schedule.name": "constant",
    "schedule.warmup": 0,
}
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def find_zero():
    """$ZERO_COMMAND, the release build's command, or the one on the path."""
    built = ROOT / "build/release/bin/zero"
    return os.environ.get("ZERO_COMMAND") or (str(built) if built.exists() else "zero")


def parse_bytes(text):
    """Number of bytes in a text such as "2.5GiB"; a plain number is bytes."""
    match = re.fullmatch(r"([0-9.]+)\s*([KMGT]iB|)", text)
    if not match:
        raise ValueError(f"no size: {text}")
    return int(float(match[1]) * UNITS[match[2]])


def mib(num_bytes):
    return f"{num_bytes / 2**20:,.0f}"


def flags(keys):
    return [f"--{key}={value}" for key, value in {**BASE, **keys}.items()]


def plan(zero, keys, ranks, profile=None):
    """`zero plan` as a dictionary; raises RuntimeError with the reason if the plan is refused."""
    known = ["--profile", str(profile)] if profile else []
    done = subprocess.run(
        [zero, "plan", "--json", "--world", str(ranks), *known, *flags(keys)], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"zero plan ended with {done.returncode}")
    return json.loads(done.stdout)


class Run:
    def __init__(self, folder, use):
        self.folder, self.use = Path(folder), use
        self.ok = use.status == 0
        self.reason = "" if self.ok else self.why()
        self.report = json.loads((self.folder / "report.json").read_text()) if self.ok else {}

    def why(self):
        if self.use.timed_out:
            return "took too long"
        if self.use.num_killed:
            return "killed: out of memory"
        said = [line.strip() for line in self.log().splitlines() if line.startswith(("zero ", "  "))]
        errors = [i for i, line in enumerate(said) if re.match(r"zero \w+: ", line)]
        return " ".join(said[errors[0] : errors[0] + 2]) if errors else f"exit status {self.use.status}"

    def log(self):
        return self.folder.with_suffix(".log").read_text(errors="replace")

    def metrics(self):
        """The steps of metrics.jsonl without the first, which warms up and records the trace."""
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [step for step in map(json.loads, lines) if "step_seconds" in step][1:]

    @property
    def step_ms(self):
        seconds = self.report["step_seconds"]
        return 1e3 * statistics.median(seconds[1:] or seconds)

    def most(self, key, part=None):
        """The largest value among the ranks; 0 if the report lacks the key."""
        return max((rank[part] if part else rank for rank in self.report.get(key, [0 if part is None else {part: 0}])))


def train(zero, keys, ranks, folder, cap=None, timeout=3600):
    """Trains; the log is beside the run's folder, and an older run there is replaced."""
    folder = Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        zero,
        "train",
        "-n",
        str(ranks),
        "--overwrite",
        f"--run.dir={folder}",
        "--checkpoint.every=0",
        *flags(keys),
    ]
    log = folder.with_suffix(".log")
    if cap is not None:
        with MemoryCap(cap) as group:
            return Run(folder, group.run(command, log, timeout))
    with open(log, "wb") as out:
        try:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=timeout)
            return Run(folder, Use(status=done.returncode))
        except subprocess.TimeoutExpired:
            return Run(folder, Use(status=-9, timed_out=True))


def print_table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "|".join(["---"] + ["--:"] * (len(head) - 1)) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)
