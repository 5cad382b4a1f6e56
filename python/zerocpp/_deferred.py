"""deferred(): construction of a module without its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from zerocpp import _C

_open = 0  # open scopes of this process


def in_deferred() -> bool:
    """Local. Returns whether a scope of deferred() is open."""
    return _open > 0


@contextmanager
def deferred(seed: int = 0) -> Iterator[None]:
    """Local. Modules that are constructed inside have shapes but no memory; attach() builds them, unit by unit.

        with zero.deferred(seed=1337):
            model = Net()
        engine = zero.attach(model)

    The values depend on `seed` and on the parameters' names, not on the number of ranks or the stage. A
    construction that reads values of a tensor raises ConfigError with the operator's name.
    """
    global _open
    with _initialised_on_meta(), _C.Deferred(seed):
        _open += 1
        try:
            yield
        finally:
            _open -= 1


def is_deferred(tensor: torch.Tensor) -> bool:
    """Local. Returns whether the tensor was made inside deferred(), and is not built yet."""
    return _C.is_deferred(tensor)


@contextmanager
def _initialised_on_meta() -> Iterator[None]:
    """A scope that hides the meta device from transformers, which leaves out its initialisation there."""
    try:
        import transformers.modeling_utils as modeling
    except ImportError:
        yield
        return
    name = "get_torch_context_manager_or_global_device"
    original: Any = getattr(modeling, name, None)
    if original is None:
        yield
        return
    setattr(modeling, name, lambda: None)
    try:
        yield
    finally:
        setattr(modeling, name, original)
