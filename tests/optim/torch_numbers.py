#!/usr/bin/env python3
"""Writes torch_numbers.h: a matrix after twenty steps of torch.optim. torch_numbers_test.cpp takes the same steps.

python3 tests/optim/torch_numbers.py > tests/optim/torch_numbers.h        # with torch 2.11
"""

import inspect
import sys
import textwrap

import torch

STEPS = 20


def filled(shape, step, scale):
    """Values of parameters (step 0) or gradients; exact in fp32."""
    numel = torch.Size(shape).numel()
    values = [((i * i * 7 + i * 37 + step * (3 * i + 11)) % 257 - 128) / 128 * scale for i in range(numel)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape)


def trained(shape, make):
    parameter = torch.nn.Parameter(filled(shape, 0, 1.0))
    optimizer = make([parameter])
    for step in range(1, STEPS + 1):
        parameter.grad = filled(shape, step, 2.0 ** (step % 5 - 3))
        optimizer.step()
    return parameter.detach().flatten().tolist()


def muon(shape, fp32):
    """torch's Muon. With `fp32` its Newton-Schulz iterations are not rounded to bf16; everything else stays."""
    module = sys.modules["torch.optim._muon"]
    iterations = module._zeropower_via_newtonschulz
    if fp32:
        source = textwrap.dedent(inspect.getsource(iterations))
        assert source.count("grad.bfloat16()") == 1
        exec(source.replace("grad.bfloat16()", "grad.clone()"), module.__dict__)
    try:
        return trained(shape, lambda p: torch.optim.Muon(p, lr=0.02, weight_decay=0.25))
    finally:
        module._zeropower_via_newtonschulz = iterations


def write(name, values):
    lines = textwrap.fill(
        ", ".join(f"{x:.9g}" for x in values), width=116, initial_indent="    ", subsequent_indent="    "
    )
    print(f"inline const std::vector<double> {name}{{\n{lines}}};")


SHAPE = (4, 6)
print(
    "// Printed by torch_numbers.py with torch", torch.__version__.split("+")[0] + ": a parameter after twenty steps."
)
print("#pragma once\n\n#include <vector>\n\nnamespace zero::torch_numbers {\n\n// clang-format off")
write("kAdamW", trained(SHAPE, lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.9, 0.95), weight_decay=0.25)))
write("kAdam", trained(SHAPE, lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.9, 0.95), weight_decay=0.25)))
write("kSgd", trained(SHAPE, lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.25)))
write("kMomentum", trained(SHAPE, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.25)))
write(
    "kNesterov", trained(SHAPE, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.25))
)
for shape, name in (((4, 6), "Wide"), ((6, 4), "Tall")):
    write(f"kMuon{name}", muon(shape, fp32=False))
    write(f"kMuon{name}InFp32", muon(shape, fp32=True))
print("// clang-format on\n\n}  // namespace zero::torch_numbers")
