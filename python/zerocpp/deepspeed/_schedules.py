"""DeepSpeed's learning-rate schedules. Rates equal those of DeepSpeed 0.19.8 at each step."""

from __future__ import annotations

import math
from typing import Any

import torch

from zerocpp._optimizer import EngineOptimizer
from zerocpp.deepspeed._config import refuse


def _per_group(optimizer: torch.optim.Optimizer, value: Any, name: str) -> list[float]:
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [float(value)] * count
    if len(value) != count:
        raise refuse(
            f"scheduler.params.{name}",
            list(value),
            f"the optimizer has {count} groups",
            "give a number, or one for each group",
        )
    return [float(v) for v in value]


def _has_betas(optimizer: torch.optim.Optimizer) -> bool:
    """Local. Returns whether DeepSpeed's OneCycle would change betas. Defaults of an engine's rule are incomplete."""
    return optimizer.has_betas if isinstance(optimizer, EngineOptimizer) else "betas" in optimizer.defaults


class Schedule:
    """The base: rates of groups as a function of the last batch's number."""

    def __init__(self, optimizer: torch.optim.Optimizer, last_batch_iteration: int) -> None:
        self.optimizer = optimizer
        self.last_batch_iteration = last_batch_iteration
        if last_batch_iteration == -1:
            self._set(self.first_lrs())

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self._last_lr = rates

    def first_lrs(self) -> list[float]:
        """Local. The rates of the first update."""
        return self.get_lr()

    def get_lr(self) -> list[float]:
        """Local. The rates of the groups for the next update."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """Local. Returns the rates of the groups that the last step() set."""
        return self._last_lr

    def step(self, last_batch_iteration: int | None = None) -> None:
        """Local. Sets the rates of the next update. Without a number it follows the last batch."""
        self.last_batch_iteration = (
            self.last_batch_iteration + 1 if last_batch_iteration is None else last_batch_iteration
        )
        self._set(self.get_lr())

    def state_dict(self) -> dict[str, Any]:
        """Local. Returns the last batch's number."""
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Local. Continues after the last batch of `state`. The next step() sets the rates."""
        self.last_batch_iteration = state["last_batch_iteration"]


def _steps(value: Any, name: str) -> int:
    if not isinstance(value, int) or value <= 0:
        raise refuse(f"scheduler.params.{name}", value, "not a positive whole number", "write the number of steps")
    return value


class WarmupLR(Schedule):
    """Warms up from warmup_min_lr to warmup_max_lr, logarithmically or linearly; then the rate is constant."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warmup_min_lr: Any = 0.0,
        warmup_max_lr: Any = None,
        warmup_num_steps: int = 1000,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        if warmup_max_lr is None:
            warmup_max_lr = [float(group["lr"]) for group in optimizer.param_groups]
        self.min_lrs = _per_group(optimizer, warmup_min_lr, "warmup_min_lr")
        self.max_lrs = _per_group(optimizer, warmup_max_lr, "warmup_max_lr")
        self.warmup_num_steps = max(2, _steps(warmup_num_steps, "warmup_num_steps"))
        if warmup_type not in ("log", "linear"):
            raise refuse("scheduler.params.warmup_type", warmup_type, "no such type", 'use "log" or "linear"')
        self.warmup_type = warmup_type
        super().__init__(optimizer, last_batch_iteration)

    def _factor(self) -> float:
        """The position between the lowest and the highest rate, from 0 to 1."""
        step = self.last_batch_iteration
        if step < 0:
            return 0.0
        if step >= self.warmup_num_steps:
            return self._after_warmup(step)
        if self.warmup_type == "log":
            return math.log(step + 1) / math.log(self.warmup_num_steps)
        return step / self.warmup_num_steps

    def _after_warmup(self, step: int) -> float:
        return 1.0

    def get_lr(self) -> list[float]:
        """Local. Returns the rates of the groups for the next update."""
        return [low + (high - low) * self._factor() for low, high in zip(self.min_lrs, self.max_lrs)]


class WarmupDecayLR(WarmupLR):
    """WarmupLR, then a linear decay to warmup_min_lr at total_num_steps."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        total_num_steps: int,
        warmup_min_lr: Any = 0.0,
        warmup_max_lr: Any = 0.001,
        warmup_num_steps: int = 1000,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        self.total_num_steps = total_num_steps
        super().__init__(optimizer, warmup_min_lr, warmup_max_lr, warmup_num_steps, warmup_type, last_batch_iteration)

    def _after_warmup(self, step: int) -> float:
        return max(0.0, (self.total_num_steps - step) / max(1.0, self.total_num_steps - self.warmup_num_steps))


class WarmupCosineLR(WarmupLR):
    """Warms up from warmup_min_ratio to 1, then follows a cosine to cos_min_ratio, as factors of the groups' rates."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        total_num_steps: int,
        warmup_min_ratio: float = 0.0,
        warmup_num_steps: int = 1000,
        cos_min_ratio: float = 0.0001,
        warmup_type: str = "log",
        last_batch_iteration: int = -1,
    ) -> None:
        self.total_num_steps = total_num_steps
        self.warmup_min_ratio, self.cos_min_ratio = float(warmup_min_ratio), float(cos_min_ratio)
        super().__init__(optimizer, 0.0, None, warmup_num_steps, warmup_type, last_batch_iteration)

    def _factor(self) -> float:
        factor = super()._factor()
        if 0 <= self.last_batch_iteration < self.warmup_num_steps:
            return self.warmup_min_ratio + factor * (1 - self.warmup_min_ratio)
        return factor

    get_lr_ratio = _factor

    def _after_warmup(self, step: int) -> float:
        passed = step - self.warmup_num_steps + 1
        progress = min(1.0, passed / max(1, self.total_num_steps - self.warmup_num_steps))
        return max(0.0, self.cos_min_ratio + (1 - self.cos_min_ratio) * (1 + math.cos(math.pi * progress)) / 2)


class LRRangeTest(Schedule):
    """Raises the rate without end, by min_lr * step_rate in step_size steps; with staircase at the end of them."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        lr_range_test_min_lr: Any = 1e-3,
        lr_range_test_step_size: int = 2000,
        lr_range_test_step_rate: float = 1.0,
        lr_range_test_staircase: bool = False,
        last_batch_iteration: int = -1,
    ) -> None:
        self.min_lrs = _per_group(optimizer, lr_range_test_min_lr, "lr_range_test_min_lr")
        self.step_size = _steps(lr_range_test_step_size, "lr_range_test_step_size")
        self.step_rate, self.staircase = float(lr_range_test_step_rate), lr_range_test_staircase
        super().__init__(optimizer, last_batch_iteration)

    def first_lrs(self) -> list[float]:
        """Local. Returns the rates of the first update: min_lr."""
        return self.min_lrs

    def get_lr(self) -> list[float]:
        """Local. Returns the rates of the groups for the next update."""
        passed = (self.last_batch_iteration + 1) / self.step_size
        raised = 1 + self.step_rate * (math.floor(passed) if self.staircase else passed)
        return [rate * raised for rate in self.min_lrs]


class OneCycle(Schedule):
    """Raises the rate from cycle_min_lr to cycle_max_lr and lowers it again. Then divides cycle_min_lr more and more.

    A half of the cycle with a stair count keeps its rate on each stair. The momentum of Adam changes in the opposite
    direction, from cycle_max_mom to cycle_min_mom and back. An engine's betas are fixed, so it needs
    cycle_momentum=False.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        cycle_min_lr: Any,
        cycle_max_lr: Any,
        decay_lr_rate: float = 0.0,
        cycle_first_step_size: float = 2000,
        cycle_second_step_size: float | None = None,
        cycle_first_stair_count: int = 0,
        cycle_second_stair_count: int | None = None,
        decay_step_size: float = 0,
        cycle_momentum: bool = True,
        cycle_min_mom: Any = 0.8,
        cycle_max_mom: Any = 0.9,
        decay_mom_rate: float = 0.0,
        last_batch_iteration: int = -1,
    ) -> None:
        self.cycle_momentum = cycle_momentum and _has_betas(optimizer)
        if self.cycle_momentum and isinstance(optimizer, EngineOptimizer):
            raise refuse(
                "scheduler.params.cycle_momentum", True, "an engine's betas are fixed", "set cycle_momentum to false"
            )
        self.first_step_size = float(cycle_first_step_size)
        self.second_step_size = (
            self.first_step_size if cycle_second_step_size is None else float(cycle_second_step_size)
        )
        if not self.first_step_size > 0:
            _refuse_size("cycle_first_step_size", self.first_step_size, "not above 0")
        if not self.second_step_size >= 0:
            _refuse_size("cycle_second_step_size", self.second_step_size, "not 0 or more")
        self.total_size = self.first_step_size + self.second_step_size
        self.step_ratio = self.first_step_size / self.total_size
        self.first_stair_count = cycle_first_stair_count
        self.second_stair_count = (
            cycle_first_stair_count if cycle_second_stair_count is None else cycle_second_stair_count
        )
        self.min_lrs = _per_group(optimizer, cycle_min_lr, "cycle_min_lr")
        self.max_lrs = _per_group(optimizer, cycle_max_lr, "cycle_max_lr")
        self.min_moms = _per_group(optimizer, cycle_min_mom, "cycle_min_mom")
        self.max_moms = _per_group(optimizer, cycle_max_mom, "cycle_max_mom")
        self.decay_step_size = float(decay_step_size)
        self.decay_lr_rate, self.decay_mom_rate = float(decay_lr_rate), float(decay_mom_rate)
        super().__init__(optimizer, last_batch_iteration)
        if last_batch_iteration == -1:
            self._set_moms(self.min_moms)

    def _set_moms(self, values: list[float]) -> None:
        if self.cycle_momentum:
            for group, value in zip(self.optimizer.param_groups, values):
                group["betas"] = (value, 0.99)

    def first_lrs(self) -> list[float]:
        """Local. Returns the rates of the first update: cycle_min_lr."""
        return self.min_lrs

    def _height(self) -> float:
        """The position between the lowest and the highest rate, from 0 to 1."""
        step = (self.last_batch_iteration + 1) % self.total_size
        if step <= self.first_step_size:
            left, size, stairs = step, self.first_step_size, self.first_stair_count
        else:
            left, size, stairs = self.total_size - step, self.second_step_size, self.second_stair_count
        return math.floor(left * stairs / size) / stairs if stairs > 0 else left / size

    def _growth(self, rate: float) -> float | None:
        """The number that divides rates, and multiplies momenta, after the cycle; None within the cycle."""
        passed = self.last_batch_iteration - self.total_size
        if passed < 0:
            return None
        return 1.0 if self.decay_step_size == 0 else 1 + rate * (passed + 1) / self.decay_step_size

    def get_lr(self) -> list[float]:
        """Local. Returns the rates of the groups for the next update."""
        growth = self._growth(self.decay_lr_rate)
        if growth is None:
            return [low + (high - low) * self._height() for low, high in zip(self.min_lrs, self.max_lrs)]
        return [low / growth for low in self.min_lrs]

    def get_mom(self) -> list[tuple[float, float]] | None:
        """Local. The betas of the groups for the next update; None if they do not change."""
        if not self.cycle_momentum:
            return None
        growth = self._growth(self.decay_mom_rate)
        if growth is None:
            return [(high - (high - low) * self._height(), 0.99) for low, high in zip(self.min_moms, self.max_moms)]
        return [(high * growth, 0.99) for high in self.max_moms]

    def step(self, last_batch_iteration: int | None = None) -> None:
        """Local. Sets the rates, and the betas if momentum follows the cycle, of the next update."""
        super().step(last_batch_iteration)
        self._set_moms([first for first, _ in self.get_mom() or []])


def _refuse_size(name: str, size: float, wrong: str) -> None:
    raise refuse(f"scheduler.params.{name}", size, wrong, "write the number of steps")


SCHEDULES: dict[str, type[Schedule]] = {
    kind.__name__: kind for kind in (WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest, OneCycle)
}
