#!/usr/bin/env python3
"""The end of processes: Ctrl-C on one rank, development mode, and a hundred engines one after another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import left_behind
import ranks
from plain_torch import mlp, squares

CYCLES = 100


def trains_on(marks: str) -> None:
    """Trains until it is interrupted. Rank 1 writes its process, and the time of each of its steps."""
    import zerocpp as zero

    rank = zero.world().rank
    model = mlp()
    try:
        with zero.attach(model, stage=3, device_memory="min") as engine:
            for step in range(100_000):
                squares(model, step % 4, rank).backward()
                engine.step()
                if rank == 1 and step == 3:
                    Path(marks, "process.new").write_text(str(os.getpid()))
                    Path(marks, "process.new").rename(Path(marks, "process"))
    except (zero.Error, KeyboardInterrupt) as error:
        name, text = type(error).__name__, str(error).split("\n")[0]
        Path(marks, f"rank-{rank}.txt").write_text(f"{time.time()} {name} {text}")
        raise


def engines_come_and_go(cycles: int) -> dict[str, Any]:
    """Bytes of this process after some cycles, and after all."""
    import gc

    import zerocpp as zero

    rank = zero.world().rank
    found = []
    files = []
    for cycle in range(cycles):
        model = mlp()
        with zero.attach(model, zero.AdamW(lr=1e-2), stage=3) as engine:
            squares(model, 0, rank).backward()
            engine.step()
        if cycle % 10 == 9:
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found.append(pages * os.sysconf("SC_PAGE_SIZE"))
            files.append(len(os.listdir("/proc/self/fd")))
    return {"bytes": found, "files": files, "threads": len(os.listdir("/proc/self/task"))}


DEVELOPMENT = """
import faulthandler, threading
faulthandler.enable()
import torch, zerocpp as zero
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
engine = zero.attach(model, torch.optim.AdamW(model.parameters(), lr=0.1), stage=3, device_memory="min")
for _ in range(2):
    model(torch.ones(2, 8)).sum().backward()
    engine.step()
END
print("ended", flush=True)
"""


class Interrupts(ranks.FolderTest):
    def test_interrupted_rank_is_named(self) -> None:
        process = ranks.start(trains_on, self.folder, marks=self.folder)
        file = Path(self.folder, "process")
        while not file.exists() and process.poll() is None:
            time.sleep(0.01)
        interrupted = int(file.read_text())
        held = left_behind.memory_of(interrupted)
        sent = time.time()
        os.kill(interrupted, signal.SIGINT)
        how = ranks.end(process, self.folder, 2, limit=120)
        self.assertNotEqual(how.status, 0, how.output)
        found = {rank: Path(self.folder, f"rank-{rank}.txt").read_text().split(" ", 2) for rank in range(2)}
        self.assertEqual(found[1][1], "KeyboardInterrupt", how.output)
        self.assertEqual(found[0][1], "CommError", how.output)
        self.assertIn("rank 1", found[0][2])
        print(f"rank 1 raised its exception {float(found[1][0]) - sent:.3f} s after the signal")
        self.assertGreater(len(held), 0)
        self.assertEqual(left_behind.holders(held), [])


class Ends(ranks.PackageTest):
    def test_hundred_engines_keep_memory_flat(self) -> None:
        for found in ranks.run(engines_come_and_go, cycles=CYCLES):
            self.assertLess(found["bytes"][-1] - found["bytes"][2], 1 << 20)
            self.assertEqual(found["files"][-1], found["files"][2])

    # closed on two ranks; left open, in a cycle, and with a pass that no step() ends
    def test_development_mode_ends_cleanly(self) -> None:
        left_open = "model(torch.ones(2, 8)).sum().backward(); model.owner = [engine, engine.frozen()]"
        for launcher, end in (([str(ranks.COMMAND), "launch", "-n", "2", "--"], "engine.close()"), ([], left_open)):
            with self.subTest(end):
                program = DEVELOPMENT.replace("END", end)
                done = subprocess.run(
                    [*launcher, sys.executable, "-X", "dev", "-c", program],
                    env=ranks.environment(),
                    text=True,
                    capture_output=True,
                    check=False,
                )
                text = done.stdout + done.stderr
                self.assertEqual(done.returncode, 0, text)
                self.assertIn("ended", text)
                self.assertNotRegex(text, "Fatal|Segmentation|Traceback|Exception ignored|zerocpp.*Warning")


if __name__ == "__main__":
    unittest.main()
