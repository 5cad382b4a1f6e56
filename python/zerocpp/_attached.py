"""Attached: what Engine and PipelineEngine share, and what attach() and attach_pipeline() read from a model."""

from __future__ import annotations

import itertools
import json
import math
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zerocpp import (
    _C,
    _buffers,
    _compile,
    _config,
    _deferred,
    _log,
    _marks,
    _model,
    _optimizer,
    _pretrained,
    _world,
    _wrappers,
    _zero_grad,
)
from zerocpp._errors import refuse
from zerocpp._saving import Saving

if TYPE_CHECKING:
    from typing_extensions import Self

_engines: weakref.WeakSet[Attached] = weakref.WeakSet()
_numbers = itertools.count()  # of engines, in the order of attach()

Parameter = torch.Tensor | str


@dataclass(frozen=True)
class Loaded:
    """The result of load(): `steps` and `skipped` of the run that saved, and the notes of its save()."""

    steps: int
    skipped: int
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Given:
    """What an engine needs: the model's tensors, the optimizer that was read, the world, and the options."""

    tensors: _model.ModelTensors
    read: _optimizer.ReadOptimizer
    world: _C.World
    options: dict[str, Any]  # as given, by a keyword or by the configuration

    def passed(self, names: Collection[str]) -> dict[str, Any]:
        """Local. Returns the options with these names, and the optimizer, for the extension."""
        chosen = {name: value for name, value in self.options.items() if name in names}
        rows = self.read.rows if self.tensors.trained() else None
        return dict(chosen, optimizer=(self.read.name, self.read.keys), groups=rows)


def read_model(
    model: nn.Module,
    optimizer: Any,
    world: _C.World | None,
    options: dict[str, Any],
    keep_buffers: bool = False,
    config: _config.Source | None = None,
) -> Given:
    """Local, but for the first call of world(). Raises ConfigError for a model that cannot be attached."""
    if not isinstance(model, nn.Module):
        raise refuse("attach", type(model).__name__, "not a torch.nn.Module", "attach the model itself")
    if _deferred.in_deferred():
        raise refuse("attach", type(model).__name__, "called inside deferred()", "call it after that scope")
    _wrappers.refuse_wrapped(model)
    given = dict(options)
    tensors = _model.tensors_of(model)
    waiting = {key for engine in _engines if not engine.closed for key in engine._names}
    for name, tensor in tensors.parameters:
        if _C.is_attached(tensor) or id(tensor) in waiting:
            raise refuse(
                "attach",
                name,
                "this parameter is attached already",
                "close the other engine first: zero.engine_of(model).close()",
            )
        if _model.was_left_empty(tensor):
            raise refuse(
                "attach",
                name,
                "this parameter has no values: its engine was abandoned, or ended by an error",
                "construct the model again; engine.load() then reads a checkpoint",
            )
        if tensor.is_meta and not _C.is_deferred(tensor):
            raise refuse(
                "attach",
                name,
                "it is on the meta device, without values and without a record of its construction",
                "construct the model inside zero.deferred(); engine.load_state_dict() then copies saved weights",
            )
    tensors.keeps_buffers = keep_buffers or _marks.keeps_buffers(model)
    names = tensors.names()
    own_world = world or _world.world()
    if config is not None:
        configured = _config.read(config, own_world.size)
        given = _config.merge(configured, given)
        optimizer = _config.optimizer_of(configured, optimizer)
    given = _marks.read(model, given, own_world.size)
    read = _optimizer.ReadOptimizer(optimizer, names, tensors.trained(), dict(tensors.parameters))
    _zero_grad.teach_torch()
    _wrappers.teach_torch()
    _compile.teach_torch(_engines)
    disk = given.get("disk")
    if isinstance(disk, PathLike):
        given["disk"] = fspath(disk)
    return Given(tensors, read, own_world, given)


def _number(value: float | torch.Tensor) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


class Attached:
    """The base of Engine and PipelineEngine. `with` closes it at the end."""

    _core: _C.Engine | _C.Pipeline

    def __init__(self, core: _C.Engine | _C.Pipeline, model: nn.Module, given: Given) -> None:
        self._core = core
        self._places = given.tensors.places
        self._names = given.tensors.names()
        self._buffers = _buffers.Buffers(given.tensors.buffer_places)
        self._trains = bool(given.tensors.trained())
        self._callbacks: list[Callable[[_C.StepReport], None]] = []
        self._number = next(_numbers)
        self._saving: Saving | None = None  # the last save()
        self.model = model
        self.world = given.world
        self.options = dict(given.options)  # as given, by a keyword or by the configuration
        self.rule = given.read.name
        self.optimizer = _optimizer.EngineOptimizer(self, given.read)
        _engines.add(self)
        _marks.begin(model)
        given.read.refuse_steps()
        if self.world.rank == 0:
            given.read.report_others()

    # ---- a step

    @_log.drains
    def step(
        self,
        lr: float | None = None,
        *,
        loss: float | torch.Tensor | None = None,
        max_loss: float = math.inf,
        max_grad_norm: float = math.inf,
        fewer_micro_batches: bool = False,
        leaf_losses: Sequence[float | torch.Tensor] = (),
    ) -> _C.StepReport:
        """Collective. Reduces the remaining gradients, agrees on their norm, clips, updates, clears.

        lr: the learning rate of this step; groups keep their ratios of attach(). Without it the rates are those of
            `optimizer.param_groups`, in any ratio. Weight decays are always read there.
        loss: this rank's loss. The step is skipped if the mean over ranks is above `max_loss`, or is not finite.
        max_grad_norm: a step with a larger norm is skipped.
        fewer_micro_batches: allows fewer than `accumulate`, as at an epoch's end.
        leaf_losses: with the option `leaves`, instead of `loss`: this rank's losses in the order of `engine.leaves`,
            idle ones included. The report's loss is then their mean over leaves, equal in every world.

        Raises ConfigError if a parameter was replaced since attach(), if gradients are missing, or for a wrong number
        of micro-batches. Raises Error after `max_skipped_steps` skipped steps in a row. Raises IoError if a save() with
        blocking=False failed. The step is done then.
        """
        self._require_same_parameters()
        _compile.require_wrapped()
        rates = self.optimizer.rates(lr) if self._trains else (0.0 if lr is None else float(lr), [], [])
        value = None if loss is None else _number(loss)
        losses = [_number(each) for each in leaf_losses]
        report = self._core.step(
            *rates, value, float(max_loss), float(max_grad_norm), bool(fewer_micro_batches), losses
        )
        self.optimizer.mark_called()
        for callback in self._callbacks:
            callback(report)
        if self._saving is not None and self._saving.running:
            self._saving.poll()
        return report

    def discard_gradients(self) -> None:
        """Collective. Drops the gradients and micro-batches of the running step on every rank."""
        self._core.discard_gradients()

    @property
    def leaves(self) -> list[int]:
        """Local. With the option `leaves`: the leaf that each of this rank's micro-batches computes; without it, [].

        -1: the rank is idle. It computes any leaf, and its gradient is dropped. docs/guide/equal_bits.md
        """
        options: dict[str, object] = {name: self.options.get(name) for name in ("leaves", "reduce")}
        return _C.leaves_of_rank(options, *self._data_rank())

    def on_step(self, callback: Callable[[_C.StepReport], None]) -> None:
        """Local. Calls `callback(report)` after each step() on this rank."""
        self._callbacks.append(callback)

    def averaged(self) -> _C.Scope:
        """Collective at both ends. Replaces parameters by their moving averages (the option `ema`).

        With the option `local` the parameters are the weights that the copies share. Raises ConfigError without both
        options, and between a backward pass and its step().
        """
        return self._core.averaged()

    # ---- weights

    def state_dict(
        self, to: str = "all", full_precision: bool = False, names: Collection[str] | None = None
    ) -> dict[str, torch.Tensor]:
        """Collective. Returns the weights and buffers as ordinary CPU tensors, under all names of the module.

        to: "all" ranks, or "rank0": then the other ranks return an empty dict. At most one unit at a time is gathered.
        names: only these names of the module's state_dict(), the same on every rank.
        """
        if to not in ("all", "rank0"):
            raise refuse("state_dict", to, "no such target", 'use "all" or "rank0"')
        keep = to == "all" or self.world.rank == 0
        wanted = self.model.state_dict(keep_vars=True)
        if names is not None:
            wanted = {key: tensor for key, tensor in wanted.items() if key in names}
        first = {key: self._names.get(id(tensor)) for key, tensor in wanted.items()}
        found: dict[str, torch.Tensor] = {}

        def take(name: str, tensor: torch.Tensor) -> None:
            if keep and name in first.values():
                found[name] = tensor

        self._core.visit_parameters(take, full_precision)
        if not keep:
            return {}
        return {
            key: found[name] if (name := first[key]) in found else tensor.detach().cpu().clone()
            for key, tensor in wanted.items()
        }

    def load_state_dict(self, values: Mapping[str, torch.Tensor], strict: bool = True) -> None:
        """Collective. Copies values into the parameters and buffers, unit by unit, on every rank.

        strict: False allows missing and unknown names. Raises ConfigError, before a tensor changes, for another shape.
        """
        own = self.model.state_dict(keep_vars=True)
        missing, unknown = sorted(own.keys() - values.keys()), sorted(values.keys() - own.keys())
        if strict and (missing or unknown):
            raise refuse(
                "load_state_dict",
                (missing or unknown)[0],
                "the values lack this name" if missing else "the model has no such name",
                "give the values of this model, or strict=False",
            )
        _model.refuse_other_shapes("load_state_dict", own, values)
        with torch.no_grad():
            for name, tensor in own.items():
                if name in values and not _C.is_absent(tensor):
                    tensor.copy_(values[name])

    def iter_parameters(self, full_precision: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
        """Collective at each step of the iteration. Yields name and whole value of each parameter, in name order.

        The values are separate CPU tensors. At most one unit at a time is gathered. Do not train between two values.
        """
        first, found = self._core.some_parameters(0, full_precision)
        yield from found
        while first:
            first, found = self._core.some_parameters(first, full_precision)
            yield from found

    # ---- files

    @_log.drains
    def save(
        self, path: str | PathLike[str], notes: Mapping[str, Any] | None = None, *, blocking: bool = True
    ) -> Saving:
        """Collective; between steps. Writes a checkpoint for a world of any size. Returns when it is durable.

        notes: values that load() returns; anything that JSON can hold. Rank 0's are saved.
        blocking: with False save() returns when the states are copied. Training continues while a thread writes the
            copies, and wait() of the result waits for the checkpoint. A machine without memory for the copies of its
            ranks writes before save() returns.

        Raises IoError if a rank cannot write; with blocking=False a later step() or wait() raises it.
        """
        self._finish_save()
        text = {key: json.dumps(value) for key, value in (notes or {}).items()}
        with self._buffers.synchronized("save"):
            self._core.save(fspath(path), text, blocking)
        self._saving = Saving(None if blocking else self, fspath(path))
        return self._saving

    @_log.drains
    def load(self, path: str | PathLike[str]) -> Loaded:
        """Collective; between steps. Reads a checkpoint of any world, stage, placement and dtype.

        Raises ConfigError for a checkpoint of another model or optimizer, and IoError for a damaged one.
        """
        self._finish_save()
        with self._buffers.synchronized("load", loads=True):
            found = self._core.load(fspath(path))
        return Loaded(found["steps"], found["skipped"], {key: _note(text) for key, text in found["notes"].items()})

    @_log.drains
    def export(self, path: str | PathLike[str], full_precision: bool = False) -> None:
        """Collective. Writes weights and buffers into one safetensors file. Rank 0 writes it.

        Buffers that are not persistent are left out, as in state_dict(). full_precision: weights in fp32, from the
        master copies. Raises IoError on every rank if rank 0 cannot write.
        """
        with self._buffers.synchronized("export"):
            self._core.export_weights(fspath(path), full_precision, self._buffers.not_persistent())

    @_log.drains
    def export_pretrained(
        self,
        folder: str | PathLike[str],
        *,
        full_precision: bool = False,
        part_size: int | str = "5GB",
        tokenizer: str | PathLike[str] | None = None,
    ) -> None:
        """Collective. Writes a folder for from_pretrained() of transformers: weights in parts, and config.json.

        part_size: most bytes of a file. Rank 0 writes, and holds one such part.
        tokenizer: the folder of a tokenizer, whose files are copied.
        """
        size = _C.parse_bytes(part_size, "part_size") if isinstance(part_size, str) else part_size
        _pretrained.export(self, Path(folder), full_precision, size, None if tokenizer is None else Path(tokenizer))

    # ---- the engine itself

    def report(self) -> _C.Report:
        """Local. Returns bytes and times of this rank."""
        return self._core.report()

    def work_seconds(self) -> dict[str, float]:
        """Local. Returns seconds of gathers, reductions, updates and waits since the last call, by name."""
        return self._core.work_seconds()

    def plan_text(self) -> str:
        """Local. Returns the text of a run's plan.txt."""
        raise NotImplementedError

    def attached_names(self) -> list[str]:
        """Local. All names of the attached parameters; a tied parameter has several."""
        return [name for _, _, _, name in self._places]

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """Local. The attached parameters, by their first names."""
        return {name: tensor for _, _, tensor, name in self._places if self._names[id(tensor)] == name}

    @property
    def closed(self) -> bool:
        """Local. Whether the engine has ended on this rank, by close() or after an exception."""
        return self._core.closed

    @_log.drains
    def close(self, give_back: bool = True) -> None:
        """Collective. Ends the engine. The parameters get their whole values back; without `give_back` they stay empty.

        A second call does nothing. If an engine is never closed, its rank abandons it at the end of the process, or
        when it is destroyed. The parameters then have no values.
        """
        if self.closed:
            return
        failure: _C.IoError | None = None
        try:
            self._finish_save()
        except _C.IoError as error:  # on every rank
            failure = error
        self._core.close(give_back)
        self.optimizer._read.release_others()
        self.optimizer._read.allow_steps()
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()
            _log.drain()

    # ---- inside

    def _abandon(self) -> None:
        """Local. Ends the engine on this rank only, without its running save. The parameters have no values then."""
        if self._saving is not None:
            self._saving.let_go()
        self._core.abandon()
        self.optimizer._read.release_others()
        self.optimizer._read.allow_steps()

    def _finish_save(self) -> None:
        """Collective. Waits for a save that is running."""
        if self._saving is not None and self._saving.running:
            self._saving.wait()

    def _data_rank(self) -> tuple[int, int]:
        """The number of ranks that read different samples, and this rank's number among them."""
        return self.world.size, self.world.rank

    @property
    def clip(self) -> float:
        """Local. The norm to which step() clips gradients; 0: no clipping."""
        return float(self.options.get("clip") or 0.0)

    @property
    def _device_memory(self) -> float:
        """The bytes that `device_memory` names; infinity for "auto"."""
        size = self.options.get("device_memory") or "auto"
        if size in ("auto", "min"):
            return math.inf if size == "auto" else 0
        return _C.parse_bytes(size, "device_memory") if isinstance(size, str) else size

    def _name(self, parameter: Parameter) -> str:
        if isinstance(parameter, str):
            for name, tensor in ((name, tensor) for _, _, tensor, name in self._places):
                if name == parameter:
                    return self._names[id(tensor)]
            raise refuse("engine", parameter, "the model has no such parameter", "use a name of named_parameters()")
        if id(parameter) not in self._names:
            raise refuse(
                "engine",
                f"a tensor of shape {tuple(parameter.shape)}",
                "no parameter of this model",
                "give a parameter of the attached model",
            )
        return self._names[id(parameter)]

    def _tensors(self, what: Iterable[nn.Module | Parameter]) -> list[torch.Tensor]:
        by_name = self.parameters
        found: list[torch.Tensor] = []
        for item in what:
            if isinstance(item, nn.Module):
                found += list(item.parameters())
            else:
                found.append(by_name[self._name(item)])
        return found or list(by_name.values())

    def _require_same_parameters(self) -> None:
        for parameters, key, tensor, name in self._places:
            if parameters.get(key) is not tensor:
                raise refuse(
                    "step",
                    name,
                    "this parameter was replaced since attach(), so the engine does not train it",
                    "write into the parameter under torch.no_grad(), or change the module before attach()",
                )


def engine_of(model: nn.Module) -> Attached:
    """Local. Returns the engine of the first attached parameter of `model`. Raises ConfigError if none is attached."""
    for parameter in model.parameters():
        for engine in _engines:
            if not engine.closed and id(parameter) in engine._names:
                return engine
    raise refuse("engine_of", type(model).__name__, "this model is not attached", "call zero.attach(model) first")


def finish_saves(of_single_ranks: bool = False) -> None:
    """Collective. Waits for saves that are running. Errors are logged, because the process is ending.

    of_single_ranks: only of engines whose world is this rank.
    """
    engines = [engine for engine in _engines if not engine.closed and (engine.world.size == 1 or not of_single_ranks)]
    for engine in sorted(engines, key=lambda engine: engine._number):
        try:
            engine._finish_save()
        except _C.Error as error:
            _log.logger.error("a checkpoint is not saved: %s", error)


def abandon_all() -> None:
    """Local. Ends all engines of this process without waiting for other ranks."""
    for engine in list(_engines):
        if not engine.closed:
            _log.logger.warning(
                "an engine was not closed: its parameters have no values; call close(), or save before the end"
            )
            engine._abandon()


def _note(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
