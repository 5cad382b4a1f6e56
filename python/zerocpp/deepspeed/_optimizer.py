"""The optimizer that initialize() returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerocpp import _optimizer

if TYPE_CHECKING:
    from zerocpp._engine import Engine


class DeepSpeedOptimizer(_optimizer.EngineOptimizer):
    """The engine's optimizer, with DeepSpeed's names. It shares param_groups with the given optimizer."""

    overflow = False  # whether the last update was skipped

    def __init__(self, engine: Engine, read: _optimizer.ReadOptimizer, scale: object) -> None:
        super().__init__(engine, read)
        self._scale = scale  # attach()'s option loss_scale

    @property
    def optimizer(self) -> DeepSpeedOptimizer:
        """Local. Returns itself, because no other optimizer is inside."""
        return self

    def needs_scaler(self) -> bool:
        """Local. Returns whether a loss must be scaled before its backward pass."""
        return self._scale is not None

    @property
    def loss_scale(self) -> float:
        """Local. The loss scale of the next step; 1 without one."""
        return float(self._engine.report().loss_scale or 1.0)

    cur_scale = loss_scale

    @property
    def dynamic_loss_scale(self) -> bool:
        """Local. Whether the loss scale changes."""
        return self._scale is not None and not isinstance(self._scale, float)
