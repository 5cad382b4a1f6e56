"""DeepSpeed's learning-rate schedules. Rates equal those of DeepSpeed 0.19.8 at each step."""

from __future__ import annotations

import math
from typing import Any

import torch

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


class WarmupLR:
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
        self.optimizer = optimizer
        if warmup_max_lr is None:
            warmup_max_lr = [float(group["lr"]) for group in optimizer.param_groups]
        self.min_lrs = _per_group(optimizer, warmup_min_lr, "warmup_min_lr")
        self.max_lrs = _per_group(optimizer, warmup_max_lr, "warmup_max_lr")
        self._begin(warmup_num_steps, warmup_type, last_batch_iteration)

    def _begin(self, warmup_num_steps: int, warmup_type: str, last_batch_iteration: int) -> None:
        if not isinstance(warmup_num_steps, int) or warmup_num_steps <= 0:
            raise refuse(
                "scheduler.params.warmup_num_steps",
                warmup_num_steps,
                "not a positive whole number",
                "write the number of steps",
            )
        if warmup_type not in ("log", "linear"):
            raise refuse("scheduler.params.warmup_type", warmup_type, "no such type", 'use "log" or "linear"')
        self.warmup_num_steps = max(2, warmup_num_steps)
        self.warmup_type = warmup_type
        self.last_batch_iteration = last_batch_iteration
        if last_batch_iteration == -1:
            self._set(self.get_lr())

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self._last_lr = rates

    def _warmup(self) -> float | None:
        """The part of the warm-up that is done, 0 to 1; None after it."""
        step = self.last_batch_iteration
        if step >= self.warmup_num_steps:
            return None
        return (
            math.log(step + 1) / math.log(self.warmup_num_steps)
            if self.warmup_type == "log"
            else step / self.warmup_num_steps
        )

    def _decay(self) -> float:
        return 1.0

    def get_lr(self) -> list[float]:
        if self.last_batch_iteration < 0:
            return list(self.min_lrs)
        done = self._warmup()
        gamma = self._decay() if done is None else done
        return [low + (high - low) * gamma for low, high in zip(self.min_lrs, self.max_lrs)]

    def get_last_lr(self) -> list[float]:
        return self._last_lr

    def step(self, last_batch_iteration: int | None = None) -> None:
        self.last_batch_iteration = (
            self.last_batch_iteration + 1 if last_batch_iteration is None else last_batch_iteration
        )
        self._set(self.get_lr())

    def state_dict(self) -> dict[str, Any]:
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last_batch_iteration = state["last_batch_iteration"]


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

    def _decay(self) -> float:
        left = float(self.total_num_steps - self.last_batch_iteration)
        return max(0.0, left / max(1.0, float(self.total_num_steps - self.warmup_num_steps)))


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
        self.optimizer = optimizer
        self.total_num_steps = total_num_steps
        self.warmup_min_ratio, self.cos_min_ratio = float(warmup_min_ratio), float(cos_min_ratio)
        self.org_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self._begin(warmup_num_steps, warmup_type, last_batch_iteration)

    def get_lr(self) -> list[float]:
        return [rate * self.get_lr_ratio() for rate in self.org_lrs]

    def get_lr_ratio(self) -> float:
        if self.last_batch_iteration < 0:
            return 0.0
        done = self._warmup()
        if done is not None:
            return self.warmup_min_ratio + done * (1 - self.warmup_min_ratio)
        step = self.last_batch_iteration - self.warmup_num_steps + 1
        progress = min(1.0, step / max(1, self.total_num_steps - self.warmup_num_steps))
        return max(0.0, self.cos_min_ratio + (1 - self.cos_min_ratio) * (1 + math.cos(math.pi * progress)) / 2)


class LRRangeTest(WarmupLR):
    """Raises the rate without end, by min_lr * step_rate every step_size steps; with staircase at once."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        lr_range_test_min_lr: Any = 1e-3,
        lr_range_test_step_size: int = 2000,
        lr_range_test_step_rate: float = 1.0,
        lr_range_test_staircase: bool = False,
        last_batch_iteration: int = -1,
    ) -> None:
        self.optimizer = optimizer
        self.min_lrs = _per_group(optimizer, lr_range_test_min_lr, "lr_range_test_min_lr")
        if not isinstance(lr_range_test_step_size, int) or lr_range_test_step_size <= 0:
            raise refuse(
                "scheduler.params.lr_range_test_step_size",
                lr_range_test_step_size,
                "not a positive whole number",
                "write the number of steps",
            )
        self.step_size, self.step_rate = lr_range_test_step_size, float(lr_range_test_step_rate)
        self.staircase = lr_range_test_staircase
        self.last_batch_iteration = last_batch_iteration
        if last_batch_iteration == -1:
            self._set(self.min_lrs)

    def get_lr(self) -> list[float]:
        passed = (self.last_batch_iteration + 1) / self.step_size
        raised = 1 + self.step_rate * (math.floor(passed) if self.staircase else passed)
        return [rate * raised for rate in self.min_lrs]


SCHEDULES: dict[str, type[WarmupLR]] = {
    kind.__name__: kind for kind in (WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest)
}
