"""checkpoint(), and torch.utils.checkpoint inside a pipeline, where a checkpoint stays in one section.

torch's checkpoints run their function again in the backward pass, where a section no longer has the operators of other
sections. So while a pass of a pipeline runs, both kinds of torch's checkpoint() are the library's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any, Literal

import torch
import torch.utils.checkpoint
from torch.utils import _pytree

from zerocpp import _C, _attached
from zerocpp._errors import refuse

_MARK = "__dynamo_disable"  # torch calls the attribute of this name instead of its function
_TENSOR = object()  # the place of a tensor among results
_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")

_stores: dict[tuple[str, ...], _C.ActivationStore] = {}  # by tier and folders; one serves all checkpoints


def checkpoint(
    fn: Callable[..., Any],
    *args: Any,
    offload: Literal["host", "disk"] | None = None,
    disk: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
    **named: Any,
) -> Any:
    """Local if `fn` is. Returns fn(*args, **named), and keeps only its inputs: the backward pass computes fn again.

        x = zero.checkpoint(block, x, offload="disk", disk="/nvme0/activations")

    Inputs are the tensors among the arguments, also in tuples, lists and dicts. Losses and gradients have the bits of
    a run without checkpoints, unless a tensor is an input of several. The second run has the random numbers and the
    autocast of the first. Without gradient mode, fn is simply called.

    offload: where the inputs wait for the backward pass: "disk", or "host", which copies them in main memory. None:
        the tensors themselves are kept. Attached parameters are never copied.
    disk: the folders of "disk", one on each disk; by default those of the option `disk` of the newest engine.

    Raises ConfigError if fn writes an input, or uses a tensor with a history of its own that is not an argument; for
    another `offload`, for "disk" without a folder, and for offloaded inputs on a GPU. Raises IoError if the disk fails.
    The backward pass raises them, too, and ConfigError for gradients of gradients and for torch.autograd.grad().
    """
    return _run(fn, args, named, _store(offload, disk, (args, named)))


def _store(offload: str | None, disk: Any, arguments: Any) -> _C.ActivationStore | None:
    if offload not in (None, "host", "disk"):
        raise refuse("checkpoint.offload", offload, "no such place", 'use "host", "disk" or None')
    if disk is not None and offload != "disk":
        raise refuse("checkpoint.disk", disk, "nothing is offloaded to a disk", 'set offload="disk", or leave disk out')
    if offload is None:
        return None
    for leaf in _pytree.tree_leaves(arguments):
        if isinstance(leaf, torch.Tensor) and leaf.device.type not in ("cpu", "meta"):
            raise refuse(
                "checkpoint.offload",
                offload,
                f"an input is on {leaf.device}, and only inputs on the CPU are copied",
                "leave offload out: the input stays there",
            )
    folders = _folders(disk) if offload == "disk" else []
    key = (offload, *folders)
    if key not in _stores:
        _stores[key] = _C.ActivationStore(offload == "disk", folders)
    return _stores[key]


def _folders(disk: Any) -> list[str]:
    if disk is None:
        named = [engine for engine in _attached._engines if not engine.closed and engine.options.get("disk")]
        if not named:
            raise refuse(
                "checkpoint.disk", None, "no folder is given, and no engine has one", 'add disk="/folder/on/that/disk"'
            )
        disk = max(named, key=lambda engine: engine._number).options["disk"]
    return [fspath(disk)] if isinstance(disk, (str, PathLike)) else [fspath(folder) for folder in disk]


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
    return _run(function, arguments, named, None)


def _run(function: Any, arguments: tuple[Any, ...], named: dict[str, Any], store: _C.ActivationStore | None) -> Any:
    """Runs the library's checkpoint: every tensor among the arguments is an input, and only inputs hold tensors."""
    leaves, spec = _pytree.tree_flatten((arguments, named))
    inputs: dict[int, torch.Tensor] = {id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}
    numbers = {key: number for number, key in enumerate(inputs)}
    places = [(numbers[id(leaf)], None) if id(leaf) in numbers else (-1, leaf) for leaf in leaves]
    results: list[tuple[Any, list[Any]]] = []

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        given = [other if number < 0 else tensors[number] for number, other in places]
        own, own_named = _pytree.tree_unflatten(given, spec)
        found, shape = _pytree.tree_flatten(function(*own, **own_named))
        if not results:
            results.append((shape, [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in found]))
        return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]

    made = iter(_C.checkpoint(run, list(inputs.values()), store))
    shape, found = results[0]
    return _pytree.tree_unflatten([next(made) if leaf is _TENSOR else leaf for leaf in found], shape)
