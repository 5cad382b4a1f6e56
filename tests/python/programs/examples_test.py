#!/usr/bin/env python3
"""The scripts in examples/python, and the scripts of the guide's pages for FSDP2 and DeepSpeed, train on two ranks."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

EXAMPLES = ranks.ROOT / "examples/python"
GUIDE = ranks.ROOT / "docs/guide"
LAUNCH = (str(ranks.COMMAND), "launch", "-n", "2", "--", sys.executable)
# Some PyTorch programs abort at their end, because a thread of gloo asks for the interpreter's lock.
END_AT_ONCE = "import os, sys\nsys.stdout.flush()\nos._exit(0)\n"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def blocks(page: str) -> list[str]:
    """The Python of a page of the guide."""
    return re.findall(r"^```python\n(.*?)^```$", (GUIDE / page).read_text(), re.MULTILINE | re.DOTALL)


def losses_without_engine() -> list[float]:
    """The training of the page for DeepSpeed in plain PyTorch: one process computes the batches of both ranks."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    model = nn.Sequential()
    for _ in range(4):
        model.append(nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.01)
    samples = [torch.randn(32, 16, generator=torch.Generator().manual_seed(rank)) for rank in range(2)]
    losses = []
    for rate in (0.0, 0.0, 0.5, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25):  # up in 2 updates, then down to 0
        optimizer.param_groups[0]["lr"] = 1e-2 * rate
        optimizer.zero_grad()
        parts = [part for of_rank in samples for part in of_rank.chunk(2)]
        loss = torch.stack([nn.functional.mse_loss(model(part), part.roll(1, 1)) for part in parts]).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


class Examples(ranks.FolderTest):
    def printed(self, launcher: tuple[str, ...], script: Path, *arguments: str) -> str:
        done = subprocess.run(
            [*launcher, str(script), *arguments],
            check=False,
            env=ranks.environment(),
            cwd=self.folder,
            text=True,
            capture_output=True,
            timeout=600,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    @ranks.needs("transformers", "accelerate")
    def test_trainer_of_hugging_face(self) -> None:
        import json

        text = self.printed(LAUNCH, EXAMPLES / "hugging_face_trainer.py", "--steps=12", "--output=out")
        found = re.search(r"losses (\[.*\]); a rank's states have \d", text)
        assert found is not None, text
        losses = json.loads(found[1])
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0] - 0.5)
        self.assertTrue(Path(self.folder, "out/model.safetensors").exists())

    @ranks.needs("accelerate")
    def test_loop_of_accelerate(self) -> None:
        text = self.printed(LAUNCH, EXAMPLES / "accelerate_loop.py")
        right = [int(number) for number in re.findall(r"epoch \d: loss [\d.]+, (\d+) of 256", text)]
        self.assertEqual(len(right), 4, text)
        self.assertGreater(right[-1], 180)

    @ranks.needs("lightning")
    def test_trainer_of_lightning(self) -> None:
        text = self.printed(LAUNCH, EXAMPLES / "lightning_trainer.py", "--ranks=2")
        right = [float(number) for number in re.findall(r"epoch \d: loss [\d.]+, ([\d.]+) % right", text)]
        self.assertEqual(len(right), 4, text)
        self.assertGreater(right[-1], 70)

    def losses_of(self, launcher: tuple[str, ...], name: str, script: str) -> list[float]:
        """Runs the script in a folder of its own, and returns the losses of its ten steps."""
        folder = Path(self.folder, name)
        folder.mkdir()
        (folder / "train.py").write_text(script.replace('"checkpoint"', f'"{folder}/checkpoint"'))
        text = self.printed(launcher, folder / "train.py")
        losses = [float(loss) for loss in re.findall(r"step \d loss ([\d.]+)", text)]
        self.assertEqual(len(losses), 10, text)
        self.assertTrue((folder / "checkpoint").is_dir())
        return losses

    def check_near(self, losses: list[float], others: list[float]) -> None:
        for own, other in zip(losses, others, strict=True):
            self.assertAlmostEqual(own, other, delta=1e-5)
        self.assertLess(losses[-1], losses[0] - 0.02)

    def test_scripts_of_fsdp2_page_agree(self) -> None:
        theirs, ours = blocks("from_fsdp2_python.md")
        self.check_near(self.losses_of(TORCHRUN, "zero", ours), self.losses_of(TORCHRUN, "fsdp2", theirs + END_AT_ONCE))

    def test_script_of_deepspeed_page_trains(self) -> None:
        theirs, ours = blocks("from_deepspeed_python.md")
        line = "import zerocpp.deepspeed as deepspeed\n"
        self.assertIn(line, ours)
        self.assertEqual(theirs, ours.replace(line, "import deepspeed\n"))
        self.check_near(self.losses_of(LAUNCH, "zero", ours), losses_without_engine())


if __name__ == "__main__":
    unittest.main()
