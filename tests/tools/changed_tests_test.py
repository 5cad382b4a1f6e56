#!/usr/bin/env python3
"""Tests of tools/changed_tests.py on a small repository, and of what `./test.sh changed` does with a script."""

import contextlib
import io
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

import changed_tests  # noqa: E402


class Repository(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path, text in {
            "cmake/core_tests.cmake": "".join(f"zero_tests({room} ROOMS base)\n" for room in ("base", "plan", "world")),
            "cmake/fuzz_seeds.cmake": (ROOT / "cmake/fuzz_seeds.cmake").read_text(),
            "zero/base/file.h": "",
            "zero/base/file.cpp": "",
            "tests/plan/plan_test.cpp": '#include "zero/base/file.h"\nTEST(Plan, Reads) {}\n',
            "tests/world/far_test.cpp": '#include "tests/world/far.h"\nTEST(Far, Runs) {}\n',
            "tests/world/far.h": '#include "zero/base/file.h"\n',
            "python/zerocpp/_plan.py": "",
            "python/zerocpp/deepspeed/_keys.py": "",
            "python/extension/bind_plan.cpp": "",
            "tests/python/engine_test.py": "",
            "tests/python/plan_test.py": "",
            "tests/python/libraries/deepspeed_test.py": "",
            "tests/python/full/wheel_test.py": "",
            "tests/base/file_test.cpp": '#include "zero/base/file.h"\nTEST(File, Opens) {}\n',
            "tests/fuzz/seeds_test.cpp": '#include "zero/base/file.h"\nTEST(FuzzSeeds, Pass) {}\n',
        }.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "first")

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.root, *arguments], check=True, capture_output=True)

    def chosen(self, changed):
        with open(self.root / changed, "a") as file:
            file.write("// changed\n")
        printed = io.StringIO()
        with mock.patch.object(changed_tests, "ROOT", self.root), contextlib.redirect_stdout(printed):
            changed_tests.main([])
        return printed.getvalue()

    def test_headers_choose_all_that_include_them(self):
        programs = [line.split()[0] for line in self.chosen("zero/base/file.h").splitlines()]
        self.assertEqual(programs, ["zero_base_test", "zero_plan_test", "zero_world_test"])  # not the fuzzers' seeds

    def test_sources_choose_users_of_their_header(self):
        programs = [line.split()[0] for line in self.chosen("zero/base/file.cpp").splitlines()]
        self.assertEqual(programs, ["zero_base_test", "zero_plan_test"])  # not those that include it through others

    def test_modules_choose_tests_of_their_name(self):
        own, common = "PYTHON tests/python/plan_test.py\n", "PYTHON tests/python/engine_test.py\n"
        self.assertEqual(self.chosen("python/zerocpp/_plan.py"), common + own)
        self.git("checkout", "-q", "--", ".")
        self.assertEqual(
            self.chosen("python/zerocpp/deepspeed/_keys.py"),
            common + "PYTHON tests/python/libraries/deepspeed_test.py\n",
        )
        self.git("checkout", "-q", "--", ".")
        self.assertEqual(self.chosen("python/extension/bind_plan.cpp"), common)

    def test_changed_python_tests_are_chosen(self):
        self.assertEqual(self.chosen("tests/python/plan_test.py"), "PYTHON tests/python/plan_test.py\n")
        self.git("checkout", "-q", "--", ".")
        self.assertEqual(self.chosen("tests/python/full/wheel_test.py"), "")

    def test_a_changed_log_chooses_nothing(self):
        self.assertEqual(self.chosen("tests/fuzz/seeds_test.cpp"), "")


class Script(unittest.TestCase):
    def status(self, body, name="x_test.py"):
        """Exit status of changed_test() of test.sh for a script with this body."""
        function = re.search(r"^changed_test\(\) \{.*?^\}$", (ROOT / "test.sh").read_text(), re.M | re.S)[0]
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "tests/tools", name)
            script.parent.mkdir(parents=True)
            script.write_text(f"import sys\n{body}\n")
            return subprocess.run(
                ["bash", "-euc", f"skipped=77; say() {{ echo \"$@\"; }}\n{function}\n"
                 f"changed_test SCRIPT tests/tools/{name}"],
                cwd=folder, capture_output=True,
            ).returncode  # fmt: skip

    def test_a_skipped_script_is_no_failure(self):
        self.assertEqual([self.status(f"sys.exit({status})") for status in (0, 77, 1)], [0, 0, 1])

    def test_pages_receive_the_command(self):
        self.assertEqual(
            self.status("sys.exit(sys.argv[1:] != ['--zero', 'build/release/bin/zero'])", "page_test.py"), 0
        )

    def run_scripts(self, **bodies):
        """Runs changed_tests() of test.sh for scripts with these bodies."""
        text = (ROOT / "test.sh").read_text()
        functions = re.findall(r"^changed_tests?\(\) \{.*?^\}$", text, re.M | re.S)
        self.assertEqual(len(functions), 2)
        with tempfile.TemporaryDirectory() as folder:
            chosen = Path(folder, "tools/changed_tests.py")
            chosen.parent.mkdir()
            chosen.write_text("".join(f"print('SCRIPT {name}.py')\n" for name in bodies))
            for name, body in bodies.items():
                Path(folder, f"{name}.py").write_text(body)
            program = "\n".join(["skipped=77 base=HEAD; say() { :; }", *functions, "changed_tests"])
            return subprocess.run(["bash", "-euc", program], cwd=folder, capture_output=True, text=True)

    def test_each_script_has_its_own_log(self):
        ran = self.run_scripts(**{name: f"print('script {name} ran')\n" for name in "ab"})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual([ran.stdout.count(f"script {name} ran") for name in "ab"], [1, 1])

    def test_one_failure_of_many_is_noticed(self):
        bodies = {f"script_{number}": "" for number in range(30)}
        self.assertEqual(self.run_scripts(**bodies).returncode, 0)
        bodies["script_3"] = "raise SystemExit(1)\n"
        self.assertEqual(self.run_scripts(**bodies).returncode, 1)


if __name__ == "__main__":
    unittest.main()
