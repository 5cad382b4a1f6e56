"""A rank of one system that trains a GPT of known_gpt.py on several ranks: zerocpp, or one of PyTorch or DeepSpeed.

    torchrun --nproc-per-node 2 peer_step_rank.py '{"system": "fsdp2", "model": "small", "context": 256, "samples": 8,
      "steps": 9, "folder": "...", "report": "peer.json"}'

compute                   forward and backward on each rank, without exchange and update
ddp                       DistributedDataParallel
zero_redundancy           DDP with ZeroRedundancyOptimizer: moments are split
fsdp2                     fully_shard of each block and of the rest, gathered again in the backward pass
ds1, ds2, ds3             DeepSpeed's ZeRO stages
ds2-offload, ds3-offload  with gradients and moments on the host; at stage 3 also parameters
ds3-nvme                  ZeRO-Infinity: parameters and moments in files under the job's `disk`
zerocpp0, zerocpp3        the package zerocpp at that stage (PYTHONPATH names its folder)
zerocpp3-min              with device_memory = "min"
zerocpp3-arena, -min-arena  with keep_memory(): large tensors in the arena of `zero train`

The folder is that of known_gpt.prepare(). All systems have fp32, AdamW of known_gpt.py, and gradients clipped to norm
1. The report has the seconds and loss of each step on the first rank (which waits for all ranks in each step), the
bytes that a rank sent in the steps after WARM_UP, and the memory of the rank that has most.
"""

import ctypes
import json
import os
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this file is started as a program

from peers.known_gpt import ADAMW, Shape, adamw_of, decayed, first_weights, load, make_gpt, windows_of  # noqa: E402

MODELS = {
    "tiny": Shape(layers=2, width=64, heads=2, context=64),
    "small": Shape(layers=6, width=384, heads=6, context=256),
    "gpt2": Shape(12, 768, 12, 1024, 50257),
}
WARM_UP = 3  # steps
CLIP = 1.0


def keep_heap():
    """Makes the C library keep freed memory, without page faults for large tensors; zero.cpp has an arena of its
    own."""
    for option, value in {
        -4: 0,
        -1: 2**31 - 1,
        -2: 2**26,
    }.items():  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD of mallopt(3)
        ctypes.CDLL(None).mallopt(option, value)


# ---- systems: (model, job) -> step(inputs, targets), which trains and returns the loss -------------------------------


def stepping(trained, optimizer, parameters, keep_gradients=False):
    import torch

    def step(inputs, targets):
        loss = trained(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=not keep_gradients)
        return loss.item()

    return step


def compute(model, _):
    def step(inputs, targets):
        loss = model(inputs, targets)
        loss.backward()
        model.zero_grad(set_to_none=True)
        return loss.item()

    return step


def over_ddp(model, **options):
    import torch

    return torch.nn.parallel.DistributedDataParallel(
        model, gradient_as_bucket_view=True, static_graph=True, broadcast_buffers=False, **options
    )


def ddp(model, _):
    return stepping(over_ddp(model), adamw_of(model), list(model.parameters()), keep_gradients=True)


def zero_redundancy(model, _):
    import torch
    from torch.distributed.optim import ZeroRedundancyOptimizer

    trained = over_ddp(model)
    optimizer = ZeroRedundancyOptimizer(
        decayed(model), torch.optim.AdamW, parameters_as_bucket_view=True, fused=True, **ADAMW
    )
    return stepping(trained, optimizer, list(model.parameters()), keep_gradients=True)


def fsdp2(model, _):
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return stepping(model, adamw_of(model), list(model.parameters()))


def files_of(model, job):
    """ZeRO-Infinity's keys. Parts of a model go to files from a certain size on, and none of them stays gathered."""
    import torch.distributed as dist

    place = {"device": "nvme", "nvme_path": job["disk"], "pin_memory": True}
    largest = max(p.numel() for p in model.parameters())
    return {
        "sub_group_size": 5_000_000,
        "stage3_max_live_parameters": 0,
        "offload_optimizer": {
            **place,
            "buffer_count": 12,
            "pipeline_read": True,
            "pipeline_write": True,
            "fast_init": False,
        },
        "offload_param": {
            **place,
            "buffer_count": 8,
            "buffer_size": -(-largest // dist.get_world_size()),
            "max_in_cpu": 0,
        },
    }


def deepspeed_zero(model, job):
    import deepspeed
    import torch.distributed as dist

    stage, _, off = job["system"].removeprefix("ds").partition("-")
    zero = {
        "stage": int(stage),
        "overlap_comm": True,
        "contiguous_gradients": True,
        "reduce_scatter": True,
        "reduce_bucket_size": 5_000_000,
    }
    if stage == "3":
        zero |= {
            "stage3_param_persistence_threshold": 0,
            "stage3_prefetch_bucket_size": 5_000_000,
            "stage3_max_reuse_distance": 0,
        }
    if off == "offload":
        host = {"device": "cpu", "pin_memory": False}
        zero |= {"offload_optimizer": host} | ({"offload_param": host} if stage == "3" else {})
    if off == "nvme":
        zero |= files_of(model, job)
    config = {
        "train_micro_batch_size_per_gpu": job["samples"] // dist.get_world_size(),
        "gradient_clipping": CLIP,
        "steps_per_print": 10**9,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": zero,
        "aio": {"block_size": 1 << 20, "queue_depth": 16, "overlap_events": True},
    }
    optimizer = deepspeed.ops.adam.DeepSpeedCPUAdam(decayed(model), adamw_mode=True, **ADAMW)
    if off == "nvme":  # without this, initialize() would write these fp32 parameters as bf16
        deepspeed.zero.Init(module=model, config_dict_or_path=config, remote_device="nvme", pin_memory=True)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def step(inputs, targets):
        loss = engine(inputs, targets)
        engine.backward(loss)
        engine.step()
        return loss.item()

    return step


def zerocpp(model, job):
    import zerocpp as zero

    memory = "min" if "-min" in job["system"] else "auto"
    stage = int(job["system"].removeprefix("zerocpp")[0])
    engine = zero.attach(model, adamw_of(model), stage=stage, clip=CLIP, device_memory=memory)

    def step(inputs, targets):
        loss = model(inputs, targets)
        loss.backward()
        engine.step()
        return loss.item()

    step.sent_bytes = lambda: engine.report().sent_bytes_per_step  # its messages do not pass the loopback device
    return step


ZEROCPP = ("zerocpp0", "zerocpp3", "zerocpp3-min", "zerocpp3-arena", "zerocpp3-min-arena")
SYSTEMS = {
    "compute": compute,
    "ddp": ddp,
    "zero_redundancy": zero_redundancy,
    "fsdp2": fsdp2,
    **dict.fromkeys(ZEROCPP, zerocpp),
    **dict.fromkeys(("ds1", "ds2", "ds3", "ds2-offload", "ds3-offload", "ds3-nvme"), deepspeed_zero),
}

# ---- a run -----------------------------------------------------------------------------------------------------------


def kept_bytes():
    """Memory of this process, including its part of shared memory."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def sent_bytes():
    """Bytes that all programs of this machine sent over its loopback device, with headers."""
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


def train(job):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks, context = dist.get_rank(), dist.get_world_size(), job["context"]
    model = make_gpt(MODELS[job["model"]])
    load(model, first_weights(Path(job["folder"])))
    step = SYSTEMS[job["system"]](model, job)
    text = torch.frombuffer(bytearray((Path(job["folder"]) / "train.txt").read_bytes()), dtype=torch.uint8).long()
    times, losses, sent = [], [], 0
    for number in range(job["steps"]):
        if number == WARM_UP:
            dist.barrier()
            sent = sent_bytes()
        starts = windows_of(number, rank, ranks, job["samples"], len(text), context)
        rows = torch.stack([text[at : at + context + 1] for at in starts])
        begin = time.perf_counter()
        loss = step(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        times.append(time.perf_counter() - begin)
        losses.append(loss)
    dist.barrier()
    sent = (
        step.sent_bytes() if hasattr(step, "sent_bytes") else (sent_bytes() - sent) / (job["steps"] - WARM_UP) / ranks
    )
    mean = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(mean)
    most = torch.tensor(
        [float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024, float(kept_bytes())], dtype=torch.float64
    )
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    if rank == 0:
        Path(job["report"]).write_text(
            json.dumps(
                {
                    "times": times,
                    "losses": (mean / ranks).tolist(),
                    "sent": sent,
                    "peak_rss": most[0].item(),
                    "pss": most[1].item(),
                }
            )
        )
    dist.barrier()


def leave_nothing():
    """Removes the shared memory that DeepSpeed leaves; its name is the rendezvous of the ranks."""
    end = f"_{os.environ.get('MASTER_ADDR')}_{os.environ.get('MASTER_PORT')}_{os.environ.get('RANK')}"
    for found in Path("/dev/shm").glob(f"deepspeed_allreduce_buffer_*{end}"):
        found.unlink()


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if asked.get("keep_heap"):
        keep_heap()
    if asked["system"].endswith("arena"):  # before the model is created
        import zerocpp

        zerocpp.keep_memory()
    train(asked)
    leave_nothing()
    os._exit(0)  # some versions of gloo abort at the end of a process
