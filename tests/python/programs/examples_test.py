#!/usr/bin/env python3
"""The scripts in examples/python, and both scripts of docs/guide/from_fsdp2_python.md, train on two ranks."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

EXAMPLES = ranks.ROOT / "examples/python"
PAGE = ranks.ROOT / "docs/guide/from_fsdp2_python.md"
LAUNCH = (str(ranks.COMMAND), "launch", "-n", "2", "--", sys.executable)
# Some PyTorch programs abort at their end, because a thread of gloo asks for the interpreter's lock.
END_AT_ONCE = "import os, sys\nsys.stdout.flush()\nos._exit(0)\n"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


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

    def test_scripts_of_fsdp2_page_agree(self) -> None:
        blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 2)
        losses = []
        for name, block in zip(("fsdp2", "zero"), (blocks[0] + END_AT_ONCE, blocks[1])):
            folder = Path(self.folder, name)
            folder.mkdir()
            (folder / "train.py").write_text(block.replace('"checkpoint"', f'"{folder}/checkpoint"'))
            text = self.printed(TORCHRUN, folder / "train.py")
            losses.append([float(loss) for loss in re.findall(r"step \d loss ([\d.]+)", text)])
            self.assertTrue((folder / "checkpoint").is_dir())
        self.assertEqual([len(own) for own in losses], [10, 10])
        for own, other in zip(*losses):
            self.assertAlmostEqual(own, other, delta=1e-5)
        self.assertLess(losses[0][-1], losses[0][0] - 0.02)


if __name__ == "__main__":
    unittest.main()
