#!/usr/bin/env python3
"""Writes grad_scaler_numbers.h: 200 steps of a small net in fp16 with torch.amp.GradScaler, on the CPU.

    python3 tests/torch/grad_scaler_numbers.py > tests/torch/grad_scaler_numbers.h        # with torch 2.11

Parameters are fp32, and autocast computes with their values rounded to fp16, as an fp16 module with fp32 masters does.
"""

import sys
import textwrap

import torch

STEPS, INTERVAL, MOST = 200, 12, 65504  # MOST: the largest fp16


def loss_of(net, step):
    x = torch.sin(torch.arange(16 * 8, dtype=torch.float32) * (0.7 + 0.01 * (step % 9))).reshape(16, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        y = net(x)
    assert y.dtype == torch.float16
    return torch.nn.functional.mse_loss(y.float(), x.sum(1, keepdim=True))


torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
with torch.no_grad():
    for parameter in net.parameters():  # exact in fp16
        values = [((i * 37 + 11) % 64 - 32) / 128 for i in range(parameter.numel())]
        parameter.copy_(torch.tensor(values).reshape(parameter.shape))
optimizer = torch.optim.SGD(net.parameters(), lr=2e-2, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=INTERVAL)
losses, exponents, skipped = [], [], []
largest, smallest = 0.0, float("inf")  # scaled gradients of counted steps, and of skipped steps


def largest_gradient(loss):
    """The largest gradient of all parameters; inf if one overflows."""
    gradients = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
    return max(gradient.abs().max().item() for gradient in gradients)


for step in range(STEPS):
    scale = scaler.get_scale()
    loss = loss_of(net, step)
    optimizer.zero_grad()
    most = 4 * largest_gradient(loss * (scale / 4))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
    exponents.append(torch.tensor(scale).log2().int().item())
    if scaler.get_scale() < scale:
        skipped.append(step)
        smallest = min(smallest, most)
    else:
        largest = max(largest, most)
assert len(skipped) > 3 and losses[-1] < 0.1 * losses[0]
assert largest < 0.97 * MOST and smallest > 1.03 * MOST, (largest / MOST, smallest / MOST)
print(largest / MOST, smallest / MOST, file=sys.stderr)


def write(kind, name, values, form):
    lines = textwrap.fill(
        ", ".join(format(x, form) for x in values), 116, initial_indent="    ", subsequent_indent="    "
    )
    print(f"inline const std::vector<{kind}> {name}{{\n{lines}}};")


print(
    "// Printed by grad_scaler_numbers.py with torch",
    torch.__version__.split("+")[0] + ": 200 steps with torch.amp.GradScaler.",
)
print("#pragma once\n\n#include <vector>\n\nnamespace zero::grad_scaler_numbers {\n\n// clang-format off")
write("double", "kLosses", losses, ".7g")
write("int", "kScaleExponents", exponents, "d")  # log2 of each step's scale
write("std::size_t", "kSkipped", skipped, "d")  # steps
print("// clang-format on\n\n}  // namespace zero::grad_scaler_numbers")
