#!/usr/bin/env python3
"""A rank that waits for another rank: other threads run, Ctrl-C ends the wait, and a lost rank raises a typed error."""

from __future__ import annotations

import os
import signal
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import ranks
from plain_torch import mlp, refusal, squares


def other_threads_run() -> dict[str, float]:
    """The longest silence of another thread of rank 0, while rank 0 waits 2 s for rank 1."""
    import zerocpp as zero

    world = zero.world()
    model = mlp()
    longest = 0.0
    ended = False

    def tick() -> None:
        nonlocal longest
        last = time.monotonic()
        while not ended:
            time.sleep(0.01)
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    found = {}
    with zero.attach(model, stage=3, device_memory="min") as engine:

        def late(name: str, call: Callable[[], Any]) -> Any:
            nonlocal longest
            world.barrier()
            if world.rank == 1:
                time.sleep(2)
            begin, longest = time.monotonic(), 0.0
            result = call()
            found[name] = {"silent": longest, "waited": time.monotonic() - begin}
            return result

        thread = threading.Thread(target=tick)
        thread.start()
        loss = late("forward", lambda: squares(model, 0, world.rank))
        late("backward", loss.backward)
        late("step", engine.step)
        late("numpy", lambda: model[0].weight.detach().numpy())
        ended = True
        thread.join()
    return found if world.rank == 0 else {}


def two_threads() -> dict[str, Any]:
    """Another thread may call the engine, but not while this thread is inside it."""
    import torch
    import zerocpp as zero

    world = zero.world()
    model = mlp()
    found: dict[str, Any] = {"text": "", "turns": 0}
    with zero.attach(model, stage=3, device_memory="min") as engine:
        for turn in range(2):
            world.barrier()
            losses: list[Any] = []
            thread = threading.Thread(target=lambda own=losses: own.append(squares(model, 0, world.rank)))
            if world.rank == 1:
                time.sleep(2)
                losses.append(squares(model, 0, world.rank))
            else:
                thread.start()
                if turn == 0:
                    time.sleep(0.5)
                    found["text"] = refusal(lambda: model(torch.ones(1, 16)))
                thread.join()
            losses[0].backward()
            engine.step()
            found["turns"] += 1
    return found


# ---- errors and Ctrl-C


def loses_a_rank_in_backward() -> None:
    """Rank 1 raises after its forward pass; rank 0 sees a CommError from its backward pass."""
    import zerocpp as zero

    model = mlp()
    world = zero.world()
    zero.attach(model, stage=3, device_memory="min")
    loss = squares(model, 0, world.rank)
    if world.rank == 1:
        raise ValueError("a fault of rank 1")
    try:
        loss.backward()
    except zero.CommError as error:
        print("CAUGHT", type(error).__name__, error, flush=True)
        raise


def interrupted(what: str, transport: str) -> dict[str, Any]:
    """Rank 0 waits for rank 1, and receives a SIGINT after a second."""
    import zerocpp as zero

    world = zero.world(transport)
    model = mlp()
    engine = zero.attach(model, stage=3, device_memory="min")
    if what in ("backward", "step"):
        loss = squares(model, 0, world.rank)
    if what == "step":
        loss.backward()
    waits: dict[str, Callable[[], Any]] = {
        "forward": lambda: squares(model, 0, world.rank),
        "backward": lambda: loss.backward(),
        "step": engine.step,
        "numpy": lambda: model[0].weight.detach().numpy(),
        "barrier": world.barrier,
    }[what]
    world.barrier()
    if world.rank == 1:
        time.sleep(30)
    begin = time.monotonic()
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        waits()
    except KeyboardInterrupt:
        print(f"CAUGHT after {time.monotonic() - begin:.0f} s", flush=True)
        os._exit(3)
    return {}


def alone() -> None:
    """Rank 0 of 2; the other rank never starts."""
    import zerocpp as zero

    os.environ.update(
        RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2", ZERO_RUN_ID=f"alone-{os.getpid()}"
    )
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    begin = time.monotonic()
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        zero.world()
    except KeyboardInterrupt:
        print(f"CAUGHT after {time.monotonic() - begin:.0f} s", flush=True)
        os._exit(3)


class Waits(ranks.PackageTest):
    def test_other_threads_run_during_waits(self) -> None:
        found = ranks.run(other_threads_run)[0]
        self.assertEqual(sorted(found), ["backward", "forward", "numpy", "step"])
        for name, times in found.items():
            self.assertGreater(times["waited"], 1.5, name)
            self.assertLess(times["silent"], 1.0, name)

    def test_two_threads_at_once_are_refused(self) -> None:
        found = ranks.run(two_threads)
        self.assertEqual([of_rank["turns"] for of_rank in found], [2, 2])
        self.assertIn("two threads of rank 0", found[0]["text"])

    def test_errors_in_backward_keep_their_class(self) -> None:
        how = ranks.ended(loses_a_rank_in_backward)
        self.assertNotEqual(how.status, 0)
        self.assertIn("CAUGHT CommError", how.output)

    def test_interrupt_ends_the_meeting_of_ranks(self) -> None:
        how = ranks.ended(alone, ranks=1)
        self.assertEqual(how.status, 3, how.output)
        self.assertRegex(how.output, "CAUGHT after [1-5] s")

    def test_interrupt_ends_each_wait(self) -> None:
        waits = [(what, "auto") for what in ("forward", "backward", "step", "numpy")]
        for what, transport in (*waits, ("forward", "gloo")):
            with self.subTest(what=what, transport=transport):
                how = ranks.ended(interrupted, what=what, transport=transport)
                if "libzero_transport_gloo.so is not installed" in how.output:
                    continue
                self.assertNotEqual(how.status, 0, how.output)
                self.assertRegex(how.output, "CAUGHT after [1-5] s")


if __name__ == "__main__":
    unittest.main()
