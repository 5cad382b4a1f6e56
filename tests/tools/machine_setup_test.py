#!/usr/bin/env python3
"""Scripts find facts of a machine: its compiler, packages for Python, cores and memory of a container, the commit of
the sources. quickstart.sh passes words on."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30


class MachineTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()

    def write(self, path, text="", mode=0o644):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def bash(self, script, **variables):
        """The output of bash in the repository's root, with the test's programs first on the PATH."""
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT, env={**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", **variables},
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout


class Jobs(MachineTest):
    def jobs(self, groups, limits, free_gib=640):
        """compile_jobs on a machine with 64 cores, whose process is in these control groups with these limits."""
        self.write("bin/nproc", "#!/bin/sh\necho 64\n", 0o755)
        self.write("proc/meminfo", f"MemTotal: 1 kB\nMemAvailable: {free_gib << 20} kB\n")
        self.write("proc/self/cgroup", groups)
        for path, text in limits.items():
            self.write(f"sys/fs/cgroup/{path}", f"{text}\n")
        return int(self.bash(f". tools/compile_jobs.sh; compile_jobs {self.root}"))

    def test_machine_without_limits(self):
        self.assertEqual(self.jobs("0::/\n", {"a/cpu.max": "max 100000", "a/memory.max": "max"}), 64)
        self.assertEqual(self.jobs("0::/a\n", {}, free_gib=1), 1)

    def test_limits_of_version_2(self):
        self.assertEqual(self.jobs("0::/a/b\n", {"a/cpu.max": "250000 100000", "a/b/cpu.max": "max 100000"}), 3)
        self.assertEqual(self.jobs("0::/a/b\n", {"a/b/memory.max": 7 * GIB}), 2)

    def test_limits_of_version_1(self):
        groups = "5:memory:/docker/x\n4:cpu,cpuacct:/\n1:name=systemd:/\n"
        limits = {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}
        self.assertEqual(self.jobs(groups, {**limits, "memory/memory.limit_in_bytes": 9223372036854771712}), 4)
        self.assertEqual(self.jobs(groups, {**limits, "memory/memory.limit_in_bytes": 10 * GIB}), 3)
        self.assertEqual(
            self.jobs(groups, {"cpu/cpu.cfs_quota_us": "-1", "memory/memory.limit_in_bytes": 99 * GIB}), 33
        )


class Packages(MachineTest):
    def missing(self, group, **variables):
        return self.bash(f". tools/setup.sh; missing_packages {group}", **variables).split()

    def test_named_compiler_needs_no_gcc(self):
        self.write("bin/some-clang++", "#!/bin/sh\n", 0o755)
        self.assertNotIn("g++", self.missing("build", PATH=f"{self.root}/bin:/usr/bin:/bin", CXX="some-clang++"))
        self.assertIn("g++", self.missing("build", CXX="absent-clang++"))

    def test_standard_tier_installs_venv_and_headers(self):
        self.write("bin/python3", "#!/bin/sh\nexit 1\n", 0o755)
        self.assertLessEqual({"python3-venv", "python3-dev"}, set(self.missing("plugin")))
        self.assertRegex((ROOT / "test.sh").read_text(), r"packages=\(build test plugin\)")

    def test_skipped_python_stage_has_its_status(self):
        function = re.search(r"^python_package\(\) \(.*?^\)$", (ROOT / "test.sh").read_text(), re.M | re.S)[0]
        self.write("bin/python3", "#!/bin/sh\nexit 1\n", 0o755)
        self.write("tools/test_python.sh", "provide_test_python() { :; }\n")
        printed = self.bash(
            f'skipped=77 tier=standard; say() {{ echo "$@"; }}\n{function}\n'
            f"cd {self.root}; status=0; python_package || status=$?; echo status $status",
            ZERO_TEST_PYTHON="",
        )
        self.assertRegex(printed, r"No test of the Python package runs(?s:.*)status 77\n")


class Quickstart(MachineTest):
    def test_own_number_of_ranks_replaces_two(self):
        last = (ROOT / "quickstart.sh").read_text().partition("ranks=(-n 2)")
        self.write("build/release/bin/zero", '#!/bin/sh\necho "$@"\n', 0o755)
        for words, expected in (
            ("", "-n 2 --overwrite"),
            ("--train.steps 200", "-n 2 --overwrite --train.steps 200"),
            ("-n 4", "--overwrite -n 4"),
            ("--train.steps 9 --nproc-per-node=4", "--overwrite --train.steps 9 --nproc-per-node=4"),
        ):
            printed = self.bash(f"cd {self.root}; set -- {words}\n{last[1]}{last[2]}")
            self.assertEqual(printed, f"train examples/shakespeare/shakespeare.toml {expected}\n")


class Configured(MachineTest):
    def name_of(self, source):
        """The name of a build of these sources."""
        header = self.root / "name.h"
        header.unlink(missing_ok=True)
        self.bash(f"cmake -DVERSION=1.2 -DSOURCE={source} -DOUTPUT={header} -P cmake/build_name.cmake")
        return re.search(r'"(.*)"', header.read_text())[1]

    def test_only_their_own_commit_names_sources(self):
        inner = self.write("outer/inner/file").parent
        self.bash(
            f"cd {inner.parent}; git init -q; git add .; "
            "git -c user.name=x -c user.email=x@example.com commit -qm first"
        )
        (self.root / "link").symlink_to(inner.parent)
        self.assertEqual(self.name_of(inner), "1.2")
        for source in (inner.parent, self.root / "link"):
            self.assertRegex(self.name_of(source), r"^1\.2, commit [0-9a-f]{12}$")

    def platform(self, **variables):
        file = self.write(
            "try.cmake", "".join(f'set({name} "{value}")\n' for name, value in variables.items())
            + f'include("{ROOT}/cmake/platform.cmake")\n',
        )  # fmt: skip
        ran = subprocess.run(["cmake", "-P", file], capture_output=True, text=True)
        return ran.returncode, ran.stderr

    def test_other_systems_and_compilers_are_refused(self):
        gcc = {"CMAKE_CXX_COMPILER_ID": "GNU", "CMAKE_CXX_COMPILER": "g++-11"}
        status, said = self.platform(CMAKE_SYSTEM_NAME="Darwin")
        self.assertIn("zero.cpp builds and runs on Linux; this is Darwin", said)
        self.assertNotEqual(status, 0)
        status, said = self.platform(CMAKE_SYSTEM_NAME="Linux", CMAKE_CXX_COMPILER_VERSION="11.4.0", **gcc)
        self.assertIn("GCC 11.4.0 (g++-11) is too old", said)
        self.assertNotEqual(status, 0)
        self.assertEqual(self.platform(CMAKE_SYSTEM_NAME="Linux", CMAKE_CXX_COMPILER_VERSION="12.2.0", **gcc), (0, ""))


if __name__ == "__main__":
    unittest.main()
