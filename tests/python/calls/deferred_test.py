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


def losses_of(model: Any, **options: Any) -> list[float]:
    import torch
    import zerocpp as zero
    from small_models import batch, part_of

    world = zero.world()
    losses = []
    with zero.attach(model, torch.optim.AdamW(model.parameters(), lr=3e-3), **options) as engine:
        for step in range(STEPS):
            loss = model(**part_of(batch("gpt2", step), world.rank, world.size)).loss
            loss.backward()
            losses.append(engine.step(loss=loss).loss)
    return losses


def deferred_gpt2(seed: int = 5) -> Any:
    import zerocpp as zero
    from small_models import of_transformers

    with zero.deferred(seed=seed):
        return of_transformers("gpt2")


def builds() -> dict[str, Any]:
    """A deferred gpt2 trains as an ordinary one with the same values, and has the distributions of transformers."""
    import zerocpp as zero
    from small_models import make

    model = deferred_gpt2()
    found: dict[str, Any] = {"deferred": all(map(zero.is_deferred, model.parameters()))}
    with zero.attach(model, stage=3) as engine:
        values = engine.state_dict()
    ordinary = make("gpt2")
    own = ordinary.state_dict()
    found["names"] = sorted(own) == sorted(values)
    spread = [(value.std().item(), own[name].std().item()) for name, value in values.items()]
    found["spread"] = max(abs(a - b) / b if b else a for a, b in spread)
    ordinary.load_state_dict(values)
    found["losses"] = [losses_of(deferred_gpt2(), **options) for options in WAYS.values()]
    found["ordinary"] = losses_of(ordinary, stage=3)
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
    return {"builds": builds(), "reads": reads_saved_weights(folder)}


@ranks.needs("transformers")
class Deferred(ranks.FolderTest):
    def test_gpt2_trains_and_reads_saved_weights(self) -> None:
        results = ranks.run(all_calls, folder=self.folder)
        first = results[0]["builds"]
        self.assertEqual(results[1]["builds"], first)
        self.assertTrue(first["deferred"] and first["names"])
        self.assertLess(first["spread"], 0.1)
        self.assertEqual(first["losses"], [first["ordinary"]] * len(WAYS))
        self.assertLess(first["ordinary"][-1], first["ordinary"][0])
        for of_rank in results:
            found = of_rank["reads"]
            self.assertIn("meta device", found["meta"])
            self.assertIn("\n  construct the model inside zero.deferred()", found["meta"])
            for text in found["inside"]:
                self.assertRegex(text, r"GPT2LMHeadModel.from_pretrained: (.|\n)*engine.load_state_dict\(\)")
            self.assertEqual(found["outside"], found["wanted"])
            self.assertTrue(found["loaded"])


if __name__ == "__main__":
    unittest.main()
