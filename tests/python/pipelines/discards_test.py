#!/usr/bin/env python3
"""zero_grad() and discard_gradients() drop the passes of a pipeline: later steps have the bits of a clean run."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

MICROS = 2
STEPS = 3
DROPS = ("module", "optimizer", "discard", "refused")


def model_of() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def loss_of(model: Any, sample: int) -> Any:
    import torch

    x = (torch.arange(1.0, 25.0) * (sample + 1)).sin().reshape(4, 6)
    return torch.nn.functional.mse_loss(model(x), x[:, :3].sin() * 2 + 1) / MICROS


def train(drop: str, **options: Any) -> dict[str, Any]:
    """Before each step it runs passes over other samples, and drops them; not with drop=""."""
    import zerocpp as zero

    model = model_of()
    found: dict[str, Any] = {"losses": [], "norms": [], "refused": ""}
    given = dict(options, clip=0.5, accumulate=MICROS, threads=1)
    with zero.attach_pipeline(model, zero.AdamW(lr=1e-2), **given) as engine:
        line = engine.line
        if drop == "discard":
            engine.discard_gradients()  # no passes yet
        for step in range(STEPS):
            for _ in range(0 if not drop else 2 if drop == "refused" else 1):
                engine.passes(lambda micro, step=step: loss_of(model, 1000 + 100 * line + 10 * step + micro))
            if drop == "refused":
                found["refused"] = ranks.error_of(engine.step)
            if drop == "module":
                model.zero_grad()
            elif drop == "optimizer":
                engine.optimizer.zero_grad()
            elif drop:
                engine.discard_gradients()
            found["losses"] += engine.passes(lambda micro, step=step: loss_of(model, 100 * line + 10 * step + micro))
            found["norms"].append(engine.step().grad_norm)
        found["weights"] = {name: value.flatten().tolist() for name, value in engine.state_dict().items()}
    return found


def train_each(drops: list[str], **options: Any) -> dict[str, Any]:
    return {drop: train(drop, **options) for drop in drops}


class Discards(ranks.PackageTest):
    def test_dropped_passes_leave_no_trace(self) -> None:
        plain = ranks.run(train_each, ranks=2, drops=[""], pipeline=1, stage=0)
        for stage in (1, 3):
            for rank, result in enumerate(ranks.run(train_each, ranks=4, drops=DROPS, pipeline=2, stage=stage)):
                for drop in DROPS:
                    with self.subTest(drop, stage=stage, rank=rank):
                        refused = result[drop].pop("refused")
                        self.assertEqual("discard_gradients()" in refused, drop == "refused", refused)
                        wanted = dict(plain[rank % 2][""])
                        wanted.pop("refused")
                        self.assertEqual(result[drop], wanted)


if __name__ == "__main__":
    unittest.main()
