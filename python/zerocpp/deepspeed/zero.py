"""deepspeed.zero: Init and GatheredParameters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

import torch
from torch import nn

import zerocpp
from zerocpp import _engine
from zerocpp.deepspeed._config import read_json, refuse

__all__ = ["GatheredParameters", "Init", "register_external_parameter", "unregister_external_parameter"]

_depth = 0
_models = 0


def engine_of_parameter(parameter: torch.Tensor) -> _engine.Engine | None:
    """Local. Returns the engine to which `parameter` is attached, or None."""
    return next((e for e in _engine._engines if not e.closed and id(parameter) in e._names), None)


class GatheredParameters:
    """Collective at both ends. Holds parameters whole: any code can read them.

    modifier_rank: the rank whose written values count. Without it every rank must write the same values.

    Parameters that were constructed inside Init, and that no engine has yet, are built on every rank, and stay built.
    """

    def __init__(
        self,
        params: torch.Tensor | Iterable[torch.Tensor],
        modifier_rank: int | None = None,
        fwd_module: Any = None,
        enabled: bool = True,
    ) -> None:
        given = [params] if isinstance(params, torch.Tensor) else list(params)
        self._params = [p for p in given if isinstance(p, torch.Tensor)] if enabled else []
        self._rank = modifier_rank
        self._scopes = contextlib.ExitStack()
        self._unattached: list[torch.Tensor] = []

    def __enter__(self) -> None:
        by_engine: dict[int, tuple[_engine.Engine, list[torch.Tensor]]] = {}
        for parameter in self._params:
            engine = engine_of_parameter(parameter)
            if engine is None:
                self._unattached.append(parameter)
            else:
                by_engine.setdefault(id(engine), (engine, []))[1].append(parameter)
        _build([p for p in self._unattached if zerocpp.is_deferred(p)])
        for engine, parameters in by_engine.values():
            self._scopes.enter_context(engine.gathered(*parameters, write_from=self._rank))

    def __exit__(self, *error: Any) -> None:
        self._scopes.close()
        if self._rank is not None and not error[0]:
            _broadcast(self._unattached, self._rank)
        self._unattached = []


def _build(parameters: list[torch.Tensor]) -> None:
    """Collective. Gives deferred parameters their values: an engine builds them, and gives them back."""
    if not parameters:
        return
    holder = nn.Module()
    for number, parameter in enumerate(parameters):
        holder.register_parameter(f"p{number}", parameter)  # type: ignore[arg-type]
    zerocpp.attach(holder, zerocpp.SGD(), stage=0).close()


def _broadcast(parameters: list[torch.Tensor], rank: int) -> None:
    """Collective. Sends the values of `rank` to all ranks. Its engine does so for an attached parameter."""
    if not parameters or zerocpp.world().size == 1:
        return
    if not torch.distributed.is_initialized():
        raise refuse(
            "modifier_rank",
            rank,
            "torch.distributed does not run, and no engine has these parameters",
            "call init_distributed() first, or write the same values on every rank",
        )
    for parameter in parameters:
        torch.distributed.broadcast(parameter.data, rank)


@contextlib.contextmanager
def Init(
    module: nn.Module | None = None,
    data_parallel_group: Any = None,
    mem_efficient_linear: bool = True,
    remote_device: str | None = None,
    pin_memory: bool = False,
    config_dict_or_path: str | PathLike[str] | dict[str, Any] | None = None,
    config: str | PathLike[str] | dict[str, Any] | None = None,
    enabled: bool = True,
    dtype: torch.dtype | None = None,
    mpu: Any = None,
    **others: Any,
) -> Iterator[None]:
    """Collective. A module that is constructed inside has shapes, and no memory; initialize() builds it, unit by unit.

    A configuration with bf16 or fp16, or `dtype`, sets the type of its parameters. Code inside the scope that reads
    values of a tensor raises ConfigError.
    """
    global _depth, _models
    if not enabled or module is not None or _depth > 0:
        yield
        return
    given = config_dict_or_path if config_dict_or_path is not None else config
    kind = dtype or _type_of({} if given is None else read_json(given))
    usual = torch.get_default_dtype()
    _depth, _models = 1, _models + 1
    if kind is not None:
        torch.set_default_dtype(kind)
    try:
        with zerocpp.deferred(seed=_common_seed() + _models - 1):
            yield
    finally:
        torch.set_default_dtype(usual)
        _depth = 0


def _type_of(config: dict[str, Any]) -> torch.dtype | None:
    for keys, kind in ((("bf16", "bfloat16"), torch.bfloat16), (("fp16",), torch.float16)):
        for key in keys:
            section = config.get(key)
            if isinstance(section, dict) and section.get("enabled") is True:
                return kind
    return None


def _common_seed() -> int:
    """Collective. Returns rank 0's seed of torch, if torch.distributed runs or there is one rank; else 0."""
    seed = torch.initial_seed() % 2**62
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        seeds = [seed]
        torch.distributed.broadcast_object_list(seeds, 0)
        return seeds[0]
    return seed if zerocpp.world().size == 1 else 0


def register_external_parameter(module: torch.nn.Module, parameter: torch.Tensor) -> None:
    """Local. No-op: an operator gathers the parameters that it uses, wherever they are registered."""


def unregister_external_parameter(module: torch.nn.Module, parameter: torch.Tensor) -> None:
    """Local. No-op."""
