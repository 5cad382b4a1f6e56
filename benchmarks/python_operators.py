#!/usr/bin/env python3
"""The extra CPU time of an operator whose parameters are attached by the package zerocpp, in microseconds a call.

    PYTHONPATH=build/release/python python3 benchmarks/python_operators.py       # a Python that has torch; 1 minute
    PYTHONPATH=build/release/python python3 benchmarks/python_operators.py --calls 500 --repeat 3

One rank, one thread, small shapes: their arithmetic takes less time than the call. Each round measures a plain module
and attached modules of the same shapes in turn, and is printed. Forward calls run under no_grad(). "forward and
backward" has one F.linear and the gradients of its weight and bias; the engine drops its gradients (frozen()).
"""

import argparse
import json
import os
import statistics
import time

from support.training_run import print_table


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--calls", type=int, default=5000)
    a.add_argument("--repeat", type=int, default=5)
    a.add_argument("--width", type=int, default=64)
    a.add_argument("--json", help="file for the microseconds of all rounds")
    return a.parse_args()


def calls_of(model, width):
    """{operator: a function that calls it once}."""
    import torch
    from torch.nn import functional

    linear, norm, table = model
    x, row = torch.randn(4, width), torch.arange(4)

    def without_gradients(call):
        def run():
            with torch.no_grad():
                call()

        return run

    def both():
        functional.linear(x, linear.weight, linear.bias).backward(x)
        linear.weight.grad = linear.bias.grad = None

    return {
        "F.linear": without_gradients(lambda: functional.linear(x, linear.weight, linear.bias)),
        "F.layer_norm": without_gradients(lambda: functional.layer_norm(x, (width,), norm.weight, norm.bias)),
        "F.embedding": without_gradients(lambda: functional.embedding(row, table.weight)),
        "F.linear, forward and backward": both,
    }


def microseconds(call, count):
    begin = time.process_time()
    for _ in range(count):
        call()
    return 1e6 * (time.process_time() - begin) / count


def measure(calls, repeat, width):
    """One {operator: {"plain": microseconds, "stage 0": ..., "stage 3": ...}} for each round."""
    import torch
    import zerocpp as zero

    torch.set_num_threads(1)

    def made():
        return torch.nn.ModuleList(
            [torch.nn.Linear(width, width), torch.nn.LayerNorm(width), torch.nn.Embedding(8, width)]
        )

    models = {"plain": made(), "stage 0": made(), "stage 3": made()}
    engines = {name: zero.attach(model, stage=int(name[-1])) for name, model in models.items() if name != "plain"}
    operators = {name: calls_of(model, width) for name, model in models.items()}
    rounds = []
    for _ in range(repeat + 1):  # the first round warms up
        found = {}
        for operator in operators["plain"]:
            found[operator] = {"plain": microseconds(operators["plain"][operator], calls)}
            for name, engine in engines.items():
                with engine.frozen():
                    found[operator][name] = microseconds(operators[name][operator], calls)
        rounds.append(found)
    for engine in engines.values():
        engine.close()
    return rounds[1:]


def print_operators(rounds):
    table = []
    for number, found in enumerate(rounds):
        table += [
            [operator, f"{number}", *(f"{value:.2f}" for value in of.values()), f"{of['stage 3'] - of['plain']:+.2f}"]
            for operator, of in found.items()
        ]
    for operator in rounds[0]:
        middle = {name: statistics.median(found[operator][name] for found in rounds) for name in rounds[0][operator]}
        more = statistics.median(found[operator]["stage 3"] - found[operator]["plain"] for found in rounds)
        table.append([operator, "median", *(f"{value:.2f}" for value in middle.values()), f"{more:+.2f}"])
    print_table(["us of the processor a call", "round", "plain", "stage 0", "stage 3", "stage 3 - plain"], table)


def main():
    args = arguments()
    rounds = measure(args.calls, args.repeat, args.width)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rounds, file)
    print_operators(rounds)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
