"""Modes of training with a slow rank, and their runs: speed, and the number of steps to a loss.

bench = Stragglers(args, folder)                # args: those of benchmarks/stragglers.py
bench.timing(MODES[0], ranks=2, k=4)            # {"seconds": of a step, "rate": samples a second, ...}
bench.curve(MODES[0], ranks=2, k=1)             # {"steps": to the loss, "curve": [[step, loss], ...]}
bench.alone(ranks=2, k=4)                       # samples a second of all ranks together, if none waits for another
"""

import dataclasses
import json
import sys

from peers.known_gpt import prepare, train_flags
from support.loss_curve import evals_of, first_below, steps_of
from support.slowed_run import run, run_beside
from support.training_run import ROOT

EVALUATED, EVAL_EVERY = 64, 10
LR_WARM_UP = 30  # steps until the learning rate has its full value
ENDLESS = 1000000


@dataclasses.dataclass
class Mode:
    name: str
    keys: dict = dataclasses.field(default_factory=dict)  # None: a peer
    servers: int = 0
    warm_up: int = 5  # steps before the timed ones
    depends_on_speed: bool = False  # whether the number of steps to a loss depends on speed
    has_loss: bool = True


MODES = [
    Mode("`sync`, equal shares"),
    Mode('`sync`, `train.share = "auto"`', {"train.share": "auto"}, warm_up=20),
    Mode("`sync`, shares of whole samples by k", {"train.share": "by k"}, has_loss=False),
    Mode("`sync`, a quorum of all but one", {"sync.quorum": "all but one"}, servers=1, depends_on_speed=True),
    Mode("`stale`, staleness 1", {"sync.mode": "stale", "sync.staleness": 1}, servers=1),
    Mode("`async`, staleness 2", {"sync.mode": "async", "sync.staleness": 2}, servers=1, depends_on_speed=True),
    Mode("`async`, staleness 1000", {"sync.mode": "async", "sync.staleness": 1000}, servers=1, depends_on_speed=True),
    Mode("`local`, 20 steps a round", {"sync.mode": "local", "sync.local_steps": 20}),
    Mode("DDP", None),
]


def shares_by(k, ranks, samples):
    """Shares of whole samples with which all ranks end together, if the last rank takes k times as long. Each sample
    goes to the rank that would end first."""
    paces, shares = [1.0] * (ranks - 1) + [k], [1] * ranks
    for _ in range(samples - ranks):
        first = min(range(ranks), key=lambda rank: (shares[rank] + 1) * paces[rank])
        shares[first] += 1
    return shares


def timing_of(ends, first, warm_up, steps, applied):
    """Times of a run whose steps ended at `ends`, and began `first` seconds before the first end. `applied`: samples of
    each step."""
    seconds = (ends[warm_up + steps - 1] - ends[warm_up - 1]) / steps
    return {
        "seconds": seconds,
        "rate": sum(applied[warm_up : warm_up + steps]) / steps / seconds,
        "warm_up": warm_up,
        "first": ends[warm_up - 1] - ends[0] + first,
    }


def rate_of(ends, warm_up):
    """Steps a second after the first steps."""
    return (len(ends) - warm_up) / (ends[-1] - ends[warm_up - 1])


class Stragglers:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        prepare(args.zero, folder, EVALUATED)

    def timing(self, mode, ranks, k):
        steps = mode.warm_up + self.args.steps
        if mode.keys is None:
            times = self.peer(mode, ranks, k, steps)["times"]
            ends = [sum(times[: i + 1]) for i in range(len(times))]
            return timing_of(ends, ends[0], mode.warm_up, self.args.steps, [self.args.samples] * steps)
        # A fast worker of `async` has taken more steps than the slowest.
        metrics = self.zero(mode, ranks, k, ENDLESS, lambda metrics: len(steps_of(metrics)) >= steps)
        lines = steps_of(metrics)
        own = self.args.samples // ranks
        applied = [
            own * sum(count or 0 for count in line["ranks"]["gradients"]) if "served" in line else self.args.samples
            for line in lines
        ]
        return timing_of(
            [line["t"] for line in lines], lines[0]["step_seconds"], mode.warm_up, self.args.steps, applied
        )

    def curve(self, mode, ranks, k):
        loss = self.args.loss
        if mode.keys is None:
            evals = self.peer(mode, ranks, k, self.args.give_up, eval_every=EVAL_EVERY, until_loss=loss)["evals"]
        else:
            evals = evals_of(
                self.zero(
                    mode,
                    ranks,
                    k,
                    self.args.give_up,
                    lambda metrics: first_below(evals_of(metrics), loss) is not None,
                    {"train.eval_every": EVAL_EVERY, "data.validation": self.folder / "validation.txt"},
                )
            )
        reached = first_below(evals, loss)
        return {"steps": reached[2] if reached else None, "curve": [[step, found] for _, found, step in evals]}

    def alone(self, ranks, k):
        warm_up, steps = 5, self.args.steps
        folders = [self.folder / f"alone{rank}" for rank in range(ranks)]
        for folder in folders:
            (folder / "metrics.jsonl").unlink(missing_ok=True)

        def ends():
            return [[line["t"] for line in steps_of(folder / "metrics.jsonl")] for folder in folders]

        run_beside(
            [
                self.command(1, self.args.samples // ranks, {"train.steps": ENDLESS, "run.dir": folder})
                for folder in folders
            ],
            0,
            k,
            lambda: min(map(len, ends())) >= warm_up + steps,
            self.args.period,
        )
        found = ends()
        # Only the time in which all run counts: with fewer runs each is faster.
        begin, end = max(times[warm_up - 1] for times in found), min(times[-1] for times in found)
        return self.args.samples // ranks * sum(rate_of([t for t in times if begin <= t <= end], 1) for times in found)

    def command(self, processes, samples, keys):
        keys = {"train.log_every": 1, **keys}
        return [
            self.args.zero,
            "train",
            *train_flags(self.folder, samples, keys, LR_WARM_UP),
            "-n",
            processes,
            "--overwrite",
        ]

    def zero(self, mode, ranks, k, steps, is_enough, more=None):
        """metrics.jsonl of a run that ends when is_enough(its path) is true."""
        keys = {**mode.keys, "train.steps": steps, "run.dir": self.folder / "run", **(more or {})}
        if mode.servers:
            keys["sync.servers"] = mode.servers
        if "sync.quorum" in keys:
            keys["sync.quorum"] = ranks - 1
        if keys.get("train.share") == "by k":
            keys["train.share"] = "[" + ",".join(map(str, shares_by(k, ranks, self.args.samples))) + "]"
        metrics = self.folder / "run/metrics.jsonl"
        metrics.unlink(missing_ok=True)
        processes = ranks + mode.servers
        run(
            self.command(processes, self.args.samples, keys),
            processes - 1,
            k,
            lambda: is_enough(metrics),
            self.args.period,
        )
        return metrics

    def peer(self, mode, ranks, k, steps, **asked):
        report = self.folder / "peer.json"
        report.unlink(missing_ok=True)
        told = {
            "system": mode.name.lower(),
            "ranks": ranks,
            "steps": steps,
            "samples": self.args.samples,
            "folder": str(self.folder),
            "report": str(report),
            "warm_up": LR_WARM_UP,
            **asked,
        }
        run(
            [
                self.args.python,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                ranks,
                ROOT / "benchmarks/peers/peer_rank.py",
                json.dumps(told),
            ],
            ranks - 1,
            k,
            report.exists,
            self.args.period,
        )  # some abort at exit
        if not report.exists():
            sys.exit(f"{mode.name} wrote no report")
        return json.loads(report.read_text())
