#!/usr/bin/env python3
"""The examples of docs/guide/python.md: each block of Python runs on two ranks."""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
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


def run_block(number: int, folder: str) -> list[str]:
    """Runs a block in `folder`, with the names that it does not make itself. Returns the names that it made."""
    import torch
    import zerocpp as zero

    class Net(torch.nn.Module):
        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.body = torch.nn.Linear(4, width)
            self.head = torch.nn.Linear(width, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(torch.relu(self.body(x)))

    os.chdir(folder)
    torch.manual_seed(zero.world().rank)
    names: dict[str, Any] = {"torch": torch, "zero": zero, "Net": Net}
    names["loader"] = [(torch.randn(4, 4), torch.randint(0, 3, (4,))) for _ in range(6)]
    text = blocks()[number]
    if "ZeroTrainer" in text:
        import transformers
        from small_models import batch, make

        samples = [batch("gpt2", step) for step in range(2)]
        names["data"] = [{key: values[i] for key, values in rows.items()} for rows in samples for i in range(4)]
        names["model"] = make("gpt2")
        options: dict[str, Any] = {"report_to": "none", "use_cpu": True, "save_strategy": "no", "ddp_backend": "gloo"}
        names["args"] = transformers.TrainingArguments("out", max_steps=1, per_device_train_batch_size=2, **options)
    before = set(names)
    exec(compile(text, f"{GUIDE.name}, block {number}", "exec"), names)
    if "trainer" in names:
        names["trainer"].train()
    return sorted(set(names) - before)


class Guide(ranks.PackageTest):
    def run_all(self, wanted: Callable[[str], bool]) -> int:
        count = 0
        for number, text in enumerate(blocks()):
            if not wanted(text):
                continue
            count += 1
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                for name, content in CONFIGURATIONS.items():
                    Path(folder, name).write_text(content)
                made = ranks.run(run_block, number=number, folder=folder)
                self.assertEqual(made[0], made[1])
                self.assertTrue(made[0])
        return count

    def test_every_block_runs(self) -> None:
        self.assertGreaterEqual(self.run_all(lambda text: not is_integration(text)), 5)

    # Blocks with other trainers are run by the tests of these trainers.
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
