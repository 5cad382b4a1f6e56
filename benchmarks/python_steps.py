#!/usr/bin/env python3
"""A step of the package zerocpp, DDP, FSDP2 and DeepSpeed's ZeRO-3 on the CPU: overhead over compute, and memory.

    python3 benchmarks/python_steps.py --python PYTHON                   # GPT-2 (124M) and a tiny GPT, 5 rounds
    python3 benchmarks/python_steps.py --python PYTHON --models tiny --repeat 2 --steps 6
    python3 benchmarks/python_steps.py --from rounds.json                # the tables of an earlier run (--output)

PYTHON has torch 2.11, and for DeepSpeed's row deepspeed 0.19.8. The package is that of build/release, or of --package.
Weights, samples, optimizer and clipping are those of peer_steps.py. All losses must therefore agree; the last column
shows it. GPT-2 has 1 sample of 128 tokens a rank, the tiny GPT 4 samples of 64. All systems are measured in each round,
in an order that rotates.

overhead     the median step of a run without its first three, less that of `compute` in the same round. `compute` is
             forward and backward on as many processes as there are ranks, without exchange and update. With --over
             "compute, one process" it is a single process, which does not share the caches
of FSDP2's   our overhead divided by FSDP2's, the median over the rounds of that ratio. Stage 0 is compared with DDP
of C++'s     our step divided by that of `zero train`, which trains the same model in C++ and keeps memory
PSS          memory of a rank at the end, with its part of shared pages. Peak RSS counts these pages in both ranks
arena        with zero.keep_memory(), which keeps large tensors in an arena, as `zero train` does
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from peers.known_gpt import has
from peers.peer_step_rank import MODELS, WARM_UP
from peer_steps import Bench
from support.checked_arguments import each_known, each_one_of, least
from support.raw_rounds import RawRounds
from support.training_run import ROOT, find_zero, mib, print_table

OURS = {
    "zerocpp 0": "zerocpp0",
    "zerocpp 3": "zerocpp3",
    "zerocpp 3 min": "zerocpp3-min",
    "zerocpp 3 arena": "zerocpp3-arena",
    "zerocpp 3 min arena": "zerocpp3-min-arena",
}
PEERS = {"DDP": "ddp", "FSDP2": "fsdp2", "DeepSpeed ZeRO-3": "ds3"}
IN_CPP = {"zero train 3": {"zero.stage": 3}, "zero train 3 min": {"zero.stage": 3, "zero.device_memory": "min"}}
SAME_IN_CPP = {"zerocpp 3 arena": "zero train 3", "zerocpp 3 min arena": "zero train 3 min"}
COMPUTE, ALONE = "compute", "compute, one process"
MOST_OVERHEAD, MOST_MEMORY = 0.4, 0.9  # goals, as shares of the peers'
MOST_OVER_DDP, MOST_OVER_CPP = 1.0, 1.03


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--models", default="gpt2,tiny", help=f"of {', '.join(MODELS)}, with commas")
    a.add_argument("--ranks", type=int, default=2)
    a.add_argument("--steps", type=int, default=9, help="steps of a run; the first three do not count")
    a.add_argument("--repeat", type=int, default=5, help="rounds")
    a.add_argument("--systems", default="", help="run only rows of ours with one of these words (word,word)")
    a.add_argument("--stock-heap", action="store_true", help="the C library's default heap for all systems")
    a.add_argument("--over", choices=(COMPUTE, ALONE), default=COMPUTE)
    a.add_argument("--output", help="file for the figures of every run, as JSON")
    a.add_argument("--from", dest="measured", help="an earlier --output: print its tables, and run nothing")
    a.add_argument("--package", default=ROOT / "build/release/python", help="folder of the package zerocpp")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that has torch")
    args = a.parse_args()
    least(a, "--steps", args.steps, WARM_UP + 1, f"the first {WARM_UP} do not count")
    least(a, "--repeat", args.repeat, 1, "no round runs")
    each_known(a, "--systems", args.systems.split(","), OURS)
    each_one_of(a, "--models", args.models.split(","), MODELS)
    return args


def systems_of(bench, args):
    """{name: a function without arguments that runs the system}."""
    words = args.systems.split(",")
    found = {COMPUTE: lambda: bench.peer("compute"), ALONE: lambda: bench.peer("compute", ranks=1)}
    found |= {
        name: lambda s=system: bench.peer(s) for name, system in OURS.items() if any(word in name for word in words)
    }
    found |= {
        in_cpp: lambda keys=IN_CPP[in_cpp]: bench.zero(keys) for name, in_cpp in SAME_IN_CPP.items() if name in found
    }
    found |= {name: lambda s=system: bench.peer(s) for name, system in PEERS.items()}
    if not has(args.python, "deepspeed"):
        print("python_steps.py: left out for lack of deepspeed: DeepSpeed ZeRO-3", file=sys.stderr)
        del found["DeepSpeed ZeRO-3"]
    return found


def measure(args, rounds):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(args.package), os.environ.get("PYTHONPATH")]))
    if not has(args.python, "zerocpp"):
        sys.exit(f"python_steps.py: {args.python} finds no zerocpp in {args.package}")
    for model in args.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            own = argparse.Namespace(
                **{**vars(args), "model": model, "systems": COMPUTE, "offload": False, "disk": None}
            )
            systems = systems_of(Bench(own, Path(folder)), args)
            names = list(systems)
            for number in range(args.repeat):
                first = number % len(names)
                for name in names[first:] + names[:first]:
                    figures = systems[name]()
                    rounds.add(
                        model=model,
                        system=name,
                        round=number,
                        step=statistics.median(figures["times"][WARM_UP:]),
                        **figures,
                    )


# ---- tables ----------------------------------------------------------------------------------------------------------


def overheads(rounds, model, name, over):
    """Overhead of a system in each round."""
    step = {record["round"]: record["step"] for record in rounds.of(model=model, system=name)}
    floor = {record["round"]: record["step"] for record in rounds.of(model=model, system=over)}
    return {number: step[number] - floor[number] for number in sorted(step) if number in floor}


def has_peer(name, peer):
    """Whether a row of ours is compared with the peer: stage 0 with DDP, stage 3 with the others."""
    return name in OURS and peer in PEERS and (name == "zerocpp 0") == (peer == "DDP")


def shares(rounds, model, name, peer, over):
    """Our overhead divided by the peer's, for each round."""
    own, theirs = overheads(rounds, model, name, over), overheads(rounds, model, peer, over)
    return {number: own[number] / theirs[number] for number in own if theirs.get(number)}


def step_ratios(rounds, model, name, other):
    """The step of a system divided by that of another one, in each round."""
    steps = [{r["round"]: r["step"] for r in rounds.of(model=model, system=system)} for system in (name, other)]
    return [steps[0][number] / steps[1][number] for number in steps[0] if number in steps[1]]


def columns_of(rounds, model):
    order = [COMPUTE, ALONE, *OURS, *IN_CPP, *PEERS]
    known = {record["system"] for record in rounds.of(model=model)}
    return [name for name in order if name in known]


def print_rounds(rounds, model, over):
    names = columns_of(rounds, model)
    compared = [(name, peer) for name in names for peer in names if has_peer(name, peer)]
    steps = {
        name: {record["round"]: record["step"] for record in rounds.of(model=model, system=name)} for name in names
    }
    ratios = {pair: shares(rounds, model, *pair, over) for pair in compared}
    table = []
    for number in sorted(steps[over]):
        cells = [f"{1e3 * steps[name][number]:,.1f}" if number in steps[name] else "" for name in names]
        table.append(
            [
                f"{number}",
                *cells,
                *(f"{ratios[pair][number]:.2f}" if number in ratios[pair] else "" for pair in compared),
            ]
        )
    print_table([f"{model}, round: step ms", *names, *(f"overhead: {name} / {peer}" for name, peer in compared)], table)


def print_summary(rounds, model, over):
    names = columns_of(rounds, model)
    peers = [name for name in names if name in PEERS]
    known = rounds.of(model=model, system=next(name for name in names if name in OURS))[0]["losses"]
    table, missed = [], []
    for name in names:
        own = overheads(rounds, model, name, over)
        cells = [name, f"{1e3 * rounds.median('step', model=model, system=name):,.1f}"]
        cells.append("" if name in (COMPUTE, ALONE) else f"{1e3 * statistics.median(own.values()):,.1f}")
        for peer in peers:
            of_rounds = shares(rounds, model, name, peer, over).values() if has_peer(name, peer) else None
            ratio = statistics.median(of_rounds) if of_rounds else None
            cells.append("" if ratio is None else f"{ratio:.2f}")
            if ratio is not None and ratio > (MOST_OVER_DDP if peer == "DDP" else MOST_OVERHEAD):
                missed.append(f"{name}: overhead {ratio:.2f} of {peer}'s")
        in_cpp = SAME_IN_CPP.get(name)
        ratio = statistics.median(step_ratios(rounds, model, name, in_cpp)) if in_cpp in names else None
        cells.append("" if ratio is None else f"{ratio:.2f}")
        if ratio is not None and ratio > MOST_OVER_CPP:
            missed.append(f"{name}: step {ratio:.2f} of {in_cpp}'s")
        peak = rounds.median("peak_rss", model=model, system=name)
        cells.append(mib(peak))
        is_compared = has_peer(name, "FSDP2") and "FSDP2" in peers
        of_peer = peak / rounds.median("peak_rss", model=model, system="FSDP2") if is_compared else None
        cells.append("" if of_peer is None else f"{of_peer:.2f}")
        if of_peer is not None and of_peer > MOST_MEMORY and model != "tiny":  # tiny: torch's own memory
            missed.append(f"{name}: memory {of_peer:.2f} of FSDP2's")
        cells.append(mib(rounds.median("pss", model=model, system=name)))
        losses = rounds.of(model=model, system=name)[0]["losses"]
        cells.append("" if name in (COMPUTE, ALONE) else f"{max(abs(a - b) / b for a, b in zip(losses, known)):.0e}")
        table.append(cells)
    print_table(
        [
            f"{model}, medians",
            "step ms",
            "overhead ms",
            *(f"of {peer}'s" for peer in peers),
            "of C++'s",
            "peak RSS, MiB a rank",
            "of FSDP2's",
            "PSS, MiB a rank",
            "losses differ by",
        ],
        table,
    )
    print(
        f"goals: overhead at most {MOST_OVERHEAD} of each peer's, for stage 0 {MOST_OVER_DDP} of DDP's; memory at most "
        f"{MOST_MEMORY} of FSDP2's; step at most {MOST_OVER_CPP} of C++'s: "
        f"{'; '.join(missed) or 'all hold'}\n"
    )


def main():
    args = arguments()
    if args.measured:
        rounds = RawRounds.read(args.measured)
    else:
        rounds = RawRounds(args.output)
        measure(args, rounds)
    for model in dict.fromkeys(record["model"] for record in rounds.records):
        print_rounds(rounds, model, args.over)
        print_summary(rounds, model, args.over)


if __name__ == "__main__":
    main()
