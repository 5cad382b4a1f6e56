"""deepspeed.comm: torch.distributed, which a script may use beside the engine. The engine itself does not use it."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from torch.distributed import *  # noqa: F403
from torch.distributed import init_process_group, is_initialized


def init_distributed(
    dist_backend: str | None = None,
    auto_mpi_discovery: bool = True,
    distributed_port: int = 29500,
    verbose: bool = True,
    timeout: timedelta | None = None,
    init_method: str | None = None,
    dist_init_required: bool | None = None,
    config: object = None,
    rank: int = -1,
    world_size: int = -1,
) -> None:
    """Collective. Starts torch.distributed over gloo. No-op if it runs already, or without MASTER_ADDR."""
    if dist_init_required is False or is_initialized():
        return
    if init_method is None and not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
        return
    os.environ.setdefault("MASTER_PORT", str(distributed_port))
    arguments: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    init_process_group(
        backend="gloo" if dist_backend in (None, "ccl", "nccl") else dist_backend,
        init_method=init_method,
        rank=rank,
        world_size=world_size,
        **arguments,
    )
