"""torch.compile with inductor: a compiled graph reads parameters through pointers, so it counts as one operator.

All parameters of a graph are gathered while it runs, in forward and in backward. Compile block by block to hold less.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
import weakref
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from zerocpp import _C
from zerocpp._errors import refuse

if TYPE_CHECKING:
    from zerocpp._attached import Attached

_log = logging.getLogger("zerocpp")
_GRAPHS = "torch._inductor.output_code"
_CLASSES = ("CompiledFxGraph", "CompiledAOTI")
_engines: Iterable[Attached] = ()
_said: weakref.WeakSet[Attached] = weakref.WeakSet()
_made = _ran = 0  # numbers of compiled graphs and of their calls


def teach_torch(engines: Iterable[Attached]) -> None:
    """Local. Wraps the calls of compiled graphs, now or when inductor is imported. `engines`: those of this process."""
    global _engines
    if _engines is engines:
        return
    _engines = engines
    if module := sys.modules.get(_GRAPHS):
        _wrap(module)
    else:
        sys.meta_path.insert(0, _AtImport())


def require_wrapped() -> None:
    """Local. Raises ConfigError if graphs were compiled, and none was called through the wrapper."""
    if _made and not _ran:
        raise _unknown("a compiled graph ran without its parameters")


class _AtImport(importlib.abc.MetaPathFinder):
    """Wraps the module of compiled graphs as soon as it is imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != _GRAPHS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_wrap(module: Any) -> None:
                run(module)
                _wrap(module)

            spec.loader.exec_module = run_and_wrap  # type: ignore[method-assign]
        return spec


def _unknown(reason: str) -> _C.ConfigError:
    return refuse(
        "torch.compile",
        f"inductor of torch {torch.__version__}",
        reason,
        'use backend="aot_eager", or the torch that this zerocpp was built for',
    )


def _wrap(module: Any) -> None:
    for name in _CLASSES:
        graph = getattr(module, name, None)
        if graph is None or "__call__" not in vars(graph) or "post_compile" not in vars(graph):
            raise _unknown(f"it has no {_GRAPHS}.{name} as zerocpp knows it")
        graph.__call__ = _called(graph.__call__)
        graph.post_compile = _compiled(graph.post_compile, module.config)


def _compiled(original: Any, config: Any) -> Any:
    @functools.wraps(original)
    def post_compile(self: Any, inputs: Any, constants: Any, how: Any) -> None:
        global _made
        _made += 1
        # A graph without a GPU drops them, and the mode is still wrong for the model.
        self._zero_cudagraphs = bool(how.get("cudagraphs")) or config.triton.cudagraphs
        self._zero_trains = not how.get("is_inference") and not how.get("is_backward")
        original(self, inputs, constants, how)

    return post_compile


def _called(original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, inputs: Sequence[Any]) -> Any:
        global _ran
        _ran += 1
        held = [value for value in inputs if isinstance(value, torch.Tensor) and _C.is_attached(value)]
        if not held:
            return original(self, inputs)
        if not getattr(self, "_zero_checked", False):
            self._zero_checked = True
            _check(self, held)
        # A forward graph runs inside a function of autograd, without gradients, which looks like an evaluation.
        with torch.enable_grad() if getattr(self, "_zero_trains", False) else nullcontext():
            scope = _C.using(held)
            scope.__enter__()
        del held
        try:
            return original(self, inputs)
        finally:
            scope.__exit__(None, None, None)

    return call


def _check(graph: Any, held: list[torch.Tensor]) -> None:
    """Refuses CUDA graphs over sharded parameters. Warns once if a graph holds more than an engine's device_memory."""
    for engine in _engines:
        if engine.closed:
            continue
        own = {id(tensor): tensor for tensor in held if id(tensor) in engine._names}
        if not own or engine.report().stage < 3:
            continue
        if getattr(graph, "_zero_cudagraphs", False):
            raise refuse(
                "torch.compile",
                "CUDA graphs",
                'mode="reduce-overhead" replays kernels at fixed addresses, and at stage 3 parameters have none',
                'use the default mode or "max-autotune-no-cudagraphs", or stage=2',
            )
        size = sum(tensor.numel() * tensor.element_size() for tensor in own.values())
        if engine not in _said and size > engine._device_memory:
            _said.add(engine)
            _log.warning(
                "a compiled graph gathers %s of parameters at once, more than device_memory = %s: compile block by "
                "block (block.compile()) to hold less",
                _C.format_bytes(size),
                engine.options.get("device_memory"),
            )
