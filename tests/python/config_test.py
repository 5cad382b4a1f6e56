#!/usr/bin/env python3
"""attach(config=): files and dicts, conflicts, and the names of options."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import ranks


def names() -> dict[str, list[str]]:
    import zerocpp as zero
    from zerocpp import _C, _config, _options

    options = {option for option, _ in _config._KEYS.values()} | {option for option, _ in _config._PARTS.values()}
    return {
        "table": sorted(_C.option_names()),
        "keywords": sorted([*_options.Options.__annotations__, "optimizer", "groups"]),
        "from_toml": sorted(options),
        "of_pipelines": sorted(_options.OF_PIPELINES),
        "rules": sorted(_config._RULES),
        "package": sorted(
            name.lower() for name in zero.__all__ if isinstance(getattr(zero, name), type)
            and issubclass(getattr(zero, name), zero._optimizer.Rule)
        ),
    }  # fmt: skip


def trained(config: Any, keywords: dict[str, Any], optimizer: dict[str, Any] | None) -> dict[str, Any]:
    import torch
    import zerocpp as zero

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    given = None if optimizer is None else zero.AdamW(**optimizer)
    with zero.attach(model, given, config=config, **keywords) as engine:
        steps = (engine.options.get("accumulate") or 1) * 3
        norms = []
        for step in range(steps):
            x = torch.arange(8.0).view(2, 4) / 8 + step
            engine.backward(model(x.to(model[0].weight.dtype)).float().square().mean())
            if (step + 1) % (engine.options.get("accumulate") or 1) == 0:
                norms.append(engine.step().grad_norm)
        report = engine.report()
        weights = engine.state_dict()
    return {
        "weights": [value for name in sorted(weights) for value in weights[name].float().flatten().tolist()],
        "norms": norms,
        "stage": report.stage,
        "state_bytes": report.state_bytes,
        "options": {key: str(value) for key, value in sorted(engine.options.items())},
        "rule": engine.rule,
    }


def refusals(configs: list[Any]) -> list[str]:
    import torch
    import zerocpp as zero

    found = []
    for config, keywords in configs:
        model = torch.nn.Linear(4, 2)
        optimizer = zero.Lion() if keywords.pop("optimizer", False) else None
        try:
            zero.attach(model, optimizer, config=config, **keywords).close()
            found.append(f"{config} with {keywords} is not refused")
        except zero.ConfigError as error:
            found.append(str(error))
    return found


TOML = """
[zero]
stage = 2
device_memory = "auto"
optimizer = {host = 1}

[train]
clip = 0.5
accumulate = 2
dtype = "bf16"
reduce_dtype = "fp32"

[optimizer]
name = "adamw"
lr = 0.01
betas = [0.8, 0.95]
weight_decay = 0.0
"""
KEYWORDS = {
    "stage": 2,
    "device_memory": "auto",
    "offload": {"optimizer": {"host": 1}},
    "clip": 0.5,
    "accumulate": 2,
    "dtype": "bf16",
    "reduce_dtype": "fp32",
}
DEEPSPEED = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.5,
    "bf16": {"enabled": True},
    "data_types": {"grad_accum_dtype": "fp32"},
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.8, 0.95], "weight_decay": 0.0}},
    "gradient_allreduce_op": "mean",  # defaults of keys that attach() does not read
    "managed_gradient_accumulation": True,
    "torch_autocast": {"enabled": False},
    "steps_per_print": 10,
}


class Configuration(ranks.PackageTest):
    def test_keywords_are_those_of_the_library(self) -> None:
        found = ranks.run(names, ranks=1)[0]
        self.assertEqual(found["keywords"], found["table"])
        self.assertLessEqual(set(found["from_toml"]), set(found["table"]) | set(found["of_pipelines"]))
        self.assertEqual(found["rules"], found["package"])

    def test_all_forms_train_alike(self) -> None:
        optimizer = {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.0}
        own: dict[str, Any] = {"config": None, "optimizer": optimizer}
        read: dict[str, Any] = {"keywords": {}, "optimizer": None}
        sections = {
            "zero": {"stage": 2, "optimizer": {"host": 1}},
            "train": {"clip": 0.5, "accumulate": 2, "dtype": "bf16", "reduce_dtype": "fp32"},
            "optimizer": {"name": "adamw", "lr": 0.01, "betas": [0.8, 0.95], "weight_decay": 0.0},
        }
        with tempfile.TemporaryDirectory() as folder:
            toml, deepspeed = Path(folder, "zero.toml"), Path(folder, "ds_config.json")
            toml.write_text(TOML)
            deepspeed.write_text(json.dumps(DEEPSPEED))
            found = ranks.run_cases(
                trained,
                cases={
                    "wanted": {**own, "keywords": KEYWORDS},
                    "averaged": {**own, "keywords": {**KEYWORDS, "average_micro_batches": True}},
                    "toml": {**read, "config": str(toml)},
                    "sections": {**read, "config": sections},
                    "options": {**own, "config": KEYWORDS, "keywords": {}},
                    "deepspeed": {**read, "config": str(deepspeed)},
                    "deepspeed dict": {**read, "config": DEEPSPEED, "keywords": {"stage": 2}},
                },
            )
        wanted, averaged = found.pop("wanted"), found.pop("averaged")
        for name, of_form in found.items():
            like = averaged if name.startswith("deepspeed") else wanted
            self.assertEqual(of_form["weights"], like["weights"], name)
            self.assertEqual(of_form["norms"], like["norms"], name)
            self.assertEqual(of_form["stage"], 2, name)
            self.assertGreater(of_form["state_bytes"]["host"], 0, name)
            if not name.startswith("deepspeed"):  # DeepSpeed moves gradients off the device with the optimizer
                self.assertEqual(of_form["state_bytes"], wanted["state_bytes"], name)
        # Adam's step does not depend on the gradients' scale, so averaging is visible only in the norms.
        self.assertAlmostEqual(wanted["norms"][0] / averaged["norms"][0], 2, places=2)

    def test_bad_configurations_are_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            broken, misspelt = Path(folder, "broken.toml"), Path(folder, "misspelt.json")
            broken.write_text("[zero]\nstage = \n")
            misspelt.write_text('{"zero_optimizaton": {"stage": 3}}')
            cases: list[tuple[Any, dict[str, Any], str]] = [
                ({"zero": {"stage": 2}}, {"stage": 3}, "stage = 3: the configuration says zero.stage = 2"),
                ({"stage": 2}, {"stage": 3}, "stage = 3: the configuration says stage = 2"),
                (DEEPSPEED, {"clip": 1.0}, "clip = 1.0: the configuration says gradient_clipping = 0.5"),
                ({"zero": {"satge": 2}}, {}, "did you mean zero.stage?"),
                ({"train": {"steps": 20}}, {}, "train.steps = 20: attach() does not read this key"),
                ({"zero": {"stage": 2}, "data": {"path": "x"}}, {}, "[data]: attach() does not read this section"),
                (
                    {"optimizer": {"name": "adam", "momentum": 0.9}},
                    {},
                    "optimizer.momentum = 0.9: adam has no such key",
                ),
                ({"optimizer": {"name": "adamx"}}, {}, "did you mean adam"),
                ({"optimizer": {"name": "adamw"}}, {"optimizer": True}, "optimizer = Lion: the configuration says"),
                ({"sync": {"mode": "async"}}, {}, "sync.mode = async"),
                ({"sync": {"outer_lr": 1.0}}, {}, 'sync.mode is "sync"'),
                ({"comm": {"outer_topk": 0.5}}, {}, "comm.outer_topk = 0.5"),
                ({"stage": 2, "clp": 1}, {}, "config.clp = 1: no such option\n  did you mean clip?"),
                ({"zero": {"placement": "device", "optimizer": {"host": 1}}}, {}, "zero.placement says"),
                ({**DEEPSPEED, "scheduler": {"type": "WarmupLR"}}, {}, "attach() makes no scheduler"),
                (
                    {**DEEPSPEED, "torch_autocast": {"enabled": True}},
                    {},
                    "torch_autocast.enabled = true: attach() does",
                ),
                ({**DEEPSPEED, "bf16": {}, "fp16": {"enabled": True, "auto_cast": True}}, {}, "fp16.auto_cast = true"),
                ({**DEEPSPEED, "data_types": {"buffer_dtype": "fp32"}}, {}, 'data_types.buffer_dtype = "fp32"'),
                ({**DEEPSPEED, "gradient_allreduce_op": "sum"}, {}, 'gradient_allreduce_op = "sum"'),
                ({**DEEPSPEED, "managed_gradient_accumulation": False}, {}, "managed_gradient_accumulation = false"),
                ({**DEEPSPEED, "dataloader_drop_last": True}, {}, "dataloader_drop_last = true"),
                (str(misspelt), {}, "zero_optimizaton"),
                (str(broken), {}, "not TOML"),
                (str(Path(folder, "none.toml")), {}, "cannot be read"),
                (str(Path(folder, "x.yaml")), {}, "neither .toml nor .json"),
            ]
            found = ranks.run(refusals, ranks=1, configs=[case[:2] for case in cases])[0]
        for (config, _, wanted), text in zip(cases, found):
            self.assertIn(wanted, text, str(config))
            self.assertIn("\n  ", text)


if __name__ == "__main__":
    unittest.main()
