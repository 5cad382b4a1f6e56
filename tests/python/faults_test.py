#!/usr/bin/env python3
"""A rank that is lost, that stops, or that raises an exception: the other ranks name it, and nothing is left behind.

One process imports torch and forks the ranks of all cases, because each import takes seconds.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked_ranks
import left_behind
from plain_torch import mlp, squares

RANKS = 3
LOST = 1  # the rank at fault
DISK = "states"  # the folder of all ranks for their moments
LIMIT = 45  # seconds after which a running rank is killed, and its case fails


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_inside(function: Callable[..., Any]) -> None:
    """Ends this process while its main thread waits inside the engine's `function`, or with status 3 if it never does.

    A wrapper counts as the function that it wraps.
    """
    code, main = inspect.unwrap(function).__code__, threading.main_thread().ident
    seen, end = 0, time.monotonic() + LIMIT / 2
    while seen < 10:
        if time.monotonic() > end:
            print(f"the main thread never waited inside {function.__qualname__}", flush=True)
            os._exit(3)
        time.sleep(0.01)
        frame = sys._current_frames().get(main or 0)
        seen = seen + 1 if frame is not None and frame.f_code is code else 0
    die()


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.01)


# ---- the actions of all ranks in each case; the file `dead` appears when the rank at fault has ended


def in_forward(model: Any, engine: Any, rank: int, dead: Path) -> None:
    if rank == LOST:
        model[2].register_forward_pre_hook(lambda *_: die())
    squares(model, 1, rank)
    engine.step()


def in_backward(model: Any, engine: Any, rank: int, dead: Path) -> None:
    if rank == LOST:
        model[2].register_full_backward_hook(lambda *_: die())
    squares(model, 1, rank).backward()
    engine.step()


def in_step(model: Any, engine: Any, rank: int, dead: Path) -> None:
    """Rank 0 begins its step after rank 1 was lost. Rank 2 already waits in its step then."""
    squares(model, 1, rank).backward()
    if rank == LOST:
        threading.Thread(target=die_inside, args=(engine.step,)).start()
    if rank == 0:
        wait_for(dead)
    engine.step()


def in_save(model: Any, engine: Any, rank: int, dead: Path) -> None:
    """The earlier checkpoint stays readable: `reads` loads it."""
    squares(model, 1, rank).backward()
    engine.step()
    if rank == LOST:
        threading.Thread(target=die_inside, args=(engine.save,)).start()
    if rank == 0:
        wait_for(dead)
    engine.save(dead.parent / "checkpoint", notes={"saved": "second"})


def reads(model: Any, engine: Any, rank: int, dead: Path) -> dict[str, Any]:
    found = engine.load(dead.parent / "checkpoint")
    return {"steps": found.steps, "notes": found.notes}


def in_gathered(model: Any, engine: Any, rank: int, dead: Path) -> None:
    with engine.gathered(model, write_from=0):
        if rank == LOST:
            die()


def raises(model: Any, engine: Any, rank: int, dead: Path) -> None:
    if rank == LOST:
        raise ValueError("a fault of this rank")
    squares(model, 1, rank).backward()
    engine.step()


def raises_in_with(model: Any, engine: Any, rank: int, dead: Path) -> None:
    with engine:
        raises(model, engine, rank, dead)


def leaves(model: Any, engine: Any, rank: int, dead: Path) -> None:
    if rank == LOST:
        sys.exit(0)  # as if its loader had fewer batches
    squares(model, 1, rank).backward()
    engine.step()


def stops(model: Any, engine: Any, rank: int, dead: Path) -> None:
    """The rank at fault stops without ending, so the other ranks wait for the timeout."""
    if rank == LOST:
        os.kill(os.getpid(), signal.SIGSTOP)
    squares(model, 1, rank).backward()
    engine.step()


def exits(model: Any, engine: Any, rank: int, dead: Path) -> None:
    """All ranks end without close(), with a gradient, an open scope, and an engine in a cycle."""
    squares(model, 1, rank).backward()
    scope = engine.frozen()
    scope.__enter__()
    model.owner = [engine, scope]


CASES: dict[str, Callable[..., Any]] = {
    case.__name__: case
    for case in (in_forward, in_backward, in_step, in_save, reads, in_gathered,
                 raises, raises_in_with, leaves, stops, exits)
}  # fmt: skip
TIMEOUTS = {"stops": 3.0}  # seconds; 60 in all other cases

# ---- ranks


def run_rank(case: str, folder: Path, rank: int) -> None:
    """Trains a step, saves, and begins the case. Writes the error that the case raised, and its result."""
    import zerocpp as zero

    world = zero.world(timeout=TIMEOUTS.get(case, 60.0))
    model = mlp()
    disk = folder / DISK
    engine = zero.attach(
        model, zero.AdamW(lr=1e-2), stage=3, device_memory="min", offload={"optimizer": {"disk": 1}}, disk=disk
    )
    squares(model, 0, rank).backward()
    engine.step()
    if case == "in_save":
        engine.save(folder / "checkpoint", notes={"saved": "first"})
    held = {"memory": left_behind.memory_of("self"), "files": left_behind.files_in(disk)}
    (folder / f"{case}-{rank}.held").write_text(json.dumps(held))
    world.barrier()
    found: dict[str, Any] = {"began": time.time()}
    try:
        found["result"] = CASES[case](model, engine, rank, folder / f"{case}.dead")
        if case not in ("reads", "exits"):  # ranks that needed nothing more notice the loss in the next pass
            squares(model, 2, rank)
    except zero.Error as error:
        found.update(kind=type(error).__name__, text=str(error))
    (folder / f"{case}-{rank}.json").write_text(json.dumps(found))


def fork_rank(case: str, folder: Path, rank: int) -> int:
    """Returns the process of the rank. It ends as a Python program does: the caller does not catch SystemExit."""
    sys.stdout.flush()
    child = os.fork()
    if child != 0:
        return child
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS))
    os.environ.update(ZERO_RUN_ID=f"{case}-{os.getppid()}", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    output = os.open(folder / f"{case}-{rank}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    run_rank(case, folder, rank)
    sys.exit(0)


def ends(case: str, folder: Path) -> list[dict[str, Any]]:
    """Runs a case. Returns the result of each rank, its exit status, the seconds from the fault to its end, and its
    holdings. Also returns the remains of all ranks."""
    processes = {fork_rank(case, folder, rank): rank for rank in range(RANKS)}
    found: list[dict[str, Any]] = [{} for _ in range(RANKS)]
    begin = time.monotonic()
    lost_at = None
    while processes:
        if time.monotonic() > begin + LIMIT:
            for process in processes:
                os.kill(process, signal.SIGKILL)
        process, status, _ = os.wait4(-1, os.WNOHANG)
        if process == 0:
            if case == "stops" and set(processes.values()) == {LOST}:
                os.kill(next(iter(processes)), signal.SIGKILL)
            time.sleep(0.01)
            continue
        rank = processes.pop(process)
        if rank == LOST:
            (folder / f"{case}.dead").touch()
            lost_at = time.time()
        file = folder / f"{case}-{rank}.json"
        found[rank] = json.loads(file.read_text()) if file.exists() else {}
        found[rank]["status"] = os.waitstatus_to_exitcode(status)
        since = found[rank].get("began", 0.0) if lost_at is None else lost_at
        found[rank]["seconds"] = time.time() - since
        found[rank]["output"] = (folder / f"{case}-{rank}.log").read_text(errors="replace")
    held = [folder / f"{case}-{rank}.held" for rank in range(RANKS)]
    of_ranks = [json.loads(file.read_text()) if file.exists() else {"memory": [], "files": []} for file in held]
    memory = {name for own in of_ranks for name in own["memory"]}
    left = [*left_behind.holders(memory), *left_behind.others_of_session(), *os.listdir(folder / DISK)]
    for of_rank, own in zip(found, of_ranks):
        of_rank.update(held=own, left=left)
    return found


def all_cases(folder: str) -> dict[str, list[dict[str, Any]]]:
    import gc

    import torch
    import zerocpp  # noqa: F401 (imported once, before the ranks are forked)

    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # imports all modules that attach() needs
    gc.freeze()  # so the ranks do not copy these pages at their ends
    Path(folder, DISK).mkdir()
    return {case: ends(case, Path(folder)) for case in CASES}


class Faults(forked_ranks.GroupsTest):
    groups = all_cases

    def require_named(self, case: str, status: int, within: float = 10) -> None:
        """Asserts that every other rank raised a CommError that names the rank at fault, and ended soon."""
        lost, others = self.found[case][LOST], [self.found[case][rank] for rank in range(RANKS) if rank != LOST]
        self.assertEqual(lost["status"], status, lost["output"])
        for other in others:
            self.assertEqual(other.get("kind"), "CommError", other)
            self.assertIn(f"rank {LOST}", other["text"])
            self.assertEqual(other["status"], 0, other["output"])
            self.assertLess(other["seconds"], within)
            self.assertNotIn("Fatal", other["output"])

    def test_nothing_is_left_behind(self) -> None:
        for case, of_ranks in self.found.items():
            for rank, found in enumerate(of_ranks):
                with self.subTest(case, rank=rank):
                    for kind in ("memory", "files"):
                        self.assertGreater(len(found["held"][kind]), 0, found["output"])
                    self.assertEqual(found["left"], [])

    def test_killed_rank_is_named(self) -> None:
        for case in ("in_forward", "in_backward", "in_step", "in_save", "in_gathered"):
            with self.subTest(case):
                self.require_named(case, -signal.SIGKILL)

    def test_interrupted_save_keeps_the_earlier_checkpoint(self) -> None:
        for of_rank in self.found["reads"]:
            self.assertEqual(of_rank["status"], 0, of_rank["output"])
            self.assertEqual(of_rank["result"], {"steps": 1, "notes": {"saved": "first"}})

    def test_rank_with_an_exception_is_named(self) -> None:
        for case in ("raises", "raises_in_with"):
            with self.subTest(case):
                self.require_named(case, 1)
                self.assertIn("ValueError: a fault of this rank", self.found[case][LOST]["output"])

    def test_rank_that_left_is_named(self) -> None:
        self.require_named("leaves", 0)

    def test_a_timeout_names_the_stopped_rank(self) -> None:
        self.require_named("stops", -signal.SIGKILL)

    def test_exit_with_open_engine_is_quiet(self) -> None:
        for of_rank in self.found["exits"]:
            self.assertEqual(of_rank["status"], 0, of_rank["output"])
            self.assertLess(of_rank["seconds"], 10)
            self.assertNotIn("Fatal", of_rank["output"])
            self.assertNotIn("Traceback", of_rank["output"])


if __name__ == "__main__":
    unittest.main()
