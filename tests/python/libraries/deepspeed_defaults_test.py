#!/usr/bin/env python3
"""The defaults of zerocpp.deepspeed: those of `zero convert`, and those of the installed DeepSpeed.

ZERO_TEST_DEEPSPEED names a folder with DeepSpeed's sources. Without it only the two tables here are compared.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

TABLE = ranks.ROOT / "app/config/deepspeed/deepspeed_defaults.cpp"
SCRIPT = ranks.ROOT / "tests/config/deepspeed_defaults.py"
VERSION = "0.19.8"


def defaults() -> dict[str, Any]:
    """The defaults of zerocpp.deepspeed, by the names of the table: what it reads from a file without the keys."""
    import inspect
    import math

    from zerocpp.deepspeed import _config, _schedules

    def read(**given: Any) -> Any:
        return _config.Reader({"train_batch_size": 1, **given}, 1).read()

    found: dict[str, Any] = {"gradient_clipping": read().clip, "zero_optimization.stage": read().stage}
    scale = read(fp16={"enabled": True}).options["loss_scale"]
    found["fp16.loss_scale"] = 0 if isinstance(scale, dict) else scale  # 0: dynamic
    found["fp16.initial_scale_power"] = math.log2(scale["first"])
    for theirs, own in (
        ("loss_scale_window", "interval"),
        ("hysteresis", "hysteresis"),
        ("min_loss_scale", "least"),
        ("consecutive_hysteresis", "restored_by_update"),
    ):
        found[f"fp16.{theirs}"] = scale[own]
    states = {"stage": 1, "offload_optimizer": {"device": "cpu"}}
    moved = read(zero_optimization=states).options
    found["zero_optimization.offload_optimizer.ratio"] = moved["offload"]["optimizer"]["host"]
    found["zero_optimization.zero_hpz_partition_size"] = moved.get("secondary_group", 1)
    rules: list[tuple[str, str, dict[str, Any]]] = [
        ("adam", "Adam", {}),
        ("adam", "AdamW", {}),
        ("torch_adamw", "AdamW", {"torch_adam": True}),
        ("torch_adam", "Adam", {"torch_adam": True, "adam_w_mode": False}),
        ("sgd", "SGD", {}),
        ("lamb", "Lamb", {}),
        ("lion", "Lion", {}),
        ("muon", "Muon", {}),
    ]
    for table, kind, params in rules:
        rule, values = read(optimizer={"type": kind, "params": params}).optimizer
        if not params and kind == "Adam":
            found["optimizer.params.adam_w_mode"] = rule == "adamw"
        for key, value in values.items():
            if key == "betas":
                found[f"{table}.beta1"], found[f"{table}.beta2"] = value
            else:
                found[f"{table}.{'adam_lr' if key == 'adamw_lr' else key}"] = value
    for name, schedule in _schedules.SCHEDULES.items():
        for key, parameter in inspect.signature(schedule.__init__).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                found[f"{name}.{key}"] = parameter.default
    return found


def table() -> dict[str, float]:
    """The rows of the table of `zero convert`."""
    rows = re.findall(r'DeepSpeedDefault\{"([^"]+)", ([^}]+)\}', TABLE.read_text())
    return {name: float(value) for name, value in rows}


def installed() -> dict[str, Any]:
    """The defaults in DeepSpeed's sources; empty without sources of the version."""
    folder = os.environ.get("ZERO_TEST_DEEPSPEED", "")
    if not folder or not Path(folder, "deepspeed").is_dir():
        return {}
    text = subprocess.run(
        [sys.executable, str(SCRIPT), "deepspeed"],
        env={**os.environ, "PYTHONPATH": folder},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, Any] = json.loads(text)
    return found if found["version"] == VERSION else {}


class Defaults(ranks.PackageTest):
    ours: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.ours = ranks.run(defaults, ranks=1)[0]

    def test_both_tables_are_equal(self) -> None:
        rows = table()
        self.assertGreater(len(rows), 50)
        for name, value in rows.items():
            with self.subTest(name):
                self.assertEqual(self.ours[name], value)

    def test_are_those_of_the_installed_package(self) -> None:
        theirs = installed()
        if not theirs:
            self.skipTest(f"ZERO_TEST_DEEPSPEED does not name a folder with the sources of DeepSpeed {VERSION}")
        for name, value in self.ours.items():
            with self.subTest(name):
                self.assertIn(name, theirs)
                self.assertEqual(value, theirs[name])


if __name__ == "__main__":
    unittest.main()
