#!/usr/bin/env python3
"""Learning-rate schedules of zerocpp.deepspeed have DeepSpeed's rates.

ZERO_TEST_DEEPSPEED names a folder with DeepSpeed's sources. Without it the rates are compared only with those in this
file.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import types
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

STEPS = 40
CASES: list[tuple[str, dict[str, Any]]] = [
    ("WarmupLR", {"warmup_min_lr": 1e-4, "warmup_max_lr": 1e-2, "warmup_num_steps": 8}),
    ("WarmupLR", {"warmup_num_steps": 1, "warmup_type": "linear"}),
    ("WarmupDecayLR", {"total_num_steps": 30, "warmup_num_steps": 7, "warmup_min_lr": 1e-5}),
    ("WarmupDecayLR", {"total_num_steps": 5, "warmup_num_steps": 9, "warmup_type": "linear"}),
    ("WarmupCosineLR", {"total_num_steps": 30, "warmup_num_steps": 7, "warmup_min_ratio": 0.1}),
    ("WarmupCosineLR", {"total_num_steps": 6, "warmup_num_steps": 9, "cos_min_ratio": 0.2, "warmup_type": "linear"}),
    ("LRRangeTest", {"lr_range_test_step_size": 4, "lr_range_test_step_rate": 0.5}),
    ("LRRangeTest", {"lr_range_test_step_size": 3, "lr_range_test_staircase": True}),
    ("OneCycle", {"cycle_min_lr": [1e-4, 2e-4], "cycle_max_lr": 1e-2, "cycle_first_step_size": 10}),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 7, "cycle_second_step_size": 12,
                  "decay_lr_rate": 0.1, "decay_step_size": 4, "decay_mom_rate": 0.01, "cycle_max_mom": [0.9, 0.8]}),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 9, "cycle_first_stair_count": 3,
                  "cycle_second_step_size": 12, "cycle_second_stair_count": 4, "decay_lr_rate": 1,
                  "decay_step_size": 5}),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-2, "cycle_first_step_size": 9, "cycle_second_step_size": 0,
                  "cycle_momentum": False}),
]  # fmt: skip


def optimizer() -> Any:
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (3e-3, 5e-4)]
    return torch.optim.AdamW(groups)


def rates(kind: Any, given: dict[str, Any]) -> list[list[float]]:
    """Rates and betas of the two groups in each step; a second schedule continues from the middle."""
    own = optimizer()
    schedule = kind(own, **given)
    found = []
    for step in range(STEPS):
        found.append([value for group in own.param_groups for value in (float(group["lr"]), *group["betas"])])
        if step == STEPS // 2:
            state, schedule = schedule.state_dict(), kind(own, **given)
            schedule.load_state_dict(state)
        schedule.step()
    return found


def sources() -> Any:
    """DeepSpeed's module of schedules, which needs only a logger of DeepSpeed; None if there are no sources."""
    folder = os.environ.get("ZERO_TEST_DEEPSPEED")
    file = Path(folder or "", "deepspeed/runtime/lr_schedules.py")
    if not folder or not file.exists():
        return None
    quiet = logging.getLogger("lr_schedules")
    quiet.setLevel(logging.CRITICAL)
    stand_ins = {"deepspeed": types.ModuleType("deepspeed"), "deepspeed.utils": types.ModuleType("deepspeed.utils")}
    stand_ins["deepspeed.utils"].logger = quiet  # type: ignore[attr-defined]
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        spec = importlib.util.spec_from_file_location("lr_schedules", file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        for name, earlier in before.items():
            if earlier is None:
                del sys.modules[name]
            else:
                sys.modules[name] = earlier
    return module


class Schedules(ranks.PackageTest):
    def test_rates_are_those_of_deepspeed(self) -> None:
        theirs = sources()
        if theirs is None:
            self.skipTest("ZERO_TEST_DEEPSPEED does not name a folder with DeepSpeed's sources")
        for name, given in CASES:
            with self.subTest(name, given=given):
                found = rates(getattr(deepspeed, name), given)
                for own, other in zip(found, rates(getattr(theirs, name), given), strict=True):
                    for one, two in zip(own, other, strict=True):
                        self.assertAlmostEqual(one, two, delta=1e-12)

    def test_one_cycle_rises_and_falls(self) -> None:
        given = {"cycle_min_lr": 0.1, "cycle_max_lr": 0.5, "cycle_first_step_size": 2, "cycle_second_step_size": 4}
        found = [group[0] for group in rates(deepspeed.OneCycle, {**given, "decay_lr_rate": 1, "decay_step_size": 2})]
        for one, other in zip(found, [0.1, 0.3, 0.5, 0.4, 0.3, 0.2, 0.1, 0.1 / 1.5, 0.05, 0.04], strict=False):
            self.assertAlmostEqual(one, other)

    def test_impossible_cycles_are_refused(self) -> None:
        for given, text in (
            ({"cycle_first_step_size": 0}, "cycle_first_step_size = 0.0: not above 0"),
            ({"cycle_second_step_size": -1}, "cycle_second_step_size = -1.0: not 0 or more"),
            ({"cycle_max_lr": [1, 2, 3]}, "the optimizer has 2 groups"),
            ({"cycle_min_mom": [1, 2, 3]}, "the optimizer has 2 groups"),
        ):
            with self.subTest(text), self.assertRaisesRegex(zerocpp.ConfigError, text):
                deepspeed.OneCycle(optimizer(), **{"cycle_min_lr": 0.1, "cycle_max_lr": 0.5, **given})

    def test_betas_of_engines_are_not_cycled(self) -> None:
        params = {"cycle_min_lr": 0.1, "cycle_max_lr": 0.5, "cycle_first_step_size": 2}
        config = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "Adam", "params": {"lr": 0.1}}}
        model = torch.nn.Linear(2, 2)
        given: dict[str, Any] = {"model": model, "model_parameters": list(model.parameters())}
        schedule = {"type": "OneCycle", "params": params}
        with self.assertRaisesRegex(zerocpp.ConfigError, "scheduler.params.cycle_momentum = true: .*fixed\n  set"):
            deepspeed.initialize(**given, config={**config, "scheduler": schedule})
        schedule = {"type": "OneCycle", "params": {**params, "cycle_momentum": False}}
        engine, *_ = deepspeed.initialize(**given, config={**config, "scheduler": schedule})
        found = []
        for _ in range(4):
            engine.backward(engine(torch.ones(1, 2)).sum())
            engine.step()
            found.append(round(engine.get_lr()[0], 6))
        self.assertEqual(found, [0.3, 0.5, 0.3, 0.1])
        engine.destroy()

    def test_betas_of_rules_are_not_cycled(self) -> None:
        params = {"cycle_min_lr": 0.1, "cycle_max_lr": 0.5, "cycle_first_step_size": 2}
        for name in ("Lion", "Lamb"):
            with self.subTest(name), self.assertRaisesRegex(zerocpp.ConfigError, "scheduler.params.cycle_momentum"):
                deepspeed.initialize(
                    model=torch.nn.Linear(2, 2),
                    config={
                        "train_micro_batch_size_per_gpu": 1,
                        "optimizer": {"type": name, "params": {"lr": 0.1}},
                        "scheduler": {"type": "OneCycle", "params": params},
                    },
                )

    def test_schedulers_set_both_muon_rates(self) -> None:
        for highest, expected in ((0.5, [0.5, 0.5]), ([0.5, 0.2], [0.5, 0.2])):
            with self.subTest(highest):
                model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Linear(4, 2))
                engine, *_ = deepspeed.initialize(
                    model=model,
                    config={
                        "train_micro_batch_size_per_gpu": 1,
                        "gradient_clipping": 0.0,
                        "optimizer": {"type": "Muon", "params": {"muon_lr": 0.03, "adam_lr": 1e-3}},
                        "scheduler": {
                            "type": "WarmupLR",
                            "params": {"warmup_max_lr": highest, "warmup_num_steps": 2, "warmup_type": "linear"},
                        },
                    },
                )
                for _ in range(4):
                    before = engine.core.state("1.bias")
                    engine.backward(engine(torch.ones(1, 2)).sum())  # the gradient of 1.bias is 1 in each step
                    engine.step()
                self.assertEqual(engine.get_lr(), expected)
                for moved in (before - engine.core.state("1.bias")).tolist():  # AdamW moves by its rate
                    self.assertAlmostEqual(moved, expected[1], places=4)
                engine.destroy()

    def test_momenta_of_sgd_are_left(self) -> None:
        own = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3, momentum=0.7)
        deepspeed.OneCycle(own, 0.1, 0.5).step()
        self.assertEqual(own.param_groups[0]["momentum"], 0.7)


if __name__ == "__main__":
    unittest.main()
