#!/usr/bin/env python3
"""ZeroStrategy logs the same values as Lightning's DDPStrategy."""

from __future__ import annotations

import logging
import sys
import unittest
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

EPOCH = 40  # samples; 2 ranks of 4 make 5 batches, so accumulation by 2 ends with a single batch


def tokens(workers: int = 0) -> Any:
    """workers: number of forked processes of the loader."""
    import torch
    from small_models import sentences

    return torch.utils.data.DataLoader(sentences(EPOCH), batch_size=4, shuffle=False, num_workers=workers)


def language_model() -> Any:
    import lightning
    import torch
    from small_models import make

    class Llama(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = make("llama")
            self.seen: dict[str, list[float]] = {"loss": [], "val_loss": [], "rate": []}

        def training_step(self, batch: Any, number: int) -> Any:
            loss = self.model(**batch).loss
            self.log("train_loss", loss, sync_dist=True)
            self.seen["loss"].append(self.trainer.strategy.reduce(loss.detach()).item())
            self.seen["rate"].append(self.optimizers().param_groups[0]["lr"])
            return loss

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("val_loss", self.model(**batch).loss, sync_dist=True)

        def on_validation_epoch_end(self) -> None:
            self.seen["val_loss"].append(self.trainer.callback_metrics["val_loss"].item())

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    return Llama()


def trainer_of(kind: str, zero: dict[str, Any] | None = None, **given: Any) -> Any:
    import os

    import lightning
    from lightning.pytorch.strategies import DDPStrategy

    import zerocpp.lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    options: dict[str, Any] = dict(
        accelerator="cpu",
        devices=int(os.environ.get("WORLD_SIZE", "1")),
        max_epochs=2,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        num_sanity_val_steps=1,
    )
    strategy = (
        DDPStrategy(find_unused_parameters=True) if kind == "torch" else zerocpp.lightning.ZeroStrategy(**(zero or {}))
    )
    return lightning.Trainer(**{"strategy": strategy, **options, **given})


def fit(kind: str, saves: str = "", resumes: str = "", workers: int = 0, **given: Any) -> dict[str, Any]:
    """Trains two epochs; `saves` into that folder, or continues from epoch 1 of the folder `resumes`."""
    import os

    import lightning

    world = os.environ.get("WORLD_SIZE")
    if saves:
        given["callbacks"] = lightning.pytorch.callbacks.ModelCheckpoint(saves, filename="{epoch}", save_top_k=-1)
        given["enable_checkpointing"] = True
    module = language_model()
    checkpoint = f"{resumes}/epoch=0.ckpt" if resumes else None
    trainer_of(kind, **given).fit(module, tokens(workers), tokens(workers), ckpt_path=checkpoint)
    if world is not None:
        os.environ["WORLD_SIZE"] = world  # Lightning removes it at its end
    return module.seen


def fits_without_launcher() -> list[float]:
    return fit("zero", devices=2, max_epochs=1)["loss"]


def saves_and_tests(folder: str) -> dict[str, Any]:
    """Only the best two checkpoints stay, the best one is tested, and its weights are read without an engine."""
    import lightning
    import torch

    module = language_model()
    kept = lightning.pytorch.callbacks.ModelCheckpoint(folder, filename="{step}", monitor="val_loss", save_top_k=2)
    trainer = trainer_of(
        "zero",
        zero={"stage": 3},
        max_epochs=3,
        callbacks=[kept],
        enable_checkpointing=True,
    )
    module.test_step = module.validation_step
    trainer.fit(module, tokens(), tokens())
    best = trainer.test(module, tokens(), ckpt_path="best", verbose=False)[0]["val_loss"]
    values = torch.load(kept.best_model_path, weights_only=False)["state_dict"]
    fresh = language_model()
    fresh.load_state_dict(values)
    return {
        "files": sorted(path.name for path in Path(folder).iterdir()),
        "best": [best, kept.best_model_score.item()],
        "fresh": all(torch.equal(value, module.state_dict()[name]) for name, value in fresh.state_dict().items()),
    }


def saves_after_the_end(folder: str) -> dict[str, Any]:
    """A save after fit(), at the path of a save during fit(). Only the first one has the states of optimizers."""
    import lightning

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("zerocpp").addHandler(handler)
    file = f"{folder}/new/a.ckpt"

    class Saves(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, *arguments: Any) -> None:
            found.append(ranks.error_of(lambda: trainer.save_checkpoint(file)))
            kept.append([Path(file).exists(), Path(f"{file}.zero").exists()])

    found: list[str] = []
    kept: list[list[bool]] = []
    trainer = trainer_of("zero", max_steps=1, max_epochs=1, accumulate_grad_batches=2, callbacks=[Saves()])
    trainer.fit(language_model(), tokens())
    trainer.save_checkpoint(file)
    again = ranks.error_of(lambda: trainer_of("zero").fit(language_model(), tokens(), ckpt_path=file))
    kept.append([Path(file).exists(), Path(f"{file}.zero").exists()])
    return {"errors": found, "kept": kept, "again": again, "lines": [line for line in lines if "closed" in line]}


def rival_networks() -> Any:
    import lightning
    import torch
    from torch import nn

    class Rivals(lightning.LightningModule):
        """A GAN as in Lightning's examples: two optimizers that are toggled, and a frozen module beside them."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.automatic_optimization = False
            self.maker = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 8))
            self.judges = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 1)])
            self.frozen = nn.Linear(8, 8).requires_grad_(False)
            self.seen: list[float] = []

        def judge(self, x: torch.Tensor) -> torch.Tensor:
            return self.judges[1](torch.tanh(self.judges[0](self.frozen(x)))).mean()

        def training_step(self, batch: Any, number: int) -> None:
            made, judged = self.optimizers()
            noise, real = batch
            self.toggle_optimizer(made)
            loss = -self.judge(self.maker(noise))
            self.manual_backward(loss)
            made.step()
            made.zero_grad()
            self.untoggle_optimizer(made)
            self.toggle_optimizer(judged)
            other = self.judge(self.maker(noise).detach()) - self.judge(real)
            self.manual_backward(other)
            judged.step()
            judged.zero_grad()
            self.untoggle_optimizer(judged)
            self.seen += [self.trainer.strategy.reduce(x.detach()).item() for x in (loss, other)]

        def configure_optimizers(self) -> Any:
            return [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (self.maker, self.judges)]

    return Rivals()


def rivals(kind: str, resumes: str = "", **given: Any) -> list[float]:
    import os

    import torch

    world = os.environ.get("WORLD_SIZE")
    random = torch.Generator().manual_seed(5)
    pairs = torch.utils.data.TensorDataset(
        torch.randn(40, 4, generator=random), torch.randn(40, 8, generator=random) + 1
    )
    module = rival_networks()
    trainer = trainer_of(kind, zero={"stage": 3, "device_memory": "min"}, **given)
    trainer.fit(module, torch.utils.data.DataLoader(pairs, batch_size=4), ckpt_path=resumes or None)
    if resumes == "" and kind == "zero":
        assert {tuple(p.shape) for p in module.maker.parameters()} == {(16, 4), (16,), (8, 16), (8,)}
    if world is not None:
        os.environ["WORLD_SIZE"] = world
    return module.seen


def both_rivals(folder: str) -> list[list[float]]:
    import lightning

    found = [rivals("torch"), rivals("zero")]
    kept = lightning.pytorch.callbacks.ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1)
    rivals("zero", max_epochs=1, callbacks=[kept], enable_checkpointing=True)
    return [*found, rivals("zero", resumes=f"{folder}/epoch=0.ckpt")]


def refusals() -> dict[str, str]:
    import torch

    def fits_with(**given: Any) -> str:
        return ranks.error_of(lambda: trainer_of("zero", **given).fit(language_model(), tokens()))

    def evaluates_within_a_step(**given: Any) -> str:
        given.update(accumulate_grad_batches=4, val_check_interval=3, num_sanity_val_steps=0, max_epochs=1, max_steps=1)
        return ranks.error_of(lambda: trainer_of("zero", **given).fit(language_model(), tokens(), tokens()))

    raises = language_model()
    raises.training_step = lambda batch, batch_idx: raises.model(**batch).loss if batch_idx == 0 else 1 / 0
    half = rival_networks()
    half.configure_optimizers = lambda: [
        torch.optim.SGD([half.maker[0].weight, half.maker[2].weight], lr=0.1),
        torch.optim.SGD([half.maker[0].bias, *half.judges.parameters()], lr=0.1),
    ]
    return {
        "accumulate": fits_with(zero={"accumulate": 2}),
        "clip twice": fits_with(zero={"clip": 1.0}, gradient_clip_val=1.0),
        "value": fits_with(gradient_clip_val=1.0, gradient_clip_algorithm="value"),
        "precision": fits_with(precision="64-true"),
        "average": fits_with(zero={"average_micro_batches": True}),
        "within": evaluates_within_a_step(enable_checkpointing=True),
        "without a checkpoint": evaluates_within_a_step(),
        "option": fits_with(zero={"stagee": 3}),
        "raises": ranks.error_of(lambda: trainer_of("zero").fit(raises, tokens())),
        "half": ranks.error_of(lambda: trainer_of("zero").fit(half, tokens())),
        "registered": ranks.error_of(
            lambda: trainer_of("zero", strategy="zero_stage_1").fit(language_model(), tokens())
        ),
    }


@ranks.needs("transformers", "lightning")
class Lightning(ranks.FolderTest):
    def assert_close(self, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        self.assertEqual(found["rate"], wanted["rate"])
        for key in ("loss", "val_loss"):
            self.assertGreater(len(wanted[key]), 1)
            for a, b in zip(found[key], wanted[key], strict=True):
                self.assertAlmostEqual(a, b, delta=2e-6 * max(1.0, b), msg=key)

    def test_fit_equals_ddp(self) -> None:
        options: dict[str, Any] = {"gradient_clip_val": 0.5, "accumulate_grad_batches": 2}
        found = ranks.run_cases(
            fit,
            cases={
                "ddp": {"kind": "torch"},
                "zero": {"kind": "zero", "zero": {"stage": 3, "device_memory": "min"}, "workers": 2},
                "ddp 2": {"kind": "torch", **options},
                "zero 2": {"kind": "zero", "zero": {"stage": 1}, **options},
            },
        )
        self.assert_close(found["zero"], found["ddp"])
        self.assert_close(found["zero 2"], found["ddp 2"])
        self.assertNotEqual(found["ddp"]["loss"], found["ddp 2"]["loss"])

    @ranks.whole
    def test_loaders_fork_beside_gloo(self) -> None:
        """Without guard_forks() four of ten such runs did not end (python/extension/fork_lock.h)."""
        case: dict[str, Any] = {"kind": "zero", "zero": {"stage": 3, "device_memory": "min"}, "workers": 2}
        for _ in range(3):
            ranks.run_cases(fit, cases={str(number): case for number in range(4)})

    @ranks.whole
    def test_lightning_starts_the_ranks(self) -> None:
        wanted = ranks.run_cases(fit, cases={"zero": {"kind": "zero", "max_epochs": 1}})["zero"]["loss"]
        self.assertEqual(ranks.run(fits_without_launcher, ranks=1)[0], wanted)

    def test_checkpoint_resumes_with_equal_bits(self) -> None:
        given: dict[str, Any] = {"kind": "zero", "gradient_clip_val": 0.5, "accumulate_grad_batches": 2}
        found = ranks.run_cases(
            fit,
            cases={
                "unbroken": {"zero": {"stage": 3}, "saves": self.folder, **given},
                "resumed": {"zero": {"stage": 1}, "resumes": self.folder, "num_sanity_val_steps": 0, **given},
            },
        )
        self.assertEqual(found["resumed"]["loss"], found["unbroken"]["loss"][5:])
        self.assertEqual(found["resumed"]["rate"], found["unbroken"]["rate"][5:])
        self.assertEqual(found["resumed"]["val_loss"], found["unbroken"]["val_loss"][-1:])

    @ranks.whole
    def test_best_checkpoints_stay_and_are_tested(self) -> None:
        found = ranks.run(saves_and_tests, folder=self.folder)[0]
        self.assertEqual(found["files"], ["step=10.ckpt", "step=10.ckpt.zero", "step=15.ckpt", "step=15.ckpt.zero"])
        self.assertAlmostEqual(*found["best"], delta=1e-6)
        self.assertTrue(found["fresh"])

    def test_two_optimizers_equal_ddp(self) -> None:
        wanted, found, resumed = ranks.run(both_rivals, folder=self.folder)[0]
        for a, b in zip(found, wanted, strict=True):
            self.assertAlmostEqual(a, b, delta=2e-6)
        self.assertEqual(resumed, found[10:])

    def test_checkpoint_after_fit_has_no_states(self) -> None:
        found = ranks.run(saves_after_the_end, ranks=1, folder=self.folder)[0]
        self.assertRegex(
            found["errors"][0], "ConfigError: save_checkpoint = .*: 2 micro-batches make a step(.|\n)*\n  "
        )
        self.assertEqual(found["errors"][1:], [""])
        self.assertEqual(found["kept"], [[False, False], [True, True], [True, False]])
        self.assertRegex(found["again"], "ConfigError: ckpt_path = .*: there is no folder ")
        self.assertEqual(len(found["lines"]), 1)

    def test_impossible_arguments_are_refused(self) -> None:
        found = ranks.run(refusals, ranks=1)[0]
        for name, pattern in {
            "accumulate": "ZeroStrategy.accumulate = 2: ",
            "clip twice": "ZeroStrategy.clip = 1.0: ",
            "value": "Trainer.gradient_clip_algorithm = value: ",
            "precision": "Trainer.precision = 64-true: ",
            "average": "ZeroStrategy.average_micro_batches = True: ",
            "within": "Trainer.val_check_interval = 3: a checkpoint after 3 batches is within a step of 4",
            "half": "configure_optimizers = maker.0.weight: other parameters",
            "option": "attach = stagee: no such option",
        }.items():
            with self.subTest(name):
                self.assertRegex(found[name], f"ConfigError: {pattern}(.|\n)*\n  ")
        self.assertEqual(found["registered"], "")
        self.assertEqual(found["without a checkpoint"], "")
        self.assertEqual(found["raises"], "ZeroDivisionError: division by zero")


if __name__ == "__main__":
    unittest.main()
