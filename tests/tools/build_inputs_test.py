#!/usr/bin/env python3
"""The build backend of zerocpp finds torch in the documented order, or ends with a remedy."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "python/build_backend"))
import build_inputs  # noqa: E402


def make_torch(folder: Path, minor: int = 11) -> Path:
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/libtorch_python.so").touch()
    header = folder / "include/torch/headeronly/version.h"
    header.parent.mkdir(parents=True)
    header.write_text(f"#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR {minor}\n")
    return folder


class TorchSearch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.cached = self.folder / "cache/zero.cpp/torch-2.11.0/torch"

    def find(self, installed=None, named=None):
        environment = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        if named:
            environment["ZERO_TORCH"] = str(named)
        with mock.patch.dict(os.environ, environment), mock.patch.object(build_inputs, "torch_of", lambda _: installed):
            if not named:
                os.environ.pop("ZERO_TORCH", None)
            return build_inputs.find_torch()

    def test_installed_torch_comes_first(self):
        make_torch(self.cached)
        installed, named = make_torch(self.folder / "a"), make_torch(self.folder / "b")
        self.assertEqual(self.find(installed, named), installed)

    def test_named_torch_precedes_cache(self):
        make_torch(self.cached)
        named = make_torch(self.folder / "b")
        self.assertEqual(self.find(None, named), named)

    def test_cache_comes_last(self):
        make_torch(self.cached)
        self.assertEqual(self.find(), self.cached)

    def test_another_series_is_refused(self):
        make_torch(self.cached)
        for minor in (10, 12):
            other = make_torch(self.folder / str(minor), minor=minor)
            message = f"{other}: zerocpp needs torch 2.11, and this is 2.{minor}\n"
            for arguments in ({"installed": other}, {"named": other}):
                with self.assertRaisesRegex(build_inputs.Missing, re.escape(message)):
                    self.find(**arguments)

    def test_torch_of_another_python_is_refused(self):
        named = make_torch(self.folder / "b")
        (named / "_C.cpython-36-x86_64-linux-gnu.so").touch()
        with self.assertRaisesRegex(build_inputs.Missing, "cpython-36"):
            self.find(None, named)
        shutil.copytree(named, self.cached)
        with self.assertRaisesRegex(build_inputs.Missing, "not found"):
            self.find()

    def test_missing_torch_names_the_remedy(self):
        with self.assertRaisesRegex(build_inputs.Missing, "pip install"):
            self.find()

    def test_isolated_python_sees_no_pythonpath(self):
        make_torch(self.folder / "hidden/torch")
        (self.folder / "hidden/torch/__init__.py").touch()
        with mock.patch.dict(os.environ, {"PYTHONPATH": str(self.folder / "hidden")}):
            self.assertNotEqual(build_inputs.torch_of(sys.executable), self.folder / "hidden/torch")


class Backend(unittest.TestCase):
    """The functions that pip calls, with a scikit-build-core that does nothing."""

    def ended(self, function, setup):
        with tempfile.TemporaryDirectory() as folder:
            core = Path(folder, "scikit_build_core/build")
            core.mkdir(parents=True)
            (core.parent / "__init__.py").touch()
            (core / "__init__.py").write_text(
                "def build_wheel(*arguments): print('built', arguments[1])\n"
                "def get_requires_for_build_wheel(settings): return ['cmake']\n"
                "build_sdist = get_requires_for_build_sdist = prepare_metadata_for_build_wheel = None\n"
            )
            program = f"import build_inputs, zero_build\n{setup}\nprint(zero_build.{function})"
            return subprocess.run(
                [sys.executable, "-c", program],
                env={
                    **os.environ,
                    "PYTHONPATH": f"{folder}:{root}/python/build_backend",
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                capture_output=True,
                text=True,
                check=False,
            )

    def test_missing_packages_are_one_line(self):
        setup = (
            "zero_build.missing_packages = lambda: ['libfmt-dev', 'python3-dev']\n"
            "zero_build.find_torch = lambda: '/opt/torch'"
        )
        for function in ("get_requires_for_build_wheel()", "build_wheel('.')"):
            ran = self.ended(function, setup)
            self.assertEqual(ran.returncode, 1)
            self.assertEqual(
                ran.stderr, "zerocpp: packages are missing to build zerocpp\n  apt-get install libfmt-dev python3-dev\n"
            )

    def test_without_torch_nothing_is_fetched(self):
        setup = "zero_build.missing_packages = lambda: []\nbuild_inputs.torch_of = lambda _: None"
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "/nowhere"}):
            os.environ.pop("ZERO_TORCH", None)
            ran = self.ended("get_requires_for_build_wheel()", setup)
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(
            ran.stderr, r"\Azerocpp: torch = not found: .*\n  Install it first: pip install 'torch==2\.11\.\*'\n\Z"
        )

    def test_all_that_is_missing_is_named(self):
        setup = (
            "zero_build.missing_packages = lambda: ['libfmt-dev']\n"
            "def nothing(): raise build_inputs.Missing('torch = not found\\n  Install it')\n"
            "zero_build.find_torch = nothing"
        )
        self.assertRegex(
            self.ended("build_wheel('.')", setup).stderr,
            r"apt-get install libfmt-dev\nzerocpp: torch = not found\n  Install it\n",
        )

    def test_the_builds_torch_replaces_the_last(self):
        setup = "zero_build.missing_packages = lambda: []\nzero_build.find_torch = lambda: '/opt/torch'"
        ran = self.ended("build_wheel('.', {'cmake.define.ZERO_TORCH': '/old'})", setup)
        self.assertIn("built {'cmake.define.ZERO_TORCH': '/opt/torch'}", ran.stdout, ran.stderr)

    def test_another_system_is_named_first(self):
        ran = self.ended("build_wheel('.')", "build_inputs.platform.system = lambda: 'Darwin'")
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertEqual(ran.stderr, "zerocpp: zero.cpp builds and runs on Linux; this is Darwin\n")

    def test_an_old_compiler_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            old = Path(folder, "g++-11")
            old.write_text("#!/bin/sh\ncase $1 in --version) echo g++ GCC ;; *) echo 11.4.0 ;; esac\n")
            old.chmod(0o755)
            with mock.patch.dict(os.environ, {"CXX": str(old)}):
                ran = self.ended("build_wheel('.')", "zero_build.missing_packages = lambda: []")
        self.assertEqual(ran.returncode, 1)
        self.assertIn(f"zerocpp: GCC 11.4.0 ({old}) is too old: 12 or newer is needed\n  Set CXX", ran.stderr)

    def test_an_unwritable_build_folder_is_named(self):
        setup = (
            "import os\nzero_build.missing_packages = lambda: []\n"
            "build_inputs.os.access = lambda path, mode: str(path) != '/'"
        )
        ran = self.ended("get_requires_for_build_wheel({'build-dir': '/absent/here'})", setup)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("zerocpp: build-dir = /absent/here: this user can't write /\n  Name a folder", ran.stderr)
        self.assertIn("pip install -C build-dir=", ran.stderr)


class MissingLibraries(unittest.TestCase):
    def test_cmake_names_them_in_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.24)\nproject(x LANGUAGES NONE)\n"
                f'include("{root}/cmake/dependencies.cmake")\n'
            )
            ran = subprocess.run(
                [
                    "cmake",
                    "-S",
                    folder,
                    "-B",
                    f"{folder}/build",
                    "-DZERO_TESTS=ON",
                    "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON",
                    "-DXXHASH_INCLUDE=/usr/include",
                    "-DCLP_INCLUDE=",
                    "-DCLP_LIBRARY=",
                ],
                env={**os.environ, "PKG_CONFIG_LIBDIR": folder, "PKG_CONFIG_PATH": ""},
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertNotEqual(ran.returncode, 0)
        lines = [line.split()[2:] for line in ran.stderr.splitlines() if line.startswith("    apt-get install ")]
        self.assertEqual(len(lines), 1, ran.stderr)
        packages = lines[0]
        self.assertEqual(len(packages), len(set(packages)))
        self.assertLessEqual({"libfmt-dev", "libhwy-dev", "libpng-dev", "libturbojpeg0-dev"}, set(packages))
        self.assertNotIn("libxxhash-dev", packages)

    def test_cmake_and_scripts_name_equal_packages(self):
        table = (root / "tools/packages.sh").read_text()
        wanted = set(re.findall(r"^build +(\S+-dev) ", table, re.M)) | {
            "pkg-config",
            "libgtest-dev",
            "librapidcheck-dev",
        }
        text = (root / "cmake/dependencies.cmake").read_text()
        named = set(re.findall(r"zero_needs\(([a-z]\S+)", text)) | set(re.findall(r' (lib\S+-dev)"', text))
        self.assertEqual(named, wanted)


class WheelContent(unittest.TestCase):
    def test_installed_sources_exist(self):
        rules = (root / "cmake/python_wheel.cmake").read_text()
        sources = re.findall(r'"\$\{PROJECT_SOURCE_DIR\}/([^"]+)"', rules)
        self.assertTrue(sources)
        for source in sources:
            self.assertTrue((root / source).exists(), source)
        self.assertTrue((root / "python/zerocpp/py.typed").is_file())

    def test_series_is_that_of_cmake(self):
        version = re.search(r"set\(ZERO_TORCH_VERSION ([\d.]+)\)", (root / "cmake/torch.cmake").read_text())[1]
        self.assertEqual(version.rsplit(".", 1)[0], build_inputs.torch_series)
        self.assertIn(f'"torch=={build_inputs.torch_series}.*"', (root / "pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
