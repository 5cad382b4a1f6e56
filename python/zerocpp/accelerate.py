"""ZeRO in Hugging Face's Accelerate: one import changes.

    from zerocpp.accelerate import Accelerator             # instead of: from accelerate import Accelerator

    accelerator = Accelerator(zero=dict(stage=3))          # started by: zero launch, torchrun, or accelerate launch
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step(); schedule.step(); optimizer.zero_grad()

prepare() attaches each model to the optimizer that holds its parameters: two models and two optimizers are two engines.
A model without an optimizer stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import accelerate
import torch
from accelerate.optimizer import AcceleratedOptimizer
from accelerate.scheduler import AcceleratedScheduler
from torch import nn

from zerocpp import _C, _engine
from zerocpp._errors import refuse

_STATES = "zero"  # the first engine's folder in a checkpoint; the second's is zero_1
_PLUGINS = ("deepspeed_plugin", "deepspeed_plugins", "fsdp_plugin", "megatron_lm_plugin", "parallelism_config")


class Accelerator(accelerate.Accelerator):
    """accelerate.Accelerator with engines that train the models.

    zero: the options of zerocpp.attach(), such as dict(stage=3, device_memory="min", clip=1.0).
    `engines` lists them in the order of prepare(). Raises ConfigError for arguments that an engine cannot follow.
    """

    def __init__(self, *arguments: Any, zero: dict[str, Any] | None = None, **named: Any) -> None:
        self.engines: list[_engine.Engine] = []
        self._zero = dict(zero or {})
        if "optimizer" in self._zero:
            raise refuse("zero.optimizer", self._zero["optimizer"], "prepare() decides it", "pass it to prepare()")
        _engine.refuse_average("zero", self._zero)
        for key in _PLUGINS:
            if named.get(key) is not None:
                raise refuse(f"Accelerator.{key}", type(named[key]).__name__, "two engines for one model", _LEAVE_OUT)
        _refuse_precision(named.get("mixed_precision"))  # before accelerate's process state keeps it
        super().__init__(*arguments, **named)
        if self.distributed_type.value in ("DEEPSPEED", "FSDP", "MEGATRON_LM", "XLA", "TP"):
            raise refuse("distributed_type", self.distributed_type.value, "two engines for one model", _LEAVE_OUT)
        _refuse_precision(self.mixed_precision)

    # ---- models and optimizers

    def prepare(self, *args: Any, device_placement: list[bool] | None = None) -> Any:
        """Collective. Like accelerate's prepare(); models come first, so optimizers find them."""
        order = sorted(range(len(args)), key=lambda number: not isinstance(args[number], nn.Module))
        placed = None if device_placement is None else [device_placement[number] for number in order]
        found = super().prepare(*(args[number] for number in order), device_placement=placed)
        if len(args) < 2:
            return found
        back = dict(zip(order, found))
        return tuple(back[number] for number in range(len(args)))

    def prepare_model(
        self, model: nn.Module, device_placement: bool | None = None, evaluation_mode: bool = False
    ) -> nn.Module:
        """Local. Returns the model itself, placed on the device and under autocast. Its optimizer attaches it."""
        return super().prepare_model(model, device_placement, evaluation_mode=True)  # without DistributedDataParallel

    def prepare_optimizer(
        self, optimizer: torch.optim.Optimizer, device_placement: bool | None = None
    ) -> AcceleratedOptimizer:
        """Collective. Attaches the model that has the optimizer's parameters."""
        if getattr(optimizer, "_is_accelerate_prepared", False):
            return super().prepare_optimizer(optimizer, device_placement)
        engine = self._attach(optimizer)
        self.engines.append(engine)
        stepped = _SteppedOptimizer(engine.optimizer, device_placement=False)
        self._optimizers.append(stepped)
        return stepped

    def prepare_scheduler(self, scheduler: torch.optim.lr_scheduler.LRScheduler) -> AcceleratedScheduler:
        """Local. The learning-rate schedule follows the optimizer that shares its parameter groups."""
        found = super().prepare_scheduler(scheduler)
        groups = scheduler.optimizer.param_groups
        found.optimizers = [own for own in self._optimizers if own.param_groups is groups] or found.optimizers
        return found

    def _attach(self, optimizer: torch.optim.Optimizer) -> _engine.Engine:
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for model in map(self.unwrap_model, self._models):
            if own <= {id(parameter) for parameter in model.parameters()}:
                break
        else:
            raise refuse(
                "prepare",
                type(optimizer).__name__,
                "no prepared model has all parameters of this optimizer",
                "give one optimizer for each model, and pass both to prepare()",
            )
        if self.engines and self._zero.get("dtype") == "fp16":
            raise refuse("zero.dtype", "fp16", "backward() cannot tell the loss of two models", 'use dtype="bf16"')
        options = {"accumulate": self.gradient_accumulation_steps, **self._zero}
        remedy = "start the program with zero launch or torchrun; on CPUs construct Accelerator(cpu=True)"
        _engine.refuse_other_ranks("num_processes", self.num_processes, options, remedy)
        return _engine.attach_for_library("zero", model, optimizer, options)

    def _engine_of(self, model: nn.Module) -> _engine.Engine | None:
        inner = self.unwrap_model(model)
        return next((engine for engine in self.engines if engine.model is inner and not engine.closed), None)

    @contextmanager
    def join_uneven_inputs(self, joinables: list[Any], even_batches: bool | None = None) -> Iterator[None]:
        """Refused with several ranks, because a pass through a sharded model is Collective."""
        if self.engines and self.num_processes > 1:
            raise refuse(
                "join_uneven_inputs",
                f"{self.num_processes} ranks",
                "every rank makes the same number of passes",
                "leave it out: even_batches=True gives all ranks equal numbers of batches",
            )
        with super().join_uneven_inputs(joinables, even_batches):
            yield

    # ---- a step

    def backward(self, loss: torch.Tensor, **kwargs: Any) -> None:
        """Collective if the model's operators are. Divides the loss by the accumulation. fp16 engines also scale it."""
        super().backward(self.engines[0].scaled(loss) if len(self.engines) == 1 else loss, **kwargs)

    def clip_grad_norm_(
        self, parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float = 2
    ) -> torch.Tensor:
        """Collective. Makes the step, which clips, and returns the norm. The optimizer's next step() does nothing.

        `max_norm` must be the engine's `clip`: zero=dict(clip=1.0).
        """
        given = list(parameters)
        if not any(map(_C.is_attached, given)):
            return super().clip_grad_norm_(given, max_norm, norm_type)
        engine = self._engine_of_parameters(given)
        if norm_type != 2:
            raise refuse("clip_grad_norm_.norm_type", norm_type, "the engine clips the 2-norm", "use norm_type=2")
        if not self.sync_gradients:
            raise refuse(
                "clip_grad_norm_",
                max_norm,
                "the step's micro-batches are not complete",
                "call it if accelerator.sync_gradients is true",
            )
        if not isinstance(max_norm, (int, float)) or float(max_norm) != float(engine.clip):
            raise refuse(
                "clip_grad_norm_.max_norm",
                max_norm,
                f"the engine clips at {engine.clip:g}",
                f"construct Accelerator(zero=dict(clip={max_norm}))",
            )
        return torch.tensor(engine.optimizer.step_early().grad_norm)

    def _engine_of_parameters(self, parameters: list[torch.Tensor]) -> _engine.Engine:
        given = set(map(id, parameters))
        for engine in self.engines:
            if any(id(tensor) in given for tensor in engine.parameters.values()):
                missing = [n for n, p in engine.parameters.items() if p.requires_grad and id(p) not in given]
                if missing:
                    raise refuse(
                        "clip_grad_norm_",
                        missing[0],
                        "it is not among the parameters, and the engine clips the norm of all",
                        "give model.parameters()",
                    )
                return engine
        raise refuse("clip_grad_norm_", "parameters", "their engine is not of this Accelerator", "call prepare()")

    def clip_grad_value_(self, parameters: Iterable[torch.Tensor], clip_value: float) -> None:
        """Local. Raises ConfigError for attached parameters, because the engine clips the norm."""
        given = list(parameters)
        if any(map(_C.is_attached, given)):
            raise refuse(
                "clip_grad_value_", clip_value, "the engine clips the norm", "use clip_grad_norm_, or no clipping"
            )
        super().clip_grad_value_(given, clip_value)

    # ---- states

    def get_state_dict(self, model: nn.Module, unwrap: bool = True) -> dict[str, torch.Tensor]:
        """Collective. Returns whole weights on rank 0; on the other ranks an empty dict, as FSDP does."""
        engine = self._engine_of(model)
        return super().get_state_dict(model, unwrap) if engine is None else engine.state_dict(to="rank0")

    @contextmanager
    def _without_attached_models(self) -> Iterator[None]:
        models = self._models
        self._models = [model for model in models if self._engine_of(model) is None]
        try:
            yield
        finally:
            self._models = models

    def _folder(self, checkpoint: str | Path, number: int) -> Path:
        return Path(checkpoint, _STATES if number == 0 else f"{_STATES}_{number}")

    def save_state(self, output_dir: str | None = None, safe_serialization: bool = True, **named: Any) -> Any:
        """Collective. Like accelerate's save_state(); the folder `zero` in it has the engine's weights and states."""
        with self._without_attached_models():
            found = super().save_state(output_dir, safe_serialization, **named)
        for number, engine in enumerate(self.engines):
            engine.save(self._folder(found, number))
        return found

    def load_state(self, input_dir: str | None = None, load_kwargs: dict[str, Any] | None = None, **named: Any) -> None:
        """Collective. Reads a folder of save_state(). The number of ranks and the stage may differ."""
        seen: list[str] = []

        def look(models: list[nn.Module], folder: str) -> None:
            seen.append(folder)
            for number in range(len(self.engines)):
                if not self._folder(folder, number).is_dir():
                    raise refuse(
                        "load_state",
                        folder,
                        f"it has no folder {self._folder('', number)} with an engine's states",
                        "load what save_state() of zerocpp.accelerate wrote; weights: before prepare()",
                    )

        hook = self.register_load_state_pre_hook(look)
        try:
            with self._without_attached_models():
                super().load_state(input_dir, load_kwargs, **named)
        finally:
            hook.remove()
        for number, engine in enumerate(self.engines):
            engine.load(self._folder(seen[0], number))

    # ---- the end

    def _close(self) -> None:
        for engine in self.engines:
            engine.close()
        self.engines = []

    def free_memory(self, *objects: Any) -> Any:
        """Collective. Closes the engines, so their models are whole again."""
        self._close()
        return super().free_memory(*objects)

    def end_training(self) -> None:
        """Collective. Closes the engines, so their models are whole again."""
        self._close()
        super().end_training()


def _refuse_precision(given: Any) -> None:
    reasons = {"fp16": "its gradient scaler reads .grad, which an engine never fills", "fp8": "it replaces parameters"}
    if (name := str(given)) in reasons:
        raise refuse("mixed_precision", name, reasons[name], 'use "bf16", or zero=dict(dtype="bf16")')


class _SteppedOptimizer(AcceleratedOptimizer):
    """AcceleratedOptimizer whose step may have fewer micro-batches, as at an epoch's end."""

    def step(self, closure: Any = None) -> None:
        if not self.gradient_state.sync_gradients:
            return
        if closure is not None:
            with torch.enable_grad():
                closure()
        self._is_overflow = self.optimizer.step_early().skipped
        self.optimizer.step()  # ends the early step


_LEAVE_OUT = "leave it out: the engine partitions the model, with the options of zero=dict(...)"
