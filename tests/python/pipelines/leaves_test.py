#!/usr/bin/env python3
"""The option `leaves`: weights, losses and norms have the same bits on 1, 2 and 3 ranks."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

LEAVES = 8
STEPS = 3


def loss_of(model: Any, step: int, leaf: int) -> Any:
    import torch

    torch.manual_seed(1000 * step + leaf)  # of the samples, and of dropout
    x = torch.randn(4, 6)
    return torch.nn.functional.mse_loss(model(x), x[:, :3].sin() * 2 + 1)


def model_of() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.2), nn.LayerNorm(16), nn.Linear(16, 3))


def train(stage: int, **options: Any) -> dict[str, Any]:
    import zerocpp as zero

    model = model_of()
    figures: list[list[float]] = []
    with zero.attach(model, zero.AdamW(lr=1e-2), stage=stage, clip=0.5, leaves=LEAVES, **options) as engine:
        for step in range(STEPS):
            losses = []
            for leaf in engine.leaves:
                losses.append(loss_of(model, step, max(leaf, 0)))
                engine.backward(losses[-1])
            report = engine.step(leaf_losses=losses)
            figures.append([report.loss, report.grad_norm])
        weights = engine.state_dict()
        leaves = engine.leaves
    return {"figures": figures, "weights": {n: w.flatten().tolist() for n, w in weights.items()}, "leaves": leaves}


def train_pipelined(stage: int, **options: Any) -> dict[str, Any]:
    """As train(), in two sections."""
    import zerocpp as zero

    model = model_of()
    figures: list[list[float]] = []
    given = dict(options, stage=stage, clip=0.5, leaves=LEAVES, pipeline=2)
    with zero.attach_pipeline(model, zero.AdamW(lr=1e-2), **given) as engine:
        leaves = engine.leaves
        for step in range(STEPS):
            losses = engine.passes(lambda micro, step=step: loss_of(model, step, max(leaves[micro], 0)))
            report = engine.step(leaf_losses=losses)
            figures.append([report.loss, report.grad_norm])
        weights = engine.state_dict()
    return {"figures": figures, "weights": {n: w.flatten().tolist() for n, w in weights.items()}, "leaves": leaves}


def without() -> list[int]:
    import torch
    import zerocpp as zero

    with zero.attach(torch.nn.Linear(2, 2)) as engine:
        return engine.leaves


class Leaves(ranks.PackageTest):
    def test_worlds_keep_bits(self) -> None:
        alone = ranks.run(train, ranks=1, stage=0)[0]
        self.assertEqual(alone["leaves"], list(range(LEAVES)))
        self.assertLess(alone["figures"][-1][0], alone["figures"][0][0])
        for world, stage in ((2, 3), (3, 2)):
            results = ranks.run(train, ranks=world, stage=stage)
            computed = sorted(leaf for result in results for leaf in result["leaves"] if leaf >= 0)
            self.assertEqual(computed, list(range(LEAVES)))
            for result in results:
                self.assertEqual(result["figures"], alone["figures"], f"{world} ranks")
                self.assertEqual(result["weights"], alone["weights"], f"{world} ranks")

    def test_sections_keep_bits(self) -> None:
        alone = ranks.run(train, ranks=1, stage=0)[0]
        for world, options in ((2, dict(schedule="zb-h1")), (4, {}), (6, dict(reduce="last"))):
            results = ranks.run(train_pipelined, ranks=world, stage=2, **options)
            lines = world // 2
            computed = sorted(leaf for result in results[:lines] for leaf in result["leaves"] if leaf >= 0)
            self.assertEqual(computed, list(range(LEAVES)))
            for rank, result in enumerate(results):
                self.assertEqual(result["leaves"], results[rank % lines]["leaves"], "a line has the same leaves")
                self.assertEqual(result["figures"], alone["figures"], f"{world} ranks")
                self.assertEqual(result["weights"], alone["weights"], f"{world} ranks")

    def test_without_there_are_none(self) -> None:
        self.assertEqual(ranks.run(without, ranks=1), [[]])


if __name__ == "__main__":
    unittest.main()
