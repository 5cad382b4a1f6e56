#!/usr/bin/env python3
"""The console script of the wheel runs the program beside the package, and finds torch for it."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Command(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.site, self.other = Path(scratch.name, "site"), Path(scratch.name, "other")
        for folder in (self.site, self.other):
            folder.mkdir()

    def make_package(self):
        (self.site / "zerocpp/bin").mkdir(parents=True)
        (self.site / "zerocpp/__init__.py").write_text("raise SystemExit('the command must not import the package')\n")
        program = self.site / "zerocpp/bin/zero"
        program.write_text('#!/bin/sh\necho "arguments: $*"\necho "libraries: $LD_LIBRARY_PATH"\nexit 3\n')
        program.chmod(0o755)

    def make_torch(self, site):
        (site / "torch/lib").mkdir(parents=True)
        (site / "torch/__init__.py").write_text("raise SystemExit('the command must not import torch')\n")
        (site / "torch/lib/libtorch_cpu.so").touch()

    def ran(self, *arguments):
        return subprocess.run(
            [sys.executable, "-c", "import zerocpp_command; zerocpp_command.main()", *arguments],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}/python:{self.site}:{self.other}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "LD_LIBRARY_PATH": "/own",
            },
            cwd=self.site,
            capture_output=True,
            text=True,
            check=False,
        )

    def test_arguments_and_status_are_passed_on(self):
        self.make_package()
        self.make_torch(self.site)
        ran = self.ran("train", "a b.toml", "-n", "2")
        self.assertEqual(
            (ran.returncode, ran.stdout), (3, "arguments: train a b.toml -n 2\nlibraries: /own\n"), ran.stderr
        )

    def test_torch_of_another_folder_comes_first(self):
        self.make_package()
        self.make_torch(self.other)
        self.assertIn(f"libraries: {self.other}/torch/lib:/own\n", self.ran("train").stdout)

    def test_launch_keeps_the_environment(self):
        self.make_package()
        self.make_torch(self.other)
        self.assertIn("libraries: /own\n", self.ran("launch", "--", "./program").stdout)

    def test_missing_program_names_the_remedy(self):
        self.make_package()
        (self.site / "zerocpp/bin/zero").unlink()
        ran = self.ran("--version")
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"\Azero: .*/zerocpp/bin/zero is missing\n  .*pip install")


if __name__ == "__main__":
    unittest.main()
