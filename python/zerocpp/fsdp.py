"""fully_shard(): scripts for FSDP2 of PyTorch mark their modules, and attach() reads the marks.

    from zerocpp.fsdp import MixedPrecisionPolicy, fully_shard      # instead of torch.distributed.fsdp

    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    engine = zero.attach(model, optimizer, clip=1.0)                # new: reads the marks
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        engine.step()                                               # instead of clip_grad_norm_() and optimizer.step()
        optimizer.zero_grad()                                       # may stay

A marked module keeps its class. docs/guide/from_fsdp2_python.md lists what else changes in a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

from zerocpp import _marks
from zerocpp._errors import refuse

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard"]

Modules = TypeVar("Modules", bound=nn.Module | list[nn.Module])

_TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
_HOST = {"host": 1.0}


def fully_shard(
    module: Modules,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[nn.Parameter], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: Iterable[nn.Parameter] | None = None,
) -> Modules:
    """Local. Marks a module, or each module of a list, as a unit for attach(), and returns it. Allocates nothing.

    The parameters of marked modules inside a marked module are in the inner units, in any order of the calls. All
    others are in one unit. If only the attached model itself is marked, attach() chooses the units.

    mesh: of all ranks, in their order. The second dimension of two is the option `group`.
    reshard_after_forward: True, for any module, is device_memory="min" unless attach() is given another device_memory.
        A number of ranks is `secondary_group`. False and None keep gathered units while memory has room.
    mp_policy: param_dtype is the option `dtype`, reduce_dtype is `reduce_dtype`; both are equal in all calls. Buffers
        keep their types. The other two fields convert inputs and outputs of this module.
    offload_policy: CPUOffloadPolicy() is `offload` of all states to the host; equal in all calls.

    Raises ConfigError for a second mark, for an attached module, for a shard_placement_fn, for ignored_params, and for
    a value that attach() cannot honour. A step of an optimizer whose module is marked and not attached raises it, too.
    """
    for each in module if isinstance(module, list) else [module]:
        if not isinstance(each, nn.Module):
            raise refuse(
                "fully_shard", type(each).__name__, "not a torch.nn.Module", "give a module, or a list of them"
            )
        mark = _marks.Mark()
        _take_mesh(mark, mesh)
        _take_reshard(mark, reshard_after_forward)
        _take_precision(mark, mp_policy)
        _take_offload(mark, offload_policy)
        if shard_placement_fn is not None:
            raise _unsupported(
                "shard_placement_fn",
                "a shard is a range of a unit's elements, whatever the shapes are",
                "leave it out; the option `shards` of attach() chooses other cuts",
            )
        if ignored_params is not None and any(True for _ in ignored_params):
            raise _unsupported(
                "ignored_params",
                "attach() partitions all parameters of the model",
                "leave it out; parameters that are in no group of the optimizer keep their values",
            )
        _marks.add(each, mark)
    return module


def _unsupported(argument: str, reason: str, remedy: str) -> Exception:
    return refuse(f"fully_shard.{argument}", "given", reason, remedy)


def _set(mark: _marks.Mark, key: str, option: str, value: Any) -> None:
    mark.options[option] = value
    mark.keys[option] = key


def _take_mesh(mark: _marks.Mark, mesh: DeviceMesh | None) -> None:
    if mesh is None:
        return
    ranks = mesh.mesh.flatten().tolist()
    if mesh.ndim > 2 or ranks != list(range(len(ranks))):
        raise refuse(
            "fully_shard.mesh",
            mesh.mesh.tolist(),
            "not all ranks in their order, in one dimension or in two",
            "leave it out for one copy of the model; attach(group=4): 4 neighbouring ranks hold a copy",
        )
    mark.ranks = len(ranks)
    if mesh.ndim == 2 and mesh.size(0) > 1:
        _set(mark, "mesh", "group", mesh.size(1))


def _take_reshard(mark: _marks.Mark, after_forward: bool | int | None) -> None:
    if after_forward is True:
        _set(mark, "reshard_after_forward", "device_memory", "min")
    elif after_forward is not None and after_forward is not False:
        _set(mark, "reshard_after_forward", "secondary_group", after_forward)


def _take_precision(mark: _marks.Mark, policy: MixedPrecisionPolicy | None) -> None:
    if policy is None:
        return
    for name, option in (("param_dtype", "dtype"), ("reduce_dtype", "reduce_dtype")):
        kind = getattr(policy, name)
        if kind is None:
            continue
        if kind not in _TYPES:
            known = ", ".join(map(str, _TYPES))
            raise refuse(f"fully_shard.mp_policy.{name}", kind, "no such type here", f"use one of {known}")
        _set(mark, f"mp_policy.{name}", option, _TYPES[kind])
    mark.input_dtype = policy.param_dtype if policy.cast_forward_inputs else None
    mark.output_dtype = policy.output_dtype


def _take_offload(mark: _marks.Mark, policy: OffloadPolicy | None) -> None:
    if isinstance(policy, CPUOffloadPolicy):
        _set(mark, "offload_policy", "offload", {"parameter": _HOST, "gradient": _HOST, "optimizer": _HOST})
