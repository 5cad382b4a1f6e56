"""Runs functions of a test on several ranks, and returns the results of all ranks.

    results = ranks.run(train, ranks=2, stage=3)      # train(stage=3) on both ranks; [of rank 0, of rank 1]

The function is at the top level of the test's file. JSON can hold its arguments and its result.
ZERO_TEST_BUILD names the build folder (build/release). The Python that runs the test has torch.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ZERO_TEST_BUILD", ROOT / "build/release"))
PACKAGE = BUILD / "python"
COMMAND = BUILD / "bin/zero"
_CASES = "arguments of cases"
_CALLS = "folders of calls"


def why_not() -> str:
    """The reason why the package cannot be tested here; empty if it can."""
    if not list(PACKAGE.glob("zerocpp/_C.*.so")):
        return "the Python package is not built (headers of Python: python3-dev)"
    if importlib.util.find_spec("torch") is None:
        return f"{sys.executable} has no torch"
    return ""


# A test that only the full tier of test.sh runs. A file that is run directly runs all its tests.
whole = unittest.skipUnless(os.environ.get("ZERO_TEST_TIER", "full") == "full", "the full tier of test.sh runs it")


class PackageTest(unittest.TestCase):
    """Skips all its tests if the package is not built, or if this Python has no torch."""

    @classmethod
    def setUpClass(cls) -> None:
        if reason := why_not():
            raise unittest.SkipTest(reason)


def environment() -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    own.update(PYTHONPATH=str(PACKAGE), OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    return own


def command_of(function: Callable[..., Any], folder: str, ranks: int, arguments: dict[str, Any]) -> list[str]:
    program = [
        sys.executable,
        str(Path(__file__)),
        inspect.getfile(function),
        function.__name__,
        folder,
        json.dumps(arguments),
    ]
    return program if ranks == 1 else [str(COMMAND), "launch", "-n", str(ranks), "--", *program]


class FolderTest(PackageTest):
    """Each test has an empty folder, which all its ranks see."""

    folder: str

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name


def needs(*modules: str) -> Any:
    """Skips a test, or all tests of a class, if this Python lacks one of the modules."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def error_of(call: Callable[[], Any]) -> str:
    """Class and text of the error that the call raises; empty without one."""
    try:
        call()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return ""


class Ended:
    """The end of the ranks: their exit status, output, results, and seconds."""

    def __init__(self, status: int, output: str, results: list[Any], seconds: float) -> None:
        self.status, self.output, self.results, self.seconds = status, output, results, seconds


def start(function: Callable[..., Any], folder: str, ranks: int = 2, /, **arguments: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_of(function, folder, ranks, arguments),
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str], folder: str, ranks: int, limit: float = 600) -> Ended:
    begin = time.monotonic()
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\nstill there after {limit} s"
    found = [Path(folder, f"rank-{rank}.json") for rank in range(ranks)]
    results = [json.loads(file.read_text()) if file.exists() else None for file in found]
    return Ended(process.returncode, output, results, time.monotonic() - begin)


def ended(function: Callable[..., Any], /, ranks: int = 2, limit: float = 600, **arguments: Any) -> Ended:
    """Runs the function, and returns the end of its ranks."""
    with tempfile.TemporaryDirectory() as folder:
        return end(start(function, folder, ranks, **arguments), folder, ranks, limit)


def run(function: Callable[..., Any], /, ranks: int = 2, **arguments: Any) -> list[Any]:
    """Runs the function, and returns the results by rank. Raises AssertionError with the output if a rank failed."""
    how = ended(function, ranks, **arguments)
    if how.status != 0:
        raise AssertionError(f"exit status {how.status}:\n{how.output}")
    return how.results


def run_cases(function: Callable[..., Any], /, cases: dict[str, dict[str, Any]], ranks: int = 2) -> dict[str, Any]:
    """Runs the function for the arguments of each case, in the same processes. Returns the results of rank 0.

    One start serves all cases, because imports take longer than most cases.
    """
    return run(function, ranks, **{_CASES: cases})[0]


class CallsTest(PackageTest):
    """Runs the functions `calls` of the test's file on two ranks, in one start. of() returns results by rank.

    A function with a parameter gets an empty folder of its own, which both ranks see.
    """

    calls: list[Callable[..., Any]]
    _results: list[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        with tempfile.TemporaryDirectory() as scratch:
            folders = {call.__name__: str(Path(scratch, call.__name__)) for call in cls.calls}
            for folder in folders.values():
                Path(folder).mkdir()
            cls._results = run(cls.calls[0], **{_CALLS: folders})

    def of(self, call: Callable[..., Any]) -> list[Any]:
        return [of_rank[call.__name__] for of_rank in self._results]


def _main(file: str, name: str, folder: str, arguments: str) -> None:
    sys.path.insert(0, str(Path(file).parent))
    spec = importlib.util.spec_from_file_location("test_of_a_rank", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function, given = getattr(module, name), json.loads(arguments)
    if _CASES in given:
        result = {case: function(**own) for case, own in given[_CASES].items()}
    elif _CALLS in given:
        result = {}
        for call, own_folder in given[_CALLS].items():
            function = getattr(module, call)
            result[call] = function(own_folder) if inspect.signature(function).parameters else function()
    else:
        result = function(**given)
    Path(folder, f"rank-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    _main(*sys.argv[1:])
