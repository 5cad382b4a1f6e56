#!/usr/bin/env python3
"""A GPT-2 trained by PyTorch alone on one GPU, for a comparison with `zero train --run.device cuda`.

  python3 benchmarks/gpu_plain.py --layers 12 --width 768 --heads 12 --context 1024 --batch 16

Prints one JSON object: for each system the median milliseconds of a step, and the GPU memory it reserved at most. Systems:
  compute   eager forward and backward of a model in --dtype, no update: a lower bound where the GPU does not wait for Python
  adamw     the same and a fused AdamW over the model's own parameters (in bf16: no fp32 weights)
  fsdp2     fully_shard of each block and the model, fp32 weights, computing in --dtype, gradients clipped to norm 1, fused AdamW
  offload   the same with CPUOffloadPolicy: weights, gradients and moments on the host
The model has zero.cpp's shapes and operators: scaled_dot_product_attention, tanh gelu, tied head, the loss in fp32, no dropout.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.attn(self.ln_1(x)).split(width, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocab, recompute):
        super().__init__()
        self.recompute = recompute
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.view(-1))


def run(system, options):
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.dtype]
    torch.manual_seed(1)
    sharded = system in ("fsdp2", "offload")
    with torch.device("cuda"):
        model = Gpt(options.layers, options.width, options.heads, options.context, options.vocab, options.recompute)
    if sharded:
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
    tokens = torch.randint(options.vocab, (options.batch, options.context + 1), device="cuda")
    seconds = []
    torch.cuda.reset_peak_memory_stats()
    for _ in range(options.steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = model(tokens[:, :-1], tokens[:, 1:].contiguous())
        loss.backward()
        if optimizer is not None:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        model.zero_grad(set_to_none=True)
        loss.item()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    rest = seconds[2:]
    return {"step_ms": round(1e3 * statistics.median(rest), 3), "least_ms": round(1e3 * min(rest), 3),
            "peak_mib": torch.cuda.max_memory_reserved() >> 20, "parameters": sum(p.numel() for p in model.parameters())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("layers", 12), ("width", 768), ("heads", 12), ("context", 1024), ("batch", 16), ("vocab", 50257), ("steps", 12)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="bf16")
    parser.add_argument("--tf32", action="store_true", help="matrix products of fp32 in tf32")
    parser.add_argument("--recompute", action="store_true", help="keep the input of each block alone, and compute it again")
    parser.add_argument("--systems", default="compute,adamw,fsdp2")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29531")
    torch.distributed.init_process_group("cuda:nccl,cpu:gloo", rank=0, world_size=1)
    figures = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for system in options.systems.split(","):
        try:
            figures[system] = run(system, options)
        except torch.OutOfMemoryError as error:
            figures[system] = {"error": str(error).split(".")[0]}
        torch.cuda.empty_cache()
    torch.distributed.destroy_process_group()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
