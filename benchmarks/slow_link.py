#!/usr/bin/env python3
"""A GPT on two machines with a slow link between them: what each system sends, how long a step takes, how long a loss.

    sudo python3 benchmarks/slow_link.py --python /path/with/torch/bin/python3       # 50 and 500 Mbit/s, one and two ranks a machine
    sudo python3 benchmarks/slow_link.py --mbits 50 --ranks 1 --repeat 1 --only local

The machines are two network namespaces of this machine, joined by a cable that `tc` slows down in both directions. Ranks talk over
Gloo. All train the model of examples/shakespeare on its text from the same first weights, with the same 12 samples a step, AdamW with a
constant learning rate, one thread a rank: peers, too (slow_link_peer.py).

- **step ms, MB a machine sent a step**: means over the steps after the first, from end to end of a step, as the first machine's card counts,
  headers and all; of the bytes those of a run of that first step alone are taken off. A cell is the median over the rounds, in which the
  systems take turns. A run has --steps such steps. Ways that exchange in rounds have at least 50, so that every round of 10 or 50 is whole,
  and PowerSGD, which begins with two steps of whole gradients, has 50, too. The first steps of PowerSGD and of `stale` are two: `stale`
  pulls no weights for the second.
- **seconds to a loss**: steps that a run of its own took to a validation loss (480 windows, every 10 steps; at most --give-up steps), times
  the mean step. That run has no limit on its link: what a way learns does not depend on the link. `async` is the one exception: it has such a
  run on each link. Local steps show the weights that copies share, which change with each round; torchft is evaluated where a round ends.
- **of the prediction**: the measured step over what `zero plan --cluster` says for that link, with the computation that a step took
  without any exchange.

Beneath a table stand the ways that `zero plan --cluster` chooses, beside the fastest that were measured: of those with the mathematics of one
model, and of all that were both planned and measured. A line on stderr for each run has all its figures. Without a Python that has torch,
the peers (DDP, and DDP with its PowerSGD hook of rank 4) are left out, and without torchft in it (`pip install torchft==0.2.0`) its DiLoCo.
"""

import argparse
import dataclasses
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from linked_machines import ADDRESSES, LinkedMachines
from slow_link_peer import BATCH, LR, SEED, texts
from time_to_loss import evals_of, first_below
from training_run import ROOT, find_zero, print_table

CONFIG = "examples/shakespeare/shakespeare.toml"
EVAL_EVERY, LOSS_AFTER = 10, 100
ROUND = 50  # steps: of the longest round of local steps
COPIES, LOCAL = {"zero.stage": 0, "zero.group": 1}, {"zero.stage": 0, "zero.group": 1, "sync.mode": "local"}
PAIRS, SERVED = {"zero.stage": 2, "zero.group": 2}, {"sync.servers": 1}


@dataclasses.dataclass
class System:
    name: str
    keys: dict = None  # of zero.cpp
    peer: str = ""
    first: int = 1     # steps that are not like the others
    fewest: int = 1    # steps after these

    def __post_init__(self):
        mode = (self.keys or {}).get("sync.mode")
        self.depends_on_link = mode == "async"
        if mode == "local" or self.peer.startswith("diloco"):
            self.fewest = ROUND


SETS = {1: [System("stage 2", {"zero.stage": 2}),
            System("stage 2, int8", {"zero.stage": 2, "comm.reduce_wire": "int8"}),
            System("stage 3", {"zero.stage": 3}),
            System("stage 3, int8 both ways", {"zero.stage": 3, "comm.gather_wire": "int8", "comm.reduce_wire": "int8"}),
            System("each rank a copy", COPIES),
            System("each rank a copy, int8 between copies", {**COPIES, "comm.outer_wire": "int8"}),
            System("each rank a copy, int4 between copies", {**COPIES, "comm.outer_wire": "int4"}),
            System("local steps, 50 a round", {**LOCAL, "sync.local_steps": 50}),
            System("local steps, 10 a round", {**LOCAL, "sync.local_steps": 10}),
            System("local steps, 10 a round, int8", {**LOCAL, "sync.local_steps": 10, "comm.outer_wire": "int8"}),
            System("local steps, 10 a round, on their way while copies compute",
                   {**LOCAL, "sync.local_steps": 10, "sync.fragments": 2, "sync.overlap": 5}),
            System("DDP", peer="ddp"),
            System("DDP, PowerSGD of rank 4", peer="powersgd", first=2, fewest=ROUND),
            System("torchft's DiLoCo, 50 a round", peer="diloco 50"),
            System("torchft's DiLoCo, 10 a round", peer="diloco 10")],
        2: [System("stage 2, all ranks", {"zero.stage": 2, "zero.group": 0}),
            System("stage 2, groups of 2", PAIRS),
            System("stage 2, groups of 2, int8 between groups", {**PAIRS, "comm.outer_wire": "int8"}),
            System("groups of 2, local steps, 50 a round", {**PAIRS, "sync.mode": "local", "sync.local_steps": 50}),
            System("a server, stale, staleness 1", {**SERVED, "sync.mode": "stale", "sync.staleness": 1}, first=2),
            System("a server, async, staleness 4", {**SERVED, "sync.mode": "async", "sync.staleness": 4}),
            System("DDP", peer="ddp")]}


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--mbits", default="50,500")
    a.add_argument("--ranks", default="1,2", help="of a machine: 1, 2, or both sets of systems")
    a.add_argument("--repeat", type=int, default=3, help="rounds, in which the systems take turns")
    a.add_argument("--steps", type=int, default=20, help="of a run, after the first; with rounds at least 50")
    a.add_argument("--loss", type=float, default=2.7, help="validation loss to which seconds are told; 0: leave that out")
    a.add_argument("--give-up", type=int, default=300, help="steps after which that loss is not reached")
    a.add_argument("--only", default="", help="systems whose names contain this")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that may have torch")
    return a.parse_args()


class Bench:
    """Runs of the systems, between two machines with `ranks` ranks each."""

    def __init__(self, args, machines, folder):
        self.args, self.machines, self.folder = args, machines, folder
        self.ranks = 1

    def prepare(self):
        """The two texts, and the weights with which every run begins: those of a step that moves nothing."""
        for name, text in zip(["train.txt", "validation.txt"], texts()):
            (self.folder / name).write_bytes(text)
        keys = {"train.steps": 1, "optimizer.lr": 0, "run.dir": self.folder / "first"}
        done = subprocess.run([self.args.zero, "train", CONFIG, "-n", "1", *self.flags(keys)], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)

    def flags(self, keys):
        always = {"train.global_batch": BATCH, "train.seed": SEED, "train.sample": 0, "train.eval_every": 0, "train.eval_batches": 0,
                  "data.path": self.folder / "train.txt", "data.validation": 0, "optimizer.lr": LR, "schedule.name": "constant",
                  "schedule.warmup": 0, "run.threads": 1, "checkpoint.every": 0}
        return [f"--{key}={value}" for key, value in {**always, **keys}.items()]

    def run(self, system, steps, until_loss=None):
        """{"times": seconds of steps, "sent": bytes, "evals": [[seconds, loss, step], ...]}; with `until_loss` it is evaluated, and ends
        when that is reached."""
        run = self.run_zero if system.keys is not None else self.run_peer
        return run(system, steps, until_loss)

    def run_zero(self, system, steps, until_loss):
        curve = until_loss is not None
        ranks = self.ranks
        keys = {"train.steps": steps, "train.log_every": steps, "run.dir": self.folder / "run", "comm.transport": "gloo", **system.keys}
        if curve:
            keys |= {"train.eval_every": EVAL_EVERY, "train.log_every": EVAL_EVERY, "data.validation": self.folder / "validation.txt"}
        metrics = self.folder / "run/metrics.jsonl"
        metrics.unlink(missing_ok=True)
        command = [self.args.zero, "train", CONFIG, "--overwrite", "--world-size", 2 * ranks, "--local-world-size", ranks, "--master-addr",
                   ADDRESSES[0], "--master-port", 29500, *self.flags(keys)]
        sent = self.machines.run(lambda rank: [*command, "--rank", rank, "--local-rank", rank % ranks], ranks,
                                 (lambda: is_enough(evals_of(metrics), until_loss)) if curve else None)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        ends = [line["t"] for line in lines if "step_seconds" in line]
        # From end to end: between two steps ranks wait for each other, too.
        return {"times": [0] + [b - a for a, b in zip(ends, ends[1:])], "sent": sent, "evals": evals_of(metrics)}

    def run_peer(self, system, steps, until_loss):
        report = self.folder / "peer.json"
        curve = until_loss is not None
        told = {"system": system.peer, "ranks": 2 * self.ranks, "steps": steps, "weights": str(self.folder / "first/model.safetensors"),
                "report": str(report), "eval_every": EVAL_EVERY if curve else 0, "until_loss": until_loss, "at_least": LOSS_AFTER}
        sent = self.machines.run(lambda rank: [self.args.python, ROOT / "benchmarks/slow_link_peer.py", json.dumps(told)], self.ranks)
        return json.loads(report.read_text()) | {"sent": sent}

    def curve(self, system):
        """{"steps": to the loss, or None; "loss": after 100 steps, or None}."""
        evals = self.run(system, self.args.give_up, self.args.loss)["evals"]
        reached = first_below(evals, self.args.loss)
        return {"steps": reached[2] if reached else None, "loss": next((loss for _, loss, step in evals if step == LOSS_AFTER), None),
                "curve": [[step, round(loss, 4)] for _, loss, step in evals]}

    def timing(self, system, sent_first):
        """{"step": seconds, "sent": bytes a step}; sent_first: bytes of a run of its first steps alone."""
        steps = max(self.args.steps, system.fewest)
        found = self.run(system, system.first + steps)
        return {"step": statistics.mean(found["times"][system.first:]), "sent": (found["sent"] - sent_first) / steps}


def is_enough(evals, loss):
    return bool(evals) and evals[-1][2] >= LOSS_AFTER and first_below(evals, loss) is not None


# ---- what `zero plan` says ---------------------------------------------------------------------------------------------


def plan_cluster(bench, mbits, keys, alone):
    """`zero plan --cluster` of these keys, as a dictionary, where a step computes for `alone` seconds."""
    flops = 1e9
    for _ in range(2):  # the first one says how many flops a step has
        described = bench.folder / "cluster.toml"
        described.write_text(f'[cluster]\nhosts = 2\nranks = {bench.ranks}\nnetwork = "{mbits / 8}MB"\nlatency_us = 100\nflops = {flops:.6e}\n')
        done = subprocess.run([bench.args.zero, "plan", CONFIG, "--json", "--cluster", described,
                               *(f"--{key}={value}" for key, value in {"train.global_batch": BATCH, **keys}.items())],
                              check=True, capture_output=True, text=True, cwd=ROOT)
        found = json.loads(done.stdout)["cluster"]
        flops *= found["computation_seconds"] / alone
    return found


def predicted_step(found):
    """Seconds of a step as planned: with servers those of a clock."""
    way = found["ways"][found["planned"]]
    return way["sync"]["clock_seconds"] if "sync" in way else way["seconds"]


def name_of_way(way):
    """What tells two ways apart in the plan's JSON."""
    if "sync" in way:
        return tuple(way["sync"][key] for key in ("mode", "servers", "staleness", "quorum"))
    none = {"gather": "none", "reduce": "none", "outer": "none"}
    return way["stage"], way["group"], way["local"], way.get("secondary_group", 0), tuple(way.get("wire", none).values())


def way_of(keys, ranks):
    """The same, of these keys, as far as the plan tries them."""
    if "sync.servers" in keys:
        return keys["sync.mode"], keys["sync.servers"], keys["sync.staleness"], 0
    local = keys.get("sync.mode") == "local"
    if local and (keys["sync.local_steps"] != 50 or "sync.overlap" in keys):
        return None  # other local steps than those that are tried
    wire = tuple(keys.get(f"comm.{kind}_wire", "none") for kind in ("gather", "reduce", "outer"))
    return keys["zero.stage"], keys.get("zero.group") or 2 * ranks, local, 0, wire


def choices(plan, systems, predicted, measured, ranks):
    """Lines: what is chosen for this link beside what was fastest. predicted, measured: seconds of a step by name."""
    planned = {name_of_way(way): way["seconds"] for way in plan["ways"]}
    tried = {system.name: way_of(system.keys, ranks) for system in systems if system.keys is not None}
    both = {name: way for name, way in tried.items() if way in planned}
    one_model = {name: way for name, way in both.items() if len(way) == 5 and not way[2] and set(way[4]) == {"none"}}
    lines = []
    for what, ways in [("one model", one_model), ("all", both)]:
        if not ways:
            continue
        chosen, fastest = min(ways, key=lambda name: planned[ways[name]]), min(ways, key=measured.get)
        said, took, least = (f"{1000 * seconds:.0f} ms" for seconds in (predicted[chosen], measured[chosen], measured[fastest]))
        lines.append(f"{what}: zero plan chooses {chosen} ({said}, measured {took}); fastest measured: {fastest} ({least})")
    return lines


# ---- tables ------------------------------------------------------------------------------------------------------------


def loss_cells(curve, step, asked):
    """Seconds (and steps) to the loss, and the loss after 100 steps."""
    if not asked:
        return ["", ""]
    seconds = f"{curve['steps'] * step:.1f} ({curve['steps']})" if curve["steps"] else "not reached"
    return [seconds, f"{curve['loss']:.3f}" if curve["loss"] is not None else ""]


def told(**figures):
    print(json.dumps(figures), file=sys.stderr, flush=True)


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def measure(bench, systems, links):
    """(seconds of a step without exchange, curves by name and link, {(name, link): [timings]})."""
    apart = System("without exchange", {**LOCAL, "sync.local_steps": 1000})
    alone, curves, timings, sent_first = [], {}, {}, {}
    asked = bench.args.loss > 0
    bench.machines.rate(None)
    for system in systems:
        sent_first[system.name] = bench.run(system, system.first)["sent"]
        if asked and not system.depends_on_link:
            curve = bench.curve(system)
            curves |= {(system.name, link): curve for link in links}
            told(ranks=bench.ranks, system=system.name, **curve)
    for number in range(bench.args.repeat):
        bench.machines.rate(None)
        alone.append(bench.timing(apart, 0)["step"])
        told(ranks=bench.ranks, round=number, alone=alone[-1])
        for link in links:
            bench.machines.rate(link)
            for system in systems:
                timing = bench.timing(system, sent_first[system.name])
                timings.setdefault((system.name, link), []).append(timing)
                told(ranks=bench.ranks, mbits=link, round=number, system=system.name, **timing)
                if asked and system.depends_on_link and number == 0:
                    curves[system.name, link] = bench.curve(system)
                    told(ranks=bench.ranks, mbits=link, system=system.name, **curves[system.name, link])
    return statistics.median(alone), curves, timings


def print_link(bench, systems, link, alone, curves, timings):
    args = bench.args
    rows, measured, predicted, spread = [], {}, {}, {}
    for system in systems:
        runs = timings[system.name, link]
        steps = [run["step"] for run in runs]
        step = measured[system.name] = statistics.median(steps)
        spread[system.name] = (max(steps) - min(steps)) / step
        if system.keys is not None:
            predicted[system.name] = predicted_step(plan_cluster(bench, link, system.keys, alone))
        rows.append([system.name, f"{1000 * step:.0f}", f"{statistics.median(run['sent'] for run in runs) / 1e6:.3f}",
                     *loss_cells(curves.get((system.name, link)), step, args.loss > 0),
                     f"{step / predicted[system.name]:.2f}" if system.name in predicted else ""])
    shape = "one rank a machine" if bench.ranks == 1 else "two ranks a machine"
    print(f"{args.repeat} rounds; a step without exchange takes {1000 * alone:.0f} ms\n")
    print_table([f"{link} Mbit/s, {shape}", "step ms, mean", "MB a machine sent a step", f"seconds to a loss of {args.loss:g} (steps)",
                 f"validation loss after {LOSS_AFTER} steps", "of the prediction"], rows)
    plan = plan_cluster(bench, link, {}, alone)
    widest = max(spread, key=spread.get)
    print("\n".join([*choices(plan, systems, predicted, measured, bench.ranks),
                     f"a step's mean differs most between rounds by {100 * spread[widest]:.0f} % of its median: {widest}"]) + "\n", flush=True)


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # machines and ranks do not outlive it
    has_torch, has_torchft = has(args.python, "torch"), has(args.python, "torchft")
    links = [int(link) for link in args.mbits.split(",")]
    with LinkedMachines() as machines, tempfile.TemporaryDirectory() as path:
        bench = Bench(args, machines, Path(path))
        bench.prepare()
        for bench.ranks in map(int, args.ranks.split(",")):
            systems = [system for system in SETS[bench.ranks]
                       if args.only in system.name and (not system.peer or (has_torchft if system.peer.startswith("diloco") else has_torch))]
            found = measure(bench, systems, links) if systems else None
            for link in links if found else []:
                print_link(bench, systems, link, *found)


if __name__ == "__main__":
    main()
