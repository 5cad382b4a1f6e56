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

    def test_a_run_goes_on_after_a_step(self) -> None:
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
