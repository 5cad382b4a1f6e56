"""zero_grad() of modules and optimizers, for parameters whose gradients an engine holds.

torch's own functions read `.grad`. An attached parameter never has a gradient there, so they would drop nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from zerocpp import _C

_done = False


def drop_or_clear(parameters: Iterable[torch.Tensor], set_to_none: bool) -> None:
    """Local, and the same on every rank. Drops gradients of attached parameters in the running step.

    Clears `.grad` of other parameters, as torch does.
    """
    attached: list[torch.Tensor] = []
    for parameter in parameters:
        if _C.is_attached(parameter):
            attached.append(parameter)
        elif parameter.grad is not None:
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad.detach_().zero_()
    _C.mark_zeroed(attached)


def _wrapped(original: Callable[..., None], parameters_of: Callable[[Any], list[torch.Tensor]]) -> Callable[..., None]:
    @functools.wraps(original)
    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        parameters = parameters_of(self)
        if any(map(_C.is_attached, parameters)):
            drop_or_clear(parameters, set_to_none)
        else:
            original(self, set_to_none)

    return zero_grad


def teach_torch() -> None:
    """Local. Replaces zero_grad() of nn.Module and torch.optim.Optimizer."""
    global _done
    if _done:
        return
    _done = True
    nn.Module.zero_grad = _wrapped(  # type: ignore[method-assign]
        nn.Module.zero_grad, lambda module: list(module.parameters())
    )
    torch.optim.Optimizer.zero_grad = _wrapped(  # type: ignore[method-assign]
        torch.optim.Optimizer.zero_grad, lambda optimizer: [p for g in optimizer.param_groups for p in g["params"]]
    )
