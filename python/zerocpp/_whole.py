"""The module that a trainer calls instead of DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import nn


class Whole(nn.Module):
    """Calls an attached module within `autocast()`. With `convert` its outputs are converted to fp32."""

    def __init__(
        self,
        module: nn.Module,
        autocast: Callable[[], AbstractContextManager[Any]],
        convert: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self.module = module
        self._autocast, self._convert = autocast, convert

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """Calls the module. Collective if its operators are. Returns the module's outputs, in fp32 with `convert`."""
        with self._autocast():
            result = self.module(*arguments, **named)
        return result if self._convert is None else self._convert(result)
