#!/usr/bin/env python3
"""Tests of the scripts in tools/, on small trees made for each test. Names are claims, as in the C++ tests.
layers_test.py tests check_layers.py, house_test.py house.py, gpu_scripts_test.py gpu_check.sh and bundle.sh, and
words_test.py check_words.py."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

import build_times  # noqa: E402
import check_links  # noqa: E402
import check_sizes  # noqa: E402


class TreeTest(unittest.TestCase):
    """A temporary tree; files are written by path."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, text=""):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


class CheckLinks(TreeTest):
    def test_links_to_missing_files_are_named(self):
        self.write("docs/a.md", "# A\n\n[b](b.md)\n")
        self.assertEqual(check_links.check(self.root), ["docs/a.md:3: b.md: there is no such file"])

    def test_links_to_missing_headings_are_named(self):
        self.write("docs/a.md", "[b](b.md#when-it-fails) [b](b.md#when-it-works)\n")
        self.write("docs/b.md", "## When it works\n")
        self.assertEqual(check_links.check(self.root), ["docs/a.md:1: b.md#when-it-fails: there is no such heading"])

    def test_links_to_absent_sources_are_named(self):
        self.write("docs/a.md", "[b](../zero/plan/b.cpp) [c](../zero/plan/c.h)\n")
        self.write("zero/plan/b.cpp")
        self.write("zero/plan/c.h")
        self.assertEqual(
            check_links.check(self.root),
            ["docs/a.md:1: ../zero/plan/b.cpp: the site has no such source: name it without a link"],
        )

    def test_links_to_the_web_are_ignored(self):
        self.write("docs/a.md", "[x](https://example.org/x.md)\n")
        self.assertEqual(check_links.check(self.root), [])

    def test_all_links_here_are_right(self):
        self.assertEqual(check_links.check(ROOT), [])


class CheckSizes(TreeTest):
    def violations(self, strict=False):
        return check_sizes.check(self.root, strict)[0]

    def test_files_have_at_most_600_lines(self):
        self.write("zero/plan/units/unit.cpp", "x\n" * 600)
        self.assertEqual(self.violations(), [])
        self.write("zero/plan/units/unit.cpp", "x\n" * 601)
        self.assertEqual(len(self.violations()), 1)
        self.assertIn("zero/plan/units/unit.cpp:601: 601 lines", self.violations()[0])

    def test_tests_and_scripts_are_also_checked(self):
        self.write("zero/plan/units/unit.cpp", "x\n")
        self.write("tests/plan/units/unit_test.cpp", "x\n" * 601)
        self.write("tools/check.py", "x\n" * 601)
        self.assertEqual(len(self.violations()), 2)

    def test_data_is_not_source(self):
        self.write("zero/plan/units/unit.cpp", "x\n")
        self.write("examples/shakespeare/input.txt", "x\n" * 5000)
        self.assertEqual(self.violations(), [])

    def test_names_without_meaning_are_refused(self):
        for name in ["utils.h", "string_util.h", "helpers.cpp", "common.h", "misc.py", "common/unit.h"]:
            with self.subTest(name):
                file = self.write(f"zero/plan/{name}", "x\n")
                self.assertEqual(len(self.violations()), 1)
                self.assertIn("names no idea", self.violations()[0])
                file.unlink()

    def test_names_may_contain_such_words(self):
        for name in ["common_divisor.h", "utilization.cpp", "uncommon.h"]:
            self.write(f"zero/plan/{name}", "x\n")
        self.assertEqual(self.violations(), [])

    def test_the_ratio_fails_only_if_strict(self):
        self.write("zero/plan/units/unit.cpp", "x\n" * 100)
        self.write("tests/plan/units/unit_test.cpp", "x\n" * 79)
        self.assertEqual(self.violations(), [])
        self.assertIn("0.79 lines of tests", self.violations(strict=True)[0])
        self.write("tests/plan/units/unit_test.cpp", "x\n" * 80)
        self.assertEqual(self.violations(strict=True), [])

    def test_the_share_fails_only_if_strict(self):
        for number in range(8):
            self.write(f"zero/plan/short{number}.cpp", "x\n")
        self.write("zero/plan/long.cpp", "x\n" * 300)
        self.write("tests/plan/units/unit_test.cpp", "x\n" * 600)
        self.assertEqual(self.violations(), [])
        self.assertIn("89% of the files", self.violations(strict=True)[0])

    def test_the_figures_are_right(self):
        self.write("zero/plan/a.cpp", "x\n" * 10)
        self.write("zero/plan/b.cpp", "x\n" * 20)
        self.write("zero/plan/c.cpp", "x\n" * 400)
        self.write("tests/plan/a_test.cpp", "x\n" * 215)
        self.write("tests/tools/tools_test.py", "x\n" * 100)
        figures = check_sizes.check(self.root, False)[1]
        self.assertEqual(
            figures[0], "sources: 3 files, 430 lines, median 20, 67% under 300, largest zero/plan/c.cpp (400)"
        )
        self.assertEqual(figures[1], "tests/: 215 lines, 0.50 per line of source")

    def test_an_empty_tree_is_no_success(self):
        self.assertIn("no source", self.violations()[0])


class ApiPage(unittest.TestCase):
    """docs/api.md quotes examples/api, which the tests of zero/torch compile and run."""

    def test_each_block_is_in_its_file(self):
        page = (ROOT / "docs/api.md").read_text()
        blocks = re.findall(r"^\[(examples/api/\w+\.cpp)\]\(\.\./\1\)\n\n```cpp\n(.*?)^```$", page, re.M | re.S)
        self.assertEqual(len(blocks), page.count("```cpp"), "a block of C++ without its file")
        for name, block in blocks:
            self.assertIn(block, (ROOT / name).read_text(), f"docs/api.md has another {name}")

    def test_every_example_is_quoted_and_run(self):
        page = (ROOT / "docs/api.md").read_text()
        test = (ROOT / "tests/torch/api_examples_test.cpp").read_text()
        for file in sorted((ROOT / "examples/api").glob("*.cpp")):
            self.assertIn(f"examples/api/{file.name}", page)
            self.assertIn(f'#include "examples/api/{file.name}"', test)


CPP_TEST = re.compile(r"^(?:TEST(?:_F|_P)?|RC_GTEST_(?:FIXTURE_)?PROP)\((\w+),\s*(\w+)\b", re.MULTILINE)


class IssuesTest(unittest.TestCase):
    """tests/issues/README.md: which test guards which fixed bug."""

    def setUp(self):
        page = (ROOT / "tests/issues/README.md").read_text()
        self.rows = re.findall(r"^\| .+ \| `([^`]+)` \| `(\w+)` \|$", page, re.M)
        self.assertEqual(len(self.rows), page.count("\n| ") - page.count("\n| bug "))  # without the heads of tables

    def claims(self, files):
        text = "\n".join(file.read_text() for file in files)
        return {f"{suite}.{claim}" for suite, claim in re.findall(CPP_TEST, text)}

    def claims_of_python(self, folder):
        found, suite = set(), ""
        for file in (ROOT / "tests" / folder).rglob("*_test.py"):
            for kind, name in re.findall(r"^(class|    def) (\w+)", file.read_text(), re.M):
                suite = name if kind == "class" else suite
                found.add(f"{suite}.{name}")
        return found

    def test_each_test_of_the_table_exists(self):
        claims = self.claims((ROOT / "tests").rglob("*_test.cpp"))
        of_python = {folder: self.claims_of_python(folder) for folder in ("python", "tools")}
        builds = "\n".join(file.read_text() for file in (ROOT / "cmake").glob("*.cmake"))
        for test, program in self.rows:
            if program in of_python:
                self.assertIn(test, of_python[program])
                continue
            pattern = re.compile(re.escape(test.removeprefix("*")).replace(r"\*", ".*"))
            self.assertTrue(any(pattern.fullmatch(claim) for claim in claims), f"there is no {test}")
            self.assertIn(f"zero_tests({program} ", builds)

    def test_the_table_has_each_file(self):
        suites = {test.removeprefix("*").split(".")[0] for test, _ in self.rows}
        for file in (ROOT / "tests/issues").rglob("*_test.cpp"):
            own = {claim.split(".")[0] for claim in self.claims([file])}
            self.assertTrue(own and own <= suites, f"{file.name}: {own - suites}")


class ReliabilityTest(unittest.TestCase):
    def test_each_fuzzer_has_its_row(self):
        page = (ROOT / "docs/reliability.md").read_text()
        fuzzers = re.findall(r"^zero_fuzzer\((\w+)", (ROOT / "cmake/fuzz.cmake").read_text(), re.M)
        self.assertGreater(len(fuzzers), 5)
        for fuzzer in fuzzers:
            self.assertTrue(f"| `{fuzzer}` |" in page, f"docs/reliability.md has no row for {fuzzer}")


def bash(script, **variables):
    """Runs bash in the repository's root with tools/setup.sh sourced, and a PATH that the test may set."""
    environment = {"HOME": os.environ.get("HOME", "/"), "PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        ["/bin/bash", "-c", "set -euo pipefail; . tools/setup.sh; " + script],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


class BuildTimes(TreeTest):
    def test_each_build_step_counts_once(self):
        self.write(
            "build.ninja", "rule cc\nbuild CMakeFiles/zero.dir/a.cpp.o: cc a.cpp\nbuild lib/x.so | lib/x.so.1: link\n"
        )
        log = ["# ninja log v5"]
        for begin, end, output, command in [
            (0, 9000, "CMakeFiles/zero.dir/a.cpp.o", "1"),
            (0, 5000, "CMakeFiles/old.dir/b.cpp.o", "2"),
            (0, 2500, "CMakeFiles/zero.dir/a.cpp.o", "1"),
            (10, 1010, "lib/x.so", "3"),
            (10, 1010, "lib/x.so.1", "3"),
        ]:
            log.append(f"{begin}\t{end}\t0\t{output}\t{command}")
        self.write(".ninja_log", "\n".join(log) + "\n")
        steps = build_times.read_log(self.root)
        self.assertEqual(steps, {"CMakeFiles/zero.dir/a.cpp.o": 2.5, "lib/x.so": 1.0})
        text = build_times.table(steps, 1)
        self.assertIn("3.5 s in 2 steps", text)
        self.assertIn("2.5  zero\n", text)
        self.assertIn("1.0  linking", text)


class MachineTest(TreeTest):
    """A machine with fake programs, and with a fake libtorch if a test needs it."""

    def program(self, name, body):
        file = self.write(f"bin/{name}", f"#!/bin/bash\n{body}\n")
        file.chmod(0o755)

    def path(self):
        return f"{self.root}/bin:{os.environ['PATH']}"

    def libtorch(self, folder, version=("2", "11")):
        self.write(f"{folder}/lib/libtorch_cpu.so")
        self.write(f"{folder}/include/torch/csrc/api/include/torch/torch.h")
        self.write(
            f"{folder}/include/torch/headeronly/version.h",
            f"#define TORCH_VERSION_MAJOR {version[0]}\n#define TORCH_VERSION_MINOR {version[1]}\n",
        )
        return str(self.root / folder)


class Setup(MachineTest):
    def test_without_missing_packages_nothing_runs(self):
        self.program("apt-get", "echo called >&2; exit 1")
        result = bash(
            "missing_packages() { :; }; can_be_root() { return 1; }; install_packages build test", PATH=self.path()
        )
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_without_root_packages_are_listed(self):
        self.program("apt-get", "exit 1")
        result = bash(
            "missing_packages() { echo cmake; echo zlib1g-dev; }; can_be_root() { return 1; }; install_packages build",
            PATH=self.path(),
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get install cmake zlib1g-dev", result.stderr)

    def test_an_unknown_distribution_gets_the_list(self):
        result = bash("missing_packages() { echo cmake; }; command() { return 1; }; install_packages build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not Debian or Ubuntu", result.stderr)
        self.assertIn("  cmake", result.stderr)

    def test_only_what_is_missing_is_installed(self):
        self.program("apt-get", f'echo "$@" >>{self.root}/calls')
        self.program("apt-cache", "echo '  Candidate: 1.0'")
        result = bash(
            f'missing_packages() {{ [ -e {self.root}/calls ] || echo cmake; }}; as_root() {{ "$@"; }}; '
            "can_be_root() { :; }; install_packages build",
            PATH=self.path(),
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        calls = (self.root / "calls").read_text().splitlines()
        self.assertEqual(calls[0].split()[0], "update")
        self.assertEqual(calls[1].split()[-1], "cmake")
        self.assertEqual(len(calls), 2)

    def test_long_answers_of_apt_are_read(self):
        self.program(
            "apt-cache", "echo '  Candidate: 1.0'; for i in {1..20000}; do echo '  500 a line of the table'; done"
        )
        self.assertEqual(bash("apt_offers cmake", PATH=self.path()).returncode, 0)
        self.program("apt-cache", "echo '  Candidate: (none)'")
        self.assertEqual(bash("apt_offers cmake", PATH=self.path()).returncode, 1)

    def test_scipy_is_wanted_of_one_python(self):
        self.program("python3", "exit 1")
        absent = "scipy_python() { return 1; }; missing_packages plugin"
        self.assertIn("python3-scipy", bash(absent).stdout.split())
        found = bash("scipy_python || true", PATH=self.path()).stdout.strip()
        self.assertIn(found, ["", "/usr/bin/python3"], "the first one has none")
        self.program("python3", "exit 0")
        self.assertEqual(bash("scipy_python", PATH=self.path()).stdout.strip(), "python3")
        self.assertNotIn("python3-scipy", bash("missing_packages plugin", PATH=self.path()).stdout.split())

    def test_optional_packages_may_be_absent(self):
        self.program("apt-get", f'echo "$@" >>{self.root}/calls')
        self.program("apt-cache", "echo '  Candidate: (none)'")
        result = bash(
            'missing_packages() { case "$*" in *plugin*) echo libgloo-dev ;; esac; }; as_root() { "$@"; }; '
            "can_be_root() { :; }; install_packages build plugin",
            PATH=self.path(),
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("does not offer libgloo-dev", result.stdout)
        self.assertNotIn("install", (self.root / "calls").read_text())

    def test_needed_packages_may_not_be_absent(self):
        self.program("apt-get", "exit 0")
        self.program("apt-cache", "echo '  Candidate: (none)'")
        result = bash(
            'missing_packages() { echo cmake; }; can_be_root() { :; }; as_root() { "$@"; }; install_packages build',
            PATH=self.path(),
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn("does not offer the package cmake", result.stderr)

    def test_a_failed_installation_names_the_network(self):
        self.program("apt-get", '[ "$1" = update ]')
        self.program("apt-cache", "echo '  Candidate: 1.0'")
        result = bash(
            'missing_packages() { echo cmake; }; can_be_root() { :; }; as_root() { "$@"; }; install_packages build',
            PATH=self.path(),
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn("no network", result.stderr)

    def test_old_compilers_are_refused(self):
        self.program("old-g++", 'case $1 in --version) echo "GCC 9" ;; *) echo 9.4.0 ;; esac')
        result = bash("check_versions", PATH=self.path(), CXX="old-g++")
        self.assertEqual(result.returncode, 1)
        self.assertIn("GCC 9.4.0 (old-g++) is too old", result.stderr)

    def test_versions_compare_as_numbers(self):
        self.assertEqual(
            bash(
                "version_at_least 3.24 3.25.1 && version_at_least 3.24 3.24 && ! version_at_least 3.24 3.9"
            ).returncode,
            0,
        )

    def test_a_fitting_zero_torch_is_used(self):
        folder = self.libtorch("own")
        result = bash('provide_libtorch; echo "[$ZERO_TORCH]"', ZERO_TORCH=folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"[{folder}]", result.stdout)

    def test_another_series_of_torch_is_refused(self):
        result = bash("provide_libtorch", ZERO_TORCH=self.libtorch("own", ("2", "6")))
        self.assertEqual(result.returncode, 1)
        self.assertIn("is not a libtorch 2.11", result.stderr)

    def test_the_cache_comes_before_downloads(self):
        folder = self.libtorch("cache/zero.cpp/torch-2.11.0/torch")
        result = bash('provide_libtorch; echo "[$ZERO_TORCH]"', XDG_CACHE_HOME=str(self.root / "cache"))
        self.assertIn(f"[{folder}]", result.stdout)

    def fetch(self, pip, setup=""):
        """Runs provide_libtorch with an empty cache and a python3 whose pip is the script `pip` ($target: its
        folder)."""
        template = self.libtorch("template")
        self.program(
            "python3",
            f'[ "$1 $2" = "-m pip" ] || exit 1\n'
            'while [ "$1" != --target ]; do shift; done; target=$2\n'
            f"template={template}\n{pip}",
        )
        self.program("ldd", "exit 0")
        return bash(
            f'{setup} provide_libtorch; echo "[$ZERO_TORCH]"', PATH=self.path(), XDG_CACHE_HOME=str(self.root / "cache")
        )

    def test_a_download_leaves_only_the_cache(self):
        result = self.fetch('mkdir -p "$target"; cp -r "$template" "$target/torch"')
        self.assertEqual(result.returncode, 0, result.stderr)
        cache = self.root / "cache/zero.cpp"
        self.assertIn(f"[{cache}/torch-2.11.0/torch]", result.stdout)
        self.assertEqual(sorted(path.name for path in cache.iterdir()), ["torch-2.11.0", "torch.lock"])

    def test_interrupted_downloads_are_repeated(self):
        result = self.fetch('mkdir -p "$target"; cp -r "$template" "$target/torch"; kill -9 $$')
        self.assertEqual(result.returncode, 1)
        self.assertIn("could not be fetched", result.stderr)
        self.assertEqual([path.name for path in (self.root / "cache/zero.cpp").iterdir()], ["torch.lock"])

    def test_remains_of_killed_scripts_are_removed(self):
        self.write("cache/zero.cpp/torch.partial.abcdef/torch/half")
        result = self.fetch('mkdir -p "$target"; cp -r "$template" "$target/torch"')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((self.root / "cache/zero.cpp/torch.partial.abcdef").exists())

    def test_a_second_script_fetches_nothing(self):
        said = self.root / "said"
        other_waits = (
            f"for i in $(seq 6000); do ! grep -q 'waiting for it' {said} || break; sleep 0.01; done"  # a minute
        )
        result = self.fetch(
            f'echo called >>{self.root}/calls; {other_waits}; mkdir -p "$target"; cp -r "$template" "$target/torch"',
            setup=f"exec >>{said}; provide_libtorch & ",
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("waiting for it", said.read_text())
        self.assertEqual((self.root / "calls").read_text(), "called\n")

    def test_a_full_disk_refuses_the_download(self):
        self.program("df", "echo Filesystem; echo 'disk 100 50 51200 50% /'")
        result = self.fetch(f"echo called >{self.root}/calls")
        self.assertEqual(result.returncode, 1)
        self.assertIn("has 50 MiB", result.stderr)
        self.assertFalse((self.root / "calls").exists())

    def test_each_group_names_a_package_once(self):
        rows = [line.split() for line in bash("packages").stdout.splitlines()]
        self.assertTrue(all(len(row) == 3 for row in rows))
        self.assertEqual({row[0] for row in rows}, {"build", "fetch", "package", "test", "plugin", "full"})
        pairs = [(row[0], row[1]) for row in rows]
        self.assertEqual(len(pairs), len(set(pairs)))

    def test_the_table_has_the_builds_packages(self):
        package_of = {
            "Threads": None,
            "PkgConfig": "pkg-config",
            "fmt": "libfmt-dev",
            "spdlog": "libspdlog-dev",
            "nlohmann_json": "nlohmann-json3-dev",
            "CLI11": "libcli11-dev",
            "OpenSSL": "libssl-dev",
            "ZLIB": "zlib1g-dev",
            "libhwy": "libhwy-dev",
            "hwloc": "libhwloc-dev",
            "GTest": "libgtest-dev",
            "toml++/toml.h": "libtomlplusplus-dev",
            "rapidcheck": "librapidcheck-dev",
            "liburing": "liburing-dev",
            "xxhash.h": "libxxhash-dev",
            "libutf8proc": "libutf8proc-dev",
        }
        text = (ROOT / "CMakeLists.txt").read_text()
        wanted = re.findall(r"find_package\((\w+).*REQUIRED", text) + re.findall(r"IMPORTED_TARGET (\w+)\)", text)
        wanted += re.findall(r"find_(?:path|library)\(\w+ (\S+) REQUIRED\)", text)
        self.assertEqual([name for name in wanted if name not in package_of], [], "which Debian package brings these?")
        offered = {line.split()[1] for line in bash("packages").stdout.splitlines()}
        self.assertEqual({package_of[name] for name in wanted} - offered - {None}, set())


class Scripts(MachineTest):
    def run_fast(self, cmake="exit 0", ctest="exit 0"):
        """Runs ./test.sh fast with a fake CMake and CTest that only log their calls."""
        self.program(
            "cmake",
            '[ "$1" = --version ] && { echo cmake version 3.25.1; exit; }; '
            f'echo "cmake $*" >>{self.root}/calls; {cmake}',
        )
        self.program("ctest", f'echo "ctest $*" >>{self.root}/calls; {ctest}')
        self.program("apt-get", "exit 1")  # the test must not install anything
        environment = {
            **os.environ,
            "PATH": self.path(),
            "ZERO_TORCH": self.libtorch("own"),
            "ZERO_TEST_TIMES": str(self.root / "times"),
        }
        return subprocess.run(
            [ROOT / "test.sh", "fast"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    def test_fast_runs_the_fast_tests(self):
        result = self.run_fast()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"build +passed +\d+ s\ntests +passed +\d+ s\nAll passed")
        calls = (self.root / "calls").read_text().splitlines()
        self.assertRegex(calls[0], r"cmake --preset release .*-DZERO_TESTS=ON")
        self.assertEqual(calls[1], "cmake --build --preset release")
        self.assertRegex(calls[2], r"ctest --test-dir build/release .*-L fast$")

    def test_a_failed_stage_is_named(self):
        result = self.run_fast(ctest="exit 8")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"build +passed.*\ntests +FAILED.*\n1 of 2 stages failed")

    def test_failed_configurations_are_not_built(self):
        result = self.run_fast(cmake="case $* in *--preset\\ release\\ -D*) exit 1 ;; esac")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"build +FAILED")
        self.assertNotIn("--build", (self.root / "calls").read_text())

    def run_quickstart(self, torch, configured="", zero='echo "zero $*"'):
        """Runs quickstart.sh in a clone with fake programs. `torch`: the version that python3 has; empty: none."""
        clone = self.write("clone/build/release/bin/zero", f"#!/bin/sh\n{zero}\n").parents[3]
        (clone / "build/release/bin/zero").chmod(0o755)
        (clone / "quickstart.sh").write_text((ROOT / "quickstart.sh").read_text())
        (clone / "tools").symlink_to(ROOT / "tools")
        self.program(
            "cmake",
            f'[ "$1" = --version ] && {{ echo cmake version 3.25.1; exit; }}; '
            f'echo "cmake $*" >>{self.root}/calls; echo "{configured}"',
        )
        self.program(
            "python3", f'[[ "$2" == *"import sys, torch"* ]] && {{ [[ "{torch}" == 2.11.* ]]; exit; }}; exit 0'
        )
        self.program("apt-get", "exit 1")
        environment = {
            **os.environ,
            "PATH": self.path(),
            "ZERO_TORCH": self.libtorch("own"),
            "XDG_CACHE_HOME": str(self.root),
        }
        return subprocess.run(
            ["bash", clone / "quickstart.sh"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    def test_quickstart_builds_the_package_for_torch(self):
        for torch, configured, reason in (
            ("2.11.0+cpu", "", ""),
            ("", "", "python3 has no torch 2.11. .* pip install 'torch==2.11.*'"),
            ("2.12.0", "", "python3 has no torch 2.11. .* pip install 'torch==2.11.*'"),
            ("2.11.0", "-- Python package: not built, because there are no headers", "there are no headers"),
        ):
            built = not reason
            with self.subTest(torch=torch, configured=configured):
                (self.root / "calls").unlink(missing_ok=True)
                if (self.root / "clone/tools").is_symlink():
                    (self.root / "clone/tools").unlink()
                result = self.run_quickstart(torch, configured)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual("zero_python_package" in (self.root / "calls").read_text(), built)
                trains = r"zero train .*\.toml -n 2 --overwrite\n"
                self.assertRegex(
                    result.stdout,
                    rf"README(.*)\nzero launch -n 2 -- python3 train\.py\nPython: export PYTHONPATH=.*\n{trains}"
                    if built
                    else rf"zerocpp is not built, because {reason}.*\n{trains}",
                )
                self.assertEqual("zero launch" in result.stdout, built)

    def test_quickstart_stops_if_the_example_fails(self):
        result = self.run_quickstart("2.11.0", zero='echo "zero $*"; [ "$1" != launch ]')
        self.assertEqual(result.returncode, 1)
        self.assertIn("its example failed", result.stderr)
        self.assertNotIn("zero train", result.stdout)

    def test_help_says_what_is_installed(self):
        for script in ["quickstart.sh", "test.sh"]:
            result = subprocess.run([ROOT / script, "--help"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0)
            self.assertIn("Installs", result.stdout)

    def test_unknown_arguments_are_errors(self):
        self.assertEqual(subprocess.run([ROOT / "test.sh", "fats"], capture_output=True).returncode, 2)

    def test_only_full_makes_packages(self):
        tiers = subprocess.run([ROOT / "test.sh", "--list"], capture_output=True, text=True).stdout.split("\n\n")
        named = [tier.split()[0] for tier in tiers if re.search(r"^  packages ", tier, re.M)]
        self.assertEqual(named, ["full"])

    def test_the_containers_scripts_exist(self):
        steps = re.findall(r"^RUN (?:.*\\\n)*.*?(tools/\S+)", (ROOT / "Containerfile").read_text(), re.M)
        self.assertEqual(len(steps), 2)
        self.assertTrue(all(os.access(ROOT / step, os.X_OK) for step in steps), steps)

    def test_every_script_parses(self):
        for script in [*ROOT.glob("*.sh"), *ROOT.glob("tools/**/*.sh"), ROOT / ".ci/run"]:
            self.assertEqual(subprocess.run(["bash", "-n", script]).returncode, 0, script)


if __name__ == "__main__":
    unittest.main()
