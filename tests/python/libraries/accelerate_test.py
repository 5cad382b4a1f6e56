#!/usr/bin/env python3
"""The loop of Accelerate's nlp_example has the same losses on an engine as with DistributedDataParallel."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

EPOCH = 36  # samples; 2 ranks of 4 make 5 batches, the last one shorter, so accumulation by 2 ends with a single batch


def accelerator_of(kind: str, accumulate: int = 1, zero: dict[str, Any] | None = None, **given: Any) -> Any:
    import accelerate
    import zerocpp.accelerate
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state()  # of the previous Accelerator
    GradientState._reset_state()
    given.update(cpu=True, gradient_accumulation_steps=accumulate)
    given["dataloader_config"] = accelerate.DataLoaderConfiguration(
        use_seedable_sampler=True
    )  # an epoch can be resumed
    if kind == "torch":
        return accelerate.Accelerator(**given)
    return zerocpp.accelerate.Accelerator(zero=zero, **given)


def prepared(accelerator: Any, workers: int = 0) -> tuple[Any, ...]:
    """workers: number of forked processes of each loader."""
    import torch
    import transformers
    from small_models import make, sentences

    torch.manual_seed(7)
    given: dict[str, Any] = {"batch_size": 4, "num_workers": workers}
    loader = torch.utils.data.DataLoader(sentences(EPOCH, classes=3), shuffle=True, **given)
    evaluated = torch.utils.data.DataLoader(sentences(22, first=1000, classes=3), **given)
    model = make("bert")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, num_warmup_steps=4, num_training_steps=40)
    model, optimizer, loader, evaluated, schedule = accelerator.prepare(model, optimizer, loader, evaluated, schedule)
    return model, optimizer, loader, evaluated, schedule


def epoch_of(accelerator: Any, parts: tuple[Any, ...], epoch: int, clip: float) -> dict[str, Any]:
    import torch

    model, optimizer, loader, evaluated, schedule = parts
    found: dict[str, Any] = {"losses": [], "norms": [], "rates": []}
    model.train()
    loader.set_epoch(epoch)
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            found["losses"].append(accelerator.reduce(loss.detach(), "mean").item())
            accelerator.backward(loss)
            if clip and accelerator.sync_gradients:
                found["norms"].append(accelerator.clip_grad_norm_(model.parameters(), clip).item())
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            found["rates"].append(schedule.get_last_lr()[0])
    model.eval()
    right, seen = 0, 0
    for batch in evaluated:
        with torch.no_grad():
            guesses = model(**batch).logits.argmax(-1)
        guesses, labels = accelerator.gather_for_metrics((guesses, batch["labels"]))
        right, seen = right + int((guesses == labels).sum()), seen + len(labels)
    found["accuracy"] = [right, seen]
    return found


def train(
    kind: str, clip: float = 0.0, saves: str = "", resumes: str = "", workers: int = 0, **given: Any
) -> list[Any]:
    """Trains two epochs; `saves` after the first, or `resumes` with the second. Returns the logged values of each."""
    accelerator = accelerator_of(kind, **given)
    parts = prepared(accelerator, workers)
    found = []
    for epoch in range(2):
        if resumes and epoch == 0:
            accelerator.load_state(resumes)
            continue
        found.append(epoch_of(accelerator, parts, epoch, clip))
        if saves and epoch == 0:
            accelerator.save_state(saves)
    accelerator.free_memory()
    return found


def saves_weights(folder: str) -> dict[str, Any]:
    import torch
    import transformers

    accelerator = accelerator_of("zero", zero={"stage": 3})
    model, *_ = prepared(accelerator)
    accelerator.save_model(model, f"{folder}/plain")
    accelerator.unwrap_model(model).save_pretrained(
        f"{folder}/pretrained",
        is_main_process=accelerator.is_main_process,
        save_function=accelerator.save,
        state_dict=accelerator.get_state_dict(model),
    )
    accelerator.wait_for_everyone()
    read = transformers.BertForSequenceClassification.from_pretrained(f"{folder}/pretrained").state_dict()
    accelerator.free_memory()
    same = {name: torch.equal(value, read[name]) for name, value in model.state_dict().items()}
    return {"same": all(same.values()), "files": sorted(path.name for path in Path(folder, "plain").iterdir())}


def two_networks(kind: str) -> list[float]:
    """The loop of a GAN: two models, two optimizers, optimizers first."""
    import torch

    torch.manual_seed(3)
    maker = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
    judge = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))
    accelerator = accelerator_of(kind, zero={"stage": 3, "device_memory": "min"})
    made = torch.optim.Adam(maker.parameters(), lr=1e-3)
    judged = torch.optim.Adam(judge.parameters(), lr=2e-3)
    made, judged, maker, judge = accelerator.prepare(made, judged, maker, judge)
    torch.manual_seed(10 + accelerator.process_index)
    losses = []
    for _ in range(5):
        noise, real = torch.randn(6, 4), torch.randn(6, 8) + 1
        loss = judge(maker(noise).detach()).mean() - judge(real).mean()
        judged.zero_grad()
        accelerator.backward(loss)
        judged.step()
        losses.append(accelerator.reduce(loss.detach(), "mean").item())
        loss = -judge(maker(noise)).mean()
        made.zero_grad()
        accelerator.backward(loss)
        made.step()
        losses.append(accelerator.reduce(loss.detach(), "mean").item())
    accelerator.free_memory()
    return losses


def leaves_a_step_out() -> list[bool]:
    """Whether each clip_grad_norm_() changes the weights if the program leaves out the first optimizer.step() after
    it."""
    import torch

    model = torch.nn.Linear(2, 1)
    accelerator = accelerator_of("zero", zero={"clip": 1.0})
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    changed = []
    for step in range(3):
        before = model.weight.detach().clone()
        accelerator.backward(model(torch.ones(1, 2)).sum())
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        if step > 0:
            optimizer.step()
        optimizer.zero_grad()
        changed.append(not torch.equal(before, model.weight))
    accelerator.free_memory()
    return changed


def averages_by_file() -> str:
    """A configuration of DeepSpeed makes the engine take the mean of micro-batches. The refused model is whole."""
    import torch

    model = torch.nn.Linear(2, 1)
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2}
    accelerator = accelerator_of("zero", accumulate=2, zero={"config": config})
    found = ranks.error_of(lambda: accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1)))
    return found if model.weight.norm() > 0 else "no values"


def refusals() -> dict[str, str]:
    import torch
    from small_models import batch, make

    found = {
        "fp16": ranks.error_of(lambda: accelerator_of("zero", mixed_precision="fp16")),
        "optimizer": ranks.error_of(lambda: accelerator_of("zero", zero={"optimizer": 1})),
        "average": ranks.error_of(lambda: accelerator_of("zero", zero={"average_micro_batches": True})),
        "average of a file": averages_by_file(),
    }
    accelerator = accelerator_of("zero", accumulate=2, zero={"clip": 0.5})
    model, other = make("bert"), make("gpt2")
    optimizer = torch.optim.AdamW(model.parameters())
    found["no model"] = ranks.error_of(lambda: accelerator.prepare(other, optimizer))
    model, optimizer = accelerator.prepare(model, optimizer)
    with accelerator.accumulate(model):
        accelerator.backward(model(**batch("bert", 0)).loss)
        found["too early"] = ranks.error_of(lambda: accelerator.clip_grad_norm_(model.parameters(), 0.5))
    with accelerator.accumulate(model):
        accelerator.backward(model(**batch("bert", 1)).loss)
        found["max_norm"] = ranks.error_of(lambda: accelerator.clip_grad_norm_(model.parameters(), 1.0))
        found["part"] = ranks.error_of(lambda: accelerator.clip_grad_norm_(list(model.parameters())[:2], 0.5))
        found["value"] = ranks.error_of(lambda: accelerator.clip_grad_value_(model.parameters(), 0.5))
        optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        found["load"] = ranks.error_of(lambda: accelerator.load_state(folder))
    accelerator.free_memory()
    return found


@ranks.needs("transformers", "accelerate")
class Accelerate(ranks.FolderTest):
    def assert_close(self, found: Any, wanted: Any) -> None:
        for own, other in zip(found, wanted, strict=True):
            self.assertEqual((own["accuracy"], own["rates"]), (other["accuracy"], other["rates"]))
            for key in ("losses", "norms"):
                for a, b in zip(own[key], other[key], strict=True):
                    self.assertAlmostEqual(a, b, delta=4e-6 * max(1.0, abs(b)), msg=key)

    def test_nlp_example_equals_ddp(self) -> None:
        found = ranks.run_cases(
            train,
            cases={
                "ddp": {"kind": "torch"},
                "zero": {"kind": "zero", "zero": {"stage": 3, "device_memory": "min"}, "workers": 2},
                "ddp bf16": {"kind": "torch", "mixed_precision": "bf16"},
                "zero bf16": {"kind": "zero", "mixed_precision": "bf16", "zero": {"stage": 3}},
            },
        )
        self.assert_close(found["zero"], found["ddp"])
        for own, other in zip(found["zero bf16"], found["ddp bf16"], strict=True):
            for a, b in zip(own["losses"], other["losses"], strict=True):
                self.assertAlmostEqual(a, b, delta=2e-3 * max(1.0, b))

    def test_accumulation_and_clip_equal_ddp(self) -> None:
        given: dict[str, Any] = {"accumulate": 2, "clip": 0.5}
        zero = {stage: {"kind": "zero", "zero": {"stage": stage, "clip": 0.5}, **given} for stage in (1, 3)}
        found = ranks.run_cases(train, cases={"ddp": {"kind": "torch", **given}, "1": zero[1], "3": zero[3]})
        self.assertEqual([len(epoch["norms"]) for epoch in found["ddp"]], [3, 3])
        self.assert_close(found["1"], found["ddp"])
        self.assertEqual(found["3"], found["1"])

    def test_state_resumes_with_equal_bits(self) -> None:
        given: dict[str, Any] = {"kind": "zero", "accumulate": 2, "clip": 0.5}
        found = ranks.run_cases(
            train,
            cases={
                "unbroken": {"zero": {"stage": 3, "clip": 0.5}, "saves": self.folder, **given},
                "resumed": {"zero": {"stage": 1, "clip": 0.5}, "resumes": self.folder, **given},
            },
        )
        self.assertTrue(Path(self.folder, "zero").is_dir())
        self.assertEqual(found["resumed"], found["unbroken"][1:])

    @ranks.whole
    def test_weights_are_saved_whole(self) -> None:
        for of_rank in ranks.run(saves_weights, folder=self.folder):
            self.assertEqual(of_rank, {"same": True, "files": ["model.safetensors"]})

    def test_two_networks_equal_ddp(self) -> None:
        found = ranks.run_cases(two_networks, cases={"torch": {"kind": "torch"}, "zero": {"kind": "zero"}})
        for a, b in zip(found["zero"], found["torch"], strict=True):
            self.assertAlmostEqual(a, b, delta=2e-6)

    def test_step_left_out_after_clip(self) -> None:
        self.assertEqual(ranks.run(leaves_a_step_out, ranks=1)[0], [True, True, True])

    def test_impossible_calls_are_refused(self) -> None:
        found = ranks.run(refusals, ranks=1)[0]
        for name, pattern in {
            "fp16": "mixed_precision = fp16: ",
            "optimizer": "zero.optimizer = 1: ",
            "average": "zero.average_micro_batches = True: ",
            "average of a file": "zero.average_micro_batches = True: ",
            "no model": "prepare = AdamW: no prepared model",
            "too early": "clip_grad_norm_ = 0.5: .* not complete",
            "max_norm": "clip_grad_norm_.max_norm = 1.0: the engine clips at 0.5",
            "part": "clip_grad_norm_ = bert.*: it is not among",
            "value": "clip_grad_value_ = 0.5: ",
            "load": "load_state = .*: it has no folder zero",
        }.items():
            with self.subTest(name):
                self.assertRegex(found[name], f"ConfigError: {pattern}(.|\n)*\n  ")


if __name__ == "__main__":
    unittest.main()
