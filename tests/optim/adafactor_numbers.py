#!/usr/bin/env python3
"""Prints small parameters after five steps of torch.optim.Adafactor: the numbers in adafactor_kernel_test.cpp.

python3 tests/optim/adafactor_numbers.py        # with torch 2.11
"""

import torch


def value(index, step):
    """A value of parameters (step 0) or gradients; exact in fp32."""
    return ((index * 37 + step * 11) % 17 - 8) / 16


def filled(shape, step, scale):
    numel = torch.Size(shape).numel()
    return torch.tensor([value(i, step) * scale for i in range(numel)], dtype=torch.float32).reshape(shape)


for shape, decay in (((3, 5), 0.0), ((4, 6), 0.25), ((5,), 0.0)):
    parameter = torch.nn.Parameter(filled(shape, 0, 1.0))
    optimizer = torch.optim.Adafactor([parameter], lr=0.05, weight_decay=decay)
    for step in range(1, 6):
        parameter.grad = filled(shape, step, 2.0 ** (step - 3))
        optimizer.step()
    print(f"// {list(shape)}, weight_decay {decay}")
    print("{" + ", ".join(f"{x:.9g}" for x in parameter.detach().flatten().tolist()) + "}")
