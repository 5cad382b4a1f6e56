#!/usr/bin/env python3
"""torch.compile of an attached model: losses equal those of the model without it."""

from __future__ import annotations

import os
import shutil
import tempfile
import unittest
from typing import Any

import ranks
from plain_torch import mlp, optimizer_of, refusal, squares

STEPS = 3


def blocks() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(7)
    return nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(3)))


def losses_of(model: Any, call: Any, evaluates: bool = False, **options: Any) -> tuple[list[float], Any]:
    """Trains `model`, called as `call`, and with `evaluates` evaluates between steps. Returns losses and the report."""
    import torch
    import zerocpp as zero

    losses = []
    with zero.attach(model, optimizer_of(model), **options) as engine:
        for step in range(STEPS):
            loss = squares(call, step, engine.world.rank)
            loss.backward()
            losses.append(engine.step(loss=loss).loss)
            if evaluates:
                with torch.no_grad():
                    losses.append(squares(call, 10 + step, 0).item())
        return losses, engine.report()


def distance(losses: list[float], others: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(losses, others, strict=True))


def without_code(stage: int) -> dict[str, Any]:
    """Backends that run torch's own operators: one graph, and equal losses."""
    import torch

    options: dict[str, Any] = {"stage": stage, "device_memory": "min" if stage == 3 else "auto"}
    plain = mlp()
    wanted, _ = losses_of(plain, plain, **options)
    found: dict[str, Any] = {}
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        model = mlp()
        losses, report = losses_of(model, torch.compile(model, backend=backend, fullgraph=True), **options)
        found[backend] = {"distance": distance(losses, wanted), "mismatches": report.trace_mismatches}
    return found


def with_inductor(cache: str) -> dict[str, Any]:
    import logging

    # No vector instructions and no precompiled headers: their checks and compilation take longer than the graphs.
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=cache, TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="0")
    import torch
    import torch._inductor.config
    import zerocpp as zero
    from zerocpp import _compile

    torch._inductor.config.cpp_cache_precompile_headers = False
    zero.world(timeout=300)  # one rank compiles while the other waits
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logging.getLogger("zerocpp").addHandler(Lines())
    found: dict[str, Any] = {}
    plain = mlp()
    wanted, _ = losses_of(plain, plain, evaluates=True, stage=3, device_memory="min")
    for stage, memory in ((3, "min"), (0, "auto")):
        model = mlp()
        losses, report = losses_of(model, torch.compile(model), evaluates=True, stage=stage, device_memory=memory)
        found[f"stage {stage}"] = {"distance": distance(losses, wanted), "mismatches": report.trace_mismatches}
    found["warnings"] = [line for line in lines if "block by block" in line]

    lines.clear()
    plain = blocks()
    wanted, _ = losses_of(plain, plain, stage=3, device_memory="1MiB")
    model = blocks()
    for block in model:
        block.compile()
    losses, report = losses_of(model, model, stage=3, device_memory="1MiB")
    found["blocks"] = {"distance": distance(losses, wanted), "mismatches": report.trace_mismatches}
    found["warnings of blocks"] = len(lines)

    model = mlp()
    with zero.attach(model, stage=3):
        found["reduce-overhead"] = refusal(lambda: squares(torch.compile(model, mode="reduce-overhead"), 0, 0))
    ran, _compile._ran = _compile._ran, 0
    model = mlp()
    with zero.attach(model) as engine:
        squares(model, 0, 0).backward()
        found["unwrapped"] = refusal(engine.step)
        _compile._ran = ran
        engine.step()
    return found


class Compile(ranks.PackageTest):
    def test_backends_without_code_have_equal_losses(self) -> None:
        for stage in (0, 3):
            for of_rank in ranks.run(without_code, stage=stage):
                for backend, found in of_rank.items():
                    self.assertEqual(found, {"distance": 0.0, "mismatches": 0}, backend)

    def test_inductor(self) -> None:
        if not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))):
            self.skipTest("inductor needs a C++ compiler: g++ or clang++")
        with tempfile.TemporaryDirectory() as cache:
            how = ranks.ended(with_inductor, limit=500, cache=cache)
        self.assertEqual(how.status, 0, how.output)
        for found in how.results:
            for name in ("stage 3", "stage 0", "blocks"):
                self.assertLessEqual(found[name]["distance"], 2e-6, name)
                self.assertEqual(found[name]["mismatches"], 0, name)
            self.assertEqual(len(found["warnings"]), 1)
            self.assertIn("device_memory = min", found["warnings"][0])
            self.assertEqual(found["warnings of blocks"], 0)
            self.assertRegex(found["reduce-overhead"], "(?s)CUDA graphs.*stage 3.*\n  .*default mode")
            self.assertRegex(found["unwrapped"], "(?s)torch.compile.*\n  .*aot_eager")


if __name__ == "__main__":
    unittest.main()
