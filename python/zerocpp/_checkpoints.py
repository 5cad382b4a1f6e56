"""torch.utils.checkpoint inside a pipeline: a checkpoint stays in one section, as with the library's own checkpoint().

torch's checkpoints run their function again in the backward pass, where a section no longer has the operators of other
sections. So while a pass of a pipeline runs, both kinds of torch's checkpoint() are the library's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils import _pytree

from zerocpp import _C
from zerocpp._errors import refuse

_MARK = "__dynamo_disable"  # torch calls the attribute of this name instead of its function
_TENSOR = object()  # the place of a tensor among results
_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


def teach_torch() -> None:
    """Local. Makes torch.utils.checkpoint.checkpoint(), under whatever name it was imported, the library's in passes.

    Raises ConfigError if this torch has another checkpoint() than the library knows.
    """
    original: Any = getattr(torch.utils.checkpoint.checkpoint, "__wrapped__", None)
    if original is None:
        raise refuse(
            "torch.utils.checkpoint",
            f"torch {torch.__version__}",
            "its checkpoint() is not known",
            "use the torch that this zerocpp was built for",
        )
    if getattr(getattr(original, _MARK, None), "_of_zerocpp", False):
        return
    usual = getattr(original, _MARK, None)

    def checkpoint(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        nonlocal usual
        if _C.in_pass():
            return _in_section(function, arguments, named)
        if usual is None:
            import torch._dynamo

            usual = torch._dynamo.disable(original, True, wrapping=False)
        return usual(function, *arguments, **named)

    checkpoint._of_zerocpp = True  # type: ignore[attr-defined]
    setattr(original, _MARK, checkpoint)


def _in_section(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Runs a checkpoint of torch as one of the library: every tensor among its arguments is an input."""
    options = {key: named.pop(key) for key in _OPTIONS if key in named}
    if options.get("context_fn", torch.utils.checkpoint.noop_context_fn) is not torch.utils.checkpoint.noop_context_fn:
        raise refuse(
            "torch.utils.checkpoint",
            "context_fn",
            "a pipeline has no selective checkpoints",
            "leave context_fn out",
        )
    while isinstance(function, functools.partial):  # transformers binds keyword arguments
        arguments, named = (*function.args, *arguments), {**function.keywords, **named}
        function = function.func
    leaves, spec = _pytree.tree_flatten((arguments, named))
    inputs: dict[int, torch.Tensor] = {id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}
    results: list[tuple[Any, list[Any]]] = []

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        given = dict(zip(inputs, tensors))
        own, own_named = _pytree.tree_unflatten([given.get(id(leaf), leaf) for leaf in leaves], spec)
        found, shape = _pytree.tree_flatten(function(*own, **own_named))
        if not results:
            results.append((shape, [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in found]))
        return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]

    made = iter(_C.checkpoint(run, list(inputs.values())))
    shape, found = results[0]
    return _pytree.tree_unflatten([next(made) if leaf is _TENSOR else leaf for leaf in found], shape)
