#!/usr/bin/env python3
"""Schedules of torch change the rates and decays of each group as they do with torch.optim."""

from __future__ import annotations

import math
import unittest
from typing import Any

import ranks

STEPS = 8


def small_net() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def loss_of(model: Any, step: int, rank: int) -> Any:
    import torch

    random = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(8, 6, generator=random)
    return torch.nn.functional.mse_loss(model(x), x[:, :3].sin() * 2 + 1)


def in_groups(model: Any) -> Any:
    import torch

    return torch.optim.AdamW(
        [
            {"params": [model[0].weight, model[2].weight], "lr": 1e-2, "weight_decay": 0.3},
            {"params": [p for p in model.parameters() if p.ndim == 1 and p is not model[2].weight], "lr": 3e-2},
            {"params": [model[3].weight, model[5].weight], "lr": 2e-3, "weight_decay": 0.0},
        ],
        lr=1e-2,
    )


def constant(optimizer: Any) -> Any:
    from torch.optim import lr_scheduler

    return lr_scheduler.ConstantLR(optimizer, 1.0)


def per_group(optimizer: Any) -> Any:
    from torch.optim import lr_scheduler

    return lr_scheduler.LambdaLR(optimizer, [lambda s: 1 / (1 + s), lambda s: s / 4, lambda s: 0.5 + s % 3])


def one_cycle(optimizer: Any) -> Any:
    from torch.optim import lr_scheduler

    return lr_scheduler.OneCycleLR(optimizer, [1e-2, 2e-2, 5e-3], total_steps=STEPS + 1, cycle_momentum=False)


def one_after_another(optimizer: Any) -> Any:
    from torch.optim import lr_scheduler as s

    warm, cosine = s.LinearLR(optimizer, 0.1, total_iters=3), s.CosineAnnealingLR(optimizer, 5, eta_min=1e-3)
    return s.SequentialLR(optimizer, [warm, cosine], [3])


def decaying(optimizer: Any) -> Any:
    """The decay of the first group grows; that of the last group begins at 0."""

    class Schedule:
        def step(self) -> None:
            optimizer.param_groups[0]["weight_decay"] *= 1.5
            optimizer.param_groups[2]["weight_decay"] += 0.1

    return Schedule()


SCHEDULES = {f.__name__: f for f in (constant, per_group, one_cycle, one_after_another, decaying)}


def compare(schedule: str, stage: int, offload: bool) -> dict[str, float]:
    """The largest distance to torch's weights after training, relative to the largest weight, and that of losses."""
    import torch
    import zerocpp as zero

    world = zero.world()
    wanted = small_net()
    optimizer = in_groups(wanted)
    following = SCHEDULES[schedule](optimizer)
    losses = []
    for step in range(STEPS):
        loss = torch.stack([loss_of(wanted, step, rank) for rank in range(world.size)]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        following.step()
        losses.append(loss.item())

    model = small_net()
    optimizer = in_groups(model)
    before = SCHEDULES[schedule](optimizer) if schedule in ("per_group", "one_cycle") else None
    own = []
    options: dict[str, Any] = {"offload": {"optimizer": {"host": 1}}} if offload else {}
    with zero.attach(model, optimizer, stage=stage, **options) as engine:
        following = before or SCHEDULES[schedule](engine.optimizer)
        for step in range(STEPS):
            loss = loss_of(model, step, world.rank)
            loss.backward()
            own.append(engine.step(loss=loss).loss)
            following.step()
        weights = engine.state_dict()
    theirs = wanted.state_dict()
    return {
        "weights": max(float((weights[n] - theirs[n]).abs().max() / theirs[n].abs().max()) for n in theirs),
        "losses": max(abs(a - b) / b for a, b in zip(own, losses)),
    }


def constant_rates(by_group: bool) -> list[float]:
    """Weights after steps with rates of groups in a constant ratio, given by step(lr) or by param_groups."""
    import zerocpp as zero

    model = small_net()
    optimizer = in_groups(model)
    for group, lr in zip(optimizer.param_groups, (2**-7, 2**-5, 2**-8)):  # powers of 2, so ratios are exact
        group["lr"] = lr
    with zero.attach(model, optimizer, stage=3) as engine:
        for step in range(4):
            loss_of(model, step, zero.world().rank).backward()
            engine.step() if by_group else engine.step(2**-7)
        weights = engine.state_dict()
    return [value for name in sorted(weights) for value in weights[name].flatten().tolist()]


def refusals() -> dict[str, str]:
    """The errors of bad changes of groups, by the kind of change."""
    import torch
    import zerocpp as zero
    from torch.optim import lr_scheduler

    found: dict[str, str] = {}

    def try_step(name: str, change: Any) -> None:
        model = small_net()
        optimizer = in_groups(model)
        with zero.attach(model, optimizer, stage=3) as engine:
            loss_of(model, 0, 0).backward()
            change(engine, optimizer)
            try:
                engine.step()
                found[name] = "not refused"
            except zero.ConfigError as error:
                found[name] = str(error)
            engine.discard_gradients()

    def cycles(engine: Any, optimizer: Any) -> None:
        lr_scheduler.OneCycleLR(engine.optimizer, 1e-2, total_steps=4)

    def set_in(number: int, **values: Any) -> Any:
        return lambda engine, optimizer: optimizer.param_groups[number].update(values)

    try_step("betas", cycles)
    try_step("nan", set_in(1, lr=math.nan))
    try_step("negative", set_in(2, lr=-1e-3))
    try_step("decay", set_in(0, weight_decay=-0.1))
    try_step("eps", set_in(0, eps=1e-3))
    try_step("amsgrad", set_in(0, amsgrad=True))
    new = torch.nn.Parameter(torch.zeros(3))
    try_step("group", lambda engine, optimizer: optimizer.add_param_group({"params": [new]}))
    try_step("parameter", lambda engine, optimizer: optimizer.param_groups[0]["params"].append(new))
    return found


class Schedules(ranks.PackageTest):
    def test_agree_with_torch(self) -> None:
        for schedule in SCHEDULES:
            stage, offload = (3, True) if schedule == "per_group" else (3, False)
            for of_rank in ranks.run(compare, schedule=schedule, stage=stage, offload=offload):
                self.assertLess(of_rank["losses"], 1e-5, schedule)
                self.assertLess(of_rank["weights"], 1e-4, schedule)

    def test_group_rates_hold_at_stage_0(self) -> None:
        for of_rank in ranks.run(compare, schedule="per_group", stage=0, offload=False):
            self.assertLess(of_rank["weights"], 1e-4)

    def test_constant_ratios_keep_bits(self) -> None:
        given, scaled = (ranks.run(constant_rates, by_group=by_group)[0] for by_group in (True, False))
        self.assertEqual(given, scaled)

    def test_bad_changes_are_refused(self) -> None:
        found = ranks.run(refusals, ranks=1)[0]
        self.assertIn("param_groups[0].betas = (0.95, 0.999): it was (0.9, 0.999) at attach()", found["betas"])
        self.assertIn("cycle_momentum=False", found["betas"])
        self.assertIn("step(rates.by_group[1]) = nan", found["nan"])
        self.assertIn("step(rates.by_group[2]) = -0.001", found["negative"])
        self.assertIn("step(rates.decay_by_group[0]) = -0.1", found["decay"])
        self.assertIn("param_groups[0].eps = 0.001", found["eps"])
        self.assertIn("param_groups[0].amsgrad = True", found["amsgrad"])
        self.assertIn("optimizer = 4 groups: there were 3 at attach()", found["group"])
        self.assertIn("param_groups[0].params = 3 parameters: there were 2", found["parameter"])


if __name__ == "__main__":
    unittest.main()
