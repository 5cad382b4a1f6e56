#!/usr/bin/env python3
"""zerocpp.fsdp.fully_shard(): the losses of PyTorch's own, marks that attach() reads, and refusals."""

from __future__ import annotations

import dataclasses
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import mlp, refusal, squares

STEPS = 4


def net() -> Any:
    """Blocks in a list, and a head outside of them. Buffers of two types."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(3)
            )
            self.head = nn.Linear(16, 16)
            self.register_buffer("scale", torch.full((16,), 1.001))
            self.register_buffer("one", torch.ones(16, dtype=torch.float64))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = x + block(x)
            return self.head(x) * self.scale * self.one.to(self.scale.dtype)

    torch.manual_seed(3)
    return Net()


def shard_all(fully_shard: Any, model: Any, **arguments: Any) -> Any:
    """Marks the blocks and the model. With a policy the model's outputs are fp32."""
    import torch

    for block in model.blocks:
        fully_shard(block, **arguments)
    if "mp_policy" in arguments:
        arguments["mp_policy"] = dataclasses.replace(arguments["mp_policy"], output_dtype=torch.float32)
    return fully_shard(model, **arguments)


def losses_of_torch(policy: Any) -> list[float]:
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    model = net()
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    shard_all(fully_shard, model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(STEPS):
        loss = squares(model, step, dist.get_rank())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
    return losses


def own_losses(found: dict[str, Any], **arguments: Any) -> list[float]:
    import torch
    import zerocpp as zero
    from zerocpp.fsdp import fully_shard

    model = net()
    assert shard_all(fully_shard, model, **arguments) is model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    with zero.attach(model, optimizer, clip=0.5) as engine:
        for step in range(STEPS):
            loss = squares(model, step, zero.world().rank)
            loss.backward()
            losses.append(engine.step(loss=loss).loss)
            optimizer.zero_grad()
        found["units"] = [unit["name"] for unit in engine.plan().json["units"]]
        found["types"] = sorted({str(value.dtype) for value in engine.state_dict().values()})
        found["options"] = {name: engine.options.get(name) for name in ("device_memory", "dtype", "reduce_dtype")}
        found["states"] = engine.report().state_bytes
    return losses


def trains() -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    from zerocpp.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy

    dist.init_process_group("gloo")
    policies = {
        "fp32": MixedPrecisionPolicy(),
        "bf16": MixedPrecisionPolicy(torch.bfloat16, reduce_dtype=torch.float32),
    }
    found: dict[str, Any] = {"torch": {}, "zero": {}}
    for name, policy in policies.items():
        found[name] = {}
        found["torch"][name] = losses_of_torch(policy)
        found["zero"][name] = own_losses(found[name], mp_policy=policy)
    mesh = dist.init_device_mesh("cpu", (2,))
    for name, arguments in {
        "resharded": {"reshard_after_forward": True},
        "kept": {"reshard_after_forward": False, "mesh": mesh},
        "offloaded": {"offload_policy": CPUOffloadPolicy()},
    }.items():
        found[name] = {}
        found["zero"][name] = own_losses(found[name], **arguments)
    found["copies"] = hybrid(dist.init_device_mesh("cpu", (2, 1)), dist.new_group([0]))
    dist.destroy_process_group()
    return found


def hybrid(mesh: Any, alone: Any) -> dict[str, Any]:
    """Two copies of the model, each on one rank; and meshes that are refused."""
    import torch.distributed as dist
    import zerocpp as zero
    from torch.distributed.device_mesh import DeviceMesh
    from zerocpp.fsdp import fully_shard

    with zero.attach(fully_shard(mlp(), mesh=mesh)) as engine:
        copies = engine.report().copies
    reversed_mesh = DeviceMesh("cpu", [1, 0])
    found = {"copies": copies, "order": refusal(lambda: fully_shard(mlp(), mesh=reversed_mesh)), "ranks": ""}
    if dist.get_rank() == 0:
        part = DeviceMesh.from_group(alone, "cpu")
        found["ranks"] = refusal(lambda: zero.attach(fully_shard(mlp(), mesh=part)))
    return found


def marks() -> dict[str, Any]:
    """Which units follow from marks, in any order of the calls."""
    import torch
    import zerocpp as zero
    from zerocpp.fsdp import fully_shard

    def units_of(model: Any, **options: Any) -> list[str]:
        return [unit["name"] for unit in zero.plan(model, stage=3, **options).json["units"]]

    def marked(*paths: str) -> Any:
        torch.manual_seed(1)
        model = torch.nn.Sequential(mlp(), mlp(), torch.nn.Linear(16, 16))
        for path in paths:
            fully_shard(model.get_submodule(path))
        return model

    found: dict[str, Any] = {
        "inner first": units_of(marked("0.0", "0", "")),
        "outer first": units_of(marked("", "0", "0.0")),
        "root": units_of(marked("")) == units_of(marked()),
        "no parameters": units_of(marked("0.1", "1", "")),
    }
    model = marked()
    fully_shard([model[0], model[2]])
    with zero.attach(model, stage=3) as engine:
        found["list"] = [unit["name"] for unit in engine.plan().json["units"]]
        found["late"] = refusal(lambda: fully_shard(model[1]))
    with zero.attach(model, stage=3) as engine:  # marks stay
        found["again"] = [unit["name"] for unit in engine.plan().json["units"]]
    return found


def refusals() -> dict[str, str]:
    import torch
    import zerocpp as zero
    from zerocpp.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    half = MixedPrecisionPolicy(torch.bfloat16)

    def attached(first: dict[str, Any], second: dict[str, Any], **options: Any) -> str:
        model = net()
        fully_shard(model.blocks[0], **first)
        fully_shard(model, **second)
        return refusal(lambda: zero.attach(model, **options))

    def twice() -> None:
        model = mlp()
        fully_shard(fully_shard(model))

    def lone_step(attach: bool) -> str:
        """A step of the script's own optimizer, and the losses that follow."""
        model = net()
        shard_all(fully_shard, model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        engine = zero.attach(model, optimizer) if attach else None
        squares(model, 0, 0).backward()
        text = refusal(optimizer.step)
        if engine is not None:
            engine.optimizer.step()
            engine.close()
            squares(model, 0, 0).backward()
            optimizer.step()  # the optimizer of an ordinary model again
        return text

    return {
        "twice": refusal(twice),
        "no module": refusal(lambda: fully_shard("model")),  # type: ignore[type-var]
        "placement": refusal(lambda: fully_shard(mlp(), shard_placement_fn=lambda parameter: None)),
        "ignored": refusal(lambda: fully_shard(mlp(), ignored_params=set(mlp().parameters()))),
        "type": refusal(lambda: fully_shard(mlp(), mp_policy=MixedPrecisionPolicy(torch.float64))),
        "sums": attached({}, {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)}),
        "sums of all": attached(*[{"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)}] * 2),
        "policies": attached({"mp_policy": half}, {}),
        "offload": attached({}, {"offload_policy": CPUOffloadPolicy()}),
        "ranks": attached({"reshard_after_forward": 2}, {"reshard_after_forward": 4}),
        "dtype": attached({"mp_policy": half}, {"mp_policy": half}, dtype="fp32"),
        "units": attached({}, {}, units=["head"]),
        "not attached": lone_step(attach=False),
        "attached": lone_step(attach=True),
    }


class FullyShard(ranks.CallsTest):
    calls = [trains, marks, refusals]

    def test_losses_are_those_of_torch(self) -> None:
        for found in self.of(trains):
            for name, distance in (("fp32", 2e-6), ("bf16", 2e-3)):
                for own, other in zip(found["zero"][name], found["torch"][name], strict=True):
                    self.assertAlmostEqual(own, other, delta=distance, msg=name)
                self.assertLess(found["zero"][name][-1], found["zero"][name][0])
            for name in ("resharded", "kept", "offloaded"):
                self.assertEqual(found["zero"][name], found["zero"]["fp32"], name)

    def test_arguments_become_options(self) -> None:
        for found in self.of(trains):
            self.assertEqual(found["fp32"]["options"], {"device_memory": None, "dtype": None, "reduce_dtype": None})
            self.assertEqual(found["bf16"]["options"]["dtype"], "bf16")
            self.assertEqual(found["bf16"]["options"]["reduce_dtype"], "fp32")
            self.assertEqual(
                found["bf16"]["types"], ["torch.bfloat16", "torch.float32", "torch.float64"]
            )  # weights, buffers
            self.assertEqual(found["resharded"]["options"]["device_memory"], "min")
            self.assertIsNone(found["kept"]["options"]["device_memory"])
            self.assertEqual(found["offloaded"]["states"]["device"], 0)
            self.assertGreater(found["fp32"]["states"]["device"], 0)

    def test_mesh_makes_copies(self) -> None:
        for rank, found in enumerate(of_rank["copies"] for of_rank in self.of(trains)):
            self.assertEqual(found["copies"], 2)
            self.assertRegex(found["order"], r"fully_shard\.mesh = \[1, 0\](.|\n)*group")
            if rank == 0:
                self.assertRegex(found["ranks"], r"fully_shard\.mesh = .*1 ranks, and the run 2")

    def test_marks_make_units(self) -> None:
        for found in self.of(marks):
            self.assertEqual(found["inner first"], ["0.0", "0", "root"])
            self.assertEqual(found["outer first"], found["inner first"])
            self.assertTrue(found["root"])
            self.assertEqual(found["no parameters"], ["root", "1"])
            self.assertEqual(found["list"], ["0", "root", "2"])
            self.assertEqual(found["again"], found["list"])
        for found in self.of(trains):
            self.assertEqual(found["fp32"]["units"], ["blocks.0", "blocks.1", "blocks.2", "root"])

    def test_impossible_arguments_are_refused(self) -> None:
        for found in self.of(refusals):
            for name, text in {
                "twice": r"fully_shard = Sequential: .*already",
                "no module": "fully_shard = str: not a",
                "placement": r"fully_shard\.shard_placement_fn = given: .*\n  leave it out",
                "ignored": r"fully_shard\.ignored_params = given: .*\n  leave it out",
                "type": r"fully_shard\.mp_policy\.param_dtype = torch\.float64: .*\n  use one of torch\.float32",
                "sums": r"fully_shard\.mp_policy\.reduce_dtype = None: blocks\.0 has this value, Net has bf16",
                "sums of all": "reduce_dtype = bf16: gradients are summed in fp32",
                "policies": r"fully_shard\.mp_policy\.param_dtype = bf16: blocks\.0 has this value, Net has None",
                "offload": r"fully_shard\.offload_policy = None: blocks\.0 has this value, Net has \{",
                "ranks": r"fully_shard\.reshard_after_forward = 2: blocks\.0 has this value, Net has 4",
                "dtype": r"dtype = fp32: fully_shard\(\) says mp_policy\.param_dtype = bf16",
                "units": r"units = \['head'\]: fully_shard\(\) says the marked modules = \['blocks\.0'\]",
            }.items():
                self.assertRegex(found[name], text, name)

    def test_late_marks_are_refused(self) -> None:
        for found in self.of(marks):
            self.assertRegex(found["late"], "fully_shard = Sequential: this module is attached\n  call .* before")

    def test_lone_steps_are_refused(self) -> None:
        for found in self.of(refusals):
            self.assertRegex(found["not attached"], r"fully_shard = .*: .* not attached: .*alone\n  .*zero\.attach\(")
            self.assertRegex(
                found["attached"], r"optimizer\.step = AdamW: .*finds no gradients.*\n  .*engine\.step\(\)"
            )


if __name__ == "__main__":
    unittest.main()
