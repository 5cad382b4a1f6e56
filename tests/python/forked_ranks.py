"""Runs groups of ranks that are forked from one process, because each import of torch takes seconds.

found = run_group("two", folder, 2, lambda rank: train(rank))    # by rank: result or error, exit status, output
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ranks

LIMIT = 300  # seconds after which a running rank is killed


def fork_rank(group: str, folder: Path, rank: int, size: int, body: Callable[[], Any]) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child != 0:
        return child
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size))
    os.environ.update(ZERO_RUN_ID=f"{group}-{os.getppid()}", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    output = os.open(folder / f"{group}-{rank}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    found: dict[str, Any] = {}
    try:
        found["result"] = body()
    except BaseException as error:
        traceback.print_exc()
        found["error"] = f"{type(error).__name__}: {error}"
    (folder / f"{group}-{rank}.json").write_text(json.dumps(found))
    sys.exit(1 if "error" in found else 0)


def run_group(group: str, folder: Path, size: int, body: Callable[[int], Any]) -> list[dict[str, Any]]:
    """Forks the ranks of a group. Returns result or error, exit status and output of each."""
    processes = {
        fork_rank(group, folder, rank, size, lambda rank=rank: body(rank)): rank  # type: ignore[misc]
        for rank in range(size)
    }
    found: list[dict[str, Any]] = [{} for _ in range(size)]
    begin = time.monotonic()
    while processes:
        if time.monotonic() > begin + LIMIT:
            for process in processes:
                os.kill(process, signal.SIGKILL)
        process, status, _ = os.wait4(-1, os.WNOHANG)
        if process == 0:
            time.sleep(0.01)
            continue
        rank = processes.pop(process)
        file = folder / f"{group}-{rank}.json"
        found[rank] = json.loads(file.read_text()) if file.exists() else {}
        found[rank]["status"] = os.waitstatus_to_exitcode(status)
        found[rank]["output"] = (folder / f"{group}-{rank}.log").read_text(errors="replace")
    return found


class GroupsTest(ranks.PackageTest):
    """Runs `groups`, a function of the test's file. It takes a folder, and returns run_group() of each group."""

    groups: Callable[[str], dict[str, Any]]
    found: dict[str, list[dict[str, Any]]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        with tempfile.TemporaryDirectory() as folder:
            cls.found = ranks.run(cls.groups, ranks=1, folder=folder)[0]

    def of(self, body: Callable[[int], Any]) -> list[dict[str, Any]]:
        return self.found[body.__name__]
