"""ZeRO in Lightning: a strategy for its Trainer.

    from zerocpp.lightning import ZeroStrategy             # started by: zero launch, torchrun, or Lightning itself

    trainer = lightning.Trainer(strategy=ZeroStrategy(stage=3), accelerator="cpu", devices=2)
    trainer = lightning.Trainer(strategy="zero")           # the same, after `import zerocpp.lightning`

The Trainer stays the only source of clipping and accumulation. A checkpoint x.ckpt is Lightning's file with whole
weights, like one of DDPStrategy. The folder x.ckpt.zero beside it has the engine's states, and resumes training.

Several optimizers (manual optimization) are several engines. Each takes the modules whose parameters its optimizer has.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

try:
    import lightning.pytorch as pl
    from lightning.pytorch.strategies import DDPStrategy, StrategyRegistry
    from lightning.pytorch.trainer.states import TrainerFn
except ImportError:  # the older name of the same package
    import pytorch_lightning as pl  # type: ignore[no-redef]
    from pytorch_lightning.strategies import DDPStrategy, StrategyRegistry  # type: ignore[assignment]
    from pytorch_lightning.trainer.states import TrainerFn  # type: ignore[assignment]

from zerocpp import _engine, _log
from zerocpp._errors import refuse

_PRECISIONS = ("32-true", "bf16-mixed", "bf16-true")
_OF_DDP = ("cluster_environment", "checkpoint_io", "process_group_backend", "timeout")


class ZeroStrategy(DDPStrategy):
    """Trains with engines instead of DistributedDataParallel.

    options: those of zerocpp.attach(), such as stage=3, device_memory="min"; and cluster_environment, checkpoint_io,
        process_group_backend and timeout of DDPStrategy.
    `engines` lists the engines while fit() runs, in the order of configure_optimizers().
    """

    strategy_name = "zero"

    def __init__(self, **options: Any) -> None:
        super().__init__(**{key: options.pop(key) for key in _OF_DDP if key in options})
        for key, remedy in (
            ("accumulate", "set Trainer(accumulate_grad_batches=...)"),
            ("optimizer", "return it from configure_optimizers()"),
        ):
            if key in options:
                raise refuse(f"ZeroStrategy.{key}", options[key], "Lightning decides it", remedy)
        _engine.refuse_average("ZeroStrategy", options)
        self._options = options
        self._loaded_from: str | None = None
        self.engines: list[_engine.Engine] = []

    # ---- the beginning

    def setup(self, trainer: pl.Trainer) -> None:
        """Collective. Attaches the module if fit() calls setup(); else like DDPStrategy."""
        if trainer.state.fn != TrainerFn.FITTING:
            super().setup(trainer)
            return
        self._refuse_arguments(trainer)
        assert self.accelerator is not None and self.model is not None
        self.accelerator.setup(trainer)
        if self._layer_sync:
            self.model = self._layer_sync.apply(self.model)
        self.model = self.precision_plugin.convert_module(self.model)
        self.model_to_device()
        self.setup_optimizers(trainer)
        self._attach(trainer)
        self.setup_precision_plugin()
        self._clips_of_torch = self.precision_plugin.clip_gradients
        self.precision_plugin.clip_gradients = self._check_clip  # type: ignore[method-assign]

    def _refuse_arguments(self, trainer: pl.Trainer) -> None:
        if self.precision_plugin.precision not in _PRECISIONS:
            raise refuse(
                "Trainer.precision",
                self.precision_plugin.precision,
                "its gradients are not those that the engine takes",
                f'use {", ".join(_PRECISIONS)}; or ZeroStrategy(dtype="bf16")',
            )
        if _clips_values(trainer.gradient_clip_algorithm):
            raise refuse(
                "Trainer.gradient_clip_algorithm", "value", "the engine clips the norm", 'use "norm", or no clipping'
            )
        if trainer.gradient_clip_val and "clip" in self._options:
            raise refuse("ZeroStrategy.clip", self._options["clip"], "gradient_clip_val decides it", "leave it out")

    def _attach(self, trainer: pl.Trainer) -> None:
        if self.world_size > 1 and "RANK" not in os.environ:  # Lightning started the processes
            os.environ.update(
                RANK=str(self.global_rank), WORLD_SIZE=str(self.world_size), LOCAL_WORLD_SIZE=str(self.num_processes)
            )
        module = self.lightning_module
        assert module is not None
        options: dict[str, Any] = {
            "clip": float(trainer.gradient_clip_val or 0.0),
            "accumulate": trainer.accumulate_grad_batches if module.automatic_optimization else 1,
            **self._options,
        }
        if len(self.optimizers) > 1 and options.get("dtype") == "fp16":
            raise refuse("ZeroStrategy.dtype", "fp16", "a loss of two models has one scale only", 'use dtype="bf16"')
        remedy = "start as many ranks with zero launch or torchrun, or leave out the launcher"
        _engine.refuse_other_ranks("Trainer.devices", self.world_size, options, remedy)
        parts = [_part_of(module, optimizer) for optimizer in self.optimizers]
        if parts != [module]:
            self._broadcast_others(module, parts)
        for part, optimizer in zip(parts, self.optimizers):
            engine = _engine.attach_for_library("ZeroStrategy", part, optimizer, options)
            engine.optimizer.fewer_micro_batches = True  # an epoch's last step
            self.engines.append(engine)
        self.optimizers = [engine.optimizer for engine in self.engines]

    def _broadcast_others(self, module: nn.Module, parts: list[nn.Module]) -> None:
        attached = {id(tensor) for part in parts for tensor in (*part.parameters(), *part.buffers())}
        for tensor in (*module.parameters(), *module.buffers()):
            if id(tensor) not in attached and self.world_size > 1:
                torch.distributed.broadcast(tensor.detach(), 0)

    # ---- a step

    def _check_clip(self, optimizer: Any, clip_val: float | None = 0.0, gradient_clip_algorithm: Any = "norm") -> None:
        """Replaces the precision plugin's clip_gradients(), because the engine clips in its step."""
        if not clip_val or clip_val <= 0:
            return
        inner = getattr(optimizer, "optimizer", optimizer)
        engine = next(engine for engine in self.engines if engine.optimizer is inner)
        if _clips_values(gradient_clip_algorithm) or float(clip_val) != engine.clip:
            raise refuse(
                "clip_gradients",
                clip_val,
                f"the engine clips the norm at {engine.clip:g}",
                "use Trainer(gradient_clip_val=...); in manual optimization ZeroStrategy(clip=...)",
            )

    def backward(self, closure_loss: torch.Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Collective if the model's operators are. Scales the loss for fp16. Returns the loss without its graph."""
        loss = super().backward(
            self.engines[0].scaled(closure_loss) if len(self.engines) == 1 else closure_loss, optimizer, *args, **kwargs
        )
        return closure_loss.detach() if self.engines else loss

    # ---- checkpoints

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Collective. Returns whole weights on rank 0, and no weights on the other ranks."""
        assert self.lightning_module is not None
        if not self.engines:
            return super().lightning_module_state_dict()
        whole: dict[int, torch.Tensor] = {}
        for engine in self.engines:
            values = engine.state_dict(to="rank0")
            own = engine.model.state_dict(keep_vars=True)
            whole.update((id(own[name]), value) for name, value in values.items())
        if not self.is_global_zero:
            return {}
        wanted = self.lightning_module.state_dict(keep_vars=True)
        return {name: whole.get(id(value), value) for name, value in wanted.items()}

    def save_checkpoint(self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        """Collective. Writes the file on rank 0, and before it the engines' states unless only weights are saved.

        Raises ConfigError between two micro-batches of a step, before anything is written.
        """
        if self.engines and "://" in str(filepath):
            raise refuse("save_checkpoint", filepath, "an engine writes local files", "use a local folder")
        if self.engines and "optimizer_states" in checkpoint:
            self._refuse_within_step(filepath)
            if self.is_global_zero:
                Path(filepath).parent.mkdir(parents=True, exist_ok=True)
            for number, engine in enumerate(self.engines):
                engine.save(_states_of(filepath, number))
        elif self.is_global_zero and checkpoint.get("optimizer_states"):
            _log.logger.warning(
                "%s has no optimizer's states, because the engines are closed: save it before fit() ends, with "
                "ModelCheckpoint",
                filepath,
            )
            shutil.rmtree(_states_of(filepath, 0).parent, ignore_errors=True)  # of an earlier save
        super().save_checkpoint(checkpoint, filepath, storage_options)

    def _refuse_within_step(self, filepath: Any) -> None:
        module = self.lightning_module
        assert module is not None
        if module.automatic_optimization and module.trainer.fit_loop.epoch_loop._should_accumulate():
            raise refuse(
                "save_checkpoint",
                filepath,
                f"{module.trainer.accumulate_grad_batches} micro-batches make a step, and this one has fewer so far",
                "save after a step: ModelCheckpoint(every_n_train_steps=...), or val_check_interval as a multiple of "
                "accumulate_grad_batches",
            )

    def on_train_start(self) -> None:
        """Local. Raises ConfigError if a checkpoint would follow an evaluation between two micro-batches of a step."""
        super().on_train_start()
        module = self.lightning_module
        assert module is not None
        trainer = module.trainer
        every, micro_batches = trainer.val_check_batch, trainer.accumulate_grad_batches
        if not (module.automatic_optimization and trainer.enable_validation and trainer.check_val_every_n_epoch):
            return
        if not isinstance(every, int) or every >= trainer.num_training_batches or every % micro_batches == 0:
            return
        if any(_saves_after_evaluations(callback, trainer) for callback in trainer.checkpoint_callbacks):
            raise refuse(
                "Trainer.val_check_interval",
                trainer.val_check_interval,
                f"a checkpoint after {every} batches is within a step of {micro_batches}",
                f"use a multiple of accumulate_grad_batches, such as {-(-every // micro_batches) * micro_batches}; or "
                "ModelCheckpoint(save_on_train_epoch_end=True)",
            )

    def remove_checkpoint(self, filepath: Any) -> None:
        """Local. Rank 0 deletes the file and the folder of the engines' states beside it."""
        super().remove_checkpoint(filepath)
        if self.is_global_zero:
            shutil.rmtree(_states_of(filepath, 0).parent, ignore_errors=True)

    def load_checkpoint(self, checkpoint_path: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Local. Returns Lightning's file. load_optimizer_state_dict() then reads the folder beside it."""
        self._loaded_from = os.path.realpath(checkpoint_path)
        return super().load_checkpoint(checkpoint_path, *args, **kwargs)

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        """Collective. Reads the engines' states from the folder beside the checkpoint."""
        if not self.engines:
            super().load_optimizer_state_dict(checkpoint)
            return
        assert self._loaded_from is not None
        for number in range(len(self.engines)):
            if not _states_of(self._loaded_from, number).is_dir():
                raise refuse(
                    "ckpt_path",
                    self._loaded_from,
                    f"there is no folder {_states_of(self._loaded_from, number)} with an engine's states",
                    "resume from a checkpoint of ZeroStrategy; weights only: load_from_checkpoint()",
                )
        super().load_optimizer_state_dict(checkpoint)  # rates
        for number, engine in enumerate(self.engines):
            engine.load(_states_of(self._loaded_from, number))

    # ---- the end

    def on_exception(self, exception: BaseException) -> None:
        """Local. Ends the engines of this rank, because other ranks may not arrive."""
        for engine in self.engines:
            engine._abandon()
        super().on_exception(exception)

    def teardown(self) -> None:
        """Collective. Closes the engines, so the module is whole again."""
        engines, self.engines = self.engines, []
        if engines:
            self.precision_plugin.clip_gradients = self._clips_of_torch  # type: ignore[method-assign]
        for engine in engines:
            engine.close()
        super().teardown()

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Local. Registers the names zero and zero_stage_0 to zero_stage_3, unless they are registered already."""
        for name, options in (("zero", {}), *((f"zero_stage_{stage}", {"stage": stage}) for stage in range(4))):
            if name not in strategy_registry:
                strategy_registry.register(name, cls, description="engines of zerocpp", **options)


def _clips_values(algorithm: Any) -> bool:
    return str(getattr(algorithm, "value", algorithm)) == "value"


def _saves_after_evaluations(callback: Any, trainer: pl.Trainer) -> bool:
    asks = getattr(callback, "_should_save_on_train_epoch_end", None)  # of ModelCheckpoint
    return asks is not None and callback._every_n_epochs >= 1 and not asks(trainer)


def _states_of(filepath: Any, number: int) -> Path:
    return Path(f"{filepath}.zero", str(number))


def _part_of(module: nn.Module, optimizer: torch.optim.Optimizer) -> nn.Module:
    """The smallest module whose trained parameters are those of the optimizer, or a new module of several modules."""
    own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    found: list[tuple[str, nn.Module]] = []

    def look(path: str, inside: nn.Module) -> None:
        trained = {id(parameter) for parameter in inside.parameters() if parameter.requires_grad}
        if trained and trained <= own:
            found.append((path, inside))
            return
        for name, parameter in inside.named_parameters(recurse=False):
            if id(parameter) in own:
                raise refuse(
                    "configure_optimizers",
                    f"{path}.{name}" if path else name,
                    "other parameters of its module are in another optimizer",
                    "give each optimizer whole modules, or freeze the others with requires_grad_(False)",
                )
        for name, child in inside.named_children():
            if own & {id(parameter) for parameter in child.parameters()}:
                look(f"{path}.{name}" if path else name, child)

    look("", module)
    if len(found) == 1:
        return found[0][1]
    joined = nn.Module()
    for path, part in found:
        joined.add_module(path.replace(".", "_"), part)
    return joined


ZeroStrategy.register_strategies(StrategyRegistry)
