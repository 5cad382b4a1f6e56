#!/usr/bin/env python3
"""Programs under torchrun, Open MPI and Slurm's variables find the ranks that zero launch starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

TRAINS = """
import pathlib, torch, zerocpp as zero
world = zero.world()
torch.manual_seed(1)
model = torch.nn.Linear(4, 4)
with zero.attach(model, zero.AdamW(lr=0.1), stage=3) as engine:
    for step in range(3):
        loss = model(torch.full((2, 4), 1.0 + world.rank + step)).square().mean()
        loss.backward()
        loss = engine.step(loss=loss).loss
line = f"rank {world.rank} of {world.size} by {world.source}: {loss:.9g}"
pathlib.Path(__file__).with_name(f"rank_{world.rank}.txt").write_text(line)  # mpirun may lose or join printed lines
"""


class Launchers(ranks.FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.script = os.path.join(self.folder, "train.py")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(TRAINS)

    def lines(self, *command: str) -> list[str]:
        done = subprocess.run(
            [*command, sys.executable, self.script],
            env=ranks.environment(),
            text=True,
            capture_output=True,
            check=False,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.written()

    def written(self) -> list[str]:
        return [file.read_text(encoding="utf-8") for file in sorted(Path(self.folder).glob("rank_*.txt"))]

    def assert_started(self, found: list[str], source: str) -> None:
        self.assertEqual([line.split(":")[0] for line in found], [f"rank {rank} of 2 by {source}" for rank in range(2)])
        self.assertEqual(found[0].split(": ")[1], found[1].split(": ")[1])  # the mean loss after three steps

    def test_open_mpi_starts_ranks(self) -> None:
        if shutil.which("mpirun") is None or "Open MPI" not in subprocess.run(
            ["mpirun", "--version"], text=True, capture_output=True, check=False
        ).stdout:  # fmt: skip
            self.skipTest("Open MPI's mpirun is not installed")
        found = self.lines("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")
        self.assert_started(found, "Open MPI")

    def test_slurm_starts_ranks(self) -> None:
        running = []
        for rank in range(2):
            own = {
                **ranks.environment(),
                "SLURM_PROCID": str(rank),
                "SLURM_LOCALID": str(rank),
                "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_JOB_ID": str(os.getpid()),
                "SLURM_STEP_ID": "0",
            }
            command = [sys.executable, self.script]
            running.append(
                subprocess.Popen(command, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            )
        texts = [process.communicate(timeout=300)[0] for process in running]
        self.assertEqual([process.returncode for process in running], [0, 0], texts)
        self.assert_started(self.written(), "Slurm")

    def test_half_a_launcher_is_refused(self) -> None:
        for own, missing in (
            ({"RANK": "1"}, "WORLD_SIZE(.|\n)*RANK"),
            ({"RANK": "0", "LOCAL_RANK": "0"}, "WORLD_SIZE(.|\n)*RANK"),
            ({"WORLD_SIZE": "2"}, "RANK(.|\n)*WORLD_SIZE"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", "import zerocpp\nzerocpp.world()"],
                env={**ranks.environment(), **own},
                text=True,
                capture_output=True,
                check=False,
            )
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, "zerocpp.ConfigError: " + missing)


if __name__ == "__main__":
    unittest.main()
