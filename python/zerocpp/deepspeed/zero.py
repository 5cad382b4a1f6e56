"""deepspeed.zero: Init and GatheredParameters."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

import zerocpp
from zerocpp import _engine
from zerocpp.deepspeed._config import read_json, refuse
from zerocpp.deepspeed.comm import init_distributed

__all__ = [
    "GatheredParameters",
    "Init",
    "ZeroParamStatus",
    "register_external_parameter",
    "unregister_external_parameter",
]

_open_init: contextlib.ExitStack | None = None
_marked = 0


class ZeroParamStatus(enum.Enum):
    """Whether a parameter is whole: AVAILABLE inside GatheredParameters, else NOT_AVAILABLE."""

    AVAILABLE = 1
    NOT_AVAILABLE = 2
    INFLIGHT = 3


def mark(parameters: Iterable[torch.Tensor]) -> None:
    """Local. Sets the attributes by which scripts recognise parameters of stage 3: ds_id, ds_status and others."""
    global _marked
    for parameter in parameters:
        if not hasattr(parameter, "ds_id"):
            found: Any = parameter
            found.ds_id, found.ds_shape, found.ds_numel = _marked, parameter.shape, parameter.numel()
            found.ds_status = ZeroParamStatus.NOT_AVAILABLE
            _marked += 1


def engine_of_parameter(parameter: torch.Tensor) -> _engine.Engine | None:
    """Local. Returns the engine to which `parameter` is attached, or None."""
    engines = (e for e in _engine._engines if isinstance(e, _engine.Engine) and not e.closed)
    return next((e for e in engines if id(parameter) in e._names), None)


class GatheredParameters:
    """Collective at both ends. Holds parameters whole, so any code can read them.

    modifier_rank: the rank whose written values count. Without it every rank must write the same values.

    Parameters that were constructed inside Init and have no engine yet are built on every rank, and stay built.
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
        self._set_status(ZeroParamStatus.AVAILABLE)

    def _set_status(self, status: ZeroParamStatus) -> None:
        for parameter in self._params:
            if hasattr(parameter, "ds_id"):
                parameter.ds_status = status  # type: ignore[attr-defined]

    def __exit__(self, *error: Any) -> None:
        self._scopes.close()
        self._set_status(ZeroParamStatus.NOT_AVAILABLE)
        if self._rank is not None and not error[0]:
            _broadcast(self._unattached, self._rank)
        self._unattached = []


def _build(parameters: list[torch.Tensor]) -> None:
    """Collective. Gives deferred parameters their values: a temporary engine builds them and returns them."""
    if not parameters:
        return
    holder = nn.Module()
    for number, parameter in enumerate(parameters):
        holder.register_parameter(f"p{number}", parameter)  # type: ignore[arg-type]
    zerocpp.attach(holder, zerocpp.SGD(), stage=0).close()


def _broadcast(parameters: list[torch.Tensor], rank: int) -> None:
    """Collective. Sends the values of `rank` to all ranks. For an attached parameter its engine does this."""
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
    """Collective. A module constructed inside has shapes but no memory; initialize() builds it, unit by unit.

    A configuration with bf16 or fp16, or `dtype`, sets the type of its parameters. Code inside the scope that reads
    values of a tensor raises ConfigError.
    """
    global _open_init
    if not enabled or module is not None or _open_init is not None:
        yield
        return
    given = config_dict_or_path if config_dict_or_path is not None else config
    kind = dtype or _type_of({} if given is None else read_json(given))
    init_distributed()
    built: list[torch.Tensor] = []
    with contextlib.ExitStack() as scopes:
        _open_init = scopes
        scopes.callback(mark, built)
        hook = register_module_parameter_registration_hook(lambda module, name, parameter: built.append(parameter))
        scopes.callback(hook.remove)
        scopes.enter_context(zerocpp.deferred(seed=_common_seed()))
        if kind is not None:
            scopes.enter_context(_Typed(kind))
        scopes.callback(_forget_init)
        yield


class _Typed(TorchFunctionMode):
    """Gives tensors that are created without a type, such as those of nn.Linear, the type `kind`."""

    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self._kind = kind

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        found = func(*args, **named)
        if func in _MAKERS and named.get("dtype") is None and found.dtype == torch.get_default_dtype():
            return found.to(self._kind)
        return found


_MAKERS = {torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.eye, torch.rand, torch.randn}
_MAKERS |= {torch.linspace, torch.tensor}


def _forget_init() -> None:
    global _open_init
    _open_init = None


def end_init() -> None:
    """Local. Ends an open Init early, because initialize() may be called inside it."""
    if _open_init is not None:
        _open_init.close()


def _type_of(config: dict[str, Any]) -> torch.dtype | None:
    for keys, kind in ((("bf16", "bfloat16"), torch.bfloat16), (("fp16",), torch.float16)):
        for key in keys:
            section = config.get(key)
            if isinstance(section, dict) and section.get("enabled") is True:
                return kind
    return None


def _common_seed() -> int:
    """Collective. Draws a seed from torch's generator; rank 0's seed counts. 0 for ranks without torch.distributed."""
    seed = int(torch.randint(2**62, ()).item())
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        seeds = [seed]
        torch.distributed.broadcast_object_list(seeds, 0)
        return seeds[0]
    return seed if zerocpp.world().size == 1 else 0


def register_external_parameter(module: torch.nn.Module, parameter: torch.Tensor) -> None:
    """Local. No-op: an operator gathers the parameters that it uses, wherever they are registered."""


def unregister_external_parameter(module: torch.nn.Module, parameter: torch.Tensor) -> None:
    """Local. No-op."""
