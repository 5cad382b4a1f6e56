"""deepspeed.utils: access to whole parameters, gradients and optimizer states."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from zerocpp import _engine
from zerocpp.deepspeed._config import refuse
from zerocpp.deepspeed.zero import engine_of_parameter

logger = logging.getLogger("zerocpp")


def _attached(parameter: torch.Tensor) -> _engine.Engine:
    engine = engine_of_parameter(parameter)
    if engine is None:
        raise refuse(
            "param",
            f"a tensor of shape {tuple(parameter.shape)}",
            "it belongs to no engine",
            "give a parameter of a model that initialize() got",
        )
    return engine


def safe_get_full_fp32_param(param: torch.Tensor) -> torch.Tensor:
    """Collective; between steps. Returns the whole parameter in fp32: the master, if it is held in 16 bits."""
    return _attached(param).state(param)


def safe_get_full_grad(param: torch.Tensor) -> torch.Tensor | None:
    """Collective; between the last backward pass and step(). Returns the whole gradient, before clipping."""
    if not param.requires_grad:
        return None
    engine = engine_of_parameter(param)
    return param.grad if engine is None else engine.gradient(param)


def safe_get_full_optimizer_state(param: torch.Tensor, optim_state_key: str) -> torch.Tensor | None:
    """Collective; between steps. Returns a whole moment, such as "exp_avg". A frozen parameter has none."""
    engine = _attached(param)
    return engine.state(param, optim_state_key) if optim_state_key in engine.state_names(param) else None


def safe_set_full_fp32_param(param: torch.Tensor, value: torch.Tensor) -> None:
    """Collective; between steps. Writes the parameter. If it is held in 16 bits, the value is rounded to its type."""
    with _attached(param).gathered(param), torch.no_grad():
        param.copy_(value.reshape(param.shape))


def safe_set_full_grad(param: torch.Tensor, value: torch.Tensor) -> None:
    """Local. Raises ConfigError: a reduced gradient cannot be written."""
    raise refuse(
        "safe_set_full_grad",
        f"a tensor of shape {tuple(param.shape)}",
        "a reduced gradient cannot be written",
        "change the gradient during backward with a hook: param.register_hook()",
    )


def safe_set_full_optimizer_state(param: torch.Tensor, value: torch.Tensor, optim_state_key: str) -> None:
    """Local. Raises ConfigError: a moment cannot be written."""
    raise refuse(
        "safe_set_full_optimizer_state",
        optim_state_key,
        "a moment cannot be written",
        "load a checkpoint with engine.load_checkpoint()",
    )


def safe_get_local_fp32_param(param: torch.Tensor) -> torch.Tensor:
    """Collective; between steps. Returns this rank's elements of the parameter, in fp32."""
    return _attached(param).state_shard(param)[1]


def safe_get_local_optimizer_state(param: torch.Tensor, optim_state_key: str) -> torch.Tensor:
    """Collective; between steps. Returns this rank's elements of a moment."""
    return _attached(param).state_shard(param, optim_state_key)[1]


def safe_get_local_grad(param: torch.Tensor) -> torch.Tensor:
    """Collective; between the last backward pass and step(). Returns this rank's elements of the gradient, fp32."""
    engine = _attached(param)
    begin, own = engine.state_shard(param)
    return engine.gradient(param).flatten()[begin : begin + own.numel()].clone()


def _refuse_write(name: str, param: torch.Tensor, what: str, remedy: str) -> Exception:
    return refuse(name, f"a tensor of shape {tuple(param.shape)}", f"{what} cannot be written", remedy)


def safe_set_local_fp32_param(param: torch.Tensor, value: torch.Tensor) -> None:
    """Local. Raises ConfigError: a shard cannot be written."""
    raise _refuse_write("safe_set_local_fp32_param", param, "a shard", "use safe_set_full_fp32_param()")


def safe_set_local_grad(param: torch.Tensor, value: torch.Tensor) -> None:
    """Local. Raises ConfigError: a reduced gradient cannot be written."""
    raise _refuse_write("safe_set_local_grad", param, "a reduced gradient", "use a hook: param.register_hook()")


def safe_set_local_optimizer_state(param: torch.Tensor, value: torch.Tensor, optim_state_key: str) -> None:
    """Local. Raises ConfigError: a moment cannot be written."""
    raise _refuse_write("safe_set_local_optimizer_state", param, "a moment", "use engine.load_checkpoint()")


def safe_update_full_grad_vectorized(params: list[torch.Tensor], update_func: Any) -> None:
    """Local. Raises ConfigError: a reduced gradient cannot be written."""
    raise _refuse_write(
        "safe_update_full_grad_vectorized", params[0], "a reduced gradient", "use a hook: param.register_hook()"
    )


def set_z3_leaf_modules(model: torch.nn.Module, leaf_module_classes: Iterable[Any]) -> list[torch.nn.Module]:
    """Local. Returns the modules of these classes or class names. No other effect: units need no leaf modules."""
    wanted = tuple(leaf_module_classes)
    return [m for m in model.modules() if any(type(m).__name__ == w or _is_of(m, w) for w in wanted)]


unset_z3_leaf_modules = set_z3_leaf_modules


def _is_of(module: torch.nn.Module, wanted: Any) -> bool:
    if isinstance(wanted, type):
        return isinstance(module, wanted)
    return bool(f"{type(module).__module__}.{type(module).__qualname__}" == wanted)


class RepeatingLoader:
    """Repeats a data loader without end."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self._iterator = iter(loader)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._iterator)
        except StopIteration:
            self._iterator = iter(self.loader)
            return next(self._iterator)


def log_dist(message: str, ranks: list[int] | None = None, level: int = logging.INFO) -> None:
    """Local. Logs on the given ranks only; -1 means all."""
    import zerocpp

    if not ranks or -1 in ranks or zerocpp.world().rank in ranks:
        logger.log(level, message)
