#!/usr/bin/env python3
"""Worlds over process groups of torch.distributed: the bits of shared memory, and errors that name a rank."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import ranks
from plain_torch import mlp, optimizer_of, refusal, squares
from training_test import TIERS, hash_of


def train(world: Any, stage: int) -> str:
    """The hash of the weights after some steps."""
    import zerocpp as zero

    model = mlp()
    memory = "min" if stage == 3 else "auto"
    with zero.attach(model, optimizer_of(model), stage=stage, device_memory=memory, clip=0.5, world=world) as engine:
        for step in range(3):
            squares(model, step, world.rank).backward()
            engine.step()
        assert engine.report().transport == world.transport
        return hash_of(engine.state_dict())


def over_both() -> dict[str, Any]:
    import torch.distributed as dist
    import zerocpp as zero

    dist.init_process_group("gloo")
    group = zero.World.from_process_group()
    own = zero.world()
    found = {
        "ranks": [group.rank, group.size, group.local_size],
        "transports": [own.transport, group.transport],
        "equal": [train(own, stage) == train(group, stage) for stage in range(4)],
        "hash": train(group, 3),
    }
    dist.destroy_process_group()
    return found


def train_model(world: Any, kind: str, **options: Any) -> str:
    """The hash of the weights of a model of small_models.py after some steps."""
    import torch
    import zerocpp as zero
    from small_models import batch, loss_of, make, part_of

    model = make(kind)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    with zero.attach(model, optimizer, world=world, **options) as engine:
        for step in range(3):
            loss_of(kind, model, part_of(batch(kind, step), world.rank, world.size)).backward()
            engine.step()
        return hash_of(engine.state_dict())


def models_over_both(kinds: list[str]) -> dict[str, bool]:
    """For each model at two stages, on two tiers: whether the weights have the bits of shared memory."""
    import torch.distributed as dist
    import zerocpp as zero

    dist.init_process_group("gloo")
    own, group = zero.world(), zero.World.from_process_group()
    found: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as disk:
        for number, kind in enumerate(kinds):
            for stage in (number % 3, 3):
                tier = list(TIERS)[(number + stage) % len(TIERS)]
                options = {"stage": stage, "disk": disk if tier == "disk" else None, **TIERS[tier]}
                hashes = [train_model(world, kind, **options) for world in (own, group)]
                found[f"{kind} {stage} {tier}"] = hashes[0] == hashes[1]
    dist.destroy_process_group()
    return found


def of_some_ranks() -> dict[str, Any]:
    """Ranks 0 and 2 train, while all three ranks use the default group."""
    import torch
    import torch.distributed as dist
    import zerocpp as zero

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    group = dist.new_group([0, 2])
    found: dict[str, Any] = {"text": ""}
    if rank == 1:
        found["text"] = refusal(lambda: zero.World.from_process_group(group))
    else:
        world = zero.World.from_process_group(group)
        found["ranks"] = [world.rank, world.size]
        found["hash"] = train(world, 3)
    sum_of_ranks = torch.tensor([rank])
    dist.all_reduce(sum_of_ranks)
    found["sum"] = sum_of_ranks.item()
    dist.destroy_process_group()
    return found


def of_gpus_only() -> dict[str, Any]:
    """A group with only a backend for GPUs gets an additional group of gloo."""
    import torch.distributed as dist
    import zerocpp as zero

    dist.init_process_group("cuda:gloo")
    world = zero.World.from_process_group()
    found = {"ranks": [world.rank, world.size], "hash": train(world, 3)}
    dist.destroy_process_group()
    return found


def refusals() -> dict[str, str]:
    import torch.distributed as dist
    import zerocpp as zero

    found = {"not initialised": refusal(lambda: zero.World.from_process_group())}
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    found["unknown"] = refusal(lambda: zero._C.world_over_group("no such group", 60.0))
    world = zero.World.from_process_group()
    found["servers"] = refusal(lambda: zero.attach(mlp(), world=world, servers=1))
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="2")  # as of one of two ranks that a launcher started
    found["smaller"] = refusal(lambda: zero.World.from_process_group())
    found["on purpose"] = str(zero.World.from_process_group(dist.group.WORLD).size)
    del os.environ["RANK"]  # WORLD_SIZE by itself is of no launcher
    found["of no launcher"] = str(zero.World.from_process_group().size)
    os.environ.update(ZERO_MAX_REPLACEMENTS="1", RANK="0", WORLD_SIZE="1")
    found["replacements"] = refusal(lambda: zero.World.from_process_group())
    dist.destroy_process_group()
    return found


def loses_a_rank() -> None:
    import torch.distributed as dist
    import zerocpp as zero

    dist.init_process_group("gloo")
    world = zero.World.from_process_group(timeout=20)
    model = mlp()
    engine = zero.attach(model, stage=3, device_memory="min", world=world)
    squares(model, 0, world.rank).backward()
    engine.step()
    if world.rank == 1:
        os._exit(7)
    begin = time.monotonic()
    try:
        squares(model, 1, world.rank).backward()
    except zero.CommError as error:
        print(f"CAUGHT after {time.monotonic() - begin:.0f} s: {error}".replace("\n", " "), flush=True)
        os._exit(3)


def forgets_its_group() -> None:
    """Ends without destroy_process_group(). The first registered function runs last."""
    import atexit
    import importlib

    import torch
    import torch.distributed as dist

    def gloo_threads() -> int:
        names = [Path(f"/proc/self/task/{thread}/comm").read_text() for thread in os.listdir("/proc/self/task")]
        return sum("gloo" in name for name in names)

    atexit.register(lambda: print("GROUP LEFT:", dist.is_initialized(), gloo_threads(), flush=True))
    import zerocpp as zero

    dist.init_process_group("gloo")
    importlib.import_module("torch.distributed.nn.functional")  # its functions have the group as a default argument
    model = mlp()
    engine = zero.attach(model, stage=3, device_memory="min", world=zero.World.from_process_group())
    squares(model, 0, engine.world.rank).backward()
    engine.step()
    dist.all_reduce(torch.ones(1))
    assert gloo_threads() > 0


class ProcessGroups(ranks.PackageTest):
    def check(self, results: list[dict[str, Any]]) -> None:
        for rank, found in enumerate(results):
            self.assertEqual(found["ranks"], [rank, len(results), len(results)])
            self.assertEqual(found["transports"], ["shared_memory", "c10d"])
            self.assertEqual(found["equal"], [True] * 4)
            self.assertEqual(found["hash"], results[0]["hash"])

    def test_bits_are_those_of_shared_memory(self) -> None:
        for number in (2, 3):
            self.check(ranks.run(over_both, ranks=number))

    @ranks.needs("transformers", "peft")
    @ranks.whole
    def test_every_model_has_these_bits(self) -> None:
        from small_models import FAMILIES

        kinds = ["mixed", "adapters", *FAMILIES]
        for found in ranks.run(models_over_both, kinds=kinds):
            self.assertEqual(len(found), 2 * len(kinds))
            self.assertEqual([way for way, equal in found.items() if not equal], [])

    def test_ranks_of_torchrun(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = ranks.command_of(over_both, folder, 1, {})
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
            process = subprocess.Popen(
                [*torchrun, *program[1:]],
                env=ranks.environment(),
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            how = ranks.end(process, folder, 2)
        self.assertEqual(how.status, 0, how.output)
        self.check(how.results)

    def test_a_group_of_some_ranks(self) -> None:
        first, refused, last = ranks.run(of_some_ranks, ranks=3)
        self.assertEqual([first["ranks"], last["ranks"]], [[0, 2], [1, 2]])
        self.assertEqual(first["hash"], last["hash"])
        self.assertRegex(refused["text"], "(?s)rank 1 is not in this group\n  ")
        self.assertEqual([found["sum"] for found in (first, refused, last)], [3, 3, 3])

    def test_a_group_without_cpus_gets_gloo(self) -> None:
        first, second = ranks.run(of_gpus_only)
        self.assertEqual([first["ranks"], second["ranks"]], [[0, 2], [1, 2]])
        self.assertEqual(first["hash"], second["hash"])

    def test_refusals(self) -> None:
        found = ranks.run(refusals, ranks=1)[0]
        self.assertRegex(found["not initialised"], "(?s)not initialised\n  .*init_process_group")
        self.assertRegex(found["unknown"], "(?s)process_group = no such group.*\n  ")
        self.assertRegex(found["servers"], "(?s)servers.*process group.*\n  .*stages 0 to 3")
        self.assertRegex(
            found["smaller"],
            r"(?s)default group of size 1: the launcher started 2 ranks.*\n  .*init_process_group\(\) with all ranks",
        )
        self.assertEqual((found["on purpose"], found["of no launcher"]), ("1", "1"))
        self.assertRegex(found["replacements"], "(?s)started again alone.*\n  .*max-restarts")

    def test_forgotten_groups_end_at_exit(self) -> None:
        how = ranks.ended(forgets_its_group)
        self.assertEqual(how.status, 0, how.output)
        self.assertEqual(how.output.count("GROUP LEFT: False 0"), 2, how.output)

    def test_a_dead_rank_is_named(self) -> None:
        how = ranks.ended(loses_a_rank)
        self.assertNotEqual(how.status, 0)
        self.assertRegex(how.output, r"CAUGHT after [0-9] s: rank 1\b")


if __name__ == "__main__":
    unittest.main()
