#!/usr/bin/env python3
"""RunLog: folders that `zero report` and `zero compare` read."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import ranks


def small_net() -> Any:
    import torch

    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def logged(folder: str, steps: int, lr: float, more: dict[str, Any]) -> dict[str, Any]:
    import torch
    import zerocpp as zero

    model = small_net()
    world = zero.world()
    losses = []
    with zero.attach(model, zero.AdamW(lr=lr), stage=3, clip=1.0, max_skipped_steps=5) as engine:
        with zero.RunLog(folder, engine, samples_per_step=8, steps=steps, **more) as log:
            for step in range(steps):
                x = torch.arange(16.0).view(4, 4) / 16 + step + world.rank
                loss = model(x).square().mean()
                loss.backward()
                if step == 1 and not more:
                    engine.step(loss=loss, max_loss=0.0)  # skipped
                else:
                    losses.append(engine.step(loss=loss).loss)
            log.evaluation(zero.mean(float(world.rank)), accuracy=0.25)
        log.finish()  # a second time
    return {"losses": losses}


def refused(folder: str, more: dict[str, Any]) -> str:
    import zerocpp as zero

    with zero.attach(small_net(), stage=3) as engine:
        try:
            zero.RunLog(folder, engine, **more)
        except zero.Error as error:
            return f"{type(error).__name__}: {error}"
    return "not refused"


def odd_values(folder: str) -> dict[str, Any]:
    import sys

    import torch
    import zerocpp as zero

    sys.orig_argv.append("caf\udce9.py")  # as Python keeps a byte that is not UTF-8
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01))
    with zero.attach(model, optimizer, max_skipped_steps=5) as engine:
        more = {"data": {"path": "caf\udce9 \U0001f600.txt", "sizes": torch.tensor([1, 2])}}
        with zero.RunLog(folder, engine, configuration=more):
            for scale in (1.0, float("nan"), 2.0):
                loss = model(torch.ones(2, 4)).square().mean() * scale
                loss.backward()
                engine.step(loss=loss)
    return {}


def failing(folder: str) -> str:
    import zerocpp as zero

    class Wrong:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with zero.attach(small_net(), stage=3) as engine:
        try:
            zero.RunLog(folder, engine, configuration={"data": {"path": Wrong()}})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "not refused"


def interrupted(folder: str) -> dict[str, Any]:
    import os

    import zerocpp as zero

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with zero.attach(small_net(), stage=3) as engine:
        os.replace, keep = crash, os.replace
        try:
            zero.RunLog(folder, engine, after_step=2)
        except KeyboardInterrupt:
            return {"crashed": True}
        finally:
            os.replace = keep
    return {"crashed": False}


class RunLogs(ranks.PackageTest):
    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(ranks.COMMAND), *arguments], env=ranks.environment(), capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_report_and_compare_read_a_run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            a, b, page = (str(Path(folder, name)) for name in ("a", "b", "page.html"))
            own = ranks.run(logged, folder=a, steps=6, lr=1e-2, more={})[0]
            ranks.run(logged, folder=b, steps=4, lr=2e-2, more={"configuration": {"data": {"path": "x.txt"}}})

            lines = [json.loads(line) for line in Path(a, "metrics.jsonl").read_text().splitlines()]
            steps = [line for line in lines if "step_seconds" in line]
            self.assertEqual([line["step"] for line in steps], [1, 2, 3, 4, 5, 6])
            self.assertEqual([line["loss"] for line in steps if line["step"] != 2], own["losses"])
            self.assertEqual([line["event"] for line in lines if "event" in line], ["skipped"])
            self.assertEqual([line["val_loss"] for line in lines if "val_loss" in line], [0.5])
            self.assertEqual(steps[-1]["samples"], 48)

            report = json.loads(Path(a, "report.json").read_text())
            earlier = json.loads(Path(ranks.ROOT, "tests/cli/earlier_run/report.json").read_text())
            shared = set(report) & set(earlier)
            self.assertGreater(len(shared), 25)
            for key in shared:  # the types of `zero train`
                if report[key] is not None and earlier[key] is not None and key not in ("predicted", "val_loss"):
                    kinds = {type(report[key]), type(earlier[key])}
                    self.assertTrue(len(kinds) == 1 or kinds == {int, float}, key)
            self.assertEqual(report["steps"], 6)
            self.assertEqual(report["skipped_steps"], 1)
            self.assertEqual(len(report["peak_rss"]), 2)
            self.assertEqual(report["losses"][0], own["losses"][0])

            printed = self.command("report", a, b, "-o", page)
            self.assertIn("2 runs", printed)
            self.assertNotIn("damaged", printed)
            html = Path(page).read_text()
            self.assertIn("Sequential", html)
            table = json.loads(self.command("compare", a, b, "--json"))
            text = json.dumps(table)
            self.assertIn("optimizer.lr", text)
            self.assertIn("train.steps", text)
            self.assertIn("0.5", text)
            self.assertIn("step", self.command("compare", a, b))

    def test_a_run_continues_after_a_step(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            a = str(Path(folder, "a"))
            ranks.run(logged, folder=a, steps=4, lr=1e-2, more={"overwrite": False})
            with open(Path(a, "metrics.jsonl"), "a") as file:
                file.write('{"t": 1, "step": 9')  # as a killed run leaves it
            ranks.run(logged, folder=a, steps=3, lr=1e-2, more={"after_step": 2})
            lines = [json.loads(line) for line in Path(a, "metrics.jsonl").read_text().splitlines()]
            self.assertEqual([line["step"] for line in lines if "step_seconds" in line], [1, 2, 3, 4, 5])
            report = json.loads(Path(a, "report.json").read_text())
            self.assertEqual(report["steps"], 5)
            self.assertEqual(len(report["step_seconds"]), 5)
            own = [line["step_seconds"] for line in lines if "step_seconds" in line]
            self.assertEqual(report["step_seconds"][:2], own[:2])
            for slowest, first in zip(report["step_seconds"], own):
                self.assertGreaterEqual(slowest, first)
            self.assertEqual(report["step_s_median"], statistics.median(report["step_seconds"][3:]))

    def test_odd_values_lose_no_report(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            a = Path(folder, "a")
            ranks.run(odd_values, ranks=1, folder=str(a))
            report = json.loads((a / "report.json").read_text("utf-8"))
            self.assertTrue(report["command"].endswith("'caf\ufffd.py'"), report["command"])
            self.assertIsNone(report["losses"][1])
            self.assertEqual([len(bits) for bits in report["loss_bits"]], [8, 8, 8])
            self.assertAlmostEqual(report["configuration"]["optimizer"]["lr"], 0.01)
            self.assertEqual(report["configuration"]["data"]["sizes"], [1, 2])
            self.assertIn('path = "caf\ufffd \U0001f600.txt"', (a / "config.toml").read_text("utf-8"))
            self.assertNotIn("damaged", self.command("report", str(a), "-o", str(Path(folder, "page.html"))))

    def test_any_failure_ends_all_ranks(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            own, other = ranks.run(failing, folder=str(Path(folder, "a")))
            self.assertEqual(own, "RuntimeError: no text")
            self.assertIn("IoError: run folder = ", other)
            self.assertIn("RuntimeError: no text", other)

    def test_crash_keeps_the_lines(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            a = Path(folder, "a")
            ranks.run(logged, folder=str(a), steps=4, lr=1e-2, more={"overwrite": False})
            before = (a / "metrics.jsonl").read_text()
            self.assertEqual(ranks.run(interrupted, ranks=1, folder=str(a)), [{"crashed": True}])
            self.assertEqual((a / "metrics.jsonl").read_text(), before)

    def test_overwrite_removes_only_the_log(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            a = Path(folder, "a")
            ranks.run(logged, folder=str(a), steps=2, lr=1e-2, more={"overwrite": False})
            for name in ("timeline.json", "model.safetensors"):
                (a / name).write_text("old")
            ranks.run(logged, folder=str(a), steps=1, lr=1e-2, more={"overwrite": True})
            self.assertFalse((a / "timeline.json").exists())
            self.assertTrue((a / "model.safetensors").exists())
            self.assertEqual(json.loads((a / "report.json").read_text())["steps"], 1)

    def test_folders_are_refused_on_all_ranks(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            a, file = str(Path(folder, "a")), Path(folder, "file")
            ranks.run(logged, folder=a, steps=4, lr=1e-2, more={"overwrite": False})
            for text in ranks.run(refused, folder=a, more={}):
                self.assertIn("ConfigError: RunLog = ", text)
                self.assertIn("the folder has a run", text)
            file.write_text("x")
            for text in ranks.run(refused, folder=str(file / "b"), more={}):
                self.assertIn("IoError: run folder = ", text)


if __name__ == "__main__":
    unittest.main()
