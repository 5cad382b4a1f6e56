#!/usr/bin/env python3
"""Optimizers that attach() reads: torch.optim.Muon, and parameters that are in no group."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import refusal

STEPS = 20

# ---- Muon


def words() -> Any:
    """Matrices only: an embedding, a wide one, a tall one, and a head."""
    import torch
    from torch import nn

    torch.manual_seed(3)
    return nn.Sequential(
        nn.Embedding(24, 16),
        nn.Linear(16, 32, bias=False),
        nn.GELU(),
        nn.Linear(32, 16, bias=False),
        nn.Linear(16, 24, bias=False),
    )


def muon_of(model: Any, scale: str | None) -> Any:
    import torch

    groups = [
        {"params": [model[0].weight, model[1].weight]},
        {"params": [model[3].weight, model[4].weight], "lr": 0.01, "weight_decay": 0.3},
    ]
    return torch.optim.Muon(groups, lr=0.02, momentum=0.9, adjust_lr_fn=scale)


def of_words(model: Any, step: int, rank: int) -> Any:
    import torch

    tokens = torch.randint(0, 24, (32,), generator=torch.Generator().manual_seed(10 * step + rank))
    return torch.nn.functional.cross_entropy(model(tokens), (tokens + 1) % 24)


def in_fp32(gradient: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """The Newton-Schulz iterations of torch.optim.Muon, without its rounding to bf16."""
    a, b, c = coefficients
    x = gradient.T if gradient.size(0) > gradient.size(1) else gradient
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if gradient.size(0) > gradient.size(1) else x


def losses_of_torch(scale: str | None, ranks_: int) -> tuple[list[float], dict[str, Any]]:
    import torch

    model = words()
    optimizer = muon_of(model, scale)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = torch.stack([of_words(model, step, rank) for rank in range(ranks_)]).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, dict(model.named_parameters())


def trains_by_muon(scale: str | None) -> dict[str, float]:
    """The distances of 20 steps to torch.optim.Muon, as it is and with its iterations in fp32."""
    from unittest import mock

    import torch
    import zerocpp as zero

    world = zero.world()
    rounded, _ = losses_of_torch(scale, world.size)
    with mock.patch.object(torch.optim._muon, "_zeropower_via_newtonschulz", in_fp32):  # type: ignore[attr-defined]
        exact, wanted = losses_of_torch(scale, world.size)
    found: dict[str, float] = {"rounded": 0.0, "losses": 0.0, "weights": 0.0, "fall": exact[-1] / exact[0]}
    for stage in (0, 3):
        model = words()
        with zero.attach(model, muon_of(model, scale), stage=stage) as engine:
            for step in range(STEPS):
                loss = of_words(model, step, world.rank)
                loss.backward()
                value = engine.step(loss=loss).loss
                found["losses"] = max(found["losses"], abs(value - exact[step]))
                found["rounded"] = max(found["rounded"], abs(value - rounded[step]))
            for name, own in engine.state_dict().items():
                found["weights"] = max(found["weights"], (own - wanted[name]).abs().max().item())
    return found


def refusals_of_muon() -> dict[str, str]:
    import torch
    import zerocpp as zero

    found = {}
    for key, value in {"ns_steps": 6, "eps": 1e-5, "ns_coefficients": (3.0, -4.0, 2.0)}.items():
        model = words()
        optimizer = torch.optim.Muon(model.parameters(), **{key: value})  # type: ignore[arg-type]
        found[key] = refusal(lambda model=model, optimizer=optimizer: zero.attach(model, optimizer))
    return found


# ---- parameters in no group


def probes(stage: int) -> dict[str, Any]:
    """Trains the head of a model only, without freezing the body. Returns what differs from plain torch."""
    import logging

    import torch
    import zerocpp as zero

    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    keep = Keep()
    logging.getLogger("zerocpp").addHandler(keep)

    def make() -> tuple[Any, Any]:
        torch.manual_seed(5)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
        return model, torch.optim.AdamW(model[2].parameters(), lr=0.1)

    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    plain, optimizer = make()
    for _ in range(3):
        optimizer.zero_grad()
        plain(x).square().mean().backward()
        optimizer.step()
    model, optimizer = make()
    planned = [zero.plan(model, rule, stage=stage).bytes["device"] for rule in (optimizer, zero.AdamW())]
    during: list[bool] = []
    with zero.attach(model, optimizer, stage=stage) as engine:
        for _ in range(3):
            model(x).square().mean().backward()
            engine.step()
        during = [p.requires_grad for p in model.parameters()]
        states = engine.state_names("0.weight")
    same = [torch.equal(own, other) for own, other in zip(model[0].parameters(), plain[0].parameters())]
    distance = max((own - other).abs().max().item() for own, other in zip(model.parameters(), plain.parameters()))
    refused = refusal(lambda: zero.attach(model, optimizer, stage=9))
    logging.getLogger("zerocpp").removeHandler(keep)
    return {
        "body": same,
        "near": distance < 1e-6,
        "during": during,
        "after": [parameter.requires_grad for parameter in model.parameters()],
        "states": states,
        "said": [line for line in lines if "in no group" in line],
        "refused": "stage" in refused,
        "planned": planned,
    }


def muon() -> dict[str, Any]:
    return {str(scale): trains_by_muon(scale) for scale in (None, "match_rms_adamw")}


def in_no_group() -> list[dict[str, Any]]:
    return [probes(stage) for stage in (0, 3)]


class Optimizers(ranks.CallsTest):
    calls = [muon, refusals_of_muon, in_no_group]

    # torch rounds its Newton-Schulz iterations to bf16, and the engine does not.
    def test_twenty_steps_of_muon_equal_torch(self) -> None:
        for scale, found in self.of(muon)[0].items():
            with self.subTest(scale):
                self.assertLess(found["fall"], 0.95)
                self.assertLess(found["losses"], 1e-4)
                self.assertLess(found["weights"], 1e-3)
                self.assertLess(found["rounded"], 2e-2)

    def test_other_iterations_of_muon_are_refused(self) -> None:
        for key, text in self.of(refusals_of_muon)[0].items():
            self.assertIn(f"optimizer.{key} = ", text)
            self.assertIn(f"leave {key} out", text)

    def test_parameters_in_no_group_keep_values(self) -> None:
        for rank, of_stages in enumerate(self.of(in_no_group)):
            for found in of_stages:
                said = found["said"]
                self.assertEqual(len(said), 1 if rank == 0 else 0, said)
                self.assertIn("2 parameters are in no group", said[0] if said else "2 parameters are in no group")
                self.assertEqual(found["body"], [True, True])
                self.assertTrue(found["near"])
                self.assertEqual(found["during"], [False, False, True, True])
                self.assertEqual(found["after"], [True] * 4)
                self.assertEqual(found["states"], ["parameter"])
                self.assertTrue(found["refused"])
                self.assertLess(found["planned"][0], found["planned"][1])


if __name__ == "__main__":
    unittest.main()
