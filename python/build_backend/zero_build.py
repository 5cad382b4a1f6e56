"""The build backend of zerocpp: scikit-build-core, after a search for the torch to build against.

    pip install .                          # builds against the torch of the environment that pip installs into
    ZERO_TORCH=/opt/torch pip install .    # if that environment has no torch yet

torch is no build requirement, because pip would copy 3 GB of CUDA into its build environment.
"""

from __future__ import annotations

import os

from build_inputs import compile_jobs, find_torch, missing_packages
from scikit_build_core import build as _build
from scikit_build_core.build import (
    build_sdist,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_sdist", "build_wheel", "get_requires_for_build_sdist", "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

def build_wheel(wheel_directory: str, config_settings=None, metadata_directory=None) -> str:
    """Builds the wheel. Raises SystemExit if a package of the distribution or torch is missing."""
    missing = missing_packages()
    if missing:
        raise SystemExit(f"packages are missing to build zerocpp\n  apt-get install {' '.join(missing)}")
    torch = find_torch()
    print(f"zerocpp is built against the torch in {torch}", flush=True)
    os.environ["ZERO_TORCH"] = str(torch)
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(compile_jobs()))
    return _build.build_wheel(wheel_directory, config_settings, metadata_directory)
