#!/usr/bin/env python3
"""zero.checkpoint(): losses are those without checkpoints; offloaded inputs leave memory until the backward pass."""

from __future__ import annotations

import sys
import unittest
import weakref
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import refusal

STEPS = 3


def blocks() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(1)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 16)) for _ in range(3))
    )


def train(stage: int, engine_disk: str | None, checkpoints: dict[str, Any] | None) -> list[float]:
    """The losses of a model whose blocks are checkpoints with these arguments; None: no checkpoints."""
    import torch
    import zerocpp as zero

    rank = zero.world().rank
    model, losses = blocks(), []
    with zero.attach(model, zero.AdamW(lr=1e-2), stage=stage, disk=engine_disk) as engine:
        for step in range(STEPS):
            torch.manual_seed(10 * step + rank)
            x = torch.randn(4, 16)
            for block in model:
                x = block(x) if checkpoints is None else zero.checkpoint(block, x, **checkpoints)
            loss = x.square().mean()
            loss.backward()
            losses.append(engine.step(loss=loss).loss)
    return losses


def trains(folder: str) -> dict[str, Any]:
    import zerocpp as zero

    found: dict[str, Any] = {"equal": True}
    for stage in (0, 3):
        expected = train(stage, None, None)
        for engine_disk, checkpoints in (
            (None, {}),
            (None, {"offload": "host"}),
            (None, {"offload": "disk", "disk": folder}),
            (folder, {"offload": "disk"}),
        ):
            found["equal"] &= train(stage, engine_disk, checkpoints) == expected
    found["refused"] = refusal(lambda: zero.checkpoint(abs, blocks()[0][0].weight, offload="disk"))
    return found


def leaves_memory(folder: str) -> dict[str, Any]:
    """Whether the input is gone between the passes, the bytes stored then and after, and the gradients."""
    import torch
    import zerocpp as zero
    from zerocpp import _checkpoints

    torch.manual_seed(1)
    weight, start = torch.randn(64, 64, requires_grad=True), torch.randn(8, 64, requires_grad=True)
    gradients = []
    found: dict[str, Any] = {}
    for name, how in (
        ("kept", {}),
        ("host", {"offload": "host"}),
        ("disk", {"offload": "disk", "disk": Path(folder)}),
    ):
        x = start * 2.0
        seen = weakref.ref(x)
        y = zero.checkpoint(lambda x: torch.tanh(x @ weight), x, **how)
        del x
        gone = seen() is None
        stored = sum(store.bytes for store in _checkpoints._stores.values())
        y.sum().backward()
        del y
        found[name] = [gone, stored, sum(store.bytes for store in _checkpoints._stores.values())]
        gradients.append([start.grad.tolist(), weight.grad.tolist()])
        start.grad = weight.grad = None
    return {**found, "equal": all(each == gradients[0] for each in gradients)}


def takes_structures() -> dict[str, Any]:
    """Tensors in lists and dicts are inputs, one tensor may occur twice, and results keep their structure."""
    import torch
    import zerocpp as zero

    calls = []

    def fn(pair: Any, scale: float, *, extra: Any) -> Any:
        calls.append(scale)
        a, b = pair
        return {"sum": (a * b + extra["c"]) * scale, "same": a is b, "counts": (torch.ones(2), 3)}

    def gradients(run: Any) -> Any:
        a, c = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([1.0, 5.0], requires_grad=True)
        found = run([a, a], 0.5, extra={"c": c})
        found["sum"].sum().backward()
        return a.grad.tolist(), c.grad.tolist(), found["same"], found["counts"][1], found["sum"].tolist()

    plain = gradients(fn)
    own = gradients(lambda *inputs, **named: zero.checkpoint(fn, *inputs, offload="host", **named))
    with torch.no_grad():
        found = zero.checkpoint(fn, [torch.ones(2), torch.ones(2)], 1.0, extra={"c": torch.ones(2)})
    return {"equal": plain == own, "calls": len(calls), "without": found["sum"].tolist()}


def refuses(folder: str) -> dict[str, str]:
    import torch
    import zerocpp as zero

    x = torch.ones(3, requires_grad=True)
    other = x * 2

    def again(**arguments: Any) -> Any:
        return zero.checkpoint(torch.tanh, x, **arguments)

    return {
        "place": refusal(lambda: again(offload="ssd")),
        "folder": refusal(lambda: again(offload="host", disk=folder)),
        "missing": ranks.error_of(lambda: again(offload="disk", disk=folder + "/missing")),
        "written": refusal(lambda: zero.checkpoint(lambda x: x.mul_(2), torch.ones(3))),
        "captured": refusal(lambda: zero.checkpoint(lambda x: x + other, x)),
        "twice": refusal(lambda: torch.autograd.grad(again().sum(), x, create_graph=True)),
    }


class ActivationCheckpoints(ranks.CallsTest):
    calls = [trains, leaves_memory, takes_structures, refuses]

    def test_losses_equal_plain_torch(self) -> None:
        for found in self.of(trains):
            self.assertTrue(found["equal"])
            self.assertIn('add disk="/folder/on/that/disk"', found["refused"])

    def test_offloaded_inputs_leave_memory(self) -> None:
        for found in self.of(leaves_memory):
            self.assertTrue(found["equal"])
            self.assertEqual(found["kept"][1:], [0, 0])
            for place in ("host", "disk"):
                self.assertEqual(found[place], [True, 8 * 64 * 4, 0], place)

    def test_arguments_keep_their_structure(self) -> None:
        for found in self.of(takes_structures):
            self.assertEqual(found, {"equal": True, "calls": 4, "without": [2.0, 2.0]})

    def test_wrong_calls_name_the_remedy(self) -> None:
        for found in self.of(refuses):
            self.assertIn('use "host", "disk" or None', found["place"])
            self.assertIn('set offload="disk"', found["folder"])
            self.assertIn("missing", found["missing"])
            self.assertIn("write to a clone() in fn", found["written"])
            self.assertIn("pass it through `inputs`", found["captured"])
            self.assertIn("without create_graph", found["twice"])


if __name__ == "__main__":
    unittest.main()
