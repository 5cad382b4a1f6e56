#!/usr/bin/env python3
"""Writes python/zerocpp/_C.pyi: the types of the extension, as pybind11-stubgen finds them in a built extension.

    PYTHONPATH=build/release/python PYTHON_WITH_TORCH_AND_PYBIND11_STUBGEN tools/python_stub.py

tests/python/style_test.py compares the names of the file with those of the module.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).resolve().parents[1] / "python/zerocpp/_C.pyi"
HEAD = '''"""The extension module. Made by tools/python_stub.py: change the C++ sources instead."""

from __future__ import annotations

import collections.abc
import typing

import torch

class Error(RuntimeError): ...
class ConfigError(Error, ValueError): ...
class CommError(Error): ...
class IoError(Error, OSError): ...
class DeviceError(Error): ...
class InternalError(Error): ...

'''


def found() -> str:
    """The output of pybind11-stubgen. torch must be imported before the extension."""
    with tempfile.TemporaryDirectory() as folder:
        program = "import sys, torch, pybind11_stubgen; sys.argv[0] = 'pybind11-stubgen'; pybind11_stubgen.main()"
        command = [sys.executable, "-c", program, "zerocpp._C", "-o", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return Path(folder, "zerocpp/_C.pyi").read_text()


def stub(text: str) -> str:
    text = text[text.index("class ") :]
    text = re.sub(r'\n\s*"""\n.*?\n\s*"""', "", text, flags=re.DOTALL)  # docstrings stay in the sources
    text = re.sub(r"\n\s+\.\.\.", " ...", text)
    text = re.sub(r"(def [^\n]*:)(?=\n)", r"\1 ...", text)
    text = text.replace("*args)", "*args: object)").replace("_C.World", "World")
    text = re.sub(r"\bdict(?=[,)\]: ])(?!\[)", "dict[str, typing.Any]", text)
    text = text.replace("collections.abc.Callable,", "collections.abc.Callable[..., typing.Any],")
    text = text.replace("typing.SupportsFloat | typing.SupportsIndex", "float").replace(
        "typing.SupportsInt | typing.SupportsIndex", "int"
    )
    text = text.replace("typing.SupportsFloat", "float").replace("typing.SupportsInt", "int")
    text = re.sub(r"^(\w+): str = .*$", r"\1: str", text, flags=re.MULTILINE)
    return HEAD + text


def main() -> None:
    text = stub(found())
    STUB.write_text(text)
    ruff = shutil.which("ruff", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if ruff is not None:
        subprocess.run([ruff, "format", "--quiet", "--line-length", "120", str(STUB)], check=True)


if __name__ == "__main__":
    main()
