#!/usr/bin/env python3
"""Hugging Face's Trainer on an engine prints what it prints with DistributedDataParallel."""

from __future__ import annotations

import importlib.util
import tempfile
import unittest
from typing import Any

import ranks

EPOCH = 40  # samples; 2 ranks of 4: 5 micro-batches, so an epoch ends with a single one


def data() -> Any:
    import torch

    class Tokens(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return EPOCH

        def __getitem__(self, index: int) -> dict[str, Any]:
            tokens = torch.randint(3, 97, (12,), generator=torch.Generator().manual_seed(index))
            return {"input_ids": tokens, "labels": tokens}

    return Tokens()


def trainer_of(kind: str, folder: str, **given: Any) -> Any:
    import os

    import torch
    import transformers

    from small_models import make

    options: dict[str, Any] = dict(
        output_dir=folder,
        use_cpu=True,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=6,
        logging_steps=1,
        learning_rate=3e-3,
        weight_decay=0.1,
        warmup_steps=2,
        lr_scheduler_type="linear",
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        seed=7,
        eval_strategy="steps",
        eval_steps=3,
        max_grad_norm=0.5,
    )
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        options["ddp_backend"] = "gloo"
    zero = given.pop("zero", {})
    torch.manual_seed(1)
    arguments = transformers.TrainingArguments(**{**options, **given})
    named = dict(model=make("gpt2"), args=arguments, train_dataset=data(), eval_dataset=data())
    if kind == "torch":
        return transformers.Trainer(**named)
    from zerocpp.transformers import ZeroTrainer

    return ZeroTrainer(**named, zero=zero)


def logged(trainer: Any) -> dict[str, list[float]]:
    return {
        key: [round(line[key], 4) for line in trainer.state.log_history if key in line]
        for key in ("loss", "grad_norm", "eval_loss", "learning_rate")
    }


def train(kind: str, folder: str, resume: str | None = None, **given: Any) -> dict[str, Any]:
    trainer = trainer_of(kind, folder, **given)
    trainer.train(resume_from_checkpoint=resume)
    found: dict[str, Any] = {"log": logged(trainer), "after": round(trainer.evaluate()["eval_loss"], 5)}
    if kind == "zero":
        trainer.engine.close()
    return found


def refused(given: dict[str, Any]) -> str:
    try:
        trainer_of("zero", "unused", **given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@unittest.skipUnless(
    all(map(importlib.util.find_spec, ("transformers", "accelerate"))), "transformers and accelerate are not installed"
)
class ZeroTrainer(ranks.PackageTest):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def test_two_ranks_equal_ddp(self) -> None:
        wanted = ranks.run(train, kind="torch", folder=self.folder)[0]
        for zero in ({"stage": 3, "device_memory": "min"}, {"stage": 1}):
            self.assertEqual(ranks.run(train, kind="zero", folder=self.folder, zero=zero)[0], wanted)

    def test_one_rank_equals_torch_under_bf16(self) -> None:
        wanted = ranks.run(train, ranks=1, kind="torch", folder=self.folder, bf16=True, max_grad_norm=0.0)[0]
        found = ranks.run(train, ranks=1, kind="zero", folder=self.folder, bf16=True, max_grad_norm=0.0)[0]
        for key, values in wanted["log"].items():
            for own, other in zip(found["log"][key], values, strict=True):
                self.assertAlmostEqual(own, other, delta=2e-3 * max(1.0, other))

    def test_resumed_run_equals_unbroken_run(self) -> None:
        given: dict[str, Any] = dict(
            kind="zero", folder=self.folder, zero={"stage": 3}, save_strategy="steps", save_steps=3
        )
        wanted = ranks.run(train, **given)[0]
        found = ranks.run(train, resume=f"{self.folder}/checkpoint-3", **given)[0]
        self.assertEqual(found, wanted)

    def test_another_world_resumes(self) -> None:
        given: dict[str, Any] = dict(kind="zero", folder=self.folder, save_strategy="steps", save_steps=3)
        wanted = ranks.run(train, **given)[0]
        found = ranks.run(train, ranks=1, resume=f"{self.folder}/checkpoint-6", max_steps=6, **given)[0]
        self.assertEqual(found["after"], wanted["after"])

    def test_best_model_is_loaded(self) -> None:
        given: dict[str, Any] = dict(
            folder=self.folder,
            save_strategy="steps",
            save_steps=3,
            max_steps=6,
            load_best_model_at_end=True,
            learning_rate=0.3,
        )
        wanted = ranks.run(train, kind="torch", **given)[0]
        found = ranks.run(train, kind="zero", zero={"stage": 3}, **given)[0]
        self.assertAlmostEqual(found["after"], min(found["log"]["eval_loss"]), places=3)
        self.assertAlmostEqual(found["after"], wanted["after"], places=2)

    def test_impossible_arguments_are_refused(self) -> None:
        for given, key in (({"zero": {"clip": 1.0}}, "zero.clip"), ({"bf16_full_eval": True}, "bf16_full_eval")):
            with self.subTest(key):
                self.assertRegex(ranks.run(refused, ranks=1, given=given)[0], f"ConfigError: .*{key} = .*\n  ")


if __name__ == "__main__":
    unittest.main()
