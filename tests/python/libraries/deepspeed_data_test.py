#!/usr/bin/env python3
"""Loaders of zerocpp.deepspeed give samples in DeepSpeed's order."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

if not ranks.why_not():
    import torch

    sys.path.insert(0, str(ranks.PACKAGE))
    import zerocpp
    import zerocpp.deepspeed as deepspeed


class Data(ranks.PackageTest):
    def test_evaluation_keeps_sample_order(self) -> None:
        model = torch.nn.Linear(2, 2)
        config = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "Adam", "params": {"lr": 0.1}}}
        engine, *_ = deepspeed.initialize(model=model, config=config, collate_fn=lambda samples: ("collated", samples))
        data: list[int] = list(range(30))
        for route in ("eval", "predict"):
            loader = engine.deepspeed_io(data, 4, route)  # type: ignore[arg-type]
            self.assertEqual([sample for kind, own in loader for sample in own if kind == "collated"], data)
        found = [sample for _, own in engine.deepspeed_io(data, 4) for sample in own]  # type: ignore[arg-type]
        self.assertNotEqual(found, data)
        self.assertEqual(sorted(found), data)
        with self.assertRaisesRegex(zerocpp.ConfigError, 'route = "evaluate": no such route'):
            engine.deepspeed_io(data, route="evaluate")  # type: ignore[arg-type]
        engine.destroy()


if __name__ == "__main__":
    unittest.main()
