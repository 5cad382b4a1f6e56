#!/usr/bin/env python3
"""A GPT on two machines with a slow link between them: bytes sent, step time, and time to a loss, for each system.

    sudo python3 benchmarks/slow_link.py --python /path/with/torch/bin/python3 --output rounds.json
    sudo python3 benchmarks/slow_link.py --mbits 50 --ranks 1 --repeat 1 --only local
    python3 benchmarks/slow_link.py --from rounds.json            # prints the tables of the first run again

The first command measures links of 50 and of 500 Mbit/s, and both shapes.

The machines are two network namespaces of this machine. `tc` slows their cable down in both directions. Ranks talk over
Gloo. All systems, including peers, train the model of examples/shakespeare on its text. They have the same first
weights, the same 12 samples a step, AdamW with a constant learning rate, and one thread a rank (peers/).

- **step ms, MB a machine sent a step**: means over the steps after the first, from the end of one step to the end of
  the next. The first machine's network card counts the bytes, with headers; the bytes of a separate run of the first
  step are subtracted. A cell is the median over the rounds; each round runs all systems. A run has --steps steps after
  the first. Systems that exchange in rounds have at least 50, so every round of 10 or 50 steps is complete. PowerSGD
  also has 50. Two first steps are left out for PowerSGD, which sends whole gradients in them, and for `stale`, which
  pulls no weights for its second step.
- **seconds to a loss**: the number of steps to a validation loss (480 windows, every 10 steps; at most --give-up
  steps), times the mean step. A separate run counts these steps, without a limit on the link, because learning does not
  depend on the link. `async` is the exception: it has one such run for each link. Local steps are evaluated with the
  weights that copies share, which change with each round; torchft is evaluated at the end of a round.
- **of the prediction**: the measured step over the prediction of `zero plan --cluster` for that link, with the measured
  computation of a step without any exchange. With two ranks a machine the plan also receives their rate within a
  machine (`within`). It is the bytes that groups of 2 exchange in a step, over the additional time of such a step. The
  comparison is with a step without any exchange, both while nothing crosses the link.

Lines below a table compare the choices of `zero plan --cluster` with the fastest measured systems. One is among systems
with the mathematics of one model, one among all that were both planned and measured. The next line is the largest
spread between rounds. The losses of pipelines, ours and torch's, are compared: they begin with the same weights and
read the same samples. The other lines divide the additional time of a step, compared with one without exchange, by the
time of its bytes at the link's rate. The ratio is near 1 for systems that send nothing while ranks compute, such as
outer steps without overlap. Sums of gradients begin within the backward pass, and gathers before a unit is used, so a
part of them may overlap. The second line is about them. Groups of 2 at stage 3 have no ratio, because no such step
without exchange was measured.

Each run prints a line with its figures on stderr; --output keeps all figures in a file. Without a Python that has
torch, the peers (DDP, and DDP with its PowerSGD hook of rank 4) are left out. Without torchft in it
(`pip install torchft==0.2.0`) its DiLoCo is left out. With two ranks a machine, a machine is a replica of torchft. Its
ranks average their gradients by DDP, and each sends the whole model over the link.

Three rounds of all systems take about 42 minutes on two cores: 19 with one rank a machine, and 23 with two.
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

from peers.known_gpt import CONFIG, has, prepare, train_flags
from support.checked_arguments import each_known, each_one_of, least
from support.linked_machines import ADDRESSES, LinkedMachines
from support.loss_curve import evals_of, first_below, steps_of
from support.raw_rounds import RawRounds, spread, widest
from support.training_run import ROOT, find_zero, print_table

SAMPLES = 12  # a step, of all ranks
EVALUATED = 480  # windows of validation text
EVAL_EVERY, LOSS_AFTER = 10, 100
ROUND = 50  # steps in the longest round of local steps
COPIES, LOCAL = {"zero.stage": 0, "zero.group": 1}, {"zero.stage": 0, "zero.group": 1, "sync.mode": "local"}
PAIRS, SERVED = {"zero.stage": 2, "zero.group": 2}, {"sync.servers": 1}
PIPELINE = {"parallel.pipeline": 2, "train.batch": 3, "train.accumulate": 4}
PAIRS_3 = {"zero.stage": 3, "zero.group": 2}  # the keys that zero plan tries with codecs and with local steps


@dataclasses.dataclass
class System:
    name: str
    keys: dict = None  # keys of zero.cpp
    peer: str = ""
    first: int = 1  # first steps, which differ from the rest
    fewest: int = 1  # fewest steps after the first ones

    def __post_init__(self):
        mode = (self.keys or {}).get("sync.mode")
        self.depends_on_link = mode == "async"
        self.has_curve = not self.peer.startswith("pipelining")  # it has the losses of one rank
        self.is_pipeline = "parallel.pipeline" in (self.keys or {})
        if mode == "local" or self.peer.startswith("diloco"):
            self.fewest = ROUND
        self.waits = mode == "local" and "sync.overlap" not in self.keys  # computes nothing while it exchanges


SETS = {
    1: [
        System("stage 2", {"zero.stage": 2}),
        System("stage 2, int8", {"zero.stage": 2, "comm.reduce_wire": "int8"}),
        System("stage 3", {"zero.stage": 3}),
        System("stage 3, int8 both ways", {"zero.stage": 3, "comm.gather_wire": "int8", "comm.reduce_wire": "int8"}),
        System("a pipeline, 4 micro-batches, 1f1b", PIPELINE),
        System("a pipeline, 4 micro-batches, auto", {**PIPELINE, "parallel.schedule": "auto"}),
        System("each rank a copy", COPIES),
        System("each rank a copy, int8 between copies", {**COPIES, "comm.outer_wire": "int8"}),
        System("each rank a copy, int4 between copies", {**COPIES, "comm.outer_wire": "int4"}),
        System("local steps, 50 a round", {**LOCAL, "sync.local_steps": 50}),
        System("local steps, 10 a round", {**LOCAL, "sync.local_steps": 10}),
        System("local steps, 10 a round, int8", {**LOCAL, "sync.local_steps": 10, "comm.outer_wire": "int8"}),
        System(
            "local steps, 10 a round, on their way while copies compute",
            {**LOCAL, "sync.local_steps": 10, "sync.fragments": 2, "sync.overlap": 5},
        ),
        System("DDP", peer="ddp"),
        System("DDP, PowerSGD of rank 4", peer="powersgd", first=2, fewest=ROUND),
        System("torch.distributed.pipelining, 4 micro-batches, 1f1b", peer="pipelining 1f1b"),
        System("torch.distributed.pipelining, 4 micro-batches, gpipe", peer="pipelining gpipe"),
        System("torchft's DiLoCo, 50 a round", peer="diloco 50"),
        System("torchft's DiLoCo, 10 a round", peer="diloco 10"),
    ],
    2: [
        System("stage 2, all ranks", {"zero.stage": 2, "zero.group": 0}),
        System("stage 2, groups of 2", PAIRS),
        System("stage 3, groups of 2", PAIRS_3),
        System("stage 3, groups of 2, int8 between groups", {**PAIRS_3, "comm.outer_wire": "int8"}),
        System(
            "stage 3, groups of 2, local steps, 50 a round", {**PAIRS_3, "sync.mode": "local", "sync.local_steps": 50}
        ),
        System(
            "stage 2, groups of 2, local steps, 10 a round, int8",
            {**PAIRS, "sync.mode": "local", "sync.local_steps": 10, "comm.outer_wire": "int8"},
        ),
        System(
            "stage 2, groups of 2, local steps, 10 a round, on their way",
            {**PAIRS, "sync.mode": "local", "sync.local_steps": 10, "sync.fragments": 2, "sync.overlap": 5},
        ),
        System("a server, stale, staleness 1", {**SERVED, "sync.mode": "stale", "sync.staleness": 1}, first=2),
        System("a server, async, staleness 4", {**SERVED, "sync.mode": "async", "sync.staleness": 4}),
        System("DDP", peer="ddp"),
        System("DDP, PowerSGD of rank 4", peer="powersgd", first=2, fewest=ROUND),
        System("torchft's DiLoCo between machines, 50 a round", peer="diloco 50"),
        System("torchft's DiLoCo between machines, 10 a round", peer="diloco 10"),
    ],
}
SHAPES = {1: "one rank a machine", 2: "two ranks a machine"}
# Systems that measure a step while nothing crosses the link.
APART = System("without exchange", {**LOCAL, "sync.local_steps": 1000})
GROUPS_APART = System("groups of 2, nothing between them", {**PAIRS, "sync.mode": "local", "sync.local_steps": 1000})


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--mbits", default="50,500")
    a.add_argument("--ranks", default="1,2", help="ranks of a machine: 1, 2, or both sets of systems")
    a.add_argument("--repeat", type=int, default=3, help="rounds; each runs all systems")
    a.add_argument("--steps", type=int, default=20, help="steps after the first; at least 50 for exchanges in rounds")
    a.add_argument("--loss", type=float, default=2.7, help="validation loss to be reached; 0: no such column")
    a.add_argument("--give-up", type=int, default=300, help="most steps to that loss")
    a.add_argument(
        "--only", default="", help="run only systems whose names contain this text, or one of several: 'pipelin|DDP'"
    )
    a.add_argument("--output", help="file for the figures of every run, as JSON")
    a.add_argument("--from", dest="measured", help="an earlier --output: print its tables, and run only zero plan")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that may have torch")
    args = a.parse_args()
    least(a, "--steps", args.steps, 1, "no step is measured")
    least(a, "--repeat", args.repeat, 1, "no round runs")
    ranks = args.ranks.split(",")
    each_one_of(a, "--ranks", ranks, [str(count) for count in SETS])
    each_known(
        a, "--only", args.only.split("|"), dict.fromkeys(system.name for each in ranks for system in SETS[int(each)])
    )
    if not args.measured and (reason := LinkedMachines.why_not()):
        a.error(reason)
    return args


class Bench:
    """Runs of the systems, between two machines with `ranks` ranks each."""

    def __init__(self, args, machines, folder):
        self.args, self.machines, self.folder = args, machines, folder
        self.ranks = 1

    def run(self, system, steps, until_loss=None):
        """{"times": seconds of steps, "sent": bytes, "evals": [[seconds, loss, step], ...]}. With `until_loss` the run
        is evaluated, and ends when it reaches that loss."""
        run = self.run_zero if system.keys is not None else self.run_peer
        return run(system, steps, until_loss)

    def run_zero(self, system, steps, until_loss):
        curve = until_loss is not None
        ranks = self.ranks
        keys = {
            "train.steps": steps,
            "train.log_every": steps,
            "run.dir": self.folder / "run",
            "comm.transport": "gloo",
            **system.keys,
        }
        if curve:
            keys |= {
                "train.eval_every": EVAL_EVERY,
                "train.log_every": EVAL_EVERY,
                "data.validation": self.folder / "validation.txt",
            }
        metrics = self.folder / "run/metrics.jsonl"
        metrics.unlink(missing_ok=True)
        command = [
            self.args.zero,
            "train",
            *train_flags(self.folder, SAMPLES, keys),
            "--overwrite",
            "--world-size",
            2 * ranks,
            "--local-world-size",
            ranks,
            "--master-addr",
            ADDRESSES[0],
            "--master-port",
            29500,
        ]
        sent = self.machines.run(
            lambda rank: [*command, "--rank", rank, "--local-rank", rank % ranks],
            ranks,
            (lambda: is_enough(evals_of(metrics), until_loss)) if curve else None,
        )
        ends = [step["t"] for step in steps_of(metrics)]
        # From end to end: ranks also wait for each other between two steps.
        return {
            "times": [0] + [b - a for a, b in zip(ends, ends[1:])],
            "sent": sent,
            "evals": evals_of(metrics),
            "losses": [step["loss"] for step in steps_of(metrics)] if system.is_pipeline else [],
        }

    def run_peer(self, system, steps, until_loss):
        report = self.folder / "peer.json"
        curve = until_loss is not None
        told = {
            "system": system.peer,
            "ranks": 2 * self.ranks,
            "steps": steps,
            "samples": SAMPLES,
            "folder": str(self.folder),
            "report": str(report),
            "addresses": ADDRESSES,
            "eval_every": EVAL_EVERY if curve else 0,
            "until_loss": until_loss,
            "at_least": LOSS_AFTER,
        }
        program = "peer_rank.py"
        if system.peer.startswith("pipelining"):
            program = "peer_pipeline_rank.py"
            told |= {"order": system.peer.split()[1], "micro_batches": 4}
        command = [self.args.python, ROOT / "benchmarks/peers" / program, json.dumps(told)]
        sent = self.machines.run(lambda rank: command, self.ranks)
        return json.loads(report.read_text()) | {"sent": sent}

    def curve(self, system):
        """{"steps": steps to the loss, or None; "loss": loss after 100 steps, or None}."""
        evals = self.run(system, self.args.give_up, self.args.loss)["evals"]
        reached = first_below(evals, self.args.loss)
        return {
            "steps": reached[2] if reached else None,
            "loss": next((loss for _, loss, step in evals if step == LOSS_AFTER), None),
            "curve": [[step, round(loss, 4)] for _, loss, step in evals],
        }

    def timing(self, system, sent_first):
        """{"seconds": a step, "sent": bytes a step, "ms": [each step], "losses": [those of a pipeline's steps]};
        sent_first: bytes of a run of only its first steps."""
        steps = max(self.args.steps, system.fewest)
        found = self.run(system, system.first + steps)
        times = found["times"][system.first :]
        return {
            "seconds": statistics.mean(times),
            "sent": (found["sent"] - sent_first) / steps,
            "ms": [round(1000 * t, 1) for t in times],
            "losses": found.get("losses", []),
        }


def is_enough(evals, loss):
    return bool(evals) and evals[-1][2] >= LOSS_AFTER and first_below(evals, loss) is not None


# ---- the prediction of `zero plan` -----------------------------------------------------------------------------------


class Planner:
    """`zero plan --cluster` for two machines of `ranks` ranks, whose step computes for `alone` seconds. `paired`:
    seconds of a step of groups of 2 that exchange nothing, if known."""

    def __init__(self, zero, folder, ranks, alone, paired=None):
        self.zero, self.folder, self.ranks, self.alone = zero, folder, ranks, alone
        self.within = None  # bytes a second
        if paired is not None and paired > alone:
            found = self.plan(1000, GROUPS_APART.keys)
            self.within = found["ways"][found["planned"]]["within_bytes"] / (paired - alone)

    def plan(self, mbits, keys):
        """The plan's [cluster] part for these keys, as a dictionary."""
        flops = 1e9
        for _ in range(2):  # the first run of the plan finds the flops of a step
            described = self.folder / "cluster.toml"
            described.write_text(
                f'[cluster]\nhosts = 2\nranks = {self.ranks}\nnetwork = "{mbits / 8}MB"\nlatency_us = 100\n'
                f"flops = {flops:.6e}\n" + (f'within = "{self.within / 1e6:.3f}MB"\n' if self.within else "")
            )
            done = subprocess.run(
                [
                    self.zero,
                    "plan",
                    CONFIG,
                    "--json",
                    "--cluster",
                    described,
                    *(f"--{key}={value}" for key, value in {"train.global_batch": SAMPLES, **keys}.items()),
                ],
                check=True,
                capture_output=True,
                text=True,
                cwd=ROOT,
            )
            found = json.loads(done.stdout)["cluster"]
            flops *= found["computation_seconds"] / self.alone
        return found


def predicted_step(found):
    """Predicted seconds of a step; with servers, of a clock."""
    way = found["ways"][found["planned"]]
    return way["sync"]["clock_seconds"] if "sync" in way else way["seconds"]


def name_of_way(way):
    """The values in the plan's JSON that identify a way."""
    if "sync" in way:
        return tuple(way["sync"][key] for key in ("mode", "servers", "staleness", "quorum"))
    none = {"gather": "none", "reduce": "none", "outer": "none"}
    return (
        way["stage"],
        way["group"],
        way["local"],
        way.get("secondary_group", 0),
        tuple(way.get("wire", none).values()),
    )


def way_of(keys, ranks):
    """name_of_way() for these keys, or None if the plan does not try them."""
    if "sync.servers" in keys:
        return keys["sync.mode"], keys["sync.servers"], keys["sync.staleness"], 0
    local = keys.get("sync.mode") == "local"
    if local and (keys["sync.local_steps"] != 50 or "sync.overlap" in keys):
        return None  # the plan tries other local steps
    wire = tuple(keys.get(f"comm.{kind}_wire", "none") for kind in ("gather", "reduce", "outer"))
    return keys["zero.stage"], keys.get("zero.group") or 2 * ranks, local, 0, wire


def choices(plan, systems, predicted, measured, ranks):
    """Lines that compare the choice for this link with the fastest system. predicted, measured: seconds of a step by
    name."""
    planned = {name_of_way(way): way["seconds"] for way in plan["ways"]}
    tried = {
        system.name: way_of(system.keys, ranks)
        for system in systems
        if system.keys is not None and not system.is_pipeline
    }
    both = {name: way for name, way in tried.items() if way in planned}
    one_model = {name: way for name, way in both.items() if len(way) == 5 and not way[2] and set(way[4]) == {"none"}}
    lines = []
    for what, ways in [("one model", one_model), ("all", both)]:
        if not ways:
            continue
        chosen, fastest = min(ways, key=lambda name: planned[ways[name]]), min(ways, key=measured.get)
        said, took, least = (
            f"{1000 * seconds:.0f} ms" for seconds in (predicted[chosen], measured[chosen], measured[fastest])
        )
        lines.append(
            f"{what}: zero plan chooses {chosen} ({said}, measured {took}); fastest measured: {fastest} ({least})"
        )
    return lines


# ---- the limit of the link's rate ------------------------------------------------------------------------------------


def without_exchange(system, ranks):
    """The system that measures steps like these without an exchange over the link, or None if there is none."""
    if ranks == 1 or system.keys.get("zero.group", 0) != 2:
        return APART
    return GROUPS_APART if system.keys["zero.stage"] == 2 else None


def over_bytes(step, apart, sent, mbits):
    """Additional time of a step compared with one without exchange, over the time of its bytes."""
    return (step - apart) / (8 * sent / (1e6 * mbits))


def exchange_lines(systems, ranks, link, rounds):
    """over_bytes of medians and of single rounds: a line for systems that send nothing while they compute, one for
    others."""
    cells = {True: [], False: []}
    for system in systems:
        apart = system.keys is not None and not system.is_pipeline and without_exchange(system, ranks)
        base = rounds.values("seconds", kind="apart", ranks=ranks, system=apart.name) if apart else []
        if not base:
            continue
        of_cell = {"kind": "step", "ranks": ranks, "mbits": link, "system": system.name}
        steps, sent = rounds.values("seconds", **of_cell), rounds.median("sent", **of_cell)
        single = [over_bytes(step, without, sent, link) for step, without in zip(steps, base)]
        median = over_bytes(statistics.median(steps), statistics.median(base), sent, link)
        cells[system.waits].append(f"{system.name} {median:.2f} ({min(single):.2f} to {max(single):.2f})")
    what = {True: "nothing is sent while ranks compute", False: "a part may cross while ranks compute"}
    return [
        f"a step's time beyond one without exchange, over bytes / bandwidth (in single rounds), "
        f"if {what[waits]}: {'; '.join(found)}"
        for waits, found in cells.items()
        if found
    ]


# ---- losses of pipelines ---------------------------------------------------------------------------------------------


EQUAL = 1e-6  # share of a loss: rounding of other orders of sums


def loss_lines(rounds, ranks, link):
    """A line for each peer's pipeline: the largest difference of its losses from ours (equal weights and samples)."""
    steps = [record for record in rounds.of(kind="step", ranks=ranks, mbits=link) if record.get("losses")]
    ours = [record for record in steps if not record["system"].startswith("torch")]
    if not ours:
        return []
    own = ours[0]["losses"]
    lines = []
    for record in steps:
        if record["system"] != ours[0]["system"] and record["round"] == ours[0]["round"]:
            both = list(zip(record["losses"], own))
            most = max(abs(theirs - mine) / mine for theirs, mine in both)
            said = f"equal to {EQUAL:g}" if most <= EQUAL else "DIFFERENT"
            lines.append(
                f"losses of {record['system']} and of {ours[0]['system']}: {said}, "
                f"at most {most:.1e} of a loss apart in {len(both)} steps"
            )
    return lines


# ---- tables ----------------------------------------------------------------------------------------------------------


def loss_cells(curve, step):
    """Seconds (and steps) to the loss, and the loss after 100 steps; empty without a curve."""
    if curve is None:
        return ["", ""]
    seconds = f"{curve['steps'] * step:.1f} ({curve['steps']})" if curve["steps"] else "not reached"
    return [seconds, f"{curve['loss']:.3f}" if curve["loss"] is not None else ""]


def measure(bench, systems, links, rounds):
    """Adds to `rounds` the curve of each system, and for each round its step and the steps without exchange."""
    asked, ranks, sent_first = bench.args.loss > 0, bench.ranks, {}
    bench.machines.rate(None)
    for system in systems:
        sent_first[system.name] = bench.run(system, system.first)["sent"]
        if asked and system.has_curve and not system.depends_on_link:
            rounds.add(kind="curve", ranks=ranks, mbits=None, system=system.name, **bench.curve(system))
    for number in range(bench.args.repeat):
        bench.machines.rate(None)
        for apart in [APART, GROUPS_APART][:ranks]:
            rounds.add(
                kind="apart", ranks=ranks, round=number, system=apart.name, seconds=bench.timing(apart, 0)["seconds"]
            )
        for link in links:
            bench.machines.rate(link)
            for system in systems:
                timing = bench.timing(system, sent_first[system.name])
                rounds.add(kind="step", ranks=ranks, mbits=link, round=number, system=system.name, **timing)
                if asked and system.depends_on_link and number == 0:
                    rounds.add(kind="curve", ranks=ranks, mbits=link, system=system.name, **bench.curve(system))


def print_shape(zero, folder, ranks, rounds):
    """Prints the tables of all links for `ranks` ranks a machine."""
    alone = rounds.median("seconds", kind="apart", ranks=ranks, system=APART.name)
    paired = rounds.median("seconds", kind="apart", ranks=ranks, system=GROUPS_APART.name) if ranks == 2 else None
    planner = Planner(zero, folder, ranks, alone, paired)
    apart = f"a step without exchange takes {1000 * alone:.0f} ms"
    if paired:
        apart += f", one of groups of 2 that exchange nothing {1000 * paired:.0f} ms"
    if planner.within:
        apart += f" (within a machine a rank sends {planner.within / 1e6:.0f} MB a second)"
    for link in dict.fromkeys(rounds.values("mbits", kind="step", ranks=ranks)):
        print(f"{len(rounds.of(kind='apart', ranks=ranks, system=APART.name))} rounds; {apart}\n")
        print_link(planner, link, rounds)


def print_link(planner, link, rounds):
    ranks = planner.ranks
    names = set(rounds.values("system", kind="step", ranks=ranks, mbits=link))
    systems = [system for system in SETS[ranks] if system.name in names]
    rows, measured, predicted, spreads = [], {}, {}, {}
    for system in systems:
        of_cell = {"kind": "step", "ranks": ranks, "mbits": link, "system": system.name}
        step = measured[system.name] = rounds.median("seconds", **of_cell)
        spreads[system.name] = spread(rounds.values("seconds", **of_cell))
        if system.keys is not None and not system.is_pipeline:
            predicted[system.name] = predicted_step(planner.plan(link, system.keys))
        curves = rounds.of(
            kind="curve", ranks=ranks, mbits=link if system.depends_on_link else None, system=system.name
        )
        rows.append(
            [
                system.name,
                f"{1000 * step:.0f}",
                f"{rounds.median('sent', **of_cell) / 1e6:.2f}",
                *loss_cells(curves[0] if curves else None, step),
                f"{step / predicted[system.name]:.2f}" if system.name in predicted else "",
            ]
        )
    loss = rounds.of(kind="asked")[0]["loss"]
    print_table(
        [
            f"{link} Mbit/s, {SHAPES[ranks]}",
            "step ms, mean",
            "MB a machine sent a step",
            f"seconds to a loss of {loss:g} (steps)",
            f"validation loss after {LOSS_AFTER} steps",
            "of the prediction",
        ],
        rows,
    )
    chosen = choices(planner.plan(link, {}), systems, predicted, measured, ranks)
    if len(rounds.of(**of_cell)) > 1:
        chosen.append(f"over {link} Mbit/s a step's mean differs most between rounds by {widest(spreads)}")
    chosen += exchange_lines(systems, ranks, link, rounds)
    chosen += loss_lines(rounds, ranks, link)
    print("\n".join(chosen) + "\n", flush=True)


def run_all(args, machines, folder, rounds):
    has_torch, has_torchft = has(args.python, "torch"), has(args.python, "torchft")
    bench = Bench(args, machines, folder)
    rounds.add(kind="asked", loss=args.loss)
    prepare(args.zero, folder, EVALUATED)
    for bench.ranks in map(int, args.ranks.split(",")):
        systems = [
            system
            for system in SETS[bench.ranks]
            if any(part in system.name for part in args.only.split("|"))
            and (not system.peer or (has_torchft if system.peer.startswith("diloco") else has_torch))
        ]
        if systems:
            measure(bench, systems, [int(link) for link in args.mbits.split(",")], rounds)


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends machines and ranks
    with tempfile.TemporaryDirectory() as path:
        if args.measured:
            rounds = RawRounds.read(args.measured)
        else:
            rounds = RawRounds(args.output)
            with LinkedMachines() as machines:
                run_all(args, machines, Path(path), rounds)
        for ranks in dict.fromkeys(rounds.values("ranks", kind="step")):
            print_shape(args.zero, Path(path), ranks, rounds)


if __name__ == "__main__":
    main()
