#!/usr/bin/env python3
"""Hugging Face's Trainer prints the same values on an engine as with DistributedDataParallel."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

EPOCH = 40  # samples; 2 ranks of 4 make 5 micro-batches, so an epoch ends with a single one


def tokenizer(words: list[str] | None = None) -> Any:
    """A tokenizer of whole words: w0, w1, w2, the given words, and more words w up to w96."""
    import tokenizers
    import transformers

    known = ["w0", "w1", "w2", *(words or [])]
    known += [f"w{number}" for number in range(len(known), 97)]
    levels = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(known)}, "w0"))
    levels.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=levels,
        pad_token="w0",
        eos_token="w2",
        unk_token="w0",
    )


def trainer_of(kind: str, folder: str, **given: Any) -> Any:
    import os

    import torch
    import transformers

    from small_models import images, make, sentences

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
    zero, given_samples = given.pop("zero", {}), given.pop("train_dataset", None)
    model, made_by_trainer = given.pop("model", "gpt2"), given.pop("made_by_trainer", False)
    torch.manual_seed(1)
    arguments = transformers.TrainingArguments(**{**options, **given})
    samples = (images if model == "resnet" else sentences)(EPOCH)
    named = dict(args=arguments, train_dataset=given_samples or samples, eval_dataset=samples)
    if made_by_trainer:
        named["model_init"] = lambda: make(model)
    else:
        named["model"] = make(model) if isinstance(model, str) else model
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


def gradients_before_the_step(folder: str) -> dict[str, Any]:
    """The gradients that a callback on_pre_optimizer_step reads, and the same step's callback on_optimizer_step."""
    import transformers

    trainer = trainer_of("zero", folder, zero={"stage": 3}, max_steps=1, eval_strategy="no", warmup_steps=0)
    weight = trainer.model.transformer.h[0].attn.c_attn.weight
    found: dict[str, Any] = {}

    class Reads(transformers.TrainerCallback):
        def on_pre_optimizer_step(self, *arguments: Any, **named: Any) -> None:
            found["norm"] = sum(norm**2 for norm in trainer.engine.grad_norms().values()) ** 0.5
            found["before"] = weight.detach().norm().item()

        def on_optimizer_step(self, *arguments: Any, **named: Any) -> None:
            found["after"] = weight.detach().norm().item()

    trainer.add_callback(Reads())
    trainer.train()
    found["logged"] = trainer.state.log_history[0]["grad_norm"]
    trainer.engine.close()
    return found


def smoothed(kind: str, folder: str) -> dict[str, Any]:
    """A causal language model with label smoothing, and the class that Trainer finds inside of the wrapped model."""
    trainer = trainer_of(kind, folder, label_smoothing_factor=0.1, max_steps=3, zero={"stage": 3})
    trainer.train()
    found = {"log": logged(trainer), "class": trainer.accelerator.unwrap_model(trainer.model_wrapped)._get_name()}
    if kind == "zero":
        trainer.engine.close()
    return found


def trains_new_models(kind: str, folder: str) -> dict[str, Any]:
    """Two calls of train(), each with a new model. The engine of the first one is still open at the second."""
    trainer = trainer_of(kind, folder, made_by_trainer=True, max_steps=3, zero={"stage": 3})
    found: dict[str, Any] = {}
    for number in range(2):
        trainer.train()
        weight = trainer.model.transformer.h[0].attn.c_attn.weight.detach()
        found[f"after {number}"] = [round(trainer.evaluate()["eval_loss"], 5), round(weight.norm().item(), 4)]
        found[f"log {number}"] = logged(trainer)
    if kind == "zero":
        trainer.engine.close()
    return found


def continues_after_close(kind: str, folder: str) -> dict[str, Any]:
    """Without momentum, so a new engine has the states of the old one."""
    trainer = trainer_of(kind, folder, optim="sgd", max_steps=3, zero={"stage": 3})
    trainer.train()
    if kind == "zero":
        trainer.engine.close()
    found: dict[str, Any] = {
        "evaluated": round(trainer.evaluate()["eval_loss"], 5),
        "predicted": round(trainer.predict(trainer.eval_dataset).metrics["test_loss"], 5),
    }
    trainer.train()
    found.update(log=logged(trainer), after=round(trainer.evaluate()["eval_loss"], 5))
    if kind == "zero":
        trainer.engine.close()
    return found


def stream(count: int) -> Any:
    """Samples of an unknown number, always the same ones."""
    import torch
    from small_models import sentences

    samples = sentences(count)

    class Stream(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Any:
            return (samples[number] for number in range(count))

    return Stream()


def streams(kind: str, folder: str, batches: int) -> dict[str, Any]:
    """Epochs of `batches` micro-batches; a step has two."""
    import logging

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("zerocpp").addHandler(handler)
    trainer = trainer_of(kind, folder, train_dataset=stream(4 * batches), max_steps=5, zero={"stage": 3})
    trainer.train()
    found = {"log": logged(trainer), "lines": sum("an epoch ended within a step" in line for line in lines)}
    del found["log"]["loss"]  # it has the losses of dropped micro-batches
    if kind == "zero":
        trainer.engine.close()
    return found


def moments(folder: str, **given: Any) -> list[float]:
    """The norms of the first moments after training."""
    trainer = trainer_of("zero", folder, **given)
    trainer.train()
    found = [trainer.engine.state(name, "exp_avg").norm().item() for name in trainer.engine.parameters]
    trainer.engine.close()
    return found


def best_keeps_moments(folder: str, **given: Any) -> list[list[float]]:
    return [moments(folder, load_best_model_at_end=best, **given) for best in (False, True)]


def refused(given: dict[str, Any]) -> str:
    return ranks.error_of(lambda: trainer_of("zero", "unused", **given))


def trains_with_other_arguments(folder: str) -> dict[str, str]:
    """Errors of a second train() after an argument has changed, and after it has its first value again."""
    trainer = trainer_of("zero", folder, max_steps=1)
    trainer.train()
    found = {}
    for name, value in (("max_grad_norm", 0.25), ("gradient_accumulation_steps", 1)):
        before = getattr(trainer.args, name)
        setattr(trainer.args, name, value)
        found[name] = ranks.error_of(trainer.train)
        setattr(trainer.args, name, before)
    found["none"] = ranks.error_of(trainer.train)
    trainer.engine.close()
    return found


@ranks.needs("transformers", "accelerate")
class ZeroTrainer(ranks.FolderTest):
    # At stage 3 forked workers load the samples.
    def test_two_ranks_equal_ddp(self) -> None:
        sharded: dict[str, Any] = {"zero": {"stage": 3, "device_memory": "min"}, "dataloader_num_workers": 2}
        found = ranks.run_cases(
            train,
            cases={
                "ddp": {"kind": "torch", "folder": self.folder},
                "3": {"kind": "zero", "folder": self.folder, **sharded},
                "1": {"kind": "zero", "folder": self.folder, "zero": {"stage": 1}},
            },
        )
        self.assertEqual(found["3"], found["ddp"])
        self.assertEqual(found["1"], found["ddp"])

    # resnet: each rank keeps the running statistics of its own samples, so DDP must not broadcast rank 0's.
    @ranks.whole
    def test_other_families_equal_ddp(self) -> None:
        cases: dict[str, Any] = {}
        for model, stage in (("qwen3", 3), ("mamba", 2), ("resnet", 3)):
            given = {"folder": self.folder, "model": model, "max_steps": 3, "ddp_broadcast_buffers": False}
            cases[f"{model} ddp"] = {"kind": "torch", **given}
            cases[f"{model} zero"] = {"kind": "zero", "zero": {"stage": stage}, **given}
        found = ranks.run_cases(train, cases)
        for case in cases:
            self.assertEqual(found[case], found[f"{case.split()[0]} ddp"], case)

    @ranks.whole
    def test_one_rank_equals_torch_under_bf16(self) -> None:
        given: dict[str, Any] = {"folder": self.folder, "bf16": True, "max_grad_norm": 0.0}
        cases = {kind: {"kind": kind, **given} for kind in ("torch", "zero")}
        found = ranks.run_cases(train, cases, ranks=1)
        for key, values in found["torch"]["log"].items():
            for own, other in zip(found["zero"]["log"][key], values, strict=True):
                self.assertAlmostEqual(own, other, delta=2e-3 * max(1.0, other))

    def test_a_resumed_run_equals_ddp(self) -> None:
        cases: dict[str, Any] = {}
        for kind in ("torch", "zero"):
            given = {"kind": kind, "folder": f"{self.folder}/{kind}", "save_strategy": "steps", "save_steps": 3}
            cases[f"{kind} unbroken"] = given
            cases[f"{kind} resumed"] = {**given, "resume": f"{self.folder}/{kind}/checkpoint-3"}
        found = ranks.run_cases(train, cases)
        self.assertEqual(found["zero resumed"], found["zero unbroken"])
        self.assertEqual(found["zero resumed"], found["torch resumed"])

    # Two ranks save after 3 of 6 steps. One rank with the same samples in each step continues, at another stage.
    @ranks.whole
    def test_another_world_continues(self) -> None:
        given: dict[str, Any] = dict(kind="zero", folder=self.folder, save_strategy="steps", save_steps=3)
        wanted = ranks.run(train, **given)[0]
        given.update(per_device_train_batch_size=8, zero={"stage": 1}, resume=f"{self.folder}/checkpoint-3")
        found = ranks.run(train, ranks=1, **given)[0]
        self.assertAlmostEqual(found["after"], wanted["after"], delta=5e-5)
        for key, values in wanted["log"].items():
            self.assertEqual(len(values), 2 if key == "eval_loss" else 6, key)
            for own, other in zip(found["log"][key], values, strict=True):
                self.assertAlmostEqual(own, other, delta=2e-4, msg=key)

    # With two checkpoints the first is the best, because the test declares the larger loss to be better.
    def test_best_model_equals_that_of_ddp(self) -> None:
        cases: dict[str, Any] = {
            kind: dict(
                kind=kind,
                folder=f"{self.folder}/{kind}",
                save_strategy="steps",
                save_steps=3,
                load_best_model_at_end=True,
                metric_for_best_model="loss",
                greater_is_better=True,
            )
            for kind in ("torch", "zero")
        }
        cases["zero"]["zero"] = {"stage": 3}
        found = ranks.run_cases(train, cases)
        self.assertEqual(found["zero"], found["torch"])
        self.assertAlmostEqual(found["zero"]["after"], found["zero"]["log"]["eval_loss"][0], places=4)
        self.assertGreater(found["zero"]["after"], found["zero"]["log"]["eval_loss"][1] + 0.01)

    @ranks.whole
    def test_best_model_keeps_moments(self) -> None:
        without, best = ranks.run(
            best_keeps_moments,
            ranks=1,
            folder=self.folder,
            save_strategy="steps",
            save_steps=3,
            metric_for_best_model="loss",
            greater_is_better=True,
        )[0]
        self.assertEqual(best, without)

    def test_callbacks_run_before_the_step(self) -> None:
        found = ranks.run(gradients_before_the_step, folder=self.folder)[0]
        self.assertAlmostEqual(found["norm"], found["logged"], places=5)
        self.assertNotEqual(found["before"], found["after"])

    # Trainer shifts labels for classes that it knows, so it must find the class of the model.
    def test_smoothed_labels_equal_ddp(self) -> None:
        found = ranks.run_cases(
            smoothed, cases={kind: {"kind": kind, "folder": self.folder} for kind in ("torch", "zero")}
        )
        self.assertEqual(found["zero"], found["torch"])
        self.assertEqual(found["zero"]["class"], "GPT2LMHeadModel")

    def test_new_models_equal_those_of_torch(self) -> None:
        cases = {kind: {"kind": kind, "folder": self.folder} for kind in ("torch", "zero")}
        found = ranks.run_cases(trains_new_models, cases, ranks=1)
        self.assertEqual(found["zero"], found["torch"])
        self.assertEqual(found["zero"]["after 0"], found["zero"]["after 1"])

    def test_training_continues_after_close(self) -> None:
        cases = {kind: {"kind": kind, "folder": self.folder} for kind in ("torch", "zero")}
        found = ranks.run_cases(continues_after_close, cases, ranks=1)
        self.assertEqual(found["zero"], found["torch"])
        self.assertLess(found["zero"]["after"], found["zero"]["evaluated"])

    def test_changed_arguments_are_refused(self) -> None:
        found = ranks.run(trains_with_other_arguments, ranks=1, folder=self.folder)[0]
        self.assertIn("max_grad_norm = 0.25: the engine of the earlier train() has 0.5", found["max_grad_norm"])
        self.assertIn("train() has 2\n  call trainer.engine.close()", found["gradient_accumulation_steps"])
        self.assertEqual(found["none"], "")

    def test_short_steps_of_streams_are_dropped(self) -> None:
        cases = {
            "torch": {"kind": "torch", "folder": self.folder, "batches": 4},
            "zero": {"kind": "zero", "folder": self.folder, "batches": 5},
        }
        found = ranks.run_cases(streams, cases, ranks=1)
        self.assertEqual(found["zero"]["log"], found["torch"]["log"])
        self.assertEqual(found["zero"]["lines"], 1)

    def test_fp16_scales_the_loss(self) -> None:
        cases = {
            kind: {"kind": "zero", "folder": self.folder, "zero": {"dtype": kind, "stage": 3}}
            for kind in ("fp16", "fp32")
        }
        found = ranks.run_cases(train, cases, ranks=1)
        for key in ("loss", "grad_norm", "eval_loss"):
            for own, other in zip(found["fp16"]["log"][key], found["fp32"]["log"][key], strict=True):
                self.assertAlmostEqual(own, other, delta=2e-2 * max(1.0, other), msg=key)

    def test_impossible_arguments_are_refused(self) -> None:
        for given, key in (
            ({"zero": {"clip": 1.0}}, "zero.clip"),
            ({"zero": {"average_micro_batches": True}}, "zero.average_micro_batches"),
            ({"bf16_full_eval": True}, "bf16_full_eval"),
        ):
            with self.subTest(key):
                self.assertRegex(ranks.run(refused, ranks=1, given=given)[0], f"ConfigError: .*{key} = .*\n  ")


if __name__ == "__main__":
    unittest.main()
