#!/usr/bin/env python3
"""load_state_dict() and the files of weights: a wrong value is refused before a tensor changes."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import mlp, refusal, squares


def other_shapes() -> dict[str, Any]:
    """A value that torch could broadcast, after values that fit."""
    import torch
    import zerocpp as zero

    model = mlp()
    with zero.attach(model, stage=3) as engine:
        before = engine.state_dict()
        values = {name: torch.full_like(value, 7.0) for name, value in before.items()}
        values["3.bias"] = torch.tensor([7.0])
        texts = [refusal(lambda: engine.load_state_dict(values, strict=strict)) for strict in (True, False)]
        after = engine.state_dict()
    return {"texts": texts, "unchanged": all(torch.equal(before[name], value) for name, value in after.items())}


def centered(first: float) -> Any:
    """A model that assigns its buffers `center` and `last`, as programs of self-distillation do."""
    import torch
    from torch import nn

    class Centered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp()
            self.register_buffer("center", torch.full((16,), first))
            self.register_buffer("last", torch.full((16,), first))
            self.register_buffer("cache", torch.zeros(2), persistent=False)
            self.register_buffer("unset", None)

        def forward(self, x: Any) -> Any:
            y = self.body(x - self.center)
            self.last, self.center = self.center, 0.9 * self.center + 0.1 * y.detach().mean(0)
            self.cache = torch.zeros(3)
            return y

    return Centered()


def assigned_buffers(folder: str) -> dict[str, Any]:
    """A module assigns its buffers in each forward pass: files have its values, and a load sets them."""
    import safetensors.torch
    import torch
    import zerocpp as zero

    rank = zero.world().rank
    model = centered(1.0)
    kept = model.center
    found: dict[str, Any] = {}
    with zero.attach(model, zero.AdamW(lr=1e-2), stage=3) as engine:
        for step in range(2):
            squares(model, step, rank).backward()
            engine.step()
        wanted = [model.center, model.last]
        values = [value.tolist() for value in wanted]
        engine.save(f"{folder}/blocking")
        engine.save(f"{folder}/other", blocking=False).wait()
        engine.export(f"{folder}/weights")
        file = safetensors.torch.load_file(f"{folder}/weights")
        found["exported"] = rank != 0 or [file[name].tolist() for name in ("center", "last")] == values
        found["names"] = rank != 0 or file.keys() == model.state_dict(keep_vars=True).keys()
        found["module"] = model.center is wanted[0] and model.last is wanted[1] and kept.tolist() == [1.0] * 16
        losses = [engine.step(loss=_backward(squares(model, 2, rank))).loss]
    for name in ("blocking", "other"):
        again = centered(5.0)
        with zero.attach(again, zero.AdamW(lr=1e-2), stage=1) as engine:
            again.center = torch.zeros(16)
            engine.load(f"{folder}/{name}")
            found[name] = [again.center.tolist(), again.last.tolist()] == values
            losses.append(engine.step(loss=_backward(squares(again, 2, rank))).loss)
    found["losses"] = losses
    return found


def _backward(loss: Any) -> Any:
    loss.backward()
    return loss.detach()


def other_buffers(folder: str) -> dict[str, str]:
    """Assigned buffers that no checkpoint could have."""
    import torch
    import zerocpp as zero

    def ties(model: Any) -> None:
        model.register_buffer("again", model.center)

    def nothing(model: Any) -> None:
        pass

    def sets(name: str, value: Any) -> Any:
        return lambda model: setattr(model, name, value)

    found = {}
    for name, before, after in (
        ("shape", nothing, sets("center", torch.zeros(4))),
        ("type", nothing, sets("center", torch.zeros(16).double())),
        ("none", nothing, sets("center", None)),
        ("set", nothing, sets("unset", torch.zeros(1))),
        ("tied", ties, sets("again", torch.zeros(16))),
    ):
        model = centered(1.0)
        before(model)
        with zero.attach(model, stage=3) as engine:
            engine.save(f"{folder}/{name}")
            after(model)
            calls = (
                lambda: engine.save(f"{folder}/refused"),
                lambda: engine.load(f"{folder}/{name}"),
                lambda: engine.export(f"{folder}/refused"),
            )
            found[name] = "\n".join(refusal(call) for call in calls)
    return found


def shared_modules(folder: str) -> dict[str, Any]:
    """Modules with several names: each parameter has all its names, and the first is that of PyTorch."""
    import json

    import torch
    import zerocpp as zero
    from torch import nn

    layer, norm = nn.Linear(16, 16), nn.BatchNorm1d(16)
    model = nn.Sequential(norm, nn.Sequential(layer, norm), layer, nn.Linear(16, 16))
    first = [name for name, _ in model.named_parameters()]
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    with zero.attach(model, stage=3, dtype="bf16") as engine:
        found = {"first": list(engine.parameters) == first, "names": engine.attached_names() == names}
        found["type"] = engine.state_dict()["1.1.weight"].dtype == torch.float32  # of a parameter beside statistics
        engine.save(f"{folder}/saved")
        saved = json.loads(Path(folder, "saved/manifest.json").read_text())["manifest"]
        found["saved"] = {name for each in saved["tensors"] for name in (each["name"], *each["aliases"])} == set(names)
        found["buffers"] = sorted(
            each["name"] for each in saved["files"][0]["extras"] if "buffer/" in each["name"]
        ) == [f"buffer/0.{name}" for name in ("num_batches_tracked", "running_mean", "running_var")]
        with torch.no_grad():
            norm.running_mean.fill_(3.0)  # type: ignore[union-attr]
        engine.load(f"{folder}/saved")
        found["loaded"] = model[1][1].running_mean.tolist() == [0.0] * 16
    return found


class Weights(ranks.CallsTest):
    calls = [other_shapes, assigned_buffers, other_buffers, shared_modules]

    def test_values_of_other_shapes_are_refused(self) -> None:
        for found in self.of(other_shapes):
            for text in found["texts"]:
                self.assertRegex(text, r"load_state_dict = 3.bias: .*\(1,\).*\(16,\)")
            self.assertTrue(found["unchanged"])

    def test_assigned_buffers_are_saved_and_loaded(self) -> None:
        for found in self.of(assigned_buffers):
            losses = found.pop("losses")
            self.assertEqual(losses, losses[:1] * 3)
            self.assertEqual(found, dict.fromkeys(("exported", "names", "module", "blocking", "other"), True))

    def test_impossible_buffers_are_refused(self) -> None:
        name = {"set": "unset", "tied": "(center|again)"}
        for found in self.of(other_buffers):
            for kind, text in found.items():
                for call in ("save", "load", "export"):
                    self.assertRegex(text, rf"{call} = {name.get(kind, 'center')}: .*since attach\(\).*\n.*copy_\(\)")

    def test_shared_modules_have_all_names(self) -> None:
        for found in self.of(shared_modules):
            self.assertEqual([name for name, true in found.items() if not true], [])


if __name__ == "__main__":
    unittest.main()
