"""deepspeed.zero: Init and GatheredParameters."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from zerocpp import _engine

_log = logging.getLogger("zerocpp")
_told = False


def engine_of_parameter(parameter: torch.Tensor) -> _engine.Engine | None:
    """Local. Returns the engine to which `parameter` is attached, or None."""
    return next((e for e in _engine._engines if not e.closed and id(parameter) in e._names), None)


class GatheredParameters:
    """Collective at both ends. Holds parameters whole: any code can read them.

    modifier_rank: the rank whose written values count. Without it every rank must write the same values.
    """

    def __init__(
        self,
        params: torch.Tensor | Iterable[torch.Tensor],
        modifier_rank: int | None = None,
        fwd_module: Any = None,
        enabled: bool = True,
    ) -> None:
        self._params = [params] if isinstance(params, torch.Tensor) else list(params)
        self._rank = modifier_rank
        self._enabled = enabled
        self._scopes = contextlib.ExitStack()

    def __enter__(self) -> None:
        by_engine: dict[int, tuple[_engine.Engine, list[torch.Tensor]]] = {}
        for parameter in self._params if self._enabled else []:
            engine = engine_of_parameter(parameter)
            if engine is not None:
                by_engine.setdefault(id(engine), (engine, []))[1].append(parameter)
        for engine, parameters in by_engine.values():
            self._scopes.enter_context(engine.gathered(*parameters, write_from=self._rank))

    def __exit__(self, *error: Any) -> None:
        self._scopes.close()


@contextlib.contextmanager
def Init(*arguments: Any, **named: Any) -> Iterator[None]:
    """Local. The model is built as usual, on every rank; initialize() then partitions it."""
    global _told
    if not _told:
        _told = True
        _log.warning("zero.Init: each rank builds the whole model; initialize() partitions it")
    yield


def register_external_parameter(module: torch.nn.Module, parameter: torch.Tensor) -> None:
    """Local. No-op: an operator gathers the parameters that it uses, wherever they are registered."""


def unregister_external_parameter(module: torch.nn.Module, parameter: torch.Tensor) -> None:
    """Local. No-op."""
