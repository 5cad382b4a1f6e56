"""The console script `zero`: runs the program in zerocpp/bin.

The module is outside the package, because an import of zerocpp imports torch, which takes seconds.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def _environment(package: Path, verb: str) -> dict[str, str]:
    """Returns the environment of the program. Names torch's libraries if torch is in another site-packages.

    `launch` needs no torch, and the program that it starts may bring its own.
    """
    environment = dict(os.environ)
    if verb == "launch" or (package.parent / "torch/lib/libtorch_cpu.so").is_file():
        return environment  # the program's RUNPATH finds it
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        folders = [str(Path(spec.origin).parent / "lib"), environment.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    return environment


def main() -> None:
    """Replaces this process by the program `zero` with the same arguments. Local."""
    spec = importlib.util.find_spec("zerocpp")
    if spec is None or spec.origin is None:
        sys.exit("zero: the package zerocpp is missing\n  Install it: pip install .")
    package = Path(spec.origin).parent
    program = package / "bin/zero"
    if not program.is_file():
        sys.exit(f"zero: {program} is missing\n  Install the package again: pip install .")
    os.execve(program, ["zero", *sys.argv[1:]], _environment(package, verb=sys.argv[1] if len(sys.argv) > 1 else ""))
