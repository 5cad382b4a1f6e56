#!/usr/bin/env python3
"""offload_states() and reload_states() of zerocpp.deepspeed: states move to a folder, and losses stay the same."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

if not ranks.why_not():
    import torch

    sys.path.insert(0, str(ranks.PACKAGE))
    import zerocpp
    import zerocpp.deepspeed as deepspeed
    from zerocpp.deepspeed.runtime.zero.offload_config import OffloadDeviceEnum, OffloadStateTypeEnum

STEPS = 4


def engine_of(offload: dict[str, Any] | None = None, **keys: Any) -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    states = {"stage": 3} if offload is None else {"stage": 3, "offload_optimizer": offload}
    config = {"train_micro_batch_size_per_gpu": 3, "zero_optimization": states, **keys}
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]


def trained(offload: dict[str, Any] | None = None, **keys: Any) -> Any:
    return engine_of(offload, optimizer={"type": "AdamW", "params": {"lr": 1e-2}}, **keys)


def loss_of(engine: Any, step: int) -> Any:
    random = torch.Generator().manual_seed(step)
    x, y = torch.randn(3, 8, generator=random), torch.randn(3, 4, generator=random)
    return torch.nn.functional.mse_loss(engine(x.to(engine.module[0].weight.dtype)).float(), y)


def train_step(engine: Any, step: int) -> float:
    loss = loss_of(engine, step)
    engine.backward(loss)
    engine.step()
    return loss.item()


class OffloadStates(ranks.FolderTest):
    def on_disk(self, **keys: Any) -> Any:
        return trained({"device": "none", "nvme_path": self.folder}, **keys)

    def test_moved_states_keep_losses(self) -> None:
        for keys in ({}, {"bf16": {"enabled": True}}):
            still = trained(**keys)
            expected = [train_step(still, step) for step in range(STEPS)]
            still.destroy()
            engine, found = self.on_disk(**keys), []
            for step in range(STEPS):
                if step == 1:
                    engine.offload_states(device=OffloadDeviceEnum.nvme, pin_memory=False, non_blocking=True)
                if step == 3:
                    engine.reload_states(non_blocking=True)
                found.append(train_step(engine, step))
                held = engine.core.report()
                self.assertEqual(held.memory["moment"] == 0, step in (1, 2))
                self.assertEqual(held.disk_memory["moment"] > 0, step in (1, 2))
            self.assertEqual(found, expected)
            engine.destroy()

    def test_included_states_move(self) -> None:
        engine = self.on_disk()
        for state, tag in (
            (OffloadStateTypeEnum.optim_states, "moment"),
            (OffloadStateTypeEnum.lp_params, "parameter"),
            ("lp_grads", "gradient"),
        ):
            engine.offload_states(include=[state], device="nvme")
            train_step(engine, 0)
            held = engine.core.report().disk_memory
            self.assertEqual(sorted(name for name, size in held.items() if size > 0), sorted({tag, "total"}))
            engine.reload_states()
        engine.offload_states(include=[], device="nvme")
        train_step(engine, 1)
        self.assertEqual(engine.core.report().disk_memory["total"], 0)
        engine.destroy()

    def test_main_memory_is_no_move(self) -> None:
        engine = trained()
        for device, text in (("cpu", "in main memory already"), ("none", "nothing moves")):
            with self.assertLogs("zerocpp", "WARNING") as log:
                engine.offload_states(device=device)
            self.assertIn(text, log.output[0])
        engine.reload_states()
        self.assertEqual(engine.core.report().moved_bytes, 0)
        engine.destroy()

    def test_impossible_moves_are_refused(self) -> None:
        def refused(engine: Any, pattern: str, **arguments: Any) -> None:
            with self.assertRaisesRegex(zerocpp.ConfigError, pattern):
                engine.offload_states(**arguments)

        engine = trained({"device": "none", "nvme_path": self.folder + "/missing"})
        refused(engine, "that folder is missing\n  write zero_optimization.offload_optimizer", device="nvme")
        refused(engine, "device = .disk.: no such device\n  use none, cpu or nvme", device="disk")
        refused(engine, "include = .moments.: no such state\n  use optim_states", include=["moments"])
        engine.destroy()
        engine = trained({"device": "nvme", "nvme_path": self.folder})
        refused(engine, "place states for the whole run\n  write .device.: .none.", device="nvme")
        engine.destroy()
        engine = self.on_disk()
        engine.backward(loss_of(engine, 0))
        refused(engine, r"between a backward pass and its step\(\)", device="nvme")
        engine.step()
        engine.destroy()
        engine = engine_of()
        refused(engine, r"offload_states\(\) needs an optimizer")
        engine.destroy()


if __name__ == "__main__":
    unittest.main()
