"""The build backend of zerocpp: scikit-build-core, after a search for the build's inputs.

    pip install .                          # builds against the torch of the environment that pip installs into
    ZERO_TORCH=/opt/torch pip install .    # if that environment has no torch yet

torch is no build requirement, because pip would copy 3 GB of CUDA into its build environment. pip asks for the
requirements before it fetches anything. The search runs there, so a build that would fail fetches no torch.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from build_inputs import (
    Missing,
    compile_jobs,
    compiler,
    find_torch,
    missing_packages,
    old_compiler,
    other_system,
    unwritable_folder,
)
from scikit_build_core import build as _build
from scikit_build_core.build import build_sdist, get_requires_for_build_sdist, prepare_metadata_for_build_wheel

__all__ = [
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]


def _require_inputs(config_settings: dict[str, Any] | None) -> str:
    """Returns the folder of torch. If inputs are missing, ends the process with all of them and the remedies."""
    if system := other_system():
        sys.exit(f"zerocpp: {system}")
    problems, torch = [problem for problem in (old_compiler(), unwritable_folder(config_settings)) if problem], ""
    if missing := missing_packages():
        problems.append(f"packages are missing to build zerocpp\n  apt-get install {' '.join(missing)}")
    try:
        torch = str(find_torch())
    except Missing as error:
        problems.append(str(error))
    if problems:
        sys.exit("\n".join(f"zerocpp: {problem}" for problem in problems))
    return torch


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Returns the requirements that pip fetches. Ends the process if torch or a package of the distribution is
    missing."""
    _require_inputs(config_settings)
    return _build.get_requires_for_build_wheel(config_settings)


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel, and returns its name. Ends the process if torch or a package of the distribution is missing."""
    torch = _require_inputs(config_settings)
    print(f"zerocpp is built against the torch in {torch}", flush=True)
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(compile_jobs()))
    os.environ["CXX"] = compiler()
    # A setting replaces what an earlier build has left in CMake's cache.
    settings = {**(config_settings or {}), "cmake.define.ZERO_TORCH": torch}
    return _build.build_wheel(wheel_directory, settings, metadata_directory)
