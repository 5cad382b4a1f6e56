"""The world of this process: its ranks."""

from __future__ import annotations

import atexit
import math
import os

import torch

from zerocpp import _C, _log

_world: _C.World | None = None
_world_process = 0


def world(transport: str = "auto", timeout: float = 60) -> _C.World:
    """Collective at the first call. Returns the world of this process.

    It finds the ranks as C++ programs do: zero launch, torchrun, mpirun, Slurm, or one process. torch.distributed is
    neither needed nor changed.

    transport: auto, shared_memory, mpi or gloo; only the first call chooses.
    timeout: seconds that a rank waits for others before it raises CommError.
    """
    global _world, _world_process
    if _world is not None and _world_process != os.getpid():
        raise _C.ConfigError(
            f"world: this process was forked from rank {_world.rank}, and has no ranks of its own\n"
            "  Read what the dataset needs before attach(), or start workers with multiprocessing's spawn."
        )
    if _world is None:
        _world = _C.world_from_environment(transport, float(timeout))
        _world_process = os.getpid()
    return _world


def mean(x: float | torch.Tensor, *, world: _C.World | None = None) -> float:
    """Collective. Returns the mean of one number over ranks, such as a validation loss: the same bits everywhere."""
    value = float(x.detach() if isinstance(x, torch.Tensor) else x)
    own = world if world is not None else globals()["world"]()
    return math.fsum(float.fromhex(text) for text in own.gather_text(value.hex())) / own.size


@atexit.register
def _leave() -> None:
    """Ends all engines of this rank and leaves the world. Local: waits for nobody."""
    global _world
    if _world is None or _world_process != os.getpid():
        return
    from zerocpp import _engine

    _engine.abandon_all()
    _world = None
    _log.drain()
