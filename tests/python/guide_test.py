#!/usr/bin/env python3
"""The examples of docs/guide/python.md: two ranks run each block of Python."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import tempfile
import traceback
import types
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ranks

GUIDE = ranks.ROOT / "docs/guide/python.md"
CONFIGURATIONS = {
    "zero.toml": '[zero]\nstage = 3\n[optimizer]\nname = "adamw"\nlr = 1e-3\n',
    "ds_config.json": '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}}',
}


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def is_integration(text: str) -> bool:
    return re.search(r"zerocpp\.(transformers|accelerate|lightning|deepspeed)", text) is not None


def names_for(text: str) -> dict[str, Any]:
    """Names that a block uses but does not define."""
    import torch
    import zerocpp as zero

    class Net(torch.nn.Module):
        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.body = torch.nn.Linear(4, width)
            self.head = torch.nn.Linear(width, 3)
            self.blocks = [self.body, self.head]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.body(x)))

    torch.manual_seed(zero.world().rank)
    names: dict[str, Any] = {"torch": torch, "zero": zero, "Net": Net, "model": Net()}
    names["optimizer"] = torch.optim.AdamW(names["model"].parameters(), lr=3e-4)
    names["loader"] = [(torch.randn(4, 4), torch.randint(0, 3, (4,))) for _ in range(6)]
    if "ZeroTrainer" in text or "peft" in text:
        from small_models import make

        names["model"] = make("gpt2")
    if "peft" in text:
        names["peft"] = importlib.import_module("peft")
    if "ZeroTrainer" in text:
        import transformers
        from small_models import batch

        samples = [batch("gpt2", step) for step in range(2)]
        names["data"] = [{key: values[i] for key, values in rows.items()} for rows in samples for i in range(4)]
        options: dict[str, Any] = {"report_to": "none", "use_cpu": True, "save_strategy": "no", "ddp_backend": "gloo"}
        names["args"] = transformers.TrainingArguments("out", max_steps=1, per_device_train_batch_size=2, **options)
        # trl need not be installed, because its trainer is a subclass of Trainer.
        names["trl"] = types.SimpleNamespace(SFTTrainer=transformers.Trainer)
    return names


def run_block(number: int, text: str) -> list[str]:
    """Returns the names that the block defined."""
    import torch

    names = names_for(text)
    before = set(names)
    exec(compile(text, f"{GUIDE.name}, block {number}", "exec"), names)
    if "trainer" in names:
        names["trainer"].train()
    if "engine" in names:
        names["engine"].close()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return sorted(set(names) - before)


def run_blocks(numbers: list[int], folder: str) -> list[list[str] | str]:
    """Runs blocks in `folder`, one after another. Returns the names that each defined, or its error."""
    os.chdir(folder)
    found: list[list[str] | str] = []
    for number in numbers:
        try:
            found.append(run_block(number, blocks()[number]))
        except Exception:
            found.append(traceback.format_exc())
    return found


class Guide(ranks.PackageTest):
    def run_all(self, wanted: Callable[[str], bool]) -> int:
        numbers = [number for number, text in enumerate(blocks()) if wanted(text)]
        with tempfile.TemporaryDirectory() as folder:
            for name, content in CONFIGURATIONS.items():
                Path(folder, name).write_text(content)
            Path(folder, "states").mkdir()
            found = ranks.run(run_blocks, numbers=numbers, folder=folder)
        for number, first, second in zip(numbers, *found, strict=True):
            with self.subTest(blocks()[number]):
                self.assertIsInstance(first, list, first)
                self.assertEqual(first, second)
        return len(numbers)

    def test_every_block_runs(self) -> None:
        without = "peft" if importlib.util.find_spec("peft") is None else "\0"
        self.assertGreaterEqual(self.run_all(lambda text: not is_integration(text) and without not in text), 9)

    # The tests of other trainers run the blocks with these trainers.
    def test_blocks_of_trainers_compile(self) -> None:
        for text in filter(is_integration, blocks()):
            compile(text, GUIDE.name, "exec")

    def test_block_of_trainer_runs(self) -> None:
        for needed in ("transformers", "accelerate"):
            if importlib.util.find_spec(needed) is None:
                self.skipTest(f"this Python has no {needed}")
        self.assertEqual(self.run_all(lambda text: "ZeroTrainer(" in text), 1)


if __name__ == "__main__":
    unittest.main()
