#!/usr/bin/env python3
"""An import of zerocpp refuses a torch of another series than that of its build, and two copies of libtorch.

Needs neither torch nor a build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A torch.py that maps files as the loader maps libraries.
MAPS = """
import mmap
import pathlib

__version__ = "2.11.0"
maps = []
for name in {copies}:
    file = pathlib.Path(__file__).resolve().parent / name / "libtorch_cpu.so"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"a library")
    with file.open("rb") as opened:
        maps.append(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ))
"""


class ImportedTorch(unittest.TestCase):
    def error_of_import(self, torch: str) -> str:
        """Imports the package, built for 2.11.0, beside a torch.py with this text. Returns the error."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "python/zerocpp", Path(folder, "zerocpp"), ignore=shutil.ignore_patterns("*.so"))
            Path(folder, "zerocpp/built_for.txt").write_text("2.11.0\n")
            Path(folder, "torch.py").write_text(torch)
            ran = subprocess.run(
                [sys.executable, "-c", "import zerocpp"],
                env={**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
                cwd=folder,
                text=True,
                capture_output=True,
                check=False,
            )
        self.assertEqual(ran.returncode, 1)
        return ran.stderr

    def test_another_series_is_refused(self) -> None:
        for version in ("2.10.0", "2.12.1+cu130"):
            error = self.error_of_import(f'__version__ = "{version}"')
            self.assertIn(
                f"ImportError: this zerocpp was built for torch 2.11, and torch {version} is installed\n", error
            )
            self.assertIn("pip install 'torch==2.11.*'", error)

    def test_missing_torch_names_the_remedy(self) -> None:
        error = self.error_of_import('raise ImportError("no torch here")')
        self.assertIn("ImportError: zerocpp needs PyTorch, which cannot be imported: no torch here\n", error)
        self.assertIn("pip install 'torch==2.11.*'", error)

    def test_a_patch_release_is_accepted(self) -> None:
        # The extension is missing here, so the import fails after the check.
        self.assertIn("'_C'", self.error_of_import('__version__ = "2.11.3+cpu"').splitlines()[-1])

    def test_two_copies_of_libtorch_are_refused(self) -> None:
        # In folders with a space in their names.
        error = self.error_of_import(MAPS.format(copies=["one b", "a b"]))
        self.assertRegex(
            error,
            r"ImportError: two copies of libtorch are loaded: /.*/a b/libtorch_cpu\.so, /.*/one b/libtorch_cpu\.so\n",
        )
        self.assertIn("Remove the folder of one of them from LD_LIBRARY_PATH or PYTHONPATH.", error)

    def test_one_copy_of_libtorch_is_accepted(self) -> None:
        # Two mappings of one file are one copy.
        self.assertIn("'_C'", self.error_of_import(MAPS.format(copies=["one", "one"])).splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
