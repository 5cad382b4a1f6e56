#!/usr/bin/env python3
"""Trains a GPT under a hard memory cap with its states on disk, or finds the largest GPT that trains under a cap.

    sudo benchmarks/capacity.py --preset 0.35b                    # 5.7 GB of state in 2.5 GiB of memory
    sudo benchmarks/capacity.py --preset 1.3b --disk /nvme        # 21 GB of state in 8 GiB
    sudo benchmarks/capacity.py --largest 2GiB --width 512 --vocab 256                      # states only in memory
    sudo benchmarks/capacity.py --largest 2GiB --width 512 --vocab 256 --disk-memory 6GiB \\
      --device-memory 1600MiB                                     # states also on disk

The cap is that of a control group (support/memory_cap.py), which needs root. The model is built under the cap, unit by
unit. `held` counts the bytes that the kernel could not reclaim. A part of them is the ledger: memory of zero.cpp itself
(gathered units, staging, tiles of states on disk). The rest is libtorch's: activations, logits, gradients before their
reduction, and the program.
Exit status 0: it trains, and its losses fall (if there are several steps). With --largest, 0 means: at least 0.95 of
the formula.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile

from support.memory_cap import CapError
from support.training_run import find_zero, mib, parse_bytes, plan, train

CANNOT_RUN_HERE = 77  # exit status: no cap can be set, or the disk has no room
LEAST_OF_FORMULA = 0.95  # with --largest: smallest share of the formula's size with exit status 0
PRESETS = {
    "0.35b": {"layers": 24, "heads": 16, "width": 1024, "cap": "2.5GiB", "lr": 3e-4},
    "1.3b": {"layers": 24, "heads": 32, "width": 2048, "cap": "8GiB", "lr": 1e-5},
}
OPTIONS = {"layers": 24, "heads": 16, "width": 1024, "cap": "2.5GiB", "lr": 3e-4}


def model_keys(args, layers):
    return {
        "model.layers": layers,
        "model.width": args.width,
        "model.heads": args.heads,
        "model.vocab": args.vocab,
        "model.context": args.context,
        "data.context": args.context,
        "train.batch": args.batch,
        "train.steps": args.steps,
        "train.checkpoint_activations": "true",
        "optimizer.lr": args.lr,
        "zero.stage": 3,
    }


def all_on_disk(disk):
    return {
        "zero.disk": json.dumps([disk]),
        "zero.device_memory": "min",
        "zero.host_memory": "min",
        **{f"zero.{state}": "{disk = 1}" for state in ("parameter", "gradient", "optimizer")},
    }


def require_room(disk, num_bytes):
    free = shutil.disk_usage(disk).free
    if num_bytes > free:
        raise CapError(
            f"{disk} has {mib(free)} MiB free, and {mib(num_bytes)} are needed for state and weights: name a "
            "larger one with --disk"
        )


def ledger_bytes(report):
    """The most memory that zero.cpp held, summed over all ranks; both tiers are main memory here."""
    return sum(rank["total"] for key in ("peak_memory_bytes", "peak_host_memory_bytes") for rank in report.get(key, []))


def print_run(run, cap, planned, ranks):
    use = run.use
    print(f"cap          {mib(cap):>10} MiB")
    print(f"model        {planned['num_parameters'] / 1e6:>10,.1f} million parameters")
    print(
        f"state        {mib(16 * planned['num_parameters']):>10} MiB of fp32 on {ranks} rank{'s' * (ranks > 1)}, "
        f"{16 * planned['num_parameters'] / cap:.2f} of the cap"
    )
    print(f"trains       {'yes' if run.ok else 'no: ' + run.reason:>10}")
    print(
        f"held         {mib(use.held):>10} MiB at most: {mib(use.private)} of processes, {mib(use.shared)} shared by "
        "ranks"
    )
    print(f"with files   {mib(use.peak):>10} MiB, the kernel's own peak: cached files fill the rest of the cap")
    if not run.ok:
        return
    report, losses = run.report, run.report["losses"]
    ledger = ledger_bytes(report)
    print(f"  ledger     {mib(ledger):>10} MiB: gathered units, staging, tiles")
    print(f"  rest       {mib(use.held - ledger):>10} MiB: libtorch's tensors and the program")
    on_disk = sum(rank["total"] for rank in report.get("disk_bytes", []))
    print(f"on disk      {mib(on_disk):>10} MiB ({report.get('disk')})")
    print(
        f"step         {run.step_ms:>10,.0f} ms; reads {mib(sum(report.get('disk_read_bytes_per_step', [])))} MiB and "
        f"writes {mib(sum(report.get('disk_written_bytes_per_step', [])))} MiB, "
        f"waits {1e3 * run.most('disk_wait_seconds_per_step'):,.0f} ms for them"
    )
    print(
        f"losses       {' '.join(f'{loss:.3f}' for loss in losses)}"
        f" ({'falling' if losses[-1] < losses[0] else 'not falling'})"
    )


def train_capped(args, folder):
    cap = parse_bytes(args.cap)
    keys = {**model_keys(args, args.layers), **all_on_disk(folder)}
    planned = plan(args.zero, keys, args.ranks)
    require_room(folder, (16 + 4) * planned["num_parameters"])
    run = train(args.zero, keys, args.ranks, f"{folder}/run", cap, args.timeout)
    print_run(run, cap, planned, args.ranks)
    if not run.ok:
        sys.stderr.write(run.log()[-2000:])
    losses = run.report["losses"] if run.ok else []
    return 0 if run.ok and (len(losses) < 2 or losses[-1] < losses[0]) else 1


def largest(fits):
    """The largest count for which fits(count) is true, found by doubling and halving; 0 if there is none."""
    good, bad = 0, 1
    while fits(bad):
        good, bad = bad, 2 * bad
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def find_largest(args, folder):
    cap, on_disk = parse_bytes(args.largest), parse_bytes(args.disk_memory)
    sized = (args.device_memory or "auto")[0].isdigit()
    in_memory = args.ranks * parse_bytes(args.device_memory) if sized else cap
    budget = in_memory + args.ranks * on_disk
    args.steps = 1
    where = {"zero.device_memory": args.device_memory or ("auto" if on_disk else "min")}
    if on_disk:
        require_room(folder, args.ranks * on_disk)
        where |= {"zero.disk": json.dumps([folder]), "zero.disk_memory": f"{on_disk}B"}
    runs = {}

    def state_bytes(layers):
        return 16 * plan(args.zero, model_keys(args, layers), args.ranks)["num_parameters"]

    def trains(layers):
        runs[layers] = run = train(
            args.zero, {**model_keys(args, layers), **where}, args.ranks, f"{folder}/run", cap, args.timeout
        )
        print(
            f"{layers:>6} layers, state {mib(state_bytes(layers)):>8} MiB: held {mib(run.use.held):>8} MiB, "
            f"{'trains' if run.ok else run.reason[:120]}",
            flush=True,
        )
        return run.ok

    formula, found = largest(lambda layers: state_bytes(layers) <= budget), largest(trains)
    print(
        f"\nbudget: {mib(in_memory)} MiB of memory and {mib(args.ranks * on_disk)} MiB of disk, "
        f"under a cap of {mib(cap)} MiB"
    )
    for name, layers in (("formula", formula), ("trains", found)):
        print(
            f"{name:<8} {layers:>5} layers, {mib(state_bytes(layers) if layers else 0):>8} MiB of state, "
            f"{(state_bytes(layers) if layers else 0) / budget:.3f} of the budget"
        )
    if not found:
        return 1
    run = runs[found]
    ledger, state = ledger_bytes(run.report), state_bytes(found)
    resident = state - sum(rank["total"] for rank in run.report.get("disk_bytes", []))
    print(
        f"memory:  {mib(run.use.held)} MiB held: state {mib(resident)}, gathered and staging {mib(ledger - resident)}, "
        f"libtorch's tensors and the program {mib(run.use.held - ledger)}"
    )
    return 0 if state >= LEAST_OF_FORMULA * state_bytes(formula) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=PRESETS, help="layers, heads, width, cap and learning rate")
    parser.add_argument("--largest", metavar="CAP", help="find the most layers that train a step under this cap")
    parser.add_argument("--cap", help=f"default {OPTIONS['cap']}")
    for name in ("layers", "width", "heads"):
        parser.add_argument(f"--{name}", type=int, help=f"default {OPTIONS[name]}")
    parser.add_argument("--lr", type=float)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--disk", help="folder for states and weights; default: the folder for temporary files")
    parser.add_argument("--disk-memory", default="0", help="with --largest: disk budget of a rank")
    parser.add_argument(
        "--device-memory",
        help="with --largest: zero.device_memory; a size is a rank's budget, "
        "otherwise the cap is the budget; default: min, with a disk auto",
    )
    parser.add_argument("--timeout", type=float, default=3600, help="time limit of a run in seconds")
    parser.add_argument("--zero", default=find_zero(), help="the command; default: that of the release build")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes all files and groups
    for name, value in {**OPTIONS, **PRESETS.get(args.preset, {})}.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    try:
        with tempfile.TemporaryDirectory(prefix="zero_capacity_", dir=args.disk) as folder:
            return find_largest(args, folder) if args.largest else train_capped(args, folder)
    except CapError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return CANNOT_RUN_HERE
    except (FileNotFoundError, RuntimeError, ValueError) as error:
        sys.exit(f"capacity.py: {error}")


if __name__ == "__main__":
    sys.exit(main())
