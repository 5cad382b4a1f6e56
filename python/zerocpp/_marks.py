"""Marks: what zerocpp.fsdp.fully_shard() says about modules, and attach() and plan() read."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils import _pytree

from zerocpp import _C, _config
from zerocpp._errors import refuse


@dataclass
class Mark:
    """The arguments of one call of fully_shard(), as options of attach(). `keys`: the argument of each option."""

    options: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    ranks: int | None = None  # of the mesh
    input_dtype: torch.dtype | None = None  # floating-point inputs of forward() are converted to it
    output_dtype: torch.dtype | None = None
    is_read: bool = False  # by attach()
    converts: bool = False  # hooks of the module convert


_marks: weakref.WeakKeyDictionary[nn.Module, Mark] = weakref.WeakKeyDictionary()
_hooks: list[Any] = []  # the hook of all optimizers

# Options that all marks must give, or none; the marks that give the last one must agree.
_OF_ALL = ("dtype", "reduce_dtype", "group", "offload")
_OF_SOME = "secondary_group"


def add(module: nn.Module, mark: Mark) -> None:
    """Local. Raises ConfigError if the module has a mark, or is attached."""
    name = type(module).__name__
    if module in _marks:
        raise refuse("fully_shard", name, "this module is marked already", "call fully_shard() once for each module")
    if any(map(_C.is_attached, module.parameters())):
        raise refuse("fully_shard", name, "this module is attached", "call fully_shard() before zero.attach()")
    if not _hooks:
        _hooks.append(register_optimizer_step_pre_hook(_refuse_lone_step))
    _marks[module] = mark


def read(model: nn.Module, given: dict[str, Any], ranks: int) -> dict[str, Any]:
    """Local. Returns the options of attach() that are given, with those of the marks in `model`.

    Raises ConfigError if two marks disagree, or a mark and a given option.
    """
    marks = [(path or type(model).__name__, mark) for path, mark in _of(model)]
    if not marks:
        return given
    _require_agreement(marks)
    found = _config.Config()
    for name, mark in marks:
        if mark.ranks not in (None, ranks):
            raise refuse(
                "fully_shard.mesh",
                name,
                f"the mesh has {mark.ranks} ranks, and the run {ranks}",
                "leave mesh out, or make it of all ranks",
            )
        for option, value in mark.options.items():
            found.set(mark.keys[option], option, value)
    units = [path for path, _ in _of(model) if path and any(True for _ in model.get_submodule(path).parameters())]
    if units:
        found.set("the marked modules", "units", units)
    if given.get("device_memory") is not None:
        found.options.pop("device_memory", None)  # reshard_after_forward only asks for less memory
    return _config.merge(found, given, "fully_shard()")


def keeps_buffers(model: nn.Module) -> bool:
    """Local. Returns whether buffers keep their types, as they do in FSDP2 for every param_dtype."""
    return any("dtype" in mark.options for _, mark in _of(model))


def begin(model: nn.Module) -> None:
    """Local. The model is attached: its marks are read, and its marked modules convert inputs and outputs."""
    for path, mark in _of(model):
        mark.is_read = True
        if mark.converts:
            continue
        mark.converts = True
        module = model.get_submodule(path)
        if mark.input_dtype is not None:
            module.register_forward_pre_hook(partial(_convert_inputs, mark.input_dtype), prepend=True, with_kwargs=True)
        if mark.output_dtype is not None:
            module.register_forward_hook(partial(_convert_outputs, mark.output_dtype))


def _of(model: nn.Module) -> Iterator[tuple[str, Mark]]:
    for path, module in model.named_modules():
        if (mark := _marks.get(module)) is not None:
            yield path, mark


def _require_agreement(marks: list[tuple[str, Mark]]) -> None:
    for option in (*_OF_ALL, _OF_SOME):
        rows = [row for row in marks if option in row[1].options or option != _OF_SOME]
        for name, mark in rows[1:]:
            first = rows[0][1]
            value, other = mark.options.get(option), first.options.get(option)
            if value != other:
                raise refuse(
                    f"fully_shard.{mark.keys.get(option) or first.keys[option]}",
                    value,
                    f"{name} has this value, {rows[0][0]} has {other}, and an engine has one for all modules",
                    "give every call of fully_shard() the same",
                )


def _refuse_lone_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Raises ConfigError if the optimizer updates a module that is marked and was never attached."""
    waiting = [module for module, mark in _marks.items() if not mark.is_read]
    if not waiting:
        return
    own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for module in waiting:
        if any(id(parameter) in own for parameter in module.parameters()):
            raise refuse(
                "fully_shard",
                type(module).__name__,
                "this module is marked, but not attached: each rank would train alone",
                "after the optimizer is made, call engine = zero.attach(model, optimizer); then engine.step()",
            )


def _converted(values: Any, dtype: torch.dtype) -> Any:
    return _pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor, values
    )


def _convert_inputs(dtype: torch.dtype, module: nn.Module, inputs: Any, named: Any) -> Any:
    return _converted(inputs, dtype), _converted(named, dtype)


def _convert_outputs(dtype: torch.dtype, module: nn.Module, inputs: Any, outputs: Any) -> Any:
    return _converted(outputs, dtype)
