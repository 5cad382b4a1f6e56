#!/usr/bin/env python3
"""The build backend of zerocpp finds torch in the documented order, and the sources of the wheel exist."""

import os
import re
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
        old = make_torch(self.folder / "old", minor=10)
        for arguments in ({"installed": old}, {"named": old}):
            with self.assertRaisesRegex(build_inputs.Missing, "2.11"):
                self.find(**arguments)

    def test_missing_torch_names_the_remedy(self):
        with self.assertRaisesRegex(build_inputs.Missing, "pip install"):
            self.find()

    def test_isolated_python_sees_no_pythonpath(self):
        make_torch(self.folder / "hidden/torch")
        (self.folder / "hidden/torch/__init__.py").touch()
        with mock.patch.dict(os.environ, {"PYTHONPATH": str(self.folder / "hidden")}):
            self.assertNotEqual(build_inputs.torch_of(sys.executable), self.folder / "hidden/torch")


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
