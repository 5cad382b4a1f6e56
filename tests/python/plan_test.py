#!/usr/bin/env python3
"""plan(): the table of `zero plan`, for any module, without memory."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import unittest
from typing import Any

import ranks


def blocks(width: int = 64, count: int = 4) -> Any:
    from torch import nn

    layers = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(count)]
    return nn.Sequential(nn.Embedding(100, width), *layers)


def gpt2() -> Any:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=256, n_positions=64, n_embd=128, n_layer=4, n_head=4, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config)


def table() -> str:
    import zerocpp as zero

    return str(zero.plan(gpt2, world=4, stage=3))


def large() -> dict[str, Any]:
    """A model of 400 GB: no byte of it is allocated."""
    import resource

    import zerocpp as zero

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan = zero.plan(lambda: blocks(100_000, 10), world=64, stage=3, device_memory="80GiB")
    return {
        "kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,
        "parameters": plan.json["num_parameters"],
        "device": plan.bytes["device"],
        "text": str(plan),
        "is_json": json.loads(json.dumps(plan.json)) == plan.json,
    }


def planned_and_counted(stage: int, memory: str, tiers: dict[str, Any] | None) -> dict[str, Any]:
    """The plan's figures before training, and the engine's after three steps."""
    import torch
    import zerocpp as zero

    world = zero.world()
    options: dict[str, Any] = {"stage": stage, "device_memory": memory, "offload": tiers}

    def loss_of(module: torch.nn.Module) -> torch.Tensor:
        return module(torch.zeros(2, 3, dtype=torch.long, device="meta")).square().mean()

    planned = zero.plan(blocks, world=world.size, **options, loss=loss_of)
    assumed = zero.plan(blocks, world=world.size, **options)
    model = blocks()
    with zero.attach(model, **options) as engine:
        first = engine.plan()
        for _ in range(3):
            model(torch.arange(6).view(2, 3)).square().mean().backward()
            engine.step()
        report, after = engine.report(), engine.plan()
    return {
        "planned": planned.sent_bytes,
        "assumed": assumed.sent_bytes,
        "after": after.sent_bytes,
        "counted": report.sent_bytes_per_step,
        "states": {tier: states["total"] for tier, states in planned.json["tiers"].items()},
        "counted_states": report.state_bytes,
        "first": first.json["stages"] == planned.json["stages"],
        "schedule": planned.schedule,
        "replayed": after.schedule,
        "replans": report.replans,
    }


def with_leaves(**options: Any) -> dict[str, Any]:
    import zerocpp as zero

    found: dict[str, Any] = zero.plan(blocks, world=3, stage=2, leaves=12, **options).json
    return found


def leaves_by_reduction() -> list[dict[str, Any]]:
    return [with_leaves(), with_leaves(accumulate=4, reduce="last")]


def all_planned_and_counted(cases: list[tuple[int, str, Any]]) -> list[dict[str, Any]]:
    return [planned_and_counted(*case) for case in cases]


def refusals() -> list[str]:
    import torch
    import zerocpp as zero

    found = []
    for arguments in (
        {"device_memory": "1KiB"},
        {"stage": 4},
        {"world": 0},
        {"satge": 3},
        {"clip": -1.0},
        {"group": 3, "world": 4},
        {"loss": lambda module: torch.zeros(())},
    ):
        try:
            zero.plan(blocks(), **{"world": 2, **arguments})
            found.append(f"{arguments} is not refused")
        except zero.ConfigError as error:
            found.append(str(error))
    return found


class Planning(ranks.PackageTest):
    def test_table_is_that_of_zero_plan(self) -> None:
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("this Python has no transformers")
        flags = ["--model.name", "gpt2", "--model.layers", "4", "--model.width", "128", "--model.heads", "4"]
        command = [str(ranks.COMMAND), "plan", "-n", "4", *flags, "--model.vocab", "256"]
        theirs = subprocess.run(command, env=ranks.environment(), capture_output=True, text=True, check=True).stdout
        wanted = theirs[: theirs.index("  memory ")].splitlines()
        own = ranks.run(table, ranks=1)[0].splitlines()
        self.assertEqual(own[1 : len(wanted)], wanted[1:])
        self.assertEqual(own[0], wanted[0].replace("gpt2", "GPT2LMHeadModel"))

    def test_nothing_is_allocated(self) -> None:
        found = ranks.run(large, ranks=1)[0]
        self.assertEqual(found["parameters"], 100 * 100_000 + 10 * (100_000**2 + 100_000))
        self.assertLess(found["kib"], 200_000)
        self.assertTrue(found["is_json"])
        self.assertIn("100,011,000,000 parameters, stage 3 on 64 ranks", found["text"])
        self.assertIn(">stage 3", found["text"])
        self.assertLess(found["device"], 80 << 30)

    def test_engines_hold_and_send_as_planned(self) -> None:
        cases: list[tuple[int, str, Any]] = [
            (0, "auto", None),
            (2, "auto", None),
            (3, "auto", None),
            (3, "min", None),
            (3, "min", {"optimizer": {"host": 1}}),
        ]
        for of_rank in ranks.run(all_planned_and_counted, cases=cases):
            for (stage, memory, tiers), found in zip(cases, of_rank, strict=True):
                with self.subTest(stage=stage, memory=memory, tiers=tiers, found=found):
                    self.assertEqual(found["replans"], 0)
                    self.assertEqual(found["planned"], found["counted"])
                    # The backward pass of an embedding does not read its weight, which the assumed schedule gathers.
                    more = 100 * 64 * 4 // 2 if memory == "min" else 0
                    self.assertEqual(found["assumed"], found["counted"] + more)
                    self.assertEqual(found["after"], found["counted"])
                    self.assertEqual(found["states"], found["counted_states"])
                    self.assertTrue(found["first"])
                    self.assertEqual(found["schedule"], found["replayed"])

    def test_leaves_decide_the_reduction(self) -> None:
        """Three ranks are no power of two: each sums its four leaves before they are reduced."""
        automatic, last = ranks.run(leaves_by_reduction, ranks=1)[0]
        self.assertEqual(automatic, last)

    def test_bad_plans_are_refused(self) -> None:
        found = ranks.run(refusals, ranks=1)[0]
        for wanted, text in zip(
            (
                "zero.device_memory = 1.00 KiB",
                "stage",
                "world = 0: no number of ranks",
                "attach = satge: no such option\n  did you mean stage?",
                "train.clip = -1",
                "zero.group = 3",
                "trace_on_meta = 0.weight: this parameter has memory already",
            ),
            found,
        ):
            self.assertIn(wanted, text)


if __name__ == "__main__":
    unittest.main()
