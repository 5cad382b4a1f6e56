#!/usr/bin/env python3
"""Models train as in plain torch, and with equal bits at each stage and on each tier."""

from __future__ import annotations

import hashlib
import importlib.util
import tempfile
import unittest
from typing import Any

import ranks

STEPS = 5
TIERS: dict[str, dict[str, Any]] = {
    "auto": {},
    "min": {"device_memory": "min"},
    "host": {"offload": {"optimizer": {"host": 1}}},
    "disk": {"offload": {"optimizer": {"disk": 1}}},
}


def hash_of(values: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(values):
        digest.update(name.encode() + values[name].contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


def losses_of_torch(kind: str, world: int) -> list[float]:
    """Losses of the parts of `world` ranks in one process: the mean of their gradients, and torch.optim.AdamW."""
    import torch
    from small_models import batch, loss_of, make, part_of

    model = make(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    losses = []
    for step in range(STEPS):
        parts = [loss_of(kind, model, part_of(batch(kind, step), rank, world)) for rank in range(world)]
        mean = torch.stack(parts).mean()
        optimizer.zero_grad()
        mean.backward()
        optimizer.step()
        losses.append(mean.item())
    return losses


def train(
    kinds: list[str], stages: list[int], tiers: list[str], compares: bool, pairwise: bool = False
) -> dict[str, Any]:
    """For each model and way, the hash of its weights and the largest relative distance to torch's losses.

    pairwise: one tier for each model and stage, so that every two of model, stage and tier occur together.
    """
    import torch
    import zerocpp as zero
    from small_models import batch, loss_of, make, part_of

    world = zero.world()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as disk:
        for number, kind in enumerate(kinds):
            wanted = losses_of_torch(kind, world.size) if compares else None
            for stage in stages:
                for tier in [tiers[(number + stage) % len(tiers)]] if pairwise else tiers:
                    model = make(kind)
                    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
                    losses = []
                    with zero.attach(
                        model, optimizer, stage=stage, disk=disk if tier == "disk" else None, **TIERS[tier]
                    ) as engine:
                        for step in range(STEPS):
                            loss = loss_of(kind, model, part_of(batch(kind, step), world.rank, world.size))
                            loss.backward()
                            losses.append(engine.step(loss=loss).loss)
                            engine.optimizer.zero_grad()
                        report = engine.report()
                        trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
                        found[f"{kind} {stage} {tier}"] = {
                            "hash": hash_of(engine.state_dict()),
                            "mismatches": report.trace_mismatches,
                            "bytes": report.state_bytes,
                            "moments": [report.memory["moment"], report.host_memory["moment"]],
                            "least": 8 * trained / (1 if stage == 0 else world.size),
                            "distance": max(abs(a - b) / abs(b) for a, b in zip(losses, wanted)) if wanted else 0.0,
                        }
    return found


def warnings_of_a_schedule() -> list[str]:
    import warnings

    import torch
    import zerocpp as zero

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with warnings.catch_warnings(record=True) as found, zero.attach(model, optimizer) as engine:
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            engine.step()
            schedule.step()
    return [str(warning.message) for warning in found]


def check_tiers(test: unittest.TestCase, way: str, result: dict[str, Any]) -> None:
    """Asserts that AdamW's moments are on the tier of the way, and on no other tier."""
    tier = way.split()[-1]
    device, host = result["moments"]
    moments = {"device": device, "host": host, "disk": result["bytes"]["disk"]}
    own = moments.pop(tier if tier in moments else "device")
    test.assertGreaterEqual(own, result["least"], way)
    test.assertEqual(set(moments.values()), {0}, way)
    test.assertEqual(result["bytes"]["host"], host, way)


def check(test: unittest.TestCase, results: list[dict[str, Any]], distance: float) -> None:
    """Asserts that a model's weights have the same bits in all ways, and losses near torch's."""
    for of_rank in results:
        hashes: dict[str, set[str]] = {}
        for way, result in of_rank.items():
            hashes.setdefault(way.split()[0], set()).add(result["hash"])
            test.assertEqual(result["mismatches"], 0, way)
            test.assertLessEqual(result["distance"], distance, way)
            check_tiers(test, way, result)
        for kind, found in hashes.items():
            test.assertEqual(len(found), 1, kind)


class Training(ranks.PackageTest):
    def test_schedule_of_the_given_optimizer(self) -> None:
        self.assertEqual(ranks.run(warnings_of_a_schedule, ranks=1)[0], [])

    def test_stages_and_tiers_have_equal_bits(self) -> None:
        check(self, ranks.run(train, kinds=["mixed"], stages=[0, 1, 2, 3], tiers=list(TIERS), compares=False), 0.0)

    # Without running statistics, because each rank has statistics of its own samples.
    def test_losses_are_those_of_torch(self) -> None:
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("this Python has no transformers")
        from small_models import FAMILIES

        results = ranks.run(train, kinds=FAMILIES, stages=[0, 1, 2, 3], tiers=list(TIERS), compares=True, pairwise=True)
        self.assertEqual(len(results[0]), 4 * len(FAMILIES))
        check(self, results, 2e-6)

    def test_one_rank_has_torchs_losses(self) -> None:
        check(
            self, ranks.run(train, ranks=1, kinds=["mixed"], stages=[0, 3], tiers=["auto", "disk"], compares=True), 2e-6
        )


if __name__ == "__main__":
    unittest.main()
