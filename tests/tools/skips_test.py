#!/usr/bin/env python3
"""Tests of tools/skips.py: it prints the reason of each skipped test for any kind of test, and ./test.sh prints it."""

import os
import shutil
import subprocess
import sys
import unittest

from tools_test import ROOT, MachineTest

sys.path.insert(0, str(ROOT / "tools"))

import skips  # noqa: E402

GOOGLE_TEST = """1/2 Testing: world
Output:
----------------------------------------------------------
Running main() from ./googletest/src/gtest_main.cc
tests/world/launched_test.cpp:98: Skipped
no mpirun here

[  SKIPPED ] Worlds/Launched.OfMpirun (0 ms)
tests/world/launched_test.cpp:171: Skipped
no mpirun here

[  PASSED  ] 7 tests.
<end of output>
"""
UNITTEST = """import unittest
class Numbers(unittest.TestCase):
    @unittest.skip("it's not there")
    def test_one(self): pass
    @unittest.skip("there is no torch")
    def test_other(self):
        "Says more in a line of its own."
    def test_the_rest(self): pass
unittest.main()
"""


class Skips(MachineTest):
    def told(self, *logs):
        return subprocess.run(
            [sys.executable, ROOT / "tools/skips.py", *logs], capture_output=True, text=True, check=True
        ).stdout

    def test_googletest_has_reasons_below(self):
        self.assertEqual(self.told(self.write("log", GOOGLE_TEST)), "  skipped, 2 x: no mpirun here\n")

    def test_unittests_have_reasons(self):
        ran = subprocess.run(
            [sys.executable, self.write("numbers.py", UNITTEST), "--verbose"], capture_output=True, text=True
        )
        self.assertEqual(skips.reasons(ran.stderr), ["it's not there", "there is no torch"])

    def test_a_missing_browser_is_a_reason(self):
        self.write("none/file")
        ran = subprocess.run(
            [sys.executable, ROOT / "tests/tools/page_test.py", "--zero", "none"],
            env={"PATH": f"{self.root}/none"},
            capture_output=True,
            text=True,
        )
        self.assertEqual(ran.returncode, 77, ran.stderr)
        self.assertEqual(skips.reasons(ran.stdout), ["there is no Chromium here (apt-get install chromium)"])

    def test_reasons_of_logs_are_added(self):
        other = self.write("other", "skipped: there is no Chromium here\nskipped: no mpirun here\n")
        self.assertEqual(
            self.told(self.write("log", GOOGLE_TEST), other, self.root / "missing"),
            "  skipped, 3 x: no mpirun here\n  skipped, 1 x: there is no Chromium here\n",
        )

    def test_complete_logs_print_nothing(self):
        self.assertEqual(
            self.told(self.write("log", "step 3: skipped, its loss is a spike\n[  PASSED  ] 7 tests.\n")), ""
        )

    def test_the_test_command_tells_them(self):
        (self.root / "tools").mkdir()
        for file in (ROOT / "test.sh", ROOT / "tools/skips.py", *ROOT.glob("tools/*.sh")):
            shutil.copy(file, self.root / file.relative_to(ROOT))
        self.write("log", GOOGLE_TEST + "skipped: there is no Chromium here\n")
        self.program("cmake", '[ "$1" = --version ] && echo cmake version 3.25.1; exit 0')
        logs = "build/release/Testing/Temporary"
        self.program("ctest", f"mkdir -p {logs} && cp {self.root}/log {logs}/LastTest.log")
        self.program("apt-get", "exit 1")  # the test must not install anything
        environment = {**os.environ, "PATH": self.path(), "ZERO_TORCH": self.libtorch("own")}
        ran = subprocess.run(
            [self.root / "test.sh", "fast"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("  skipped, 2 x: no mpirun here\n  skipped, 1 x: there is no Chromium here\n", ran.stdout)


if __name__ == "__main__":
    unittest.main()
