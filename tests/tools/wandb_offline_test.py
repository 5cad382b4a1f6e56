#!/usr/bin/env python3
"""Tests of examples/wandb/wandb_offline.py: the reading of a run's folder."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "examples" / "wandb"))

import wandb_offline  # noqa: E402


class WandbOffline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def lines(self, *lines):
        run = self.root / "run"
        run.mkdir()
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        return run

    def test_repeated_steps_count_once(self):
        run = self.lines(
            '{"step": 1, "loss": 3}',
            '{"step": 2, "loss": 2}',
            '{"step": 3, "loss": 1}',
            '{"step": 2, "loss": 2.5, "memory_bytes": {"total": 7}}',
            '{"step": 2, "val_loss": 4}',
        )
        self.assertEqual(
            wandb_offline.rows_of(run),
            [(1, {"train/loss": 3}), (2, {"train/loss": 2.5, "memory/device_bytes": 7, "validation/val_loss": 4})],
        )

    def test_an_event_changes_no_row(self):
        run = self.lines(
            '{"step": 1, "loss": 3, "lr": 0.1}',
            '{"step": 1, "val_loss": 4}',
            '{"step": 1, "event": "rewound", "reason": "loss spike", "from": 2, "loss": 93.1, "grad_norm": 5}',
        )
        self.assertEqual(
            wandb_offline.rows_of(run), [(1, {"train/loss": 3, "train/lr": 0.1, "validation/val_loss": 4})]
        )

    def test_tags_are_as_in_event_files(self):
        run = self.lines(
            '{"step": 1, "loss": 3, "rows_per_second": 8, "memory_bytes": {"total": 7}, '
            '"host_bytes": 5, "disk_bytes": 6}',
            '{"step": 1, "val_loss": 4, "val_accuracy": 0.5}',
            '{"step": 1, "val_loss_ema": 3, "val_accuracy_ema": 0.6}',
        )
        [(_, row)] = wandb_offline.rows_of(run)
        written = (ROOT / "app/report/files/tensorboard_log.cpp").read_text()
        tags = set(re.findall(r'"((?:train|speed|memory|validation)/\w+)"', written))
        self.assertIn('"memory/" + std::string(name_of(tier)) + "_bytes"', written)
        tiers = re.findall(r'TierFacts\{Tier::k\w+, "(\w+)"', (ROOT / "zero/base/numbers/tier.h").read_text())
        tags |= {f"memory/{tier}_bytes" for tier in tiers}
        self.assertEqual(set(row) - tags, set())
        self.assertEqual(set(wandb_offline.STEP.values()) | {"memory/device_bytes"}, tags)
        self.assertEqual(
            {row[tag] for tag in ("memory/host_bytes", "memory/disk_bytes", "validation/val_accuracy_ema")}, {5, 6, 0.6}
        )

    def test_an_incomplete_line_is_ignored(self):
        self.assertEqual(
            wandb_offline.rows_of(self.lines('{"step": 1, "loss": 3}', '{"step": 2, "lo')), [(1, {"train/loss": 3})]
        )

    def test_folders_without_runs_are_named(self):
        done = subprocess.run(
            [sys.executable, ROOT / "examples/wandb/wandb_offline.py", self.root / "nothing"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("no metrics.jsonl: this folder holds no run", done.stderr)


if __name__ == "__main__":
    unittest.main()
