#!/usr/bin/env python3
"""A library with another number of ranks than the engine is refused before attach(), so the model keeps its values."""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

OF_LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def as_one_process(make: Callable[[], Any]) -> Any:
    """Calls `make` without the launcher's variables: the library then finds one process."""
    from accelerate.state import PartialState

    PartialState._reset_state()
    own = {name: os.environ.pop(name) for name in OF_LAUNCHER if name in os.environ}
    try:
        return make()
    finally:
        os.environ.update(own)


def refused(model: Any, call: Callable[[], Any]) -> dict[str, Any]:
    """The error of the call, and whether the model has its values after it."""
    import torch

    before = [parameter.detach().clone() for parameter in model.parameters()]
    error = ranks.error_of(call)
    return {"error": error, "whole": all(map(torch.equal, before, model.parameters()))}


def of_accelerate() -> dict[str, Any]:
    import torch
    from accelerate_test import accelerator_of

    model = torch.nn.Linear(2, 1)
    accelerator = as_one_process(lambda: accelerator_of("zero"))
    return refused(model, lambda: accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1)))


def of_trainer(folder: str) -> dict[str, Any]:
    from transformers_test import trainer_of

    trainer = as_one_process(lambda: trainer_of("zero", folder, max_steps=1, eval_strategy="no"))
    return refused(trainer.model, trainer.train)


def of_lightning() -> dict[str, Any]:
    """The engine gets a world of this rank only. Lightning has both ranks."""
    import torch.distributed as dist
    import zerocpp as zero
    from lightning_test import language_model, tokens, trainer_of

    dist.init_process_group("gloo")
    group = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    trainer = trainer_of("zero", zero={"world": zero.World.from_process_group(group)})
    module = language_model()
    return refused(module, lambda: trainer.fit(module, tokens()))


@ranks.needs("transformers", "accelerate", "lightning")
class OtherRanks(ranks.CallsTest):
    calls = [of_accelerate, of_trainer, of_lightning]

    def check(self, call: Callable[..., Any], text: str) -> None:
        for found in self.of(call):
            self.assertRegex(found["error"], f"^ConfigError: {text}\n  start ")
            self.assertTrue(found["whole"])

    def test_accelerator_is_refused(self) -> None:
        self.check(of_accelerate, "num_processes = 1: the world of an engine has size 2")

    def test_trainer_is_refused(self) -> None:
        self.check(of_trainer, r"TrainingArguments\.world_size = 1: the world of an engine has size 2")

    def test_lightning_is_refused(self) -> None:
        self.check(of_lightning, r"Trainer\.devices = 2: the world of an engine has size 1")


if __name__ == "__main__":
    unittest.main()
