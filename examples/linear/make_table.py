#!/usr/bin/env python3
"""Writes table.csv beside this file: 500 rows of four numbers, and a target that is linear in them, with noise.

    examples/linear/make_table.py

Columns a to d are drawn from a normal distribution; target = 2 a - b + 0.5 c + 3 + noise of deviation 0.1. Column d has
no effect. The generator is seeded, and numbers have six digits after the point, so every run writes the same file.
"""

import random
from pathlib import Path

random.seed(1337)
lines = ["a,b,c,d,target"]
for _ in range(500):
    a, b, c, d = (random.gauss(0, 1) for _ in range(4))
    lines.append(",".join(f"{x:.6f}" for x in (a, b, c, d, 2 * a - b + 0.5 * c + 3 + random.gauss(0, 0.1))))
Path(__file__).with_name("table.csv").write_text("\n".join(lines) + "\n")
