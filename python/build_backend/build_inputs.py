"""What the build of zerocpp needs from the machine: torch, packages of the distribution, and memory for compilers."""

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
_bytes_per_compiler = 3 << 30  # as compile_jobs of tools/setup.sh


class Missing(Exception):
    """Something that the build needs is not there. The message ends with the remedy."""


def torch_series_of(folder: Path) -> str | None:
    """Returns "2.11" for a folder with lib/ and the headers of torch 2.11, None for any other folder."""
    header = folder / "include/torch/headeronly/version.h"
    if not header.is_file() or not (folder / "lib/libtorch_python.so").is_file():
        return None
    numbers = dict(re.findall(r"#define TORCH_VERSION_(MAJOR|MINOR) +(\d+)", header.read_text()))
    return f"{numbers.get('MAJOR')}.{numbers.get('MINOR')}"


def torch_of(python: str) -> Path | None:
    """Returns the folder of the torch that a Python would import, without importing it.

    `-E` ignores PYTHONPATH and PYTHONNOUSERSITE, with which pip's build environment hides the packages of the target
    environment.
    """
    code = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s and s.origin else '')"
    found = subprocess.run([python, "-E", "-c", code], capture_output=True, text=True, check=False, cwd="/").stdout.strip()
    return Path(found).parent if found else None


def find_torch(python: str = sys.executable) -> Path:
    """Returns the torch to build against. Raises Missing if there is none of the right series."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zero.cpp"
    named = os.environ.get("ZERO_TORCH")
    installed = torch_of(python)
    if installed is not None and torch_series_of(installed) != torch_series:
        raise Missing(
            f"torch = {installed}: zerocpp needs torch {torch_series}, and this is {torch_series_of(installed)}\n"
            f"  Install it first: pip install 'torch=={torch_series}.*'"
        )
    if installed is not None:
        return installed
    if named:
        if torch_series_of(Path(named)) != torch_series:
            raise Missing(
                f"ZERO_TORCH = {named}: this is no torch {torch_series} with headers and lib/libtorch_python.so\n"
                f"  Name the folder torch/ of a wheel of torch {torch_series}."
            )
        return Path(named)
    for folder in sorted(cache.glob(f"torch-{torch_series}.*/torch"), reverse=True):
        if torch_series_of(folder) == torch_series:
            return folder
    raise Missing(
        f"torch = not found: neither in the environment of {python}, nor by ZERO_TORCH, nor in {cache}\n"
        f"  Install it first: pip install 'torch=={torch_series}.*'"
    )


def missing_packages() -> list[str]:
    """Returns the Debian packages that the build needs and does not find."""
    script = ". tools/packages.sh && missing_packages build"
    listed = subprocess.run(["bash", "-c", script], cwd=_root, capture_output=True, text=True, check=True).stdout.split()
    missing = [package for package in listed if package not in _from_pip]
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        missing.append("python3-dev")
    return missing


def compile_jobs() -> int:
    """Returns one compiler a core, but at most one for each 3 GiB of free memory."""
    available = re.search(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())
    by_memory = int(available[1]) * 1024 // _bytes_per_compiler if available else 1
    return max(1, min(len(os.sched_getaffinity(0)), by_memory))
