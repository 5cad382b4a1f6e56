"""The inputs of zerocpp's build on this machine: system, compiler, torch, packages and build folder."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

torch_series = "2.11"
_root = Path(__file__).resolve().parents[2]
_from_pip = {"cmake", "ninja-build", "ccache"}  # pip fetches the first two; the third only saves time
_oldest_gcc = 12  # as in cmake/platform.cmake


class Missing(Exception):
    """An input of the build is missing. The message ends with the remedy."""


def torch_series_of(folder: Path) -> str | None:
    """Returns "2.11" for a folder with lib/ and the headers of torch 2.11, None for any other folder."""
    header = folder / "include/torch/headeronly/version.h"
    if not header.is_file() or not (folder / "lib/libtorch_python.so").is_file():
        return None
    numbers = dict(re.findall(r"#define TORCH_VERSION_(MAJOR|MINOR) +(\d+)", header.read_text()))
    return f"{numbers.get('MAJOR')}.{numbers.get('MINOR')}"


def why_not(folder: Path) -> str:
    """Returns why this Python can't build against the torch in a folder; empty if it can."""
    series = torch_series_of(folder)
    if series is None:
        return f"this is no torch {torch_series} with headers and lib/libtorch_python.so"
    if series != torch_series:
        return f"zerocpp needs torch {torch_series}, and this is {series}"
    this = f"{sys.version_info.major}{sys.version_info.minor}"
    others = [file.name.split("-")[1] for file in folder.glob("_C.cpython-*.so")]
    if others and this not in others:
        return f"this torch is for cpython-{', '.join(others)}, and the build runs with cpython-{this}"
    return ""


def torch_of(python: str) -> Path | None:
    """Returns the folder of the torch that a Python would import, without importing it.

    `-E` ignores PYTHONPATH and PYTHONNOUSERSITE, with which pip's build environment hides the packages of the target
    environment.
    """
    code = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s and s.origin else '')"
    found = subprocess.run(
        [python, "-E", "-c", code], capture_output=True, text=True, check=False, cwd="/"
    ).stdout.strip()
    return Path(found).parent if found else None


def find_torch(python: str = sys.executable) -> Path:
    """Returns the torch to build against. Raises Missing if there is none of the right series."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zero.cpp"
    install = f"Install it first: pip install 'torch=={torch_series}.*'"
    installed = torch_of(python)
    if installed is not None:
        if reason := why_not(installed):
            raise Missing(f"torch = {installed}: {reason}\n  {install}")
        return installed
    if named := os.environ.get("ZERO_TORCH"):
        if reason := why_not(Path(named)):
            raise Missing(
                f"ZERO_TORCH = {named}: {reason}\n  Name the folder torch/ of a wheel of torch {torch_series}."
            )
        return Path(named)
    for folder in sorted(cache.glob(f"torch-{torch_series}.*/torch"), reverse=True):
        if not why_not(folder):
            return folder
    raise Missing(
        f"torch = not found: neither in the environment of {python}, nor by ZERO_TORCH, nor in {cache}\n  {install}"
    )


def other_system() -> str:
    """Returns why this system can't build zerocpp; empty on Linux."""
    return "" if platform.system() == "Linux" else f"zero.cpp builds and runs on Linux; this is {platform.system()}"


def compiler() -> str:
    """Returns the compiler of the build: CXX, or CMake's default. scikit-build-core would take a name from Python's
    configuration, and ccache tells names apart."""
    return os.environ.get("CXX") or ("c++" if shutil.which("c++") else "g++")


def old_compiler() -> str:
    """Returns why the compiler is too old, with the remedy; empty if it is not, or if there is none."""

    def said(option: str) -> str:
        return subprocess.run([*shlex.split(compiler()), option], capture_output=True, text=True, check=False).stdout

    try:
        if not re.search("Free Software|GCC", said("--version")):
            return ""
        version = said("-dumpfullversion").strip()
    except OSError:
        return ""  # missing_packages() names it
    if not version or int(version.split(".")[0]) >= _oldest_gcc:
        return ""
    remedy = f"Set CXX to a newer one: CXX=g++-{_oldest_gcc} pip install ."
    return f"GCC {version} ({compiler()}) is too old: {_oldest_gcc} or newer is needed\n  {remedy}"


def unwritable_folder(settings: Mapping[str, Any] | None) -> str:
    """Returns why files can't be written in the build folder, with the remedy; empty if they can."""
    named = (settings or {}).get("build-dir") or (settings or {}).get("skbuild.build-dir")
    folder = _root / (named or os.environ.get("SKBUILD_BUILD_DIR") or "build/wheel").partition("{")[0]
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    for path in (place, folder / "CMakeCache.txt"):
        if path.exists() and not os.access(path, os.W_OK):
            remedy = "Name a folder of yours: pip install -C build-dir=/tmp/zerocpp ."
            return f"build-dir = {folder}: this user can't write {path}\n  {remedy}"
    return ""


def missing_packages() -> list[str]:
    """Returns the Debian packages that the build needs and that are not installed."""
    script = ". tools/packages.sh && missing_packages build"
    listed = subprocess.run(
        ["bash", "-c", script],
        cwd=_root,
        env={**os.environ, "CXX": compiler()},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    missing = [package for package in listed if package not in _from_pip]
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        missing.append("python3-dev")
    return missing


def compile_jobs() -> int:
    """Returns the number of compilers to run at once, as quickstart.sh does."""
    script = ". tools/compile_jobs.sh && compile_jobs"
    return int(subprocess.run(["bash", "-c", script], cwd=_root, capture_output=True, text=True, check=True).stdout)
