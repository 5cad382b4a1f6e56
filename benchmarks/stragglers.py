#!/usr/bin/env python3
"""Training with one rank that is k times slower: samples a second and seconds to a loss, in every mode and in DDP.

    python3 benchmarks/stragglers.py --python PYTHON --output rounds.json    # PYTHON has torch; 2, 4 ranks; k = 1, 2, 4
    python3 benchmarks/stragglers.py --ranks 2 --factors 1,4 --repeat 1 --modes sync,DDP
    python3 benchmarks/stragglers.py --from rounds.json                      # prints the tables of that run again

The GPT of examples/shakespeare on its text, 32 samples a step of all ranks, AdamW with 30 steps of warm-up, one thread
a rank. DDP begins with the same weights and draws the same samples (peers/known_gpt.py). Its losses must therefore
equal those of `sync`, which is checked before anything is timed. In every system the last rank is stopped (SIGSTOP) for
(k - 1)/k of each 10 ms (--period). Modes with servers have one more rank, the server. Each round runs every system, for
each number of ranks and each k. A cell is the median over the rounds.

- **samples a second**: the samples whose gradients were applied, over the time of --steps steps after the first 5. With
  `share = "auto"` they follow the first 20, because it has settled by then. The sum of the ranks' speeds is their rate
  if none waits. It is measured by independent runs of one rank, all at once, with the last run slowed down. With more
  ranks than cores it is the rate on these cores.
- **seconds to a loss**: the number of steps to a validation loss, from a separate run, times the step as above. The
  loss is of the first 64 windows, every 10 steps, in at most --give-up steps. If these steps do not depend on the order
  of ranks, one run without a slow rank counts them. A quorum and `async` have one run for each k in each round. A step
  of `async` is one of the slowest rank.

Three rounds of both numbers of ranks take about 55 minutes on two cores (2 ranks 30, 4 ranks 25), one round 20. Without
a Python that has torch, DDP is left out. --output keeps the figures of every run.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from peers.known_gpt import has
from support.checked_arguments import each_known, least
from support.raw_rounds import RawRounds, spread, widest
from straggler_modes import MODES, Stragglers
from support.training_run import find_zero, print_table

SAME = 1e-5  # relative difference of losses: more than rounding
ALONE = "the ranks alone, in sum"


def counted(ranks):
    return {2: "two ranks", 4: "four ranks"}.get(ranks, f"{ranks} ranks")


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--ranks", default="2,4", help="that compute")
    a.add_argument("--factors", default="1,2,4", help="the k")
    a.add_argument("--steps", type=int, default=30, help="timed steps of a run, after the first ones")
    a.add_argument("--samples", type=int, default=32, help="samples a step, of all ranks")
    a.add_argument("--loss", type=float, default=2.6, help="validation loss to be reached; 0: no such table")
    a.add_argument("--give-up", type=int, default=600, help="most steps to that loss")
    a.add_argument("--repeat", type=int, default=3, help="rounds; each runs all systems")
    a.add_argument("--modes", default="", help="run only modes with one of these words (word,word)")
    a.add_argument("--period", type=float, default=0.01, help="seconds from stop to stop")
    a.add_argument("--output", help="file for the figures of every run, as JSON")
    a.add_argument("--from", dest="measured", help="an earlier --output: print its tables, and run nothing")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that may have torch")
    args = a.parse_args()
    least(a, "--steps", args.steps, 1, "no step is measured")
    least(a, "--repeat", args.repeat, 1, "no round runs")
    each_known(a, "--modes", args.modes.split(","), [mode.name for mode in MODES])
    return args


# ---- measuring -------------------------------------------------------------------------------------------------------


def measure(args, bench, modes, rounds):
    counts, factors = (
        [int(count) for count in args.ranks.split(",")],
        [float(factor) for factor in args.factors.split(",")],
    )
    rounds.add(kind="asked", loss=args.loss, samples=args.samples, period=args.period)
    curves = [mode for mode in modes if mode.has_loss and args.loss > 0]
    for ranks in counts:
        for mode in curves:
            if not mode.depends_on_speed:
                rounds.add(
                    kind="curve", ranks=ranks, k=None, round=None, system=mode.name, **bench.curve(mode, ranks, 1)
                )
        said = same_losses(rounds, ranks)
        if said:
            print(said, file=sys.stderr, flush=True)
    for number in range(args.repeat):
        for ranks in counts:
            for k in factors:
                where = {"ranks": ranks, "k": k, "round": number}
                rounds.add(kind="speed", **where, system=ALONE, rate=bench.alone(ranks, k))
                for mode in modes:
                    rounds.add(kind="speed", **where, system=mode.name, **bench.timing(mode, ranks, k))
                    if mode in curves and mode.depends_on_speed:
                        rounds.add(kind="curve", **where, system=mode.name, **bench.curve(mode, ranks, k))


def same_losses(rounds, ranks):
    """A line with the distance of DDP's losses from those of `sync`, or None without both. Exits if it is more than
    rounding."""
    curves = [rounds.of(kind="curve", ranks=ranks, system=name) for name in (MODES[0].name, "DDP")]
    if not all(curves):
        return None
    ours, theirs = (dict(found[0]["curve"]) for found in curves)
    steps = sorted(ours.keys() & theirs.keys())
    if not steps:
        return None
    most = max(abs(theirs[step] - ours[step]) / ours[step] for step in steps)
    if most > SAME:
        sys.exit(
            f"{ranks} ranks: DDP does not train as sync does: its losses differ by {most:.1e} of them: "
            f"{theirs} and {ours}"
        )
    return (
        f"{counted(ranks)}: DDP's losses differ from those of sync by {most:.0e} of them at most, "
        f"over {len(steps)} evaluations up to step {steps[-1]}"
    )


# ---- tables ----------------------------------------------------------------------------------------------------------


def seconds_to(curve, timing):
    """Seconds to the loss, or None if it was not reached."""
    steps = curve["steps"]
    if steps is None:
        return None
    after = steps - timing["warm_up"]
    return timing["first"] + after * timing["seconds"] if after > 0 else timing["first"] * steps / timing["warm_up"]


def to_loss(rounds, of_cell):
    """[(seconds or None, steps or None), one for each round]."""
    once = rounds.of(kind="curve", ranks=of_cell["ranks"], k=None, system=of_cell["system"])
    found = []
    for timing in rounds.of(kind="speed", **of_cell):
        curve = once or rounds.of(kind="curve", round=timing["round"], **of_cell)
        if curve:
            found.append((seconds_to(curve[0], timing), curve[0]["steps"]))
    return found


def loss_cell(found):
    if not found:
        return ""
    if any(seconds is None for seconds, _ in found):
        return "not reached"
    seconds, steps = zip(*found)
    return f"{statistics.median(seconds):.1f} ({statistics.median(steps):g})"


def share_cell(rounds, ranks, k, system):
    """Share of the ranks' sum in the same round, and samples a second."""
    rates = rounds.values("rate", kind="speed", ranks=ranks, k=k, system=system)
    sums = rounds.values("rate", kind="speed", ranks=ranks, k=k, system=ALONE)
    return f"{statistics.median(rate / total for rate, total in zip(rates, sums)):.2f} ({statistics.median(rates):.0f})"


def print_ranks(rounds, ranks):
    """Prints both tables of a number of ranks, as in docs/distributed.md."""
    asked = rounds.of(kind="asked")[0]
    names = list(dict.fromkeys(rounds.values("system", kind="speed", ranks=ranks)))
    factors = list(dict.fromkeys(rounds.values("k", kind="speed", ranks=ranks)))
    of = {(name, k): {"ranks": ranks, "k": k, "system": name} for name in names for k in factors}
    columns = [f"k = {k:g}" for k in factors]

    def spreads(what, values_of):
        for k in factors:
            found = {
                name: spread(values)
                for name in names
                if None not in (values := values_of(of[name, k])) and len(values) > 1
            }
            if found:
                print(f"k = {k:g}: {what} differs most between rounds by {widest(found)}")
        print()

    num_rounds = len(rounds.of(kind="speed", **of[names[0], factors[0]]))
    print(
        f"{counted(ranks)}, {num_rounds} rounds, {asked['samples']} samples a step, "
        f"stops every {1e3 * asked['period']:g} ms\n"
    )
    print_table(
        [f"share of the sum of speeds, {counted(ranks)} (samples a second)", *columns],
        [[name, *(share_cell(rounds, ranks, k, name) for k in factors)] for name in names],
    )
    spreads("a speed", lambda cell: rounds.values("rate", kind="speed", **cell))
    with_loss = [name for name in names if to_loss(rounds, of[name, factors[0]])]
    if with_loss:
        print_table(
            [f"seconds to a loss of {asked['loss']:g}, {counted(ranks)} (and steps)", *columns],
            [[name, *(loss_cell(to_loss(rounds, of[name, k])) for k in factors)] for name in with_loss],
        )
        spreads("a time", lambda cell: [seconds for seconds, _ in to_loss(rounds, cell)])
    said = same_losses(rounds, ranks)
    if said:
        print(said + "\n", flush=True)


def main():
    args = arguments()
    words = args.modes.split(",")
    if args.measured:
        rounds = RawRounds.read(args.measured)
    else:
        rounds = RawRounds(args.output)
        modes = [
            mode
            for mode in MODES
            if any(word in mode.name for word in words) and (mode.keys is not None or has(args.python, "torch"))
        ]
        with tempfile.TemporaryDirectory() as folder:
            measure(args, Stragglers(args, Path(folder)), modes, rounds)
    for ranks in dict.fromkeys(rounds.values("ranks", kind="speed")):
        print_ranks(rounds, ranks)


if __name__ == "__main__":
    main()
