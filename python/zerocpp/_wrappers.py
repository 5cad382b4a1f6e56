"""Refuses wrappers that sum gradients over ranks or partition parameters, inside a model and around it."""

from __future__ import annotations

import functools
import sys
from typing import Any

from torch import nn

from zerocpp import _C
from zerocpp._errors import refuse

# (module, class): a wrapped module is an instance of the class.
_WRAPPERS = {
    ("torch.nn.parallel.data_parallel", "DataParallel"),
    ("torch.nn.parallel.distributed", "DistributedDataParallel"),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
    ("torch.distributed.fsdp", "FSDPModule"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine"),
}
_CALLED = {"FSDPModule": "fully_shard()"}
_INSTEAD = {"FSDPModule": "leave out fully_shard(), or import it from zerocpp.fsdp"}
_REMEDY = "the engine sums gradients and partitions parameters itself"
_MARK = "_refuses_attached_models"


def refuse_wrapped(model: nn.Module) -> None:
    """Local. Raises ConfigError if `model`, or a module inside it, is one of these wrappers."""
    for path, module in model.named_modules():
        for base in type(module).__mro__:
            if (base.__module__, base.__name__) in _WRAPPERS:
                name = _CALLED.get(base.__name__, base.__name__)
                remedy = _INSTEAD.get(base.__name__, f"attach the module without {name}: {_REMEDY}")
                raise refuse("attach", path or type(module).__name__, f"it is wrapped in {name}", remedy)


def teach_torch() -> None:
    """Local. Makes the constructors of these wrappers refuse an attached model."""
    for place, name in _WRAPPERS - {("torch.distributed.fsdp", "FSDPModule")}:
        wrapper: Any = getattr(sys.modules.get(place), name, None)
        if wrapper is None or hasattr(wrapper.__init__, _MARK):
            continue
        wrapper.__init__ = _refusing(wrapper.__init__, name)


def _refusing(original: Any, name: str) -> Any:
    @functools.wraps(original)
    def init(self: Any, module: Any, *arguments: Any, **named: Any) -> None:
        if isinstance(module, nn.Module) and any(map(_C.is_attached, module.parameters())):
            raise refuse(
                name,
                type(module).__name__,
                "this model is attached",
                f"call the model itself: {_REMEDY}; or end its engine first: zero.engine_of(model).close()",
            )
        original(self, module, *arguments, **named)

    setattr(init, _MARK, True)
    return init
