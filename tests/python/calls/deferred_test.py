#!/usr/bin/env python3
"""Models of transformers without memory: attach() builds those of deferred(), and refuses those of the meta device."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import refusal

STEPS = 3
WAYS: dict[str, dict[str, Any]] = {"0": {"stage": 0}, "3": {"stage": 3, "device_memory": "min"}}


def losses_of(model: Any, kind: str = "gpt2", **options: Any) -> list[float]:
    import torch
    import zerocpp as zero
    from small_models import batch, part_of

    world = zero.world()
    losses = []
    with zero.attach(model, torch.optim.AdamW(model.parameters(), lr=3e-3), **options) as engine:
        for step in range(STEPS):
            loss = model(**part_of(batch(kind, step), world.rank, world.size)).loss
            loss.backward()
            losses.append(engine.step(loss=loss).loss)
    return losses


def make_deferred(kind: str) -> Any:
    import zerocpp as zero
    from small_models import of_transformers

    with zero.deferred(seed=5):
        return of_transformers(kind)


def spreads(values: dict[str, Any], others: dict[str, Any]) -> dict[str, float]:
    """The standard deviation of each random tensor over that of its counterpart; 0 if constants differ."""
    import torch

    found = {}
    for name, value in values.items():
        own, other = (tensor.double().std(unbiased=False).item() for tensor in (value, others[name]))
        if min(own, other) == 0:
            found[name] = float(torch.equal(value, others[name]))
        elif value.numel() >= 32:
            found[name] = own / other
    return found


def builds(kind: str) -> dict[str, Any]:
    """A deferred model trains as an ordinary one with the same values, and has the distributions of transformers."""
    import zerocpp as zero
    from small_models import make

    model = make_deferred(kind)
    found: dict[str, Any] = {"deferred": all(map(zero.is_deferred, model.parameters()))}
    with zero.attach(model, stage=3) as engine:
        values = engine.state_dict()
    ordinary = make(kind)
    own = ordinary.state_dict()
    found["names"] = sorted(own) == sorted(values)
    found["spreads"] = spreads(values, own)
    ordinary.load_state_dict(values)
    found["losses"] = [losses_of(make_deferred(kind), kind, **options) for options in WAYS.values()]
    found["ordinary"] = losses_of(ordinary, kind, stage=3)
    return found


def builds_all(kinds: list[str]) -> dict[str, dict[str, Any]]:
    """The result of builds() for each model, or its error."""
    found: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        try:
            found[kind] = builds(kind)
        except Exception as error:
            found[kind] = {"error": f"{type(error).__name__}: {error}"}
    return found


def reads_saved_weights(folder: str) -> dict[str, Any]:
    """from_pretrained() and its counterpart for a model without memory."""
    import safetensors.torch
    import torch
    import transformers
    import zerocpp as zero
    from small_models import make

    world = zero.world()
    wanted = make("gpt2")
    if world.rank == 0:
        wanted.save_pretrained(folder)
    world.barrier()
    kind = transformers.GPT2LMHeadModel
    found: dict[str, Any] = {}

    def inside(read: Any) -> Any:
        with zero.deferred():
            return read.from_pretrained(folder)

    with torch.device("meta"):
        empty = kind(transformers.GPT2Config.from_pretrained(folder))
    found["meta"] = refusal(lambda: zero.attach(empty))
    found["inside"] = [refusal(lambda read=read: inside(read)) for read in (kind, transformers.AutoModelForCausalLM)]
    found["outside"] = losses_of(kind.from_pretrained(folder), stage=3)
    found["wanted"] = losses_of(wanted, stage=3)

    with zero.deferred():
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder))
    with zero.attach(model, stage=3) as engine:
        engine.load_state_dict(safetensors.torch.load_file(f"{folder}/model.safetensors"), strict=False)
        values = engine.state_dict()
    found["loaded"] = all(torch.equal(value, make("gpt2").state_dict()[name]) for name, value in values.items())
    return found


def all_calls(folder: str) -> dict[str, Any]:
    return {"builds": builds("gpt2"), "reads": reads_saved_weights(folder)}


@ranks.needs("transformers")
class Deferred(ranks.FolderTest):
    def check(self, found: dict[str, Any], least: float, most: float) -> None:
        self.assertTrue(found["deferred"] and found["names"])
        wrong = {name: spread for name, spread in found["spreads"].items() if not least < spread < most}
        self.assertEqual(wrong, {})
        self.assertEqual(found["losses"], [found["ordinary"]] * len(WAYS))

    def test_gpt2_trains_and_reads_saved_weights(self) -> None:
        results = ranks.run(all_calls, folder=self.folder)
        first = results[0]["builds"]
        self.assertEqual(results[1]["builds"], first)
        self.check(first, 0.9, 1.1)
        self.assertLess(first["ordinary"][-1], first["ordinary"][0])
        for of_rank in results:
            found = of_rank["reads"]
            self.assertIn("meta device", found["meta"])
            self.assertIn("\n  construct the model inside zero.deferred()", found["meta"])
            for text in found["inside"]:
                self.assertRegex(text, r"GPT2LMHeadModel.from_pretrained: (.|\n)*engine.load_state_dict\(\)")
            self.assertEqual(found["outside"], found["wanted"])
            self.assertTrue(found["loaded"])

    # Other models have random tensors of few elements.
    @ranks.whole
    def test_every_family_trains(self) -> None:
        from small_models import FAMILIES, MORE_FAMILIES

        first, second = ranks.run(builds_all, kinds=FAMILIES + MORE_FAMILIES)
        self.assertEqual(len(first), 10)
        self.assertEqual(first, second)
        for kind, found in first.items():
            with self.subTest(kind):
                self.assertNotIn("error", found)
                self.check(found, 0.4, 2.5)


if __name__ == "__main__":
    unittest.main()
