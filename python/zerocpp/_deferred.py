"""deferred(): construction of a module without its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from zerocpp import _C
from zerocpp._errors import refuse

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
    construction that reads values of a tensor raises ConfigError with the operator's name. So does from_pretrained()
    of transformers: construct the model from its configuration, and call engine.load_state_dict() after attach().
    """
    global _open
    with _transformers_inside(), _C.Deferred(seed):
        _open += 1
        try:
            yield
        finally:
            _open -= 1


def is_deferred(tensor: torch.Tensor) -> bool:
    """Local. Returns whether the tensor was made inside deferred(), and is not built yet."""
    return _C.is_deferred(tensor)


@contextmanager
def _transformers_inside() -> Iterator[None]:
    """A scope in which transformers initialises models, although their tensors are on the meta device.

    from_pretrained() is refused inside: it copies values into tensors, which have none there.
    """
    try:
        import transformers.modeling_utils as modeling
    except ImportError:
        yield
        return
    changes: list[tuple[Any, str, Any]] = [
        (modeling, "get_torch_context_manager_or_global_device", lambda: None),
        (modeling.PreTrainedModel, "from_pretrained", classmethod(_refuse_pretrained)),
    ]
    changes = [change for change in changes if change[1] in vars(change[0])]
    originals = [vars(owner)[name] for owner, name, _ in changes]
    for owner, name, change in changes:
        setattr(owner, name, change)
    try:
        yield
    finally:
        for (owner, name, _), original in zip(changes, originals):
            setattr(owner, name, original)


def _refuse_pretrained(kind: type[Any], *arguments: Any, **named: Any) -> Any:
    raise refuse(
        "deferred",
        f"{kind.__name__}.from_pretrained",
        "it copies values into the model, whose tensors have none inside deferred()",
        "construct the model from its configuration, and call engine.load_state_dict() after attach(); or call "
        "from_pretrained() outside of deferred()",
    )
