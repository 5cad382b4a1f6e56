#!/usr/bin/env python3
"""A step of LeNet-5, an LSTM and a BERT in zero.cpp and in PyTorch's DDP and FSDP2, in one run.

    python3 benchmarks/peer_workloads.py                                 # needs Python's torch 2.11 and numpy
    python3 benchmarks/peer_workloads.py --workloads bert --repeat 5 --steps 200

Each system trains the model of an example (EXAMPLES below) on the same digits, or on tokens of the same length, with
AdamW. It has two ranks, one thread each, through the machine's memory (gloo). Each round runs every system once. A cell
is the median over the rounds of a run's median step, without its first three. Peers use a C library that keeps freed
memory, as zero.cpp does. The last column is the largest peak memory of a rank.
"""

import argparse
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers.peer_step_rank import WARM_UP, keep_heap, over_ddp
from support.checked_arguments import each_one_of, least
from support.training_run import ROOT, find_zero

BATCH = 32  # of each rank
EXAMPLES = {
    name: f"examples/{example}/{example}.toml"
    for name, example in (("cnn", "mnist_cnn"), ("lstm", "mnist_lstm"), ("bert", "bert_classification"))
}
STAGES = {"zero.cpp 0": 0, "zero.cpp 3": 3}
PEERS = ("ddp", "fsdp2")


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--workloads", default="cnn,lstm,bert")
    a.add_argument("--steps", type=int, default=300)
    a.add_argument("--repeat", type=int, default=3)
    a.add_argument("--world", type=int, default=2)
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that has torch")
    a.add_argument("--peer", nargs=2, metavar=("SYSTEM", "WORKLOAD"), help=argparse.SUPPRESS)
    args = a.parse_args()
    least(a, "--steps", args.steps, WARM_UP + 1, f"the first {WARM_UP} do not count")
    least(a, "--repeat", args.repeat, 1, "no round runs")
    each_one_of(a, "--workloads", args.workloads.split(","), EXAMPLES)
    return args


# ---- a rank of a peer ------------------------------------------------------------------------------------------------


def digits():
    import numpy
    import torch

    folder = ROOT / "examples/mnist_mlp/data"
    images = numpy.frombuffer(gzip.open(next(folder.glob("*images-idx3-ubyte*"))).read()[16:], numpy.uint8)
    labels = numpy.frombuffer(gzip.open(next(folder.glob("*labels-idx1-ubyte*"))).read()[8:], numpy.uint8)
    return torch.tensor(images.reshape(-1, 28, 28) / 255.0, dtype=torch.float32), torch.tensor(labels, dtype=torch.long)


def make_model(workload):
    import torch
    from torch import nn

    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(28, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.types = nn.Embedding(4000, 128), nn.Embedding(16, 128), nn.Embedding(2, 128)
            self.norm = nn.LayerNorm(128, eps=1e-12)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(128, 2, 512, 0.0, "gelu", batch_first=True) for _ in range(2)
            )
            self.pooler, self.classifier = nn.Linear(128, 128), nn.Linear(128, 2)

        def forward(self, tokens):
            x = self.words(tokens) + self.places(torch.arange(16)) + self.types(torch.zeros_like(tokens))
            x = self.norm(x)
            for layer in self.layers:
                x = layer(x, src_key_padding_mask=tokens == 0)
            return self.classifier(self.pooler(x[:, 0]).tanh())

    if workload == "lstm":
        return Rows(), [nn.LSTM]
    if workload == "bert":
        return Encoder(), [nn.TransformerEncoderLayer]
    return nn.Sequential(
        nn.Unflatten(1, (1, 28)),
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    ), []


def peer_rank(system, workload, steps, report):
    keep_heap()
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model, blocks = make_model(workload)
    if system == "ddp":
        model = over_ddp(model)
    else:
        from torch.distributed.fsdp import fully_shard

        mesh = torch.distributed.init_device_mesh("cpu", (world,))
        for module in model.modules():
            if type(module) in blocks:
                fully_shard(module, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    if workload == "bert":
        inputs, targets = torch.randint(1, 4000, (4096, 16)), torch.randint(0, 2, (4096,))
    else:
        inputs, targets = digits()
    clip = None if workload == "cnn" else 1.0
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        first = (step * world + rank) * BATCH % (len(inputs) - BATCH)
        loss = torch.nn.functional.cross_entropy(model(inputs[first : first + BATCH]), targets[first : first + BATCH])
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=system != "ddp")  # DDP's gradients are views of its buckets
        times.append(time.perf_counter() - begin)
    peak = torch.tensor([float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024])
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    if rank == 0:
        Path(report).write_text(
            json.dumps({"step_ms": 1000 * statistics.median(times[WARM_UP:]), "peak": peak.item(), "loss": loss.item()})
        )
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads abort some processes that destroy their groups


# ---- the table -------------------------------------------------------------------------------------------------------


def run_peer(args, system, workload, folder):
    report = folder / "peer.json"
    command = [
        args.python,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(args.world),
        __file__,
        "--steps",
        str(args.steps),
        "--peer",
        system,
        workload,
    ]
    subprocess.run(
        command, check=True, capture_output=True, env=dict(os.environ, OMP_NUM_THREADS="1", REPORT=str(report))
    )
    return json.loads(report.read_text())


def run_zero(args, stage, workload, folder):
    flags = {
        "train.steps": args.steps,
        "train.global_batch": BATCH * args.world,
        "train.eval_every": 0,
        "data.validation": 0,
        "train.log_every": args.steps,
        "zero.stage": stage,
        "run.threads": 1,
        "run.dir": folder / "run",
        "checkpoint.every": 0,
        "schedule.name": "constant",
        "schedule.warmup": 0,
    }
    if workload == "cnn":
        flags |= {"data.augment": "none", "train.epochs": 0, "train.clip": 0}
    command = [args.zero, "train", EXAMPLES[workload], "-n", str(args.world), "--overwrite"]
    subprocess.run(
        command + [f"--{key}={value}" for key, value in flags.items()], check=True, capture_output=True, cwd=ROOT
    )
    report = json.loads((folder / "run/report.json").read_text())
    return {"step_ms": 1000 * report["step_s_median"], "peak": max(report["peak_rss"]), "loss": report["losses"][-1]}


def main():
    args = arguments()
    if args.peer:
        peer_rank(*args.peer, args.steps, os.environ["REPORT"])
        return
    systems = {name: (lambda w, f, s=stage: run_zero(args, s, w, f)) for name, stage in STAGES.items()}
    systems |= {name: (lambda w, f, s=name: run_peer(args, s, w, f)) for name in PEERS}
    print(f"{args.world} ranks, {args.steps} steps, medians of {args.repeat} rounds\n")
    print("| workload | system | step ms | of ddp's | of fsdp2's | peak RSS MiB | loss |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for workload in args.workloads.split(","):
            runs = {name: [] for name in systems}
            for _ in range(args.repeat):
                for name, run in systems.items():
                    runs[name].append(run(workload, Path(folder)))
            step = {name: statistics.median(run["step_ms"] for run in found) for name, found in runs.items()}
            for name, found in runs.items():
                print(
                    f"| {workload} | {name} | {step[name]:.2f} | {step[name] / step['ddp']:.2f} | "
                    f"{step[name] / step['fsdp2']:.2f} | "
                    f"{max(run['peak'] for run in found) / 2**20:.0f} | {found[-1]['loss']:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
