#!/usr/bin/env python3
"""Predicted and measured step times of placements, and the chosen placement against random ones.

    benchmarks/prediction.py                  # twelve placements of two models
    benchmarks/prediction.py --random 50      # the chosen placement and 50 random ones under the same budgets
    benchmarks/prediction.py --muon           # updates by Muon, in models of several widths

The prediction is `zero plan --profile RUN`, with the computation of a run that has everything on the device, and
transfers at the rates probed on this machine. The measurement is the median step of a run without its first three. On a
shared machine some minutes are slow. Therefore a resident run comes right before each placement. All twelve placements
run --repeat times with new rates each time, and the median ratio of predicted to measured counts. The best three random
placements run --repeat times again, in turns with the chosen one. For Muon there is no profile. The plan probes each
shape of matrix, and is compared with the median update of a run right after it. Exit status 0: all are within 15 % (of
Muon's updates: 20 %), and the chosen placement is within 10 % of the best.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile

from support.training_run import find_zero, plan, train

TILES_KIB = 32 << 10  # host memory for transfers to and from the disk
MUON = [(4, 128), (2, 256), (1, 512), (1, 768), (1, 1024)]  # (layers, width)
MODELS = {
    "six layers of 512": {"model.layers": 6, "model.width": 512, "model.heads": 8, "train.batch": 2},
    "two layers of 1024": {"model.layers": 2, "model.width": 1024, "model.heads": 16, "train.batch": 4},
}
PLACEMENTS = [
    {"optimizer": (1, 0)},
    {"optimizer": (0, 0.25)},
    {"optimizer": (0, 0.5)},
    {"optimizer": (0, 1)},
    {"optimizer": (0.5, 0.5)},
    {"gradient": (1, 0), "optimizer": (1, 0)},
    {"gradient": (1, 0), "optimizer": (0, 1)},
    {"gradient": (0, 1), "optimizer": (0, 1)},
    {"parameter": (1, 0), "optimizer": (1, 0)},
    {"parameter": (0, 1)},
    {"parameter": (0, 0.5), "optimizer": (0, 0.5)},
    {"parameter": (0, 1), "gradient": (0, 1), "optimizer": (0, 1)},
]


def state_keys(placement):
    return {f"zero.{state}": f"{{host = {host}, disk = {disk}}}" for state, (host, disk) in placement.items()}


def words(placement):
    part = [
        f"{state} {share:.0%} on {tier}"
        for state, shares in placement.items()
        for tier, share in zip(("host", "disk"), shares)
        if share
    ]
    return ", ".join(part) or "all on the device"


class Model:
    def __init__(self, args, keys, folder):
        self.args, self.folder = args, folder
        self.keys = {"model.context": 64, "model.vocab": 256, "train.steps": args.steps, "zero.stage": 3, **keys}
        self.resident = dict(self.keys)
        self.profile = f"{folder}/resident"
        self.keys["zero.disk"] = json.dumps([folder])

    def look_at_computation(self):
        self.run(self.resident, self.profile)

    def look_at_rates(self):
        self.run({**self.keys, **state_keys({"optimizer": (0, 1)}), "zero.rates": "probe"}, f"{self.folder}/run")

    def run(self, keys, folder):
        run = train(self.args.zero, keys, self.args.ranks, folder)
        if not run.ok:
            raise RuntimeError(run.reason)
        return run

    def measured(self, keys):
        return self.run({**self.keys, **keys}, f"{self.folder}/run").report["step_s_median"]

    def predicted(self, keys):
        return plan(self.args.zero, {**self.keys, **keys}, self.args.ranks, self.profile)["predicted"]


def compare_placements(args, model, name):
    seen = [[] for _ in PLACEMENTS]  # (predicted, measured) of each round
    for _ in range(args.repeat):
        model.look_at_rates()
        for placement, pairs in zip(PLACEMENTS, seen):
            keys = state_keys(placement)
            model.look_at_computation()
            pairs.append((model.predicted(keys)["seconds"], model.measured(keys)))
    print(f"\n{name}\n\n| placement | predicted ms | measured ms | predicted / measured |\n|---|--:|--:|--:|")
    ratios = []
    for placement, pairs in zip(PLACEMENTS, seen):
        ratios.append(statistics.median(predicted / measured for predicted, measured in pairs))
        predicted, measured = (1e3 * statistics.median(column) for column in zip(*pairs))
        print(f"| {words(placement)} | {predicted:,.0f} | {measured:,.0f} | {ratios[-1]:.2f} |")
    print(
        f"\nwithin 15 %: {sum(abs(ratio - 1) <= 0.15 for ratio in ratios)} of {len(ratios)}; "
        f"median ratio {statistics.median(ratios):.2f}",
        flush=True,
    )
    return all(abs(ratio - 1) <= 0.15 for ratio in ratios)


def random_placement(draw, fraction_away, most_on_host):
    """Random shares of each state. About this fraction of all bytes (parameter 1, gradient 1, moments 2) is off the
    device, and at most `most_on_host` of them on the host."""
    shares = [draw.random() for _ in range(3)]
    scale = 4 * fraction_away / (shares[0] + shares[1] + 2 * shares[2])
    shares = [min(1, share * scale) for share in shares]
    if sum(weight * share for weight, share in zip((1, 1, 2), shares)) < 4 * fraction_away - 1e-6:
        return None
    on_host = [share * draw.random() for share in shares]
    scale = min(1, 4 * most_on_host * draw.random() / sum(weight * share for weight, share in zip((1, 1, 2), on_host)))
    pairs = ((round(host * scale, 4), round(share - host * scale, 4)) for share, host in zip(shares, on_host))
    return dict(zip(("parameter", "gradient", "optimizer"), pairs))


def compare_random(args, model, name):
    draw = random.Random(args.seed)
    budget = 1 - args.away
    model.look_at_rates()
    stage = next(row for row in plan(args.zero, model.keys, args.ranks)["stages"] if row["stage"] == 3)
    states = stage["memory_bytes"]["total"]
    largest = max(unit["gathered_bytes"] for unit in plan(args.zero, model.keys, args.ranks)["units"])
    device = int(budget * states) + 4 * largest  # also room for gathered and staged units
    # One budget a tier for all: units gathered ahead or kept, and transfers to the disk, also count.
    chosen_keys = {"zero.device_memory": f"{device >> 10}KiB", "zero.monitor": "false"}
    chosen_keys["zero.host_memory"] = f"{(int(args.host * states) >> 10) + TILES_KIB}KiB"
    others, refused = [], 0
    while len(others) < args.random:
        placement = random_placement(draw, args.away, args.host)
        if not placement:
            continue
        try:
            others.append((model.measured(chosen_keys | state_keys(placement)), placement))
        except RuntimeError as error:  # does not fit
            refused += 1
            if refused > args.random:
                raise error
    median = statistics.median(each[0] for each in others)
    finalists = [placement for _, placement in sorted(others, key=lambda each: each[0])[:3]]
    again = {place: [] for place in range(len(finalists))} | {"chosen": []}
    for _ in range(args.repeat):
        for place, seconds in again.items():
            seconds.append(model.measured(chosen_keys | ({} if place == "chosen" else state_keys(finalists[place]))))
    chosen = statistics.median(again.pop("chosen"))
    place, best = min(
        ((place, statistics.median(seconds)) for place, seconds in again.items()), key=lambda each: each[1]
    )
    print(
        f"\n{name}, {args.away:.0%} of the states off the device, at most {args.host:.0%} on the host: "
        f"chosen {1e3 * chosen:,.0f} ms; of {len(others)} random placements "
        f"the best {1e3 * best:,.0f} ms ({words(finalists[place])}), the median {1e3 * median:,.0f} ms; "
        f"chosen / best {chosen / best:.2f}; {refused} more did not fit",
        flush=True,
    )
    return chosen / best <= 1.1


def compare_muon(args):
    print("\n| GPT | shapes of matrices | predicted ms | measured ms | predicted / measured |\n|---|---|--:|--:|--:|")
    ratios = []
    for layers, width in MUON:
        keys = {
            "model.layers": layers,
            "model.width": width,
            "model.heads": 4,
            "model.context": 64,
            "model.vocab": 256,
            "train.steps": args.steps,
            "train.batch": 2,
            "zero.stage": 1,
            "optimizer.name": "muon",
            "zero.shards": args.shards,
        }
        pairs = []
        with tempfile.TemporaryDirectory(prefix="zero_prediction_", dir=args.disk) as folder:
            for _ in range(args.repeat):
                predicted = plan(args.zero, keys, args.ranks)["predicted"]["update"]["seconds"]
                run = train(args.zero, keys, args.ranks, f"{folder}/run")
                if not run.ok:
                    raise RuntimeError(run.reason)
                steps = [step["phase_seconds"]["update"] for step in run.metrics()]
                pairs.append((predicted, statistics.median(steps)))
        ratios.append(statistics.median(predicted / measured for predicted, measured in pairs))
        predicted, measured = (1e3 * statistics.median(column) for column in zip(*pairs))
        shapes = ", ".join(f"{rows * width} x {columns * width}" for rows, columns in ((3, 1), (1, 1), (4, 1), (1, 4)))
        name = f"{layers} layer{'s' * (layers > 1)} of {width}"
        print(f"| {name} | {shapes} | {predicted:,.1f} | {measured:,.1f} | {ratios[-1]:.2f} |", flush=True)
    return all(abs(ratio - 1) <= 0.2 for ratio in ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0, help="measure this number of random placements instead")
    parser.add_argument("--muon", action="store_true", help="compare updates by Muon instead")
    parser.add_argument("--shards", default="range", help="with --muon: zero.shards, for example whole")
    parser.add_argument(
        "--away", type=float, default=0.4, help="with --random: the fraction of all states off the device"
    )
    parser.add_argument("--host", type=float, default=0.1, help="with --random: the fraction that the host may hold")
    parser.add_argument("--repeat", type=int, default=3, help="number of repetitions")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--disk", help="folder for states; default: the folder for temporary files")
    parser.add_argument("--zero", default=find_zero(), help="the command; default: that of the release build")
    args = parser.parse_args()
    if args.muon:
        return 0 if compare_muon(args) else 1
    held = True
    for name, keys in MODELS.items():
        with tempfile.TemporaryDirectory(prefix="zero_prediction_", dir=args.disk) as folder:
            model = Model(args, keys, folder)
            held &= (compare_random if args.random else compare_placements)(args, model, name)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
