#!/usr/bin/env python3
"""Tests of tools/skips.py: it prints the reason of each skipped test for any kind of test, and ./test.sh prints it.
The full tier fails for a reason that tools/allowed_skips.txt does not have."""

import os
import re
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

    def test_a_reason_of_googletest_counts_once(self):
        log = "crash_points_test.cpp:56: Skipped\nskipped: no strace on this machine\n"
        self.assertEqual(skips.reasons(log), ["no strace on this machine"])


class AllowedSkips(MachineTest):
    def judged(self, allowed, log):
        return subprocess.run(
            [sys.executable, ROOT / "tools/skips.py", "--allowed", self.write("allowed", allowed), log],
            capture_output=True,
            text=True,
        )

    def test_reasons_of_the_file_pass(self):
        log = self.write("log", "skipped: no mpirun here\nskipped: is a rank of Launch\n")
        ran = self.judged("# why\n\nno mpirun here | none\nis a rank of * | runs there\n", log)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_another_reason_fails(self):
        log = self.write("log", "skipped: no mpirun here (old)\nskipped: is a rank of Launch\n")
        ran = self.judged("no mpirun here | none\nis a rank of * | runs there\n", log)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("  skipped, 1 x: is a rank of Launch\n", ran.stdout)
        self.assertIn("  skipped, 1 x: no mpirun here (old) (not allowed)\n", ran.stdout)
        self.assertIn(f"reasons that {self.root}/allowed does not have. Install what is missing", ran.stdout)

    def test_a_line_without_why_is_refused(self):
        ran = self.judged("no mpirun here\n", self.write("log"))
        self.assertEqual(ran.returncode, 1)
        self.assertIn("not the form REASON | WHY: no mpirun here", ran.stderr)

    def test_each_line_is_some_tests_reason(self):
        files = [*ROOT.glob("tests/**/*.cpp"), *ROOT.glob("tests/**/*.h"), *ROOT.glob("tests/**/*.py")]
        files += ROOT.glob("benchmarks/**/*.py")
        text = "\n".join(file.read_text() for file in files if file.name != "skips_test.py")
        for reason in skips.allowed_reasons((ROOT / "tools/allowed_skips.txt").read_text()):
            for part in reason.split("*"):
                self.assertIn(part, text, f"no test skips for this reason: {reason}")

    def test_missing_packages_are_not_allowed(self):
        patterns = skips.allowed_reasons((ROOT / "tools/allowed_skips.txt").read_text())
        for reason in (
            "not installed: trl",
            "mypy is not here (pip install mypy, or ZERO_MYPY)",
            "pip cannot fetch scikit-build-core, which builds wheels",
            "the Python package is not built (headers of Python: python3-dev)",
            "the full tier of test.sh runs it",
        ):
            self.assertFalse(skips.is_allowed(reason, patterns), reason)

    def run_stage(self, tier, stage):
        """Runs some functions of ./test.sh in the test's folder. Returns the exit status and the output."""
        text = (ROOT / "test.sh").read_text()
        names = ("print_skips", "check_skips", "failed_in", "run_ctest", "suites", "tool_tests", "python_package")
        functions = [re.search(rf"^{name}\(\) (\{{.*\}}.*$|[{{(](?s:.*?)^[}})]$)", text, re.M)[0] for name in names]
        for file in ("skips.py", "allowed_skips.txt"):
            shutil.copy(ROOT / "tools" / file, self.write(f"tools/{file}"))
        self.write("tools/test_python.sh", "provide_test_python() { :; }\n")
        script = f"tier={tier}; skipped=77; failures=(); fixed_addresses=()\n" + "\n".join(functions)
        script += f'\nsay() {{ echo "$@"; }}; cd {self.root}; status=0; {stage} || status=$?; echo status $status'
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            env={**os.environ, "PATH": self.path(), "ZERO_TEST_PYTHON": f"{self.root}/bin/python"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        ).stdout

    def test_stages_of_the_full_tier_fail(self):
        self.program("python", "echo \"test_a (a.A.test_a) ... skipped 'not installed: trl'\"")
        logs = "build/release/Testing/Temporary"
        self.program("ctest", f'mkdir -p {logs} && echo "skipped: no mpirun here" >{logs}/LastTest.log')
        self.write("tests/tools/a_test.py", 'print("skipped: no torch here")')
        for stage, reason in (
            ("python_package", "not installed: trl"),
            ("suites build/release", "no mpirun here"),
            ("tool_tests", "no torch here"),
        ):
            for tier, status in (("full", 1), ("standard", 0)):
                with self.subTest(stage=stage, tier=tier):
                    printed = self.run_stage(tier, stage)
                    self.assertRegex(printed, rf"skipped, \d+ x: {reason}")
                    self.assertTrue(printed.endswith(f"\nstatus {status}\n"), printed)

    def test_parts_of_the_build_may_skip(self):
        logs = "build/asan/Testing/Temporary"
        self.program("ctest", f'mkdir -p {logs} && echo "skipped: no libtorch" >{logs}/LastTest.log')
        self.assertRegex(self.run_stage("full", "suites build/asan"), r"skipped, 1 x: no libtorch\n(?s:.*)status 0\n")


if __name__ == "__main__":
    unittest.main()
