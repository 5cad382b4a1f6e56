"""A rank of a peer of benchmarks/slow_link.py: DDP, DDP with its PowerSGD hook, or torchft's DiLoCo, on the GPT of examples/shakespeare.

    slow_link_peer.py '{"system": "ddp", "ranks": 2, "steps": 21, "weights": "first/model.safetensors", "report": "peer.json", ...}'

It begins with the weights of a run of `zero train`, and draws the samples that such a run draws: the g-th window of a run depends on
the seed and g alone (zero/data/sample_order.h). What is left between the losses of DDP and of a synchronous run is rounding.
"""

import contextlib
import datetime
import json
import math
import os
import sys
import time
from pathlib import Path

from linked_machines import ADDRESSES
from training_run import ROOT

LAYERS, WIDTH, HEADS, CONTEXT, VOCAB = 4, 128, 4, 64, 256
BATCH = 12  # of all ranks
SEED = 1337
TEXT = ROOT / "examples/shakespeare/input.txt"
VALIDATION = 0.1
EVALUATED = 480  # windows of validation text, the first ones
LR = 1e-3
ALL_BITS = (1 << 64) - 1


def mixed(x):
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & ALL_BITS
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & ALL_BITS
    return x ^ (x >> 31)


def shuffled_offset(seed, g, count):
    """Where the g-th window of a run begins, of `count` places: zero/data/sample_order.cpp."""
    golden = 0x9e3779b97f4a7c15
    return mixed((mixed((seed + golden) & ALL_BITS) + (g + 1) * golden) & ALL_BITS) * count >> 64


def windows_of(step, rank, batch, size):
    """Where the windows of a rank's step begin, in a text of `size` tokens."""
    first = step * BATCH + rank * batch
    return [shuffled_offset(SEED, first + row, size - CONTEXT) for row in range(batch)]


def texts():
    """Bytes for training, and those for validation that are evaluated."""
    text = TEXT.read_bytes()
    begin = len(text) - math.ceil(len(text) * VALIDATION)
    return text[:begin], text[begin:begin + EVALUATED * CONTEXT + 1]


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

        def forward(self, x, targets):
            x = self.norm(self.blocks(self.tokens(x) + self.places(torch.arange(x.size(1)))))
            return nn.functional.cross_entropy((x @ self.tokens.weight.T).view(-1, VOCAB), targets.reshape(-1))

    return Gpt()


def name_in_file(name):
    """The name that a parameter of make_gpt() has in a GPT-2's file."""
    for here, there in [("tokens.", "wte."), ("places.", "wpe."), ("norm.", "ln_f."), ("blocks.", "h."), (".attention.", ".attn.c_attn."),
                        (".out.", ".attn.c_proj."), (".up.", ".mlp.c_fc."), (".down.", ".mlp.c_proj.")]:
        name = name.replace(here, there)
    return f"transformer.{name}"


def load(model, file):
    """Takes fp32 weights from a safetensors file; a GPT-2's matrices lie there the other way."""
    import torch
    data = Path(file).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    with torch.no_grad():
        for name, p in model.named_parameters():
            entry = header.pop(name_in_file(name))
            first, last = entry["data_offsets"]
            values = torch.frombuffer(bytearray(data[begin + first:begin + last]), dtype=torch.float32).view(entry["shape"])
            p.copy_(values.T if name.startswith("blocks.") and p.dim() == 2 else values)
    if set(header) - {"__metadata__"}:
        raise ValueError(f"{file} has weights that the peer's model lacks: {', '.join(header)}")


def over_ddp(model, system, ranks):
    """The model whose gradients DDP averages."""
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"tcp://{ADDRESSES[0]}:29600", rank=int(os.environ["RANK"]), world_size=ranks)
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
    lighthouse = LighthouseServer(bind=f"{ADDRESSES[0]}:29700", min_replicas=2) if rank == 0 else None
    store = dist.TCPStore(ADDRESSES[rank], 29600, is_master=True, wait_for_workers=False)
    patience = datetime.timedelta(seconds=60)
    manager = Manager(pg=ProcessGroupGloo(timeout=patience), load_state_dict=lambda _: None, state_dict=dict, min_replica_size=2,
                      use_async_quorum=False, timeout=patience, rank=0, world_size=1, store_addr=ADDRESSES[rank], store_port=store.port,
                      lighthouse_addr=f"http://{ADDRESSES[0]}:29700", replica_id=f"replica{rank}", hostname=ADDRESSES[rank],
                      init_sync=False)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    try:
        with DiLoCo(manager, [model], optimizer, outer, sync_every=local_steps, pin_memory=False):
            yield
    finally:
        manager.shutdown(wait=False)
        if lighthouse is not None:
            time.sleep(2)  # the other replica leaves first
            lighthouse.shutdown()


def rank_of_peer(system, ranks, steps, weights, report, eval_every, until_loss, at_least):
    """Evaluates every `eval_every` steps (0: never), and ends when the loss is reached after `at_least` steps. All ranks see the same
    loss: they have the same weights then, copies that train apart after an outer step, so they are evaluated after one alone."""
    import torch
    torch.set_num_threads(1)
    rank, batch = int(os.environ["RANK"]), BATCH // ranks
    model = make_gpt()
    load(model, weights)
    local_steps = int(system.split()[1]) if system.startswith("diloco") else 0
    trained = model if local_steps else over_ddp(model, system, ranks)
    decayed = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
               {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(decayed, lr=LR, betas=(0.9, 0.99))
    text, held_out = (torch.frombuffer(bytearray(part), dtype=torch.uint8).long() for part in texts())
    inputs, targets = held_out[:-1].view(-1, CONTEXT), held_out[1:].view(-1, CONTEXT)

    def evaluate():
        with torch.no_grad():
            return sum(model(a, b).item() * len(a) for a, b in zip(inputs.split(6), targets.split(6))) / len(inputs)

    times, evals = [], []
    with over_torchft(model, optimizer, local_steps) if local_steps else contextlib.nullcontext():
        begin = time.perf_counter()
        for step in range(1, steps + 1):
            rows = torch.stack([text[at:at + CONTEXT + 1] for at in windows_of(step - 1, rank, batch, len(text))])
            trained(rows[:, :-1], rows[:, 1:]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            end = time.perf_counter()
            times.append(end - begin)
            if eval_every and step % eval_every == 0 and step % (local_steps or 1) == 0:
                evals.append([sum(times), evaluate(), step])
                if step >= at_least and min(loss for _, loss, _ in evals) <= until_loss:
                    break
                end = time.perf_counter()
            begin = end
    if rank == 0:
        Path(report).write_text(json.dumps({"times": times, "evals": evals}))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    rank_of_peer(**json.loads(sys.argv[1]))
