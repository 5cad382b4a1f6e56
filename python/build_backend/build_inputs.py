"""The inputs of zerocpp's build on this machine: torch, packages of the distribution, and memory for compilers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

torch_series = "2.11"
_root = Path(__file__).resolve().parents[2]
_from_pip = {"cmake", "ninja-build", "ccache"}  # pip fetches the first two; the third only saves time
_bytes_per_compiler = 3 << 30  # as compile_jobs in tools/setup.sh


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


def missing_packages() -> list[str]:
    """Returns the Debian packages that the build needs and that are not installed."""
    script = ". tools/packages.sh && missing_packages build"
    listed = subprocess.run(
        ["bash", "-c", script], cwd=_root, capture_output=True, text=True, check=True
    ).stdout.split()
    missing = [package for package in listed if package not in _from_pip]
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        missing.append("python3-dev")
    return missing


def compile_jobs() -> int:
    """Returns the number of compilers to run at once: one a core, but at most one for each 3 GiB of free memory."""
    available = re.search(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())
    by_memory = int(available[1]) * 1024 // _bytes_per_compiler if available else 1
    return max(1, min(len(os.sched_getaffinity(0)), by_memory))
