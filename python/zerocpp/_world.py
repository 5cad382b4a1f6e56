"""The world of this process: its ranks."""

from __future__ import annotations

import atexit
import gc
import math
import os
import sys
from types import ModuleType
from typing import Any

import torch

from zerocpp import _C, _log
from zerocpp._errors import refuse

_world: _C.World | None = None
_world_process = 0


def world(transport: str = "auto", timeout: float = 60) -> _C.World:
    """Collective at the first call. Returns the world of this process.

    Finds the ranks as C++ programs do: zero launch, torchrun, mpirun, Slurm, or one process. It neither needs nor
    changes torch.distributed.

    transport: auto, shared_memory, mpi, gloo, or nccl, which is auto but for units between GPUs; only the first call
        chooses.
    timeout: seconds that a rank waits for other ranks before it raises CommError.
    """
    global _world, _world_process
    if _world is not None and _world_process != os.getpid():
        raise _C.ConfigError(
            f"world: this process was forked from rank {_world.rank}, and has no ranks of its own\n"
            "  Read what the dataset needs before attach(), or start workers with multiprocessing's spawn."
        )
    if _world is None:
        _refuse_ranks_of_a_notebook()
        _world = _C.world_from_environment(transport, float(timeout))
        _world_process = os.getpid()
    return _world


def mean(x: float | torch.Tensor, *, world: _C.World | None = None) -> float:
    """Collective. Returns the mean of one number over ranks, such as a validation loss: the same bits everywhere."""
    value = float(x.detach() if isinstance(x, torch.Tensor) else x)
    own = world if world is not None else globals()["world"]()
    return math.fsum(float.fromhex(text) for text in own.gather_text(value.hex())) / own.size


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _refuse_ranks_of_a_notebook() -> None:
    """Refuses ranks from a notebook's launcher: it forks them after torch has started threads, which a fork drops."""
    if not _in_notebook():
        return
    number = _C.ranks_of_environment()
    if number > 1:
        raise refuse(
            "world",
            f"{number} ranks",
            "a notebook is one process, and has one rank",
            "write the cells into a script: zero launch -n 2 -- python3 script.py; or leave out the launcher",
        )


def from_process_group(group: Any = None, timeout: float = 60) -> _C.World:
    """Collective over the group. Returns a world whose messages travel through a process group of torch.distributed.

        dist.init_process_group("gloo")
        engine = zero.attach(model, optimizer, stage=3, world=zero.World.from_process_group())

    group: a ProcessGroup, such as that of a DeviceMesh; without it, the default group. A group with only a
        backend for GPUs gets an additional group of gloo, which also carries units on GPUs.
    timeout: seconds that a rank waits for other ranks before it raises CommError.

    Raises ConfigError if `group` is left out and the launcher started more ranks than the default group has.

    zerocpp itself computes the sums, so weights have the bits of every other transport. A lost rank cannot return.
    """
    import torch.distributed as dist

    _refuse_ranks_of_a_notebook()
    if not dist.is_available() or not dist.is_initialized():
        raise refuse(
            "process_group",
            group,
            "torch.distributed is not initialised",
            'call torch.distributed.init_process_group("gloo") first, or use zero.world()',
        )
    if group is None:
        group = dist.group.WORLD
        _refuse_smaller_group(dist.get_world_size())
    if not isinstance(group, dist.ProcessGroup):  # new_group() returns a number to other ranks
        raise refuse(
            "process_group",
            group,
            f"rank {dist.get_rank()} is not in this group",
            "call from_process_group() only on the ranks that the group names",
        )
    if not _C.has_cpu_backend(group.group_name):
        group = _with_cpu_backend(group)
    return _C.world_over_group(group.group_name, float(timeout))


def _refuse_smaller_group(size: int) -> None:
    """Local. Refuses a default group of fewer ranks than the launcher started, because its groups would train apart."""
    try:
        started = _C.ranks_of_environment()
    except _C.ConfigError:  # not all variables of a launcher
        return
    if size < started:
        raise refuse(
            "process_group",
            f"a default group of size {size}",
            f"the launcher started {started} ranks, which would train apart in groups of this size",
            "call init_process_group() with all ranks; to train apart on purpose, name the group: "
            "from_process_group(torch.distributed.group.WORLD)",
        )


def _with_cpu_backend(group: Any) -> Any:
    """Collective. Returns a group of gloo with the same ranks."""
    import torch.distributed as dist

    if not dist.is_gloo_available():
        raise refuse(
            "process_group",
            group.group_name,
            "it has no backend for CPUs, and this torch has no gloo",
            "use zero.world(), which finds the ranks by itself",
        )
    return dist.new_group(dist.get_process_group_ranks(group), backend="gloo", use_local_synchronization=True)


_C.World.from_process_group = staticmethod(from_process_group)  # type: ignore[method-assign]


@atexit.register
def _leave() -> None:
    """Ends all engines of this rank and leaves the world. Local, but for a save(blocking=False) that is running.

    After an exception a save of several ranks is given up, because the other ranks may not arrive.
    """
    global _world
    if _world_process not in (0, os.getpid()):
        return
    from zerocpp import _attached, _engine

    failed = hasattr(sys, "last_value")
    _attached.finish_saves(of_single_ranks=failed)
    _engine.abandon_all()
    _world = None
    _log.drain()
    if not failed:  # after an exception, pending collectives may wait for other ranks
        _end_process_groups()


def _end_process_groups() -> None:
    """Ends groups of torch.distributed that the program, Lightning or accelerate did not end, with their threads.

    Gloo's threads drop their last tensors after a collective returned. If Python is already exiting, torch aborts.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available():
        return
    # If this module is imported while a group exists, its default arguments keep the group and its threads.
    for function in vars(sys.modules.get("torch.distributed.nn.functional", ModuleType(""))).values():
        defaults = getattr(function, "__defaults__", None) or ()
        if any(isinstance(value, dist.ProcessGroup) for value in defaults):
            function.__defaults__ = tuple(None if isinstance(v, dist.ProcessGroup) else v for v in defaults)
    if dist.is_initialized():
        dist.destroy_process_group()
        gc.collect()  # engines that were not closed keep the group
