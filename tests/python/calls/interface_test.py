#!/usr/bin/env python3
"""Functions of an engine that other tests do not call: averages, raw memory, shards, callbacks, offloaded states,
fp16 without a shim."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import mlp, refusal, squares

STEPS = 4


def averages() -> dict[str, Any]:
    """The moving average equals one that this rank computes from the weights of each step."""
    import torch
    import zerocpp as zero

    rank = zero.world().rank
    decay = 0.5
    found: dict[str, Any] = {"distance": 0.0, "back": True}
    for stage in (0, 3):
        model = mlp()
        mean = {name: value.clone() for name, value in model.state_dict().items()}
        with zero.attach(model, zero.AdamW(lr=0.1), stage=stage, ema=decay) as engine:
            for step in range(STEPS):
                squares(model, step, rank).backward()
                engine.step()
                for name, value in engine.state_dict().items():
                    mean[name].lerp_(value, 1 - decay)
            before = engine.state_dict()
            with engine.averaged():
                during = engine.state_dict()
                found["in step"] = refusal(engine.step)
            after = engine.state_dict()
            found["early"] = refusal(lambda: leaves_early(engine, model, rank))
            engine.discard_gradients()
        found["distance"] = max(found["distance"], *((during[n] - mean[n]).abs().max().item() for n in mean))
        found["back"] &= all(torch.equal(before[name], after[name]) for name in before)
    with zero.attach(mlp(), stage=3) as engine:
        found["without"] = ranks.error_of(lambda: engine.averaged().__enter__())
    return found


def leaves_early(engine: Any, model: Any, rank: int) -> None:
    """The scope cannot end within a step."""
    with engine.averaged():
        squares(model, 0, rank).backward()


def raw_memory() -> dict[str, Any]:
    """using() lets ctypes read the memory of a parameter."""
    import ctypes

    import zerocpp as zero

    found: dict[str, Any] = {"equal": True, "refused": True}
    for stage in (0, 3):
        model = mlp()
        wanted = model[0].weight.detach().clone().flatten().tolist()
        with zero.attach(model, stage=stage, device_memory="min") as engine:
            weight = model[0].weight
            with engine.using(weight, "3.bias"):
                size = weight.numel()
                read = list((ctypes.c_float * size).from_address(weight.data_ptr()))
                found["equal"] &= read == wanted and model[3].bias.data_ptr() != 0
            found["refused"] &= "0.weight" in ranks.error_of(weight.data_ptr)
            squares(model, 0, 0).backward()
            engine.step()
    return found


def shards() -> dict[str, Any]:
    """The shards of all ranks, joined, are the whole state."""
    import json

    import torch
    import zerocpp as zero

    world = zero.world()
    model = mlp()
    found: dict[str, Any] = {"covered": True, "equal": True}
    with zero.attach(model, zero.AdamW(lr=0.1), stage=3) as engine:
        squares(model, 0, world.rank).backward()
        engine.step()
        found["names"] = engine.state_names("0.weight")
        for parameter, state in ((model[0].weight, "exp_avg"), ("3.bias", "parameter"), ("2.weight", "exp_avg_sq")):
            whole = engine.state(parameter, state).flatten()
            offset, own = engine.state_shard(parameter, state)
            parts = [json.loads(text) for text in world.gather_text(json.dumps([offset, own.tolist()]))]
            joined = torch.full_like(whole, float("nan"))
            for begin, values in parts:
                joined[begin : begin + len(values)] = torch.tensor(values)
            found["covered"] &= sum(len(values) for _, values in parts) == whole.numel()
            found["equal"] &= torch.equal(joined, whole)
        found["unknown"] = refusal(lambda: engine.state_shard("0.weight", "momentum"))
    return found


def callbacks() -> dict[str, Any]:
    import zerocpp as zero

    seen: list[Any] = []
    model = mlp()
    with zero.attach(model, stage=3) as engine:
        engine.on_step(lambda report: seen.append(report.step))
        engine.on_step(lambda report: seen.append(report.grad_norm))
        returned = []
        for step in range(2):
            squares(model, step, 0).backward()
            report = engine.step()
            returned += [report.step, report.grad_norm]
    return {"equal": seen == returned, "number": len(seen)}


def numbered_passes() -> dict[str, Any]:
    """micro_batch() names the passes of a pipeline's order: forward 0, forward 1, backward 0, backward 1."""
    import zerocpp as zero

    rank = zero.world().rank
    sums = []
    for numbered in (False, True):
        model = mlp()
        with zero.attach(model, zero.SGD(lr=0.1), stage=3, accumulate=2) as engine:
            for _ in range(STEPS):
                if numbered:
                    losses = []
                    for micro in range(2):
                        engine.micro_batch(micro)
                        losses.append(squares(model, micro, rank))
                    for micro, loss in enumerate(losses):
                        engine.micro_batch(micro)
                        loss.backward()
                else:
                    for micro in range(2):
                        squares(model, micro, rank).backward()
                engine.step()
            sums.append({name: value.tolist() for name, value in engine.state_dict().items()})
    return {"equal": sums[0] == sums[1]}


def dictionaries() -> dict[str, Any]:
    import zerocpp as zero

    model = mlp()
    with zero.attach(model, stage=3) as engine:
        whole = engine.state_dict()
        rank0 = engine.state_dict(to="rank0")
        one = engine.state_dict(to="rank0", names=["3.bias"])
        return {
            "whole": sorted(whole),
            "rank0": sorted(rank0),
            "one": sorted(one),
            "target": refusal(lambda: engine.state_dict(to="rank1")),
        }


def offloads(folder: str) -> dict[str, Any]:
    """States move to a disk between two steps, and back; losses are those of an engine without a disk."""
    import zerocpp as zero

    rank = zero.world().rank
    found: dict[str, Any] = {"moved": [], "refused": []}
    losses: list[list[float]] = []
    for disk in (None, folder):
        model = mlp()
        losses.append([])
        with zero.attach(model, zero.AdamW(lr=1e-2), stage=3, disk=disk) as engine:
            for step in range(STEPS):
                if disk is not None and step == 1:
                    found["moved"] += [engine.offload_states("optimizer"), engine.offload_states()]
                if disk is not None and step == 3:
                    found["moved"] += [engine.reload_states(), engine.reload_states()]
                loss = squares(model, step, rank)
                loss.backward()
                if disk is not None and step == 1:
                    found["refused"].append(refusal(engine.offload_states))
                losses[-1].append(engine.step(loss=loss).loss)
                if disk is not None and step == 1:
                    found["held"] = [engine.report().memory["moment"], engine.report().disk_memory["moment"] > 0]
            found["refused"].append(refusal(lambda: engine.offload_states("moments")))
            if disk is None:
                found["refused"].append(refusal(engine.offload_states))
    return {**found, "equal": losses[0] == losses[1]}


def half_precision() -> dict[str, Any]:
    """backward() scales; an overflow halves the scale and skips the step; an unscaled loss is refused."""
    import torch
    import zerocpp as zero

    rank = zero.world().rank

    def loss_of(model: Any, step: int) -> Any:
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(step + 10 * rank))
        return (model(x.half()).float() - x).square().mean()

    model = mlp()
    found: dict[str, Any] = {"losses": []}
    with zero.attach(model, zero.AdamW(lr=1e-2), stage=3, dtype="fp16", clip=1.0) as engine:
        for step in range(8):
            loss = loss_of(model, step % 2)
            engine.backward(loss)
            report = engine.step(loss=loss)
            found["losses"].append(report.loss)
        found["scale"] = report.loss_scale
        engine.backward(loss_of(model, 0) * 1e6)
        report = engine.step()
        found["skipped"] = [report.skipped, report.reason]
        loss_of(model, 1).backward()
        found["unscaled"] = refusal(engine.step)
        engine.discard_gradients()
        engine.backward(loss_of(model, 1))
        found["next"] = engine.step().loss_scale
        found["types"] = sorted({str(value.dtype) for value in engine.state_dict().values()})
    return found


def keeps_memory() -> dict[str, int]:
    """Page faults of three steps. keep_memory() keeps the blocks of a step for the next one, so few pages are new."""
    import resource

    import torch
    import zerocpp as zero

    def faults() -> int:
        model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
        with zero.attach(model, stage=3, device_memory="min") as engine:
            before = 0
            for step in range(6):
                if step == 3:
                    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                model(torch.randn(512, 512)).square().mean().backward()
                engine.step()
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    first = faults()
    zero.keep_memory()
    return {"without": first, "with": faults()}


class Interface(ranks.CallsTest):
    calls = [averages, raw_memory, shards, callbacks, numbered_passes, dictionaries, offloads, half_precision]

    def test_averages_follow_the_steps(self) -> None:
        for found in self.of(averages):
            self.assertLess(found["distance"], 1e-6)
            self.assertTrue(found["back"])
            self.assertIn("averaged", found["in step"])
            self.assertIn("between a backward pass and its step()", found["early"])
            self.assertRegex(found["without"], "ConfigError: (.|\n)*ema")

    def test_scope_lets_pointers_read(self) -> None:
        for found in self.of(raw_memory):
            self.assertEqual(found, {"equal": True, "refused": True})

    def test_shards_make_the_whole_state(self) -> None:
        for found in self.of(shards):
            self.assertTrue(found["covered"] and found["equal"])
            self.assertEqual(sorted(found["names"]), ["exp_avg", "exp_avg_sq", "parameter"])
            self.assertIn("momentum", found["unknown"])

    def test_callbacks_get_the_report(self) -> None:
        for found in self.of(callbacks):
            self.assertEqual(found, {"equal": True, "number": 4})

    def test_numbered_passes_keep_bits(self) -> None:
        for found in self.of(numbered_passes):
            self.assertEqual(found, {"equal": True})

    def test_rank_0_gets_the_weights(self) -> None:
        for rank, found in enumerate(self.of(dictionaries)):
            self.assertEqual(found["rank0"], found["whole"] if rank == 0 else [])
            self.assertEqual(found["one"], ["3.bias"] if rank == 0 else [])
            self.assertIn('use "all" or "rank0"', found["target"])

    def test_offloaded_states_keep_losses(self) -> None:
        for found in self.of(offloads):
            self.assertTrue(found["equal"])
            some, rest, back, none = found["moved"]
            self.assertTrue(some > 0 and rest > 0 and back == some + rest and none == 0)
            self.assertEqual(found["held"], [0, True])
            unknown, without, early, _ = found["refused"]
            self.assertIn("use parameter, gradient, optimizer", unknown)
            self.assertIn("set zero.disk to a folder", without)
            self.assertIn("between a backward pass and its step()", early)

    def test_fp16_scales_its_losses(self) -> None:
        for found in self.of(half_precision):
            self.assertLess(found["losses"][-1], found["losses"][0] - 0.02)
            self.assertEqual(found["skipped"], [True, "overflow"])
            self.assertEqual(found["next"], found["scale"] / 2)
            self.assertRegex(found["unscaled"], "scale")
            self.assertEqual(found["types"], ["torch.float16"])

    def test_kept_memory_is_not_faulted_again(self) -> None:
        found = ranks.run(keeps_memory, ranks=1)[0]
        self.assertLess(found["with"], found["without"] / 4)


if __name__ == "__main__":
    unittest.main()
