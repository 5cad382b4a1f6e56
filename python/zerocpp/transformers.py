"""ZeRO in Hugging Face's Trainer, and in its subclasses.

    from zerocpp.transformers import ZeroTrainer           # started by: zero launch, or torchrun

    trainer = ZeroTrainer(model=model, args=args, train_dataset=data, zero=dict(stage=3))
    trainer.train()

    class ZeroSFTTrainer(ZeroMixin, trl.SFTTrainer): ...   # any subclass of Trainer

TrainingArguments stay the only source of rates, clipping and accumulation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, convert_to_fp32
from torch import nn
from transformers.utils import is_peft_available

from zerocpp import _C, _engine, _log
from zerocpp._errors import refuse
from zerocpp._whole import Whole

_STATES = "zero"  # the engine's folder in a checkpoint's
_OPTIMIZER, _SCHEDULER = "optimizer.pt", "scheduler.pt"
_FROM_ARGUMENTS = {"clip": "max_grad_norm", "accumulate": "gradient_accumulation_steps", "optimizer": "optim"}


class ZeroMixin:
    """Replaces DistributedDataParallel in a subclass of transformers.Trainer.

    zero: the options of zerocpp.attach(), such as dict(stage=3, device_memory="min").
    `engine` is the engine after train() has begun. Raises ConfigError for arguments that the engine cannot follow.
    """

    engine: _engine.Engine | None = None
    _warned_of_rest = False

    def __init__(self, *arguments: Any, zero: dict[str, Any] | None = None, **named: Any) -> None:
        self._zero = dict(zero or {})
        for key, name in _FROM_ARGUMENTS.items():
            if key in self._zero:
                raise refuse(f"zero.{key}", self._zero[key], "Trainer decides it", f"set TrainingArguments.{name}")
        _engine.refuse_average("zero", self._zero)
        super().__init__(*arguments, **named)
        self._refuse_arguments()

    def _refuse_arguments(self) -> None:
        args = self.args
        engine_instead = "leave it out: the engine partitions the model, with the options of zero=dict(...)"
        for key in ("fsdp", "deepspeed"):
            if getattr(args, key, None):
                raise refuse(
                    f"TrainingArguments.{key}", getattr(args, key), "two engines for one model", engine_instead
                )
        for key in ("fp16_full_eval", "bf16_full_eval"):
            if getattr(args, key, False):
                raise refuse(
                    f"TrainingArguments.{key}",
                    True,
                    "it would replace the attached parameters",
                    'leave it out, or compute in 16 bits with zero=dict(dtype="bf16")',
                )
        if args.fp16:
            raise refuse(
                "TrainingArguments.fp16",
                True,
                "its gradient scaler reads .grad, which an engine never fills",
                'set bf16=True, or zero=dict(dtype="bf16")',
            )
        if args.auto_find_batch_size:
            raise refuse(
                "TrainingArguments.auto_find_batch_size",
                True,
                "it restarts training on one rank only",
                "set per_device_train_batch_size",
            )
        if args.n_gpu > 1:
            raise refuse(
                "n_gpu",
                args.n_gpu,
                "one process would drive several GPUs by DataParallel",
                "start one rank for each GPU: zero launch -n N, or torchrun",
            )

    # ---- the model and its step

    def create_accelerator_and_postprocess(self) -> None:
        """Local. Hyperparameter search calls it for each trial."""
        super().create_accelerator_and_postprocess()
        unwrap = self.accelerator.unwrap_model

        def unwrap_whole(model: nn.Module, *arguments: Any, **named: Any) -> nn.Module:
            return unwrap(model.module if isinstance(model, Whole) else model, *arguments, **named)

        self.accelerator.unwrap_model = unwrap_whole
        backward = self.accelerator.backward
        self.accelerator.backward = lambda loss, **named: backward(self._scaled(loss), **named)

    def _scaled(self, loss: torch.Tensor) -> torch.Tensor:
        return loss if self.engine is None or self.engine.closed else self.engine.scaled(loss)

    def _wrap_model(self, model: nn.Module, training: bool = True, dataloader: Any = None) -> nn.Module:
        engine = self.engine
        attached = engine is not None and not engine.closed and engine.model is self.model
        if not attached and not training:
            return super()._wrap_model(model, training, dataloader)
        if not attached:
            if engine is not None:
                self._leave(engine)
            self._attach()
        elif training:
            self._refuse_changes()
        if self._whole not in self.accelerator._models:
            self.accelerator._models.append(self._whole)  # otherwise evaluate() prepares the model again
        return self._whole

    def _refuse_changes(self) -> None:
        """Raises ConfigError if TrainingArguments differ from those of the engine, whose options are fixed."""
        assert self.engine is not None
        for option, value in self._options_of_arguments().items():
            if self.engine.options[option] != value:
                raise refuse(
                    f"TrainingArguments.{_FROM_ARGUMENTS[option]}",
                    value,
                    f"the engine of the earlier train() has {self.engine.options[option]}",
                    "call trainer.engine.close() before train(): a new engine begins, with new optimizer states",
                )

    def _options_of_arguments(self) -> dict[str, Any]:
        args = self.args
        return {"clip": float(args.max_grad_norm or 0.0), "accumulate": args.gradient_accumulation_steps}

    def _leave(self, engine: _engine.Engine) -> None:
        """Collective. Closes the engine of an earlier train(), and takes an optimizer that an engine can read."""
        engine.close()
        if getattr(self.optimizer, "optimizer", None) is engine.optimizer:
            self.optimizer = engine.optimizer._read.given if engine.model is self.model else None
            self.create_optimizer()

    def _attach(self) -> None:
        options = {**self._options_of_arguments(), **self._zero}
        remedy = "start the program with zero launch or torchrun; on CPUs set TrainingArguments.use_cpu"
        _engine.refuse_other_ranks("TrainingArguments.world_size", self.args.world_size, options, remedy)
        self.engine = _engine.attach_for_library("zero", self.model, self.optimizer, options)
        self.optimizer = self.engine.optimizer
        self.optimizer.fewer_micro_batches = True  # an epoch's last step
        self.engine.on_step(self._note_step)
        mixed = self.accelerator.mixed_precision != "no"
        self._whole = Whole(self.model, self.accelerator.autocast, convert_to_fp32 if mixed else None)

    def _note_step(self, report: _C.StepReport) -> None:
        self._grad_norm.fill_(report.grad_norm)
        self.optimizer._is_overflow = report.skipped  # then the schedule stays, as with a gradient scaler

    def _maybe_log_save_evaluate(self, *arguments: Any, **named: Any) -> None:
        """Collective. Runs after each step, and at an epoch's end. Drops the gradients of an incomplete step there.

        Only an epoch of unknown length, or one that a callback ended, ends with such gradients.
        """
        if not self.accelerator.sync_gradients and self.engine is not None:
            self.engine.discard_gradients()
            if self.args.should_log and not self._warned_of_rest:
                _log.logger.warning(
                    "an epoch ended within a step: the gradients of its last micro-batches are dropped, in each epoch"
                )
            self._warned_of_rest = True
        super()._maybe_log_save_evaluate(*arguments, **named)

    def _clip_grad_norm(self, model: nn.Module) -> torch.Tensor:
        """Returns a tensor that the optimizer's step() fills, because callbacks on_pre_optimizer_step run before it."""
        self._grad_norm = torch.full((), math.nan, dtype=torch.float64)
        return self._grad_norm

    def _get_grad_norm(self, model: nn.Module, grad_norm: torch.Tensor | None = None) -> torch.Tensor:
        return self._clip_grad_norm(model) if grad_norm is None else grad_norm

    # ---- checkpoints

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Collective. Writes whole weights as save_pretrained() does; of a model with adapters only the adapters."""
        if self.engine is None or self.engine.closed:
            super().save_model(output_dir, _internal_call)
            return
        with _prompts_gathered(self.engine):
            names = _adapter_names(self.model)
        values = self.engine.state_dict(to="all" if self.args.save_on_each_node else "rank0", names=names)
        with _prompts_gathered(self.engine):
            self._save(output_dir or self.args.output_dir, state_dict=values)
        if self.args.push_to_hub and not _internal_call:
            self.push_to_hub(commit_message="Model save", revision=self.args.hub_revision)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        assert self.engine is not None
        self.engine.save(os.path.join(output_dir, _STATES))
        if self.args.should_save:
            torch.save(self.engine.optimizer.state_dict(), os.path.join(output_dir, _OPTIMIZER))
            torch.save(self.lr_scheduler.state_dict(), os.path.join(output_dir, _SCHEDULER))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        if not Path(resume_from_checkpoint, _STATES).is_dir():
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        assert self.engine is not None
        states = Path(checkpoint, _STATES)
        if not states.is_dir():
            raise refuse(
                "resume_from_checkpoint",
                checkpoint,
                "it has no states of an engine",
                "resume from a checkpoint of ZeroTrainer; from_pretrained() loads only a model",
            )
        self.engine.load(states)
        self.optimizer.load_state_dict(torch.load(Path(checkpoint, _OPTIMIZER), weights_only=True))
        self.lr_scheduler.load_state_dict(torch.load(Path(checkpoint, _SCHEDULER), weights_only=True))


@contextmanager
def _prompts_gathered(engine: _engine.Engine) -> Iterator[None]:
    """Collective. Holds the prompt encoders of peft whole, because one rank computes the values that it saves."""
    encoders = getattr(engine.model, "prompt_encoder", None) if _prompt_adapters(engine.model) else None
    if encoders is None:
        yield
        return
    with engine.frozen(), torch.no_grad(), engine.gathered(encoders):
        yield


def _prompt_adapters(model: nn.Module) -> set[str]:
    """Local. The adapters that are prompts: their saved values are computed, and are no entries of state_dict()."""
    configs = getattr(model, "peft_config", None) or {}
    return {name for name, config in configs.items() if getattr(config, "is_prompt_learning", False)}


def _adapter_names(model: nn.Module) -> list[str] | None:
    """Collective. Returns the names that save_pretrained() of a model with adapters needs; None: all names."""
    if not is_peft_available():
        return None
    import peft

    if not isinstance(model, peft.PeftModel):
        return None
    prompts = _prompt_adapters(model)
    names: list[Any] = [None]
    if PartialState().is_main_process:  # it may look for the base model's configuration
        empty = {
            key: torch.empty(value.shape, device="meta") for key, value in model.state_dict(keep_vars=True).items()
        }
        by_id = {id(value): key for key, value in empty.items()}
        names = [
            sorted(
                {
                    by_id[id(value)]
                    for adapter in model.peft_config
                    for value in peft.get_peft_model_state_dict(model, empty, adapter).values()
                    if id(value) in by_id or adapter not in prompts
                }
            )
        ]
    found: list[str] = broadcast_object_list(names)[0]
    return found


class ZeroTrainer(ZeroMixin, transformers.Trainer):
    """transformers.Trainer on an engine: ZeroTrainer(..., zero=dict(stage=3))."""
