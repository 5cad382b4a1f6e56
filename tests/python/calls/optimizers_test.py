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


# ---- loaded numbers, and rules of files


def loads_numbers() -> dict[str, Any]:
    """What load_state_dict() of the given optimizer, and of the engine's, does to later steps."""
    import torch
    import zerocpp as zero

    found: dict[str, Any] = {}
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, weight_decay=0.0)
    saved = optimizer.state_dict()
    saved["param_groups"][0]["lr"] = 0.25
    trained = torch.optim.AdamW(torch.nn.Linear(2, 2).parameters())
    for group in trained.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.ones_like(parameter)
    trained.step()
    with zero.attach(model, optimizer) as engine:

        def moves() -> float:
            before = engine.state("bias")
            model(torch.ones(1, 2)).sum().backward()
            engine.step()
            return round((before - engine.state("bias")).max().item(), 4)

        optimizer.load_state_dict(saved)
        found["loaded"] = moves()
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
        found["first"] = moves()
        schedule.step()
        found["scheduled"] = moves()
        for name, of in (("given", optimizer), ("engine's", engine.optimizer)):
            found[name] = refusal(lambda of=of: of.load_state_dict(trained.state_dict()))
        model(torch.ones(1, 2)).sum().backward()
        optimizer.param_groups = [dict(group) for group in optimizer.param_groups]
        found["replaced"] = refusal(engine.step)
        engine.discard_gradients()
    optimizer.load_state_dict(trained.state_dict())  # the engine is closed
    found["after"] = len(optimizer.state)
    return found


def rules_of_files() -> dict[str, bool]:
    """Whether a configuration trains as torch does with the values of `zero train`, by the rule."""
    import torch
    import zerocpp as zero

    def weights_of(optimizer: Any, config: Any) -> list[Any]:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 4))
        given = optimizer(model) if callable(optimizer) else optimizer
        with zero.attach(model, given, config=config) as engine:
            for step in range(4):
                model(torch.arange(4.0) - step).square().sum().backward()
                engine.step()
            return list(engine.state_dict().values())

    def groups(model: Any, decay: float) -> list[dict[str, Any]]:
        parameters = list(model.parameters())
        return [
            {"params": [p for p in parameters if p.ndim == 2], "weight_decay": decay},
            {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
        ]

    def adamw(model: Any) -> Any:
        return torch.optim.AdamW(groups(model, 0.1), lr=1e-3, betas=(0.9, 0.99))

    def same(a: list[Any], b: list[Any]) -> bool:
        return all(torch.equal(one, other) for one, other in zip(a, b, strict=True))

    scaled = zero.Muon(
        lr=1e-3, weight_decay=0.0, muon_scale="match_rms_adamw", adamw_lr=1e-3, betas=(0.9, 0.99), eps=1e-8
    )
    of_file = {"name": "muon", "weight_decay": 0.0, "muon_scale": "match_rms_adamw"}
    usual = weights_of(None, {"optimizer": {"name": "muon", "weight_decay": 0.0}})
    return {
        "adamw": same(weights_of(None, {"optimizer": {"name": "adamw"}}), weights_of(adamw, None)),
        "none": same(weights_of(None, {"zero": {"stage": 2}}), weights_of(adamw, None)),
        "muon": same(weights_of(None, {"optimizer": of_file}), weights_of(scaled, None)),
        "muon_scale": not same(weights_of(None, {"optimizer": of_file}), usual),
    }


def mixed_decays() -> list[str]:
    """The refusals of groups with both kinds of weight decay."""
    import torch
    import zerocpp as zero

    found = []
    for kind, own in ((torch.optim.Adam, True), (torch.optim.AdamW, False)):
        model = torch.nn.Linear(2, 2)
        groups = [{"params": [model.weight]}, {"params": [model.bias], "decoupled_weight_decay": own}]
        found.append(refusal(lambda model=model, optimizer=kind(groups): zero.attach(model, optimizer).close()))
    return found


class Optimizers(ranks.CallsTest):
    calls = [muon, refusals_of_muon, in_no_group, loads_numbers, rules_of_files, mixed_decays]

    def test_loaded_rates_hold_in_schedules(self) -> None:
        found = self.of(loads_numbers)[0]
        self.assertEqual((found["loaded"], found["first"], found["scheduled"]), (0.25, 0.25, 0.125))
        self.assertEqual(found["after"], 2)

    def test_loaded_moments_are_refused(self) -> None:
        found = self.of(loads_numbers)[0]
        for name in ("given", "engine's"):
            self.assertIn("load_state_dict = states of 2 parameters: the engine has the moments", found[name])
        self.assertIn("param_groups: this list was replaced since attach()", found["replaced"])

    def test_files_train_as_the_program_does(self) -> None:
        for name, same in self.of(rules_of_files)[0].items():
            self.assertTrue(same, name)

    def test_groups_with_both_decays_are_refused(self) -> None:
        for text in self.of(mixed_decays)[0]:
            self.assertIn("optimizer.decoupled_weight_decay = ", text)

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
