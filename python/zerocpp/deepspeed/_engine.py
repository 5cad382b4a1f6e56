"""DeepSpeedEngine over zerocpp's Engine: DeepSpeed's names and meaning."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import zerocpp
from zerocpp import _C, _engine, _model
from zerocpp.deepspeed import zero
from zerocpp.deepspeed._checkpoint import checkpoint_folder, read_notes, read_weights
from zerocpp.deepspeed._config import Config, refuse
from zerocpp.deepspeed._offload import chosen_device, chosen_states, require_movable
from zerocpp.deepspeed._optimizer import DeepSpeedOptimizer
from zerocpp.deepspeed.runtime.zero.offload_config import OffloadDeviceEnum

_log = logging.getLogger("zerocpp")
_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def pack_state(state: Any) -> Any:
    """Local. Returns client_state for JSON: unchanged if JSON can hold it, else as the bytes of torch.save()."""
    try:
        if json.loads(json.dumps(state)) == state:
            return {"json": state}
    except (TypeError, ValueError):
        pass
    buffer = io.BytesIO()
    torch.save(state, buffer)
    try:
        torch.load(io.BytesIO(buffer.getvalue()), weights_only=True)
    except Exception as error:
        raise refuse(
            "client_state",
            type(state).__name__,
            f"torch.load(weights_only=True) cannot read it: {error}",
            "save numbers, strings, lists, dicts and tensors",
        ) from error
    return {"torch": base64.b64encode(buffer.getvalue()).decode()}


def unpack_state(packed: Any) -> Any:
    """Local. Returns the value that pack_state() packed."""
    if "json" in packed:
        return packed["json"]
    return torch.load(io.BytesIO(base64.b64decode(packed["torch"])), weights_only=True)


def _casted(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(_casted(v, dtype) for v in value)
    return {k: _casted(v, dtype) for k, v in value.items()} if isinstance(value, dict) else value


def _convert(model: nn.Module, config: Config) -> None:
    """Converts parameters to the type of the configuration. Buffers keep their type unless buffer_dtype is set."""
    if config.dtype is not None:
        for parameter in model.parameters():
            if parameter.is_floating_point() and not zerocpp.is_deferred(parameter):
                parameter.data = parameter.data.to(_TYPES[config.dtype])
    if config.buffer_dtype is not None:
        for module in model.modules():
            for key, buffer in module._buffers.items():
                if buffer is not None and buffer.is_floating_point():
                    module._buffers[key] = buffer.to(_TYPES[config.buffer_dtype])


class DeepSpeedEngine(nn.Module):
    """The engine of one model. `core` is the zerocpp.Engine. Made by initialize()."""

    def __init__(self, model: nn.Module, config: Config, optimizer: Any, world: _C.World) -> None:
        super().__init__()
        self.module = model
        self.config = config
        self.world = world
        self.global_steps = self.global_samples = self.micro_steps = self.skipped_steps = 0
        self.lr_scheduler: Any = None
        self.training_dataloader: DataLoader[Any] | None = None
        self.collate_fn: Callable[[list[Any]], Any] | None = None  # of deepspeed_io()
        self._step_applied = False
        self._boundary: bool | None = None
        self._grad_norm: float | None = None
        self._scaled = self._in_backward = self._in_no_sync = False
        self._backwards = 0  # since the last step(), if the script manages accumulation
        _convert(model, config)
        if config.stage == 3:
            zero.mark(model.parameters())
        self._has_optimizer = optimizer is not None
        self._given_optimizer = optimizer
        self.core = _engine.attach_with(
            model, zerocpp.SGD() if optimizer is None else optimizer, world, config.options, keep_buffers=True
        )
        self.optimizer: DeepSpeedOptimizer | None = None
        if self._has_optimizer:
            self.optimizer = DeepSpeedOptimizer(self.core, self.core.optimizer._read, config.options.get("loss_scale"))
            self.core.optimizer = self.optimizer

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            module = self.__dict__.get("_modules", {}).get("module")
            if module is None or not hasattr(module, name):
                raise
            return getattr(module, name)

    # ---- a step

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Calls the model. Collective if the model's operators are."""
        trains = torch.is_grad_enabled() and self.module.training and self._has_optimizer
        if trains:
            self._number_micro_batch()
        if self.config.auto_cast:
            inputs, named = _casted(inputs, torch.float16), _casted(named, torch.float16)
        with self._autocast():
            found = self.module(*inputs, **named)
        if trains and (self.config.options.get("loss_scale") or self._factor(True) != 1):
            self._require_scale(found)
        return found

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The scope of the section torch_autocast. Without it, the script's autocast has no effect inside the model."""
        kind, dtype = self.device.type, self.config.autocast
        if dtype is not None:
            return torch.autocast(kind, dtype=_TYPES[dtype])
        if torch.is_autocast_enabled(kind):
            return torch.autocast(kind, enabled=False)
        return contextlib.nullcontext()

    def _number_micro_batch(self) -> None:
        if self.config.managed and self.config.accumulate > 1:
            self.core.micro_batch(min(self._since, self.config.accumulate - 1))

    def _require_scale(self, outputs: Any) -> None:
        def check(grad: torch.Tensor) -> None:
            if not self._in_backward and not self._scaled:
                raise RuntimeError(
                    "Loss scaling is required for this configuration (fp16, gradient_allreduce_op = sum, or "
                    "managed_gradient_accumulation = false with gradient_accumulation_steps), but backward() was "
                    "called directly without scaling the loss. Use engine.backward(loss), or "
                    "engine.scale(loss).backward()."
                )

        values = (
            outputs
            if isinstance(outputs, (list, tuple))
            else outputs.values()
            if isinstance(outputs, Mapping)
            else [outputs]
        )
        for value in values:
            if isinstance(value, torch.Tensor) and value.requires_grad:
                value.register_hook(check)

    def _require_optimizer(self, call: str) -> None:
        if not self._has_optimizer:
            raise refuse(
                "optimizer",
                None,
                f"{call} needs an optimizer",
                "give initialize() an optimizer, or add the section optimizer to the configuration",
            )

    def _require_scalar(self, loss: torch.Tensor, call: str) -> None:
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise AssertionError(
                f"{call}: loss must be a scalar tensor with grad_fn; for other tensors call tensor.backward(gradient)"
            )

    def backward(self, loss: torch.Tensor, retain_graph: bool = False, scale_wrt_gas: bool = True) -> torch.Tensor:
        """Collective if the model's operators are. Gradients are averaged over the micro-batches of a step.

        scale_wrt_gas: False sums them instead. Returns the loss, divided by the number of micro-batches if averaged.
        """
        self._require_optimizer("backward()")
        self._require_scalar(loss, "backward()")
        accumulate = self.config.accumulate
        factor = self._factor(scale_wrt_gas)
        self._backwards += 1
        self._in_backward = True
        try:
            self.core.backward(loss if factor == 1 else loss * factor, retain_graph=retain_graph)
        finally:
            self._in_backward = False
        return loss / accumulate if scale_wrt_gas else loss

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Local. Returns the loss times the loss scale, for a call of backward() on the result."""
        self._require_optimizer("scale()")
        self._require_scalar(loss, "scale()")
        self._scaled = True
        factor = self._factor(True)
        return self.core.scaled(loss if factor == 1 else loss * factor)

    def _factor(self, averages: bool) -> float:
        """The factor of a loss: the engine averages over ranks and over the micro-batches that it counts."""
        own = 1.0 if averages else float(self.config.accumulate)
        if not self.config.managed:
            own /= self.config.accumulate
        return own * self.world.size if self.config.sums_ranks else own

    def step(self, lr_kwargs: Mapping[str, Any] | None = None) -> None:
        """Collective. Counts a micro-batch. At the boundary of accumulation it updates the weights and the rate."""
        self._require_optimizer("step()")
        if self._in_no_sync:
            raise AssertionError("It is illegal to call Engine.step() inside no_sync context manager")
        self._step_applied = False
        self._in_step = True
        try:
            if self.is_gradient_accumulation_boundary():
                self._update(lr_kwargs or {})
                self._since = 0
            else:
                self._since += 1
        finally:
            self._in_step = False
        self.micro_steps += 1
        self._scaled = False

    _since = 0  # micro-batches since the last update
    _in_step = False

    def _update(self, lr_kwargs: Mapping[str, Any]) -> None:
        given = self._given_optimizer
        if isinstance(given, torch.optim.Optimizer):
            given._opt_called = True  # type: ignore[attr-defined]  # torch's schedulers read it
        report = self.core.step(fewer_micro_batches=self._boundary is not None)
        self._grad_norm = report.grad_norm
        self._step_applied = not report.skipped
        self.optimizer.overflow = report.skipped  # type: ignore[union-attr]
        if report.skipped:
            self.skipped_steps += 1
        elif self.lr_scheduler is not None:
            self.lr_scheduler.step(**lr_kwargs)
        self.global_steps += 1
        samples = self.config.micro_batch * self.world.size
        self.global_samples += samples * (self.config.accumulate if self.config.managed else self._backwards)
        self._backwards = 0
        every = self.config.print_every
        if every and self.global_steps % every == 0 and self.world.rank == 0:
            _log.info("step=%d, skipped=%d, lr=%s", self.global_steps, self.skipped_steps, self.get_lr())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Local, and the same on every rank. Drops the gradients of the running step, as torch's does."""
        self.module.zero_grad(set_to_none)

    def allreduce_gradients(self, bucket_size: int = 0) -> None:
        """Local. No-op: gradients are reduced during backward."""

    def empty_partition_cache(self) -> None:
        """Local. No-op: parameters that no operator uses are released by the engine's budget."""

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Local. Within it step() is refused, and passes belong to one micro-batch. Stages 0 and 1 only."""
        if self.config.stage > 1:
            raise AssertionError(
                "no_sync context manager is incompatible with gradient partitioning logic of "
                f"ZeRO stage {self.config.stage}"
            )
        with self._without_steps("no_sync context manager reentry is unsupported"):
            yield

    @contextlib.contextmanager
    def coalesce_grad_reduction(self) -> Iterator[None]:
        """Local. Backward passes within it belong to one step(), which is refused inside. Stages 1 to 3."""
        if not self.config.managed:
            raise AssertionError(
                "coalesce_grad_reduction is not supported with managed_gradient_accumulation=False; "
                "the caller already owns the accumulation boundary via step()"
            )
        if self.config.stage == 0:
            raise NotImplementedError("coalesce_grad_reduction requires ZeRO stage 1/2/3, got stage 0")
        with self._without_steps("coalesce_grad_reduction cannot be nested inside another no_sync context"):
            yield

    @contextlib.contextmanager
    def _without_steps(self, nested: str) -> Iterator[None]:
        if self._in_no_sync:
            raise AssertionError(nested)
        self._in_no_sync = True
        try:
            yield
        finally:
            self._in_no_sync = False

    def is_gradient_accumulation_boundary(self) -> bool:
        """Local. Returns whether the next step() updates the weights."""
        if self._boundary is not None:
            return self._boundary
        if not self.config.managed:
            return self._in_step
        return self._since + 1 >= self.config.accumulate

    def set_gradient_accumulation_boundary(self, is_boundary: bool) -> None:
        """Local, and the same on every rank. From now on this value decides whether step() updates the weights."""
        if not self.config.managed:
            raise AssertionError(
                "set_gradient_accumulation_boundary() is not supported with managed_gradient_accumulation=False; "
                "the caller owns the boundary by calling step()"
            )
        self._boundary = bool(is_boundary)

    def managed_gradient_accumulation(self) -> bool:
        """Local. Returns whether the engine counts micro-batches; else each step() updates the weights."""
        return self.config.managed

    # ---- values

    def gradient_accumulation_steps(self) -> int:
        """Local. Returns the micro-batches of a step."""
        return self.config.accumulate

    def train_micro_batch_size_per_gpu(self) -> int:
        """Local. Returns the samples of a micro-batch on one rank."""
        return self.config.micro_batch

    def train_batch_size(self) -> int:
        """Local. Returns the samples of a step on all ranks."""
        return self.config.micro_batch * self.config.accumulate * self.world.size

    def get_batch_info(self) -> tuple[int, int, int]:
        """Local. Returns the samples of a step on all ranks, the samples of a micro-batch on one rank, and the
        micro-batches of a step."""
        return self.train_batch_size(), self.config.micro_batch, self.config.accumulate

    def gradient_clipping(self) -> float:
        """Local. Returns the norm to which step() clips gradients; 0: no clipping."""
        return self.config.clip

    def zero_optimization_stage(self) -> int:
        """Local. Returns the ZeRO stage, 0 to 3."""
        return self.config.stage

    def zero_optimization(self) -> bool:
        """Local. Returns whether the stage is above 0."""
        return self.config.stage > 0

    def fp16_enabled(self) -> bool:
        """Local. Returns whether parameters are in fp16."""
        return self.config.dtype == "fp16"

    def bfloat16_enabled(self) -> bool:
        """Local. Returns whether parameters are in bf16."""
        return self.config.dtype == "bf16"

    def was_step_applied(self) -> bool:
        """Local. Returns whether the last step() updated the weights."""
        return self._step_applied

    def get_global_grad_norm(self) -> float | None:
        """Local. Returns the gradient norm of the last update, before clipping."""
        return self._grad_norm

    def get_lr(self) -> list[float]:
        """Local. Returns the learning rate of each group; without an optimizer []."""
        return [float(group["lr"]) for group in self.optimizer.param_groups] if self.optimizer is not None else []

    def set_lr(self, lr: float) -> None:
        """Local, and the same on every rank. Sets the learning rate of all groups, from the next step on."""
        for group in self.optimizer.param_groups if self.optimizer is not None else ():
            group["lr"] = lr

    @property
    def device(self) -> torch.device:
        """Local. The device of the first parameter."""
        return next((p.device for p in self.module.parameters()), torch.device("cpu"))

    @property
    def global_rank(self) -> int:
        """Local. The number of this rank in the world."""
        return self.world.rank

    @property
    def local_rank(self) -> int:
        """Local. The number of this rank on its machine, from LOCAL_RANK; without it the rank in the world."""
        return int(os.environ.get("LOCAL_RANK", self.world.rank))

    @property
    def world_size(self) -> int:
        """Local. The number of ranks."""
        return self.world.size

    dp_world_size = world_size

    # ---- data

    def deepspeed_io(
        self,
        dataset: Dataset[Any],
        batch_size: int | None = None,
        route: str = "train",
        pin_memory: bool = True,
        data_sampler: Any = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_local_io_workers: int | None = None,
    ) -> DataLoader[Any]:
        """Local. Returns a DataLoader of this rank's part of `dataset`, in micro-batches.

        route: "train", or "eval" and "predict", which keep the order of the samples.
        pin_memory: without effect, because parameters are in main memory.
        """
        if route not in ("train", "eval", "predict"):
            raise refuse("route", route, "no such route", 'use "train", "eval" or "predict"')
        if data_sampler is None:
            data_sampler = DistributedSampler(
                dataset, num_replicas=self.world.size, rank=self.world.rank, shuffle=route == "train"
            )
        return DataLoader(
            dataset,
            batch_size=batch_size or self.config.micro_batch,
            sampler=data_sampler,
            collate_fn=self.collate_fn if collate_fn is None else collate_fn,
            num_workers=num_local_io_workers or 0,
            drop_last=self.config.drop_last,
        )

    # ---- files

    def save_checkpoint(
        self,
        save_dir: str | os.PathLike[str],
        tag: str | None = None,
        client_state: Mapping[str, Any] | None = None,
        save_latest: bool = True,
        exclude_frozen_parameters: bool = False,
    ) -> bool:
        """Collective; between steps. Writes save_dir/tag in zero.cpp's format, and the file save_dir/latest."""
        if not save_dir:
            raise ValueError(f"save_dir must be a non-empty string, got {save_dir!r}")
        name = f"global_step{self.global_steps}" if tag is None else str(tag)
        notes: dict[str, Any] = {
            "deepspeed": {
                key: getattr(self, key) for key in ("global_steps", "global_samples", "micro_steps", "skipped_steps")
            },
            "client_state": pack_state(dict(client_state or {})),
            "buffers": _model.buffer_names(self.module),
        }
        if self.optimizer is not None:
            notes["groups"] = pack_state(self.optimizer.state_dict())
        if self.lr_scheduler is not None:
            notes["lr_scheduler"] = pack_state(self.lr_scheduler.state_dict())
        os.makedirs(save_dir, exist_ok=True)
        self.core.save(os.path.join(save_dir, name), notes)
        if save_latest and self.world.rank == 0:
            temporary = os.path.join(save_dir, ".latest.part")
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(name)
            os.replace(temporary, os.path.join(save_dir, "latest"))
        self.world.barrier()  # a rank may read the file `latest` immediately
        return True

    def load_checkpoint(
        self,
        load_dir: str | os.PathLike[str],
        tag: str | None = None,
        load_module_strict: bool = True,
        load_optimizer_states: bool = True,
        load_lr_scheduler_states: bool = True,
        load_module_only: bool = False,
        custom_load_fn: Callable[..., Any] | None = None,
    ) -> tuple[str | None, dict[str, Any] | None]:
        """Collective; between steps. Loads a checkpoint of save_checkpoint(), for a world of any size and any stage.

        load_module_only: loads weights and buffers only. load_optimizer_states: False keeps moments and groups.
        load_module_strict: False allows missing and unknown names; moments are not loaded then.
        custom_load_fn: called as custom_load_fn(src=weights, dst=module), with whole parameters.

        Returns the path and client_state; (None, None) if there is neither a tag nor the file `latest`.
        """
        path = checkpoint_folder(load_dir, tag)
        if path is None:
            _log.warning("%s: no checkpoint %s, so nothing is loaded", load_dir, tag or "in a file latest")
            return None, None
        if load_module_only or not load_optimizer_states or not load_module_strict or custom_load_fn is not None:
            weights = read_weights(path, buffers=_model.buffer_names(self.module))
            self.load_module_state_dict(weights, load_module_strict, custom_load_fn)
            notes = read_notes(path)
        else:
            notes = self.core.load(path).notes
            self._since = 0  # a load needs a step without gradients
        if not load_module_only:
            self._restore(notes, load_optimizer_states, load_lr_scheduler_states)
        return str(path), unpack_state(notes["client_state"]) if "client_state" in notes else {}

    def _restore(self, notes: Mapping[str, Any], groups: bool, scheduler: bool) -> None:
        """Local. Restores counters, and the numbers of groups and scheduler, from a checkpoint's notes."""
        for key, value in notes.get("deepspeed", {}).items():
            setattr(self, key, value)
        if groups and self.optimizer is not None and "groups" in notes:
            self.optimizer.load_state_dict(unpack_state(notes["groups"]))
        if scheduler and self.lr_scheduler is not None and "lr_scheduler" in notes:
            self.lr_scheduler.load_state_dict(unpack_state(notes["lr_scheduler"]))

    def save_16bit_model(
        self,
        save_dir: str | os.PathLike[str],
        save_filename: str = "pytorch_model.bin",
        exclude_frozen_parameters: bool = False,
    ) -> bool:
        """Collective. Rank 0 writes the weights, in the model's type, with torch.save()."""
        values = self.module_state_dict(exclude_frozen_parameters=exclude_frozen_parameters, to="rank0")
        if self.world.rank == 0:
            os.makedirs(save_dir, exist_ok=True)
            torch.save(values, os.path.join(save_dir, save_filename))
        self.world.barrier()
        return True

    save_fp16_model = save_16bit_model

    def module_state_dict(self, exclude_frozen_parameters: bool = False, to: str = "all") -> dict[str, torch.Tensor]:
        """Collective. Returns the whole weights and buffers, on every rank or, with to="rank0", on rank 0."""
        found = self.core.state_dict(to=to)
        if exclude_frozen_parameters:
            for name, parameter in self.module.named_parameters(remove_duplicate=False):
                if not parameter.requires_grad:
                    found.pop(name, None)
        return found

    def load_module_state_dict(
        self,
        state_dict: Mapping[str, torch.Tensor],
        strict: bool = True,
        custom_load_fn: Callable[..., Any] | None = None,
    ) -> None:
        """Collective. Copies values into the weights and buffers, or lets custom_load_fn(src=, dst=module) do it."""
        if custom_load_fn is None:
            self.core.load_state_dict(state_dict, strict=strict)
            return
        with self.core.gathered(), torch.no_grad():
            custom_load_fn(src=state_dict, dst=self.module)

    # ---- the engine itself

    def compile(
        self,
        backend: str | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,  # type: ignore[override]
        schedule: Any = None,
        compiled_autograd_enabled: bool = False,
    ) -> None:
        """Local. Compiles the model with torch.compile()."""
        if schedule is not None:
            raise refuse("schedule", str(schedule), "DeepCompile's passes are not supported", "leave it out")
        arguments = dict(compile_kwargs or {})
        if backend is not None:
            arguments["backend"] = backend
        self.module.compile(**arguments)

    def offload_states(
        self,
        include: Iterable[str] | None = None,
        device: str = OffloadDeviceEnum.cpu,
        pin_memory: bool = True,
        non_blocking: bool = False,
    ) -> None:
        """Collective; between steps. Frees memory: moves states away until reload_states().

        include: states by DeepSpeed's names; None: all. optim_states and hp_params move together.
        device: "nvme" moves them to the folder nvme_path. "cpu" moves nothing, because states are in main memory.
        pin_memory, non_blocking: without effect; states have moved when the function returns.

        Raises ConfigError on a GPU, without nvme_path, and between a backward pass and its step().
        """
        self._require_optimizer("offload_states()")
        states = chosen_states(include)
        to = chosen_device(device)
        require_movable(self.config, self.device, to)
        if to == OffloadDeviceEnum.none:
            _log.warning("offload_states(): no device is given, so nothing moves")
        elif to == OffloadDeviceEnum.cpu:
            _log.warning('offload_states(): states are in main memory already; device="nvme" moves them to nvme_path')
        elif states:
            self.core.offload_states(*states)

    def reload_states(self, non_blocking: bool = False) -> None:
        """Collective; between steps. Moves offloaded states back to memory. non_blocking: without effect."""
        self._require_optimizer("reload_states()")
        self.core.reload_states()

    def destroy(self) -> None:
        """Collective. Ends the engine; the parameters get their whole values back."""
        self.core.close()
