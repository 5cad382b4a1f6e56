#!/usr/bin/env python3
"""Prints a complete program with the Python example of README.md, which leaves out the model and the batches.

    python3 tools/readme_example.py >train.py && zero launch -n 2 -- python3 train.py

The program trains five steps, writes model.safetensors, and prints a loss. quickstart.sh, benchmarks/python_install.py
and tests/python/full/wheel_test.py run it.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRELUDE = """
import torch

torch.manual_seed(1)

class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))

batches = [(torch.randn(6, 8), torch.randint(4, (6,))) for _ in range(5)]
"""
# The engine is closed here, so every rank has the whole model.
EPILOGUE = """
x, y = batches[0]
loss = torch.nn.functional.cross_entropy(model(x), y).item()
if engine.world.rank == 0:
    print(f"zerocpp: loss {loss:.4f} after {len(batches)} steps, ranks: {engine.world.size}", flush=True)
"""


def readme_example() -> str:
    """Returns the first Python block of README.md that calls zero.attach()."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return next(block for block in blocks if "zero.attach" in block)


def program() -> str:
    """Returns the example with a model and batches before it, and the line with the loss after it."""
    return PRELUDE + readme_example() + EPILOGUE


if __name__ == "__main__":
    print(program())
