#!/usr/bin/env python3
"""The package's Python: types, style, and the stub of the extension. The format is that of all Python files.

mypy and ruff run if they are installed."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import ranks

PYTHON = ranks.ROOT / "python"
STUB = PYTHON / "zerocpp/_C.pyi"


def names_of_module() -> dict[str, list[str]]:
    """The public names of the extension, and for each class the names that object lacks."""
    import zerocpp  # noqa: F401 (torch before the extension)
    from zerocpp import _C

    found = {"": [name for name in dir(_C) if not name.startswith("__")]}
    for name in found[""]:
        value = getattr(_C, name)
        if isinstance(value, type) and not issubclass(value, Exception):
            inherited = set(dir(object)) | {"_pybind11_conduit_v1_", "__module__", "__doc__"}
            found[name] = [member for member in dir(value) if member not in inherited]
    return {name: sorted(members) for name, members in found.items()}


def names_of_stub() -> dict[str, list[str]]:
    found: dict[str, set[str]] = {"": set()}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found[""].add(node.name)
            if node.bases:
                continue  # an exception
            own = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
            found[node.name] = set(own) - set(dir(object))
        elif isinstance(node, ast.FunctionDef):
            found[""].add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[""].add(node.target.id)
    return {name: sorted(members) for name, members in found.items()}


def tool(name: str) -> list[str] | None:
    """The command of a checker: ZERO_MYPY or ZERO_RUFF, a module of this Python, or a program in PATH."""
    if given := os.environ.get(f"ZERO_{name.upper()}"):
        return [given]
    if importlib.util.find_spec(name) is not None:
        return [sys.executable, "-m", name]
    return [found] if (found := shutil.which(name)) else None


def check(test: unittest.TestCase, command: list[str], **environment: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Stub(ranks.PackageTest):
    def test_names_are_those_of_the_module(self) -> None:
        self.assertEqual(names_of_stub(), ranks.run(names_of_module, ranks=1)[0])

    def test_package_has_the_stub(self) -> None:
        self.assertEqual((ranks.PACKAGE / "zerocpp/_C.pyi").read_text(), STUB.read_text())

    # pybind11 has its own metaclass, and its constructors have no signature.
    @ranks.needs("mypy")
    def test_stubtest_finds_nothing(self) -> None:
        classes = "|".join(name for name in names_of_stub() if name)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as allowed:
            allowed.write(rf"zerocpp\._C\.({classes})(\.__init__)?")
            allowed.flush()
            where = ["--mypy-config-file", str(PYTHON / "mypy.ini"), "--allowlist", allowed.name, "zerocpp._C"]
            path = {"PYTHONPATH": str(ranks.PACKAGE), "MYPYPATH": str(PYTHON)}
            check(self, [sys.executable, "-m", "mypy.stubtest", *where], **path)


class Style(unittest.TestCase):
    def check(self, name: str, *arguments: str, **environment: str) -> None:
        command = tool(name)
        if command is None:
            self.skipTest(f"{name} is not here (pip install {name}, or ZERO_{name.upper()})")
        check(self, [*command, *arguments], **environment)

    def test_ruff_finds_nothing(self) -> None:
        self.check("ruff", "check", "--no-cache", str(PYTHON / "zerocpp"))

    def test_ruff_changes_no_format(self) -> None:
        self.check("ruff", "format", "--no-cache", "--check", "--config", str(PYTHON / "ruff.toml"), str(ranks.ROOT))

    def test_types_agree(self) -> None:
        if importlib.util.find_spec("torch") is None:
            self.skipTest(f"{sys.executable} has no torch")
        with tempfile.TemporaryDirectory() as cache:
            where = ["--python-executable", sys.executable, "--cache-dir", cache]
            config = str(PYTHON / "mypy.ini")
            self.check("mypy", "--config-file", config, *where, "-p", "zerocpp", MYPYPATH=str(PYTHON))


if __name__ == "__main__":
    unittest.main()
