"""Refuses a torch that the extension was not built for, before the extension is loaded."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of_package
from pathlib import Path


def _built_for() -> str | None:
    """Returns the version in built_for.txt, which the build writes beside the extension."""
    file = Path(__file__).with_name("built_for.txt")
    return file.read_text().strip() if file.is_file() else None


def _minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _remedy(wanted: str | None) -> str:
    return f"Install it: pip install 'torch=={_minor(wanted)}.*'" if wanted else "Install it: pip install torch"


def require_torch() -> None:
    """Local. Imports torch.

    Raises ImportError without torch, for another minor version than the extension's, and for two copies of libtorch.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"zerocpp needs PyTorch, which cannot be imported: {error}\n  {_remedy(_built_for())}"
        ) from error
    wanted = _built_for()
    if wanted is not None and _minor(torch.__version__) != _minor(wanted):
        raise ImportError(
            f"this zerocpp was built for torch {_minor(wanted)}, and torch {torch.__version__} is installed\n"
            f"  {_remedy(wanted)}"
        )
    _require_one_libtorch()


def _require_one_libtorch() -> None:
    """Raises ImportError if two files named libtorch_cpu.so are in this process."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    found = sorted({line.split(maxsplit=5)[-1] for line in maps.splitlines() if line.endswith("/libtorch_cpu.so")})
    if len(found) > 1:
        raise ImportError(
            f"two copies of libtorch are loaded: {', '.join(found)}\n"
            "  Remove the folder of one of them from LD_LIBRARY_PATH or PYTHONPATH."
        )


def version() -> str:
    """Local. Returns the version of the installed package, or of the extension in a build folder."""
    try:
        return version_of_package("zerocpp")
    except PackageNotFoundError:
        from zerocpp import _C

        return _C.version
