#!/usr/bin/env python3
"""attach(weights=): the bits of load_state_dict() before attach(), and files of another model are refused."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import squares


def tied(seed: int) -> Any:
    """A model with a tied weight, and buffers of three kinds."""
    import torch
    from torch import nn

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)
            self.last.weight = self.first.weight
            self.register_buffer("scale", torch.ones(16))
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
            self.register_buffer("cache", torch.zeros(3), persistent=False)

        def forward(self, x: Any) -> Any:
            return self.last(torch.relu(self.first(x)) * self.scale)

    torch.manual_seed(seed)
    return Tied()


def values() -> dict[str, Any]:
    """Weights under the second name of the tied weight, as some libraries write them."""
    import torch

    torch.manual_seed(5)
    found = {name: torch.randn(value.shape) for name, value in tied(1).state_dict().items()}
    found["count"] = torch.tensor(7)
    del found["first.weight"]
    return found


def write(folder: str, parts: int, **changes: Any) -> str:
    """Writes the values, as one file or as parts with their index; only rank 0 does. Returns the path."""
    import safetensors.torch
    import zerocpp as zero

    where = Path(folder, f"{parts}-{'-'.join(changes)}")
    if zero.world().rank == 0:
        where.mkdir()
        given = {name: value for name, value in {**values(), **changes}.items() if value is not None}
        names = sorted(given)
        files = ["model.safetensors"] if parts == 1 else [f"model-{i}.safetensors" for i in range(parts)]
        places = {name: files[number % parts] for number, name in enumerate(names)}
        for file in files:
            own = {name: given[name] for name in names if places[name] == file}
            safetensors.torch.save_file(own, str(where / file))
        if parts > 1:
            (where / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    zero.world().barrier()
    return str(where)


def states_of(model: Any, steps: int = 2, **options: Any) -> list[Any]:
    """The states of an attached model, its buffers, and the losses of its steps."""
    import zerocpp as zero

    with zero.attach(model, zero.AdamW(lr=1e-2), **options) as engine:
        found = [engine.state(name).tolist() for name in engine.parameters]
        found += [buffer.tolist() for buffer in model.buffers()]
        for step in range(steps):
            loss = squares(model, step, engine.world.rank)
            loss.backward()
            found.append(engine.step(loss=loss).loss)
    return found


def equal_bits(folder: str) -> dict[str, bool]:
    import zerocpp as zero

    file, parts = write(folder, 1) + "/model.safetensors", write(folder, 2)
    found = {}
    for name, dtype, rounds, steps in (
        ("fp32", None, False, 2),
        ("masters", "bf16", False, 0),
        ("rounded", None, True, 0),
    ):
        for stage in (0, 3):
            how = {"stage": stage, "dtype": dtype, "steps": steps}
            loaded, own = tied(1), tied(2)
            if rounds:
                loaded, own = loaded.bfloat16(), own.bfloat16()
            loaded.load_state_dict(values(), strict=False)
            expected = states_of(loaded, **how)
            found[f"{name} {stage}"] = states_of(own, weights=file, **how) == expected
            if not rounds:
                with zero.deferred():
                    deferred = tied(3)
                found[f"{name} {stage} deferred"] = states_of(deferred, weights=parts, **how) == expected
    return found


def one_reader(folder: str) -> bool:
    """The path of rank 1 has no file."""
    import zerocpp as zero

    path = write(folder, 1)
    own = path if zero.world().rank == 0 else path + "/missing"
    loaded = tied(1)
    loaded.load_state_dict(values(), strict=False)
    return states_of(tied(2), stage=3, weights=own) == states_of(loaded, stage=3)


def other_files(folder: str) -> dict[str, Any]:
    """The errors, and the first weight afterwards."""
    import torch
    import zerocpp as zero

    found: dict[str, Any] = {}
    for name, path in (
        ("missing", write(folder, 1, **{"last.bias": None})),
        ("unknown", write(folder, 1, extra=torch.ones(2))),
        ("shape", write(folder, 2, scale=torch.ones(4))),
        ("no file", folder + "/nothing.safetensors"),
        ("empty folder", folder),
    ):
        model = tied(1)
        before = model.first.weight.tolist()
        text = ranks.error_of(lambda: zero.attach(model, stage=3, weights=path))
        found[name] = [text, model.first.weight.tolist() == before and model.scale.tolist() == [1.0] * 16]
    return found


class FirstValues(ranks.CallsTest):
    calls = [equal_bits, one_reader, other_files]

    def test_bits_equal_load_state_dict(self) -> None:
        for found in self.of(equal_bits):
            self.assertEqual([name for name, equal in found.items() if not equal], [])

    def test_only_rank_0_reads(self) -> None:
        self.assertEqual(self.of(one_reader), [True, True])

    def test_other_files_are_refused(self) -> None:
        for found in self.of(other_files):
            for name, part in (
                ("missing", "has no last.bias\n  give the weights of this model"),
                ("unknown", "has extra, and the model has no such tensor"),
                ("shape", "has scale of shape (4,), and the model's shape is (16,)"),
                ("no file", "nothing.safetensors"),
                ("empty folder", "neither model.safetensors nor"),
            ):
                text, unchanged = found[name]
                self.assertIn("ConfigError", text)
                self.assertIn(part, text)
                self.assertTrue(unchanged, name)


if __name__ == "__main__":
    unittest.main()
