#!/usr/bin/env python3
"""Wrong calls: each raises an error with a name and a remedy, on every rank that waits, and the engine stays usable.

One process imports torch and forks the ranks of the cases whose ranks differ, because each import takes seconds.
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import forked_ranks
import ranks
from plain_torch import mlp, refusal, squares

# ---- wrong calls that are equal on all ranks


def steps_the_given_optimizer() -> dict[str, Any]:
    """The step() of the optimizer given to attach() is refused, and the engine's step follows."""
    import torch
    import zerocpp as zero

    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    with zero.attach(model, optimizer, stage=3) as engine:
        before = engine.state_dict()
        squares(model, 0, zero.world().rank).backward()
        text = refusal(optimizer.step)
        unchanged = all(torch.equal(before[name], value) for name, value in engine.state_dict().items())
        steps = engine.step().step
    squares(model, 1, 0).backward()
    optimizer.step()  # of an ordinary model again
    return {"text": text, "unchanged": unchanged, "steps": steps}


def clips_by_torch() -> dict[str, Any]:
    """torch's clip_grad_norm_() finds no gradients, and the step that follows is refused."""
    import torch
    import zerocpp as zero

    model = mlp()
    with zero.attach(model, stage=3) as engine:
        squares(model, 0, zero.world().rank).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        text = refusal(engine.step)
        engine.discard_gradients()
        squares(model, 0, zero.world().rank).backward()
        return {"text": text, "steps": engine.step().step}


def wrong_number_of_passes() -> dict[str, Any]:
    import zerocpp as zero

    rank = zero.world().rank
    model = mlp()
    found: dict[str, Any] = {}
    with zero.attach(model, stage=3, accumulate=4, average_micro_batches=True) as engine:
        for number in (3, 5):

            def passes(number: int = number) -> None:
                for micro in range(number):
                    squares(model, micro, rank).backward()
                engine.step()

            found[str(number)] = refusal(passes)
            engine.discard_gradients()
        for micro in range(3):
            squares(model, micro, rank).backward()
        found["fewer"] = engine.step(fewer_micro_batches=True).step
        found["beyond"] = refusal(lambda: engine.micro_batch(4))
    return found


def step_without_backward() -> dict[str, Any]:
    """As in torch, nothing is updated. A warning says so once."""
    import logging

    import torch
    import zerocpp as zero

    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    keep = Keep()
    logging.getLogger("zerocpp").addHandler(keep)
    model = mlp()
    with zero.attach(model, zero.AdamW(lr=0.1), stage=3) as engine:
        before = engine.state_dict()
        norms = [engine.step().grad_norm for _ in range(2)]
        unchanged = all(torch.equal(before[name], value) for name, value in engine.state_dict().items())
    with zero.attach(mlp(), zero.AdamW(lr=0.1), stage=3, accumulate=2) as engine:
        refused = refusal(engine.step)
    logging.getLogger("zerocpp").removeHandler(keep)
    said = [line for line in lines if "updates nothing" in line]
    return {"norms": norms, "unchanged": unchanged, "said": said, "refused": refused}


def other_device() -> dict[str, str]:
    """Parameters on two devices. The second device is a fake one, because this machine may have no GPU."""
    import torch
    import zerocpp as zero
    from torch._subclasses import FakeTensorMode

    model = mlp()
    with FakeTensorMode():
        model.append(torch.nn.Linear(16, 16, device="cuda"))
    return {place: ranks.error_of(lambda place=place: zero.attach(model, device=place)) for place in ("", "cpu")}


def forked_child() -> dict[str, Any]:
    """The errors of a child that this rank forks after world()."""
    import zerocpp as zero

    zero.world()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        text = refusal(lambda: zero.attach(mlp()))
        os.write(writes, text.encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    with zero.attach(mlp(), stage=3):  # the parent is unharmed
        pass
    return {"text": text, "status": os.waitstatus_to_exitcode(status)}


def bad_numbers() -> dict[str, str]:
    """The errors of numbers that no option may have, by option."""
    import math

    import zerocpp as zero
    from zerocpp import _C

    model = mlp()
    found: dict[str, str] = {}
    for key, value in {"activation_memory": -5, "sections": -1, "depth": -1}.items():
        for pipeline in (1, 2):
            attach = lambda key=key, value=value, pipeline=pipeline: zero.attach_pipeline(  # noqa: E731
                model, zero.AdamW(), pipeline=pipeline, **{key: value}
            )
            found[f"{key} {pipeline}"] = refusal(attach)
    for key in ("disk_memory", "host_memory", "device_memory", "max_skipped_steps", "accumulate"):
        found[key] = refusal(lambda key=key: zero.attach(model, **{key: -5}))
    for timeout in (-1.0, 0.0, math.nan):
        found[f"timeout {timeout}"] = refusal(lambda timeout=timeout: _C.world_from_environment("auto", timeout))
    with zero.attach_pipeline(model, zero.AdamW(), pipeline=1) as engine:
        for parts in (0.0, -2.0, math.nan):
            found[f"parts {parts}"] = refusal(
                lambda parts=parts: engine.passes(lambda micro: squares(model, 0, 0), parts=parts)
            )
        engine.passes(lambda micro: squares(model, 0, 0))
        found["steps"] = str(engine.step().step)
    return found


# ---- ranks that differ


def different_models(rank: int) -> None:
    import torch
    import zerocpp as zero

    model = mlp()
    if rank == 1:
        model.append(torch.nn.Linear(16, 16))
    zero.attach(model, stage=3)


def different_sizes(rank: int) -> None:
    import torch
    import zerocpp as zero

    zero.attach(torch.nn.Linear(16, 8 + rank), stage=3)


def different_options(rank: int) -> None:
    import zerocpp as zero

    zero.attach(mlp(), stage=3 - rank)


def different_clips(rank: int) -> None:
    import zerocpp as zero

    zero.attach(mlp(), stage=3, clip=1.0 + rank)


def one_rank_calls_state_dict(rank: int) -> None:
    """As in `if rank == 0: torch.save(engine.state_dict())`."""
    import zerocpp as zero

    model = mlp()
    engine = zero.attach(model, stage=3, device_memory="min")
    squares(model, 0, rank).backward()
    engine.step()
    if rank == 0:
        engine.state_dict()
    squares(model, 1, rank).backward()
    engine.step()
    engine.close()


DIFFERENT: list[Callable[[int], None]] = [
    different_models,
    different_sizes,
    different_options,
    different_clips,
    one_rank_calls_state_dict,
]


def all_groups(folder: str) -> dict[str, Any]:
    import gc

    import torch
    import zerocpp  # noqa: F401 (imported once, before the ranks are forked)

    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # imports all modules that attach() needs
    gc.freeze()
    return {body.__name__: forked_ranks.run_group(body.__name__, Path(folder), 2, body) for body in DIFFERENT}


class Calls(ranks.CallsTest):
    calls = [
        steps_the_given_optimizer,
        clips_by_torch,
        wrong_number_of_passes,
        step_without_backward,
        other_device,
        bad_numbers,
        forked_child,
    ]

    def test_step_of_given_optimizer_is_refused(self) -> None:
        for found in self.of(steps_the_given_optimizer):
            self.assertRegex(found["text"], r"optimizer\.step = AdamW: .*no gradients.*\n  call engine\.step\(\)")
            self.assertEqual((found["unchanged"], found["steps"]), (True, 1))

    def test_step_after_torchs_clip_is_refused(self) -> None:
        for found in self.of(clips_by_torch):
            self.assertRegex(found["text"], r"0\.weight(.|\n)*grad")
            self.assertEqual(found["steps"], 1)

    def test_wrong_number_of_passes_is_refused(self) -> None:
        for found in self.of(wrong_number_of_passes):
            for number in ("3", "5"):
                self.assertRegex(found[number], rf"accumulate(.|\n)*{number}|{number}(.|\n)*accumulate")
            self.assertEqual(found["fewer"], 1)
            self.assertIn("4", found["beyond"])

    def test_step_without_backward_updates_nothing(self) -> None:
        for rank, found in enumerate(self.of(step_without_backward)):
            self.assertEqual((found["norms"], found["unchanged"]), ([0.0, 0.0], True))
            self.assertEqual(len(found["said"]), 1 if rank == 0 else 0)
            self.assertIn("this step had 0 backward passes", found["refused"])

    def test_models_on_two_devices_are_refused(self) -> None:
        for found in self.of(other_device):
            self.assertRegex(
                found["cpu"], r"ConfigError: .*4\.weight: it is on cuda:0, and other parameters are on cpu\n  "
            )
            self.assertRegex(found[""], "(ConfigError|DeviceError): .*cuda:0")

    def test_bad_numbers_are_refused_by_name(self) -> None:
        for rank in self.of(bad_numbers):
            found = dict(rank)
            self.assertEqual(found.pop("steps"), "1")
            for name, text in found.items():
                with self.subTest(name):
                    self.assertRegex(text, rf"{name.split()[0]}\)? = (-|0|nan)(.|\n)*must be (.|\n)*\n  ")

    def test_attach_in_forked_child_is_refused(self) -> None:
        for rank, found in enumerate(self.of(forked_child)):
            self.assertIn(f"forked from rank {rank}", found["text"])
            self.assertIn("spawn", found["text"])
            self.assertEqual(found["status"], 0)


class Ranks(forked_ranks.GroupsTest):
    groups = all_groups

    def assert_refused(self, body: Callable[[int], None], *differences: str) -> None:
        for found in self.of(body):
            self.assertEqual(found["status"], 1, found["output"])
            self.assertIn("ConfigError: attach() = rank 1: differs from rank 0's: ", found["error"])
            self.assertIn("\n  give every rank the same module and the same options", found["error"])
            for difference in differences:
                self.assertIn(difference, found["error"])

    def test_different_models_are_refused(self) -> None:
        self.assert_refused(different_models, "parameters = 8, not 6", "4.weight = [16, 16]")
        self.assert_refused(different_sizes, "weight = [9, 16]", "not [8, 16]")

    def test_different_options_are_refused(self) -> None:
        self.assert_refused(different_options, "stage = 2, not 3")
        self.assert_refused(different_clips, "clip = 2, not 1")

    def test_lone_state_dict_is_named(self) -> None:
        for found in self.of(one_rank_calls_state_dict):
            self.assertRegex(
                found["error"], "CommError: .*ranks disagree: rank 0 does .*, rank 1 does .*\n  every rank"
            )
            self.assertEqual(found["status"], 1, found["output"])


if __name__ == "__main__":
    unittest.main()
