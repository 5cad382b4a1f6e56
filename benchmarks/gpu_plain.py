#!/usr/bin/env python3
"""Trains a GPT-2 with plain PyTorch on one GPU, for a comparison with `zero train --run.device cuda`.

  python3 benchmarks/gpu_plain.py --layers 12 --width 768 --heads 12 --context 1024 --batch 16

Prints one JSON object: for each system the median milliseconds of a step, and the most GPU memory that it reserved.
Systems:
  compute   eager forward and backward in --dtype, no update: a lower bound if the GPU does not wait for Python
  adamw     the same and a fused AdamW over the model's own parameters (in bf16: no fp32 weights)
  fsdp2     fully_shard of each block and the model, fp32 weights, compute in --dtype, clipping to norm 1, fused AdamW
  offload   the same with CPUOffloadPolicy: weights, gradients and moments on the host
  ds2-offload, ds3-offload   DeepSpeed's ZeRO: gradients, master weights and moments on the host; stage 3: also weights
DeepSpeed's systems need deepspeed 0.19.8, and a compiler, ninja and the headers of CUDA to build its Adam for the host.
They were tried only with --device cpu. A system that fails has `error` instead of figures; if all fail, the exit status
is 77. The model has zero.cpp's shapes and operators: scaled_dot_product_attention, tanh gelu, tied head, loss in fp32,
no dropout.
"""

import argparse
import gc
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

CANNOT_RUN_HERE = 77  # exit status


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.attn(self.ln_1(x)).split(width, 2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocab, recompute, reentrant=False):
        super().__init__()
        self.recompute, self.reentrant = recompute, reentrant
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=self.reentrant) if self.recompute else block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.view(-1))


def deepspeed_step(model, system, options):
    import deepspeed

    zero = {"stage": int(system[2]), "overlap_comm": True, "contiguous_gradients": True}
    host = {"device": "cpu", "pin_memory": options.device == "cuda"}
    zero |= {"offload_optimizer": host} | ({"offload_param": host} if zero["stage"] == 3 else {})
    config = {
        "train_micro_batch_size_per_gpu": options.batch,
        "gradient_clipping": 1.0,
        "steps_per_print": 10**9,
        "zero_optimization": zero,
        "bf16": {"enabled": options.dtype == "bf16"},
    }
    optimizer = deepspeed.ops.adam.DeepSpeedCPUAdam(model.parameters(), lr=3e-4, betas=(0.9, 0.95), adamw_mode=True)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def step(inputs, targets):
        loss = engine(inputs, targets)
        engine.backward(loss)
        engine.step()
        return loss

    return step


def torch_step(model, system, options):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.dtype]
    if system in ("fsdp2", "offload"):
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

        how = {"mp_policy": MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)}
        if system == "offload":
            how["offload_policy"] = CPUOffloadPolicy()
        for block in model.h:
            fully_shard(block, **how)
        fully_shard(model, **how)
    else:
        model.to(dtype)
    parameters = list(model.parameters())
    optimizer = None if system == "compute" else torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), fused=True)

    def step(inputs, targets):
        loss = model(inputs, targets)
        loss.backward()
        if optimizer is not None:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        model.zero_grad(set_to_none=True)
        return loss

    return step


def run(system, options):
    on_gpu = options.device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    torch.manual_seed(1)
    with torch.device(options.device):
        # With non-reentrant recomputation, ZeRO-3's weights have another shape than the kept weights.
        model = Gpt(
            options.layers,
            options.width,
            options.heads,
            options.context,
            options.vocab,
            options.recompute,
            reentrant=system.startswith("ds3"),
        )
    numel = sum(p.numel() for p in model.parameters())
    step = (deepspeed_step if system.startswith("ds") else torch_step)(model, system, options)
    tokens = torch.randint(options.vocab, (options.batch, options.context + 1), device=options.device)
    seconds, losses = [], []
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(options.steps):
        wait()
        begin = time.perf_counter()
        losses.append(step(tokens[:, :-1], tokens[:, 1:].contiguous()).item())
        wait()
        seconds.append(time.perf_counter() - begin)
    rest = seconds[2:] or seconds
    return {
        "step_ms": round(1e3 * statistics.median(rest), 3),
        "least_ms": round(1e3 * min(rest), 3),
        "peak_mib": torch.cuda.max_memory_reserved() >> 20 if on_gpu else None,
        "parameters": numel,
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (
        ("layers", 12),
        ("width", 768),
        ("heads", 12),
        ("context", 1024),
        ("batch", 16),
        ("vocab", 50257),
        ("steps", 12),
    ):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--tf32", action="store_true", help="matrix products of fp32 in tf32")
    parser.add_argument("--recompute", action="store_true", help="keep only the input of each block, and recompute it")
    parser.add_argument("--systems", default="compute,adamw,fsdp2")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: only to try this script")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    for name, value in {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29531",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
    }.items():
        os.environ.setdefault(name, value)
    on_gpu = options.device == "cuda"
    torch.distributed.init_process_group("cuda:nccl,cpu:gloo" if on_gpu else "gloo", rank=0, world_size=1)
    figures = {"gpu": torch.cuda.get_device_name() if on_gpu else None, "torch": torch.__version__}
    errors = []
    for system in options.systems.split(","):
        try:
            figures[system] = run(system, options)
        except Exception as error:  # a peer that is missing or does not fit is reported, and the others run
            errors.append(f"{system}: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
            figures[system] = {"error": errors[-1]}
        gc.collect()
        if on_gpu:
            torch.cuda.empty_cache()
    torch.distributed.destroy_process_group()
    print("; ".join(errors) if len(errors) == len(options.systems.split(",")) else json.dumps(figures), flush=True)
    # Leaving by the front door, some peers abort after their work is done.
    os._exit(CANNOT_RUN_HERE if len(errors) == len(options.systems.split(",")) else 0)


if __name__ == "__main__":
    main()
