#!/usr/bin/env python3
"""A GPT on two machines with a slow link between them: what each system sends, how long a step takes, what it has learned.

    sudo python3 benchmarks/slow_link.py                                   # 50 and 500 Mbit/s, 300 steps
    sudo python3 benchmarks/slow_link.py --mbits 50 --steps 100 --python /path/with/torch/bin/python3

The machines are two network namespaces of this machine, joined by a cable that `tc` slows down in both directions. Each has one
rank, which talks over Gloo. All train the model of examples/shakespeare on its text: the same samples a step, AdamW with a
constant learning rate, one thread. "sent" is what the first machine's card counts, headers and all; "loss" the validation loss after
the last step, "seconds" all steps together, without the first. "of the prediction" is the measured step over what `zero plan
--cluster` says for that link, with the computation that a step took without any exchange. Beneath the table stand the ways that
`zero plan --cluster` chooses, beside the fastest that were measured: of those with the mathematics of one model, and of all that
were both planned and measured. Without a Python that has torch, the peers (DDP, and DDP with its PowerSGD hook of rank 4) are left out,
and without torchft in it (`pip install torchft`) its DiLoCo.
"""

import argparse
import contextlib
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from training_run import ROOT, find_zero, print_table

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCAB = 4, 128, 4, 64, 6, 256  # BATCH: of a rank
TEXT = ROOT / "examples/shakespeare/input.txt"
VALIDATION = 0.1
LR = 1e-3
ZERO = {"zero.cpp": {"zero.stage": 2},
        "zero.cpp, int8": {"zero.stage": 2, "comm.reduce_wire": "int8"},
        "zero.cpp, stage 3": {"zero.stage": 3},
        "zero.cpp, stage 3, int8": {"zero.stage": 3, "comm.gather_wire": "int8", "comm.reduce_wire": "int8"},
        "zero.cpp, copies": {"zero.stage": 0, "zero.group": 1},
        "zero.cpp, copies, int8": {"zero.stage": 0, "zero.group": 1, "comm.outer_wire": "int8"},
        "zero.cpp, copies, int4": {"zero.stage": 0, "zero.group": 1, "comm.outer_wire": "int4"},
        "zero.cpp, local 50": {"zero.stage": 0, "sync.mode": "local", "sync.local_steps": 50},
        "zero.cpp, local 10": {"zero.stage": 0, "sync.mode": "local", "sync.local_steps": 10},
        "zero.cpp, local 10, int8": {"zero.stage": 0, "sync.mode": "local", "sync.local_steps": 10, "comm.outer_wire": "int8"},
        "zero.cpp, local 10, on its way": {"zero.stage": 0, "sync.mode": "local", "sync.local_steps": 10, "sync.fragments": 2,
                                           "sync.overlap": 5}}
PEERS = {"DDP": "ddp", "DDP, PowerSGD": "powersgd"}
TORCHFT = {f"torchft, DiLoCo {steps}": f"diloco {steps}" for steps in (50, 10)}
ADDRESSES = ["10.78.0.1", "10.78.0.2"]
ADDRESS = ADDRESSES[0]


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--mbits", default="50,500")
    a.add_argument("--steps", type=int, default=300)
    a.add_argument("--only", default="", help="systems whose names contain this")
    a.add_argument("--zero", default=find_zero())
    a.add_argument("--python", default=sys.executable, help="a Python that may have torch")
    a.add_argument("--peer", help=argparse.SUPPRESS)
    a.add_argument("--report", help=argparse.SUPPRESS)
    return a.parse_args()


# ---- a rank of a peer ------------------------------------------------------------------------------------------------


def make_gpt():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attention, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (y.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2) for y in self.attention(self.ln_1(x)).chunk(3, -1))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, WIDTH))
            return x + self.down(nn.functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH)
            for name, p in self.named_parameters():
                if p.dim() >= 2:
                    nn.init.normal_(p, 0, 0.02 / (2 * LAYERS) ** 0.5 if "out." in name or "down." in name else 0.02)
                elif name.endswith("bias"):
                    nn.init.zeros_(p)

        def forward(self, x, targets):
            x = self.norm(self.blocks(self.tokens(x) + self.places(torch.arange(x.size(1)))))
            return nn.functional.cross_entropy((x @ self.tokens.weight.T).view(-1, VOCAB), targets.reshape(-1))

    return Gpt()


def over_ddp(model, system):
    """The model whose gradients DDP averages."""
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"tcp://{ADDRESS}:29600", rank=int(os.environ["RANK"]), world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=100)  # one bucket: over gloo, PowerSGD mixes up two
    if system == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
        model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2),
                                 powerSGD_hook.powerSGD_hook)
    return model


@contextlib.contextmanager
def over_torchft(model, optimizer, local_steps):
    """torchft's DiLoCo: each rank is a replica with a store of its own; they find each other through rank 0's lighthouse."""
    import torch
    import torch.distributed as dist
    from torchft import Manager, ProcessGroupGloo
    from torchft.coordination import LighthouseServer
    from torchft.local_sgd import DiLoCo
    rank = int(os.environ["RANK"])
    lighthouse = LighthouseServer(bind=f"{ADDRESS}:29700", min_replicas=2) if rank == 0 else None
    store = dist.TCPStore(ADDRESSES[rank], 29600, is_master=True, wait_for_workers=False)
    patience = datetime.timedelta(seconds=60)
    manager = Manager(pg=ProcessGroupGloo(timeout=patience), load_state_dict=lambda _: None, state_dict=dict, min_replica_size=2,
                      use_async_quorum=False, timeout=patience, rank=0, world_size=1, store_addr=ADDRESSES[rank], store_port=store.port,
                      lighthouse_addr=f"http://{ADDRESS}:29700", replica_id=f"replica{rank}", hostname=ADDRESSES[rank], init_sync=False)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    try:
        with DiLoCo(manager, [model], optimizer, outer, sync_every=local_steps, pin_memory=False):
            yield
    finally:
        manager.shutdown(wait=False)
        if lighthouse is not None:
            time.sleep(2)  # the other replica leaves first
            lighthouse.shutdown()


def peer_rank(system, steps, report):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank = int(os.environ["RANK"])
    model = make_gpt()
    trained = model if system.startswith("diloco") else over_ddp(model, system)
    decayed = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
               {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(decayed, lr=LR, betas=(0.9, 0.99))
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8).long()
    held_out = text[-int(len(text) * VALIDATION):]
    text = text[:-len(held_out)]
    torch.manual_seed(2 + rank)
    times = []
    with over_torchft(model, optimizer, int(system.split()[1])) if system.startswith("diloco") else contextlib.nullcontext():
        begin = time.perf_counter()
        for _ in range(steps):
            at = torch.randint(len(text) - CONTEXT - 1, (BATCH,))
            rows = torch.stack([text[i:i + CONTEXT + 1] for i in at])
            trained(rows[:, :-1], rows[:, 1:]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            end = time.perf_counter()
            times.append(end - begin)
            begin = end
    with torch.no_grad():
        rows = held_out[:(len(held_out) - 1) // CONTEXT * CONTEXT + 1]
        inputs, targets = rows[:-1].view(-1, CONTEXT), rows[1:].view(-1, CONTEXT)
        loss = sum(model(a, b).item() * len(a) for a, b in zip(inputs.split(64), targets.split(64))) / len(inputs)
    if rank == 0:
        Path(report).write_text(json.dumps({"times": times, "loss": loss}))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


# ---- two machines ----------------------------------------------------------------------------------------------------


class Hosts:
    """Two namespaces with a cable between them. rate(): bits a second each way; None: as fast as it goes."""

    def __init__(self):
        self.names = [f"zero-slow-{end}-{os.getpid()}" for end in "ab"]
        self.cards = [f"zs{end}{os.getpid()}" for end in "ab"]

    def __enter__(self):
        for name in self.names:
            self.ip("netns", "add", name)
        self.ip("link", "add", self.cards[0], "netns", self.names[0], "type", "veth", "peer", "name", self.cards[1], "netns",
                self.names[1])
        for i, (name, card) in enumerate(zip(self.names, self.cards)):
            self.ip("-n", name, "addr", "add", f"{ADDRESSES[i]}/24", "dev", card)
            for device in ("lo", card):
                self.ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def rate(self, mbits):
        for name, card in zip(self.names, self.cards):
            tc = ["ip", "netns", "exec", name, "tc", "qdisc"]
            subprocess.run([*tc, "del", "dev", card, "root"], check=False, capture_output=True)
            if mbits is not None:
                subprocess.run([*tc, "add", "dev", card, "root", "tbf", "rate", f"{mbits}mbit", "burst", "64kb", "latency", "300ms"],
                               check=True)

    def sent(self):
        counter = f"/sys/class/net/{self.cards[0]}/statistics/tx_bytes"
        return int(subprocess.run(["ip", "netns", "exec", self.names[0], "cat", counter], check=True, capture_output=True).stdout)

    def run(self, command_of):
        """One process a machine; command_of(rank) is a command. Raises with what a rank said when it failed."""
        before = self.sent()
        env = dict(os.environ, OMP_NUM_THREADS="1", ZERO_TOKEN="known to the ranks of a benchmark")
        ranks = [subprocess.Popen(["ip", "netns", "exec", name, "env", f"RANK={rank}", *map(str, command_of(rank))], cwd=ROOT,
                                  env=env | {"GLOO_SOCKET_IFNAME": self.cards[rank]}, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
                 for rank, name in enumerate(self.names)]
        said = [rank.communicate()[1] for rank in ranks]
        for rank, text in zip(ranks, said):
            if rank.returncode != 0:
                raise RuntimeError(text[-2000:])
        return self.sent() - before


def run_zero(args, hosts, keys, folder, steps):
    settings = {"train.steps": steps, "train.global_batch": 2 * BATCH, "train.eval_every": 0, "train.eval_batches": 0, "train.sample": 0,
                "train.log_every": steps, "data.validation": VALIDATION, "optimizer.lr": LR, "schedule.name": "constant",
                "schedule.warmup": 0, "run.threads": 1, "run.dir": folder / "run", "checkpoint.every": 0,
                "comm.transport": "gloo", **keys}
    flags = [f"--{key}={value}" for key, value in settings.items()]
    sent = hosts.run(lambda rank: [args.zero, "train", "examples/shakespeare/shakespeare.toml", "--overwrite", "--rank", rank,
                                   "--world-size", 2, "--local-rank", 0, "--local-world-size", 1, "--master-addr", ADDRESS,
                                   "--master-port", 29500, *flags])
    report = json.loads((folder / "run/report.json").read_text())
    steps = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    ends = [step["t"] for step in steps if "step_seconds" in step]
    # From end to end: between two steps ranks wait for each other, too.
    return {"times": [0] + [b - a for a, b in zip(ends, ends[1:])], "loss": report["val_loss"], "sent": sent}


def run_peer(args, hosts, system, folder, steps):
    report = folder / "peer.json"
    sent = hosts.run(lambda rank: [args.python, __file__, "--steps", steps, "--peer", system, "--report", report])
    return json.loads(report.read_text()) | {"sent": sent}


def predicted(args, keys, mbits, folder):
    """Seconds that a step's exchange takes by `zero plan --cluster`."""
    described = describe_cluster(mbits, folder)
    flags = [f"--{key}={value}" for key, value in {"train.global_batch": 2 * BATCH, **keys}.items()]
    done = subprocess.run([args.zero, "plan", "examples/shakespeare/shakespeare.toml", "--json", "--cluster", described, *flags],
                          check=True, capture_output=True, text=True, cwd=ROOT)
    found = json.loads(done.stdout)["cluster"]
    return found["ways"][found["planned"]]["exchange_seconds"]


def describe_cluster(mbits, folder):
    """The file of the two machines."""
    described = folder / "cluster.toml"
    described.write_text(f'[cluster]\nhosts = 2\nranks = 1\nnetwork = "{mbits / 8}MB"\nlatency_us = 100\n')
    return described


def way_of(keys):
    """What `zero plan --cluster --json` calls the way of these keys, as far as it tries it: (stage, group, local, codecs)."""
    local = keys.get("sync.mode") == "local"
    if local and (keys["sync.local_steps"] != 50 or "sync.overlap" in keys):
        return None  # other local steps than those that are tried
    wire = tuple(keys.get(f"comm.{kind}_wire", "none") for kind in ("gather", "reduce", "outer"))
    return keys["zero.stage"], keys.get("zero.group", 1 if local else 2), local, wire


def choices(args, mbits, folder, alone, measured):
    """Lines: what is chosen for this link beside what was fastest. measured: seconds of a step by system."""
    described = describe_cluster(mbits, folder)
    done = subprocess.run([args.zero, "plan", "examples/shakespeare/shakespeare.toml", "--json", "--cluster", described,
                           f"--train.global_batch={2 * BATCH}"], check=True, capture_output=True, text=True, cwd=ROOT)
    found = json.loads(done.stdout)["cluster"]
    none = {"gather": "none", "reduce": "none", "outer": "none"}
    planned = {(way["stage"], way["group"], way["local"], tuple(way.get("wire", none).values())): alone + way["exchange_seconds"]
               for way in found["ways"] if "sync" not in way}
    named = {way_of(keys): name for name, keys in ZERO.items() if name in measured}
    both = {way: name for way, name in named.items() if way in planned}
    lines = []
    for what, counts in [("one model", lambda way: not way[2] and set(way[3]) == {"none"}), ("all", lambda way: True)]:
        ways = [way for way in both if counts(way)]
        if not ways:
            continue
        chosen, fastest = min(ways, key=planned.get), min(ways, key=lambda way: measured[both[way]])
        said, took, least = (f"{1000 * seconds:.0f} ms" for seconds in (planned[chosen], measured[both[chosen]], measured[both[fastest]]))
        lines.append(f"{what}: zero plan chooses {both[chosen]} ({said}, measured {took}); fastest measured: {both[fastest]} ({least})")
    return lines


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def mean_step(run):
    return statistics.mean(run["times"][1:])


def main():
    args = arguments()
    if args.peer:
        peer_rank(args.peer, args.steps, args.report)
        return
    systems = {name: (lambda h, f, n, k=keys: run_zero(args, h, k, f, n)) for name, keys in ZERO.items()}
    peers = (PEERS if has(args.python, "torch") else {}) | (TORCHFT if has(args.python, "torchft") else {})
    systems |= {name: (lambda h, f, n, s=peer: run_peer(args, h, s, f, n)) for name, peer in peers.items()}
    systems = {name: run for name, run in systems.items() if args.only in name}
    with Hosts() as hosts, tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        # What computes without an exchange: copies that train apart, before their first outer step.
        alone = mean_step(run_zero(args, hosts, {"zero.stage": 0, "sync.mode": "local", "sync.local_steps": 1000}, folder, 40))
        for mbits in map(int, args.mbits.split(",")):
            hosts.rate(mbits)
            rows, measured = [], {}
            for name, run in systems.items():
                found = run(hosts, folder, args.steps)
                step = measured[name] = mean_step(found)
                ratio = step / (alone + predicted(args, ZERO[name], mbits, folder)) if name in ZERO else None
                rows.append([name, f"{1000 * step:.0f}", f"{found['sent'] / args.steps / 1e6:.3f}", f"{sum(found['times'][1:]):.1f}",
                             f"{found['loss']:.3f}", f"{ratio:.2f}" if ratio else ""])
            print(f"{mbits} Mbit/s, {args.steps} steps; a step without exchange takes {1000 * alone:.0f} ms\n")
            print_table(["", "step ms, mean", "MB sent a step", "seconds", "loss", "of the prediction"], rows)
            print("\n" + "\n".join(choices(args, mbits, folder, alone, measured)) + "\n")


if __name__ == "__main__":
    main()
