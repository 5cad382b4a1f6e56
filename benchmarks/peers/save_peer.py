"""Checkpoints of PyTorch and DeepSpeed: a model of a GPT's size takes a step and is saved. Started by torchrun.

    torchrun --standalone --nproc-per-node 2 save_peer.py --system dcp --layers 12 --width 768 --vocab 50257 \
        --folder /tmp/x --saves 3 --json out.json

torch-save   rank 0 writes everything with torch.save, as usual with DistributedDataParallel
dcp          FSDP2, torch.distributed.checkpoint.save: every rank writes its shards
dcp-async    the same with async_save: training waits only for the copy
deepspeed1   ZeRO-1, engine.save_checkpoint     deepspeed3   ZeRO-3, the same

For each save the script reports the bytes, and the seconds that training waited on the slowest rank. It also reports
the seconds until the save itself was done, and until fsync of every file and folder returned. Dirty pages of earlier
work are written to disk before a save begins.
"""

import argparse
import json
import os
import shutil
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["LOCAL_SIZE"] = os.environ.get("LOCAL_WORLD_SIZE", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402

SYSTEMS = ("torch-save", "dcp", "dcp-async", "deepspeed1", "deepspeed3")


class Block(nn.Module):
    """Nearly as many parameters as a block of GPT-2: 12 x width^2."""

    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 6 * width), nn.Linear(6 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self, layers, width, vocab):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


class Native:
    """PyTorch's own checkpoints: replicated, or sharded by FSDP2."""

    def __init__(self, args):
        self.system = args.system
        self.model = Model(args.layers, args.width, args.vocab)
        if self.system.startswith("dcp"):
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh("cpu", (dist.get_world_size(),))
            for block in self.model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def step(self, tokens):
        self.model(tokens).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def save(self, folder):
        """Starts a save. Returns a function that waits for its end."""
        if self.system == "torch-save":
            if dist.get_rank() == 0:
                os.makedirs(folder)
                torch.save(
                    {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()},
                    os.path.join(folder, "checkpoint.pt"),
                )
            dist.barrier()
            return lambda: None
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        states = {"model": model, "optimizer": optimizer}
        if self.system == "dcp":
            dcp.save(states, checkpoint_id=folder)
            return lambda: None
        return dcp.async_save(states, checkpoint_id=folder).result


class DeepSpeed:
    def __init__(self, args):
        import deepspeed

        model = Model(args.layers, args.width, args.vocab)
        self.engine, *_ = deepspeed.initialize(
            model=model,
            model_parameters=model.parameters(),
            config={
                "train_micro_batch_size_per_gpu": 1,
                "gradient_accumulation_steps": 1,
                "zero_optimization": {"stage": int(args.system[-1])},
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
            },
        )

    def step(self, tokens):
        self.engine.backward(self.engine(tokens))
        self.engine.step()

    def save(self, folder):
        self.engine.save_checkpoint(folder)
        return lambda: None


def sync_tree(folder):
    """fsync of every file, then of every folder. Returns the number of bytes on disk."""
    num_bytes = 0
    for path, _, files in os.walk(folder, topdown=False):
        for name in [*(os.path.join(path, file) for file in files), path]:
            fd = os.open(name, os.O_RDONLY)
            os.fsync(fd)
            num_bytes += os.fstat(fd).st_blocks * 512 if os.path.isfile(name) else 0
            os.close(fd)
    parent = os.open(os.path.dirname(folder), os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)
    return num_bytes


def slowest(seconds):
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return value.item()


def measure(trainer, args, number):
    folder = os.path.join(args.folder, f"save-{number}")
    trainer.step(torch.randint(args.vocab, (1, 8)))
    if dist.get_rank() == 0:
        os.sync()
    dist.barrier()
    begin = time.perf_counter()
    finish = trainer.save(folder)
    waited = slowest(time.perf_counter() - begin)
    finish()
    published = slowest(time.perf_counter() - begin)
    num_bytes = sync_tree(folder) if dist.get_rank() == 0 else 0
    durable = slowest(time.perf_counter() - begin)
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder)
    return {"waited": waited, "published": published, "durable": durable, "bytes": num_bytes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--system", choices=SYSTEMS, required=True)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--vocab", type=int, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--saves", type=int, default=3)
    parser.add_argument("--json", required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    if args.system.startswith("deepspeed"):
        import deepspeed

        deepspeed.init_distributed("gloo")
        trainer = DeepSpeed(args)
    else:
        dist.init_process_group("gloo")
        trainer = Native(args)
    saves = [measure(trainer, args, number) for number in range(args.saves)]
    if dist.get_rank() == 0:
        with open(args.json, "w") as file:
            json.dump(saves, file)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads abort some processes that destroy their groups


if __name__ == "__main__":
    sys.exit(main())
