"""The tensors of a module, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from zerocpp import _C, _buffers
from zerocpp._errors import refuse


@dataclass
class ModelTensors:
    """Parameters and buffers of a module. A tied parameter is listed with all its names."""

    parameters: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    buffers: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    own_unit: set[str] = field(default_factory=set)  # embedding tables
    fp32: set[str] = field(default_factory=set)  # parameters beside running statistics, and the statistics
    keeps_buffers: bool = False  # their types, for every value of the option dtype
    # The registration of each parameter: the dict of a module, its key, the tensor, and the full name.
    places: list[tuple[dict[str, torch.Tensor | None], str, torch.Tensor, str]] = field(default_factory=list)
    buffer_places: list[_buffers.Place] = field(default_factory=list)

    def names(self) -> dict[int, str]:
        """Local. Returns the first name of each tensor, by id()."""
        found: dict[int, str] = {}
        for name, tensor in self.parameters:
            found.setdefault(id(tensor), name)
        return found

    def trained(self) -> list[str]:
        """Local. Returns the first names of the trained parameters."""
        names = self.names()
        return [name for name, tensor in self.parameters if tensor.requires_grad and names[id(tensor)] == name]


def tensors_of(model: nn.Module) -> ModelTensors:
    """Local. Returns the tensors of `model`, in the order of their registration. A shared module has all its names."""
    found = ModelTensors()
    for path, module in model.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        statistics = getattr(module, "running_mean", None) is not None
        for key, tensor in module._parameters.items():
            if tensor is None:
                continue
            name = prefix + key
            found.parameters.append((name, tensor))
            found.places.append((module._parameters, key, tensor, name))
            if key == "weight" and isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
                found.own_unit.add(name)
            if statistics:
                found.fp32.add(name)
        for key, buffer in module._buffers.items():
            name = prefix + key
            found.buffer_places.append((module, key, buffer, name))
            if buffer is None:
                continue
            found.buffers.append((name, buffer))
            if key in ("running_mean", "running_var"):
                found.fp32.add(name)
    return found


# Modules whose matrices are no hidden ones: is_hidden_matrix() in zero/engine/options/options.cpp.
_HEADS = ("lm_head", "head", "classifier", "score")


def hidden_matrices(model: nn.Module) -> set[int]:
    """Local. The id() of each parameter that zero.Muon updates as a matrix: no embedding, head or vector."""
    tensors = tensors_of(model)
    embeddings = {id(tensor) for name, tensor in tensors.parameters if name in tensors.own_unit}
    return {
        id(tensor)
        for name, tensor in tensors.parameters
        if tensor.ndim >= 2
        and id(tensor) not in embeddings
        and tensors.names()[id(tensor)].rpartition(".")[0].rpartition(".")[2] not in _HEADS
    }


def was_left_empty(tensor: torch.Tensor) -> bool:
    """Local. Returns whether an engine left this parameter without values: reading its memory then says so."""
    if _C.is_absent(tensor):  # a pipeline left it on another rank
        return True
    try:
        tensor.data_ptr()
    except RuntimeError as error:
        return "this parameter has no values" in str(error)
    return False


def buffer_names(model: nn.Module) -> dict[str, list[str]]:
    """Local. The names in state_dict() of each buffer, by its first name; [] for a buffer that is not persistent.

    Buffers whose only name is their first are left out.
    """
    saved: dict[int, list[str]] = {}
    values = model.state_dict(keep_vars=True)
    for name, tensor in values.items():
        saved.setdefault(id(tensor), []).append(name)
    found = {name: saved.get(id(buffer), []) for name, buffer in model.named_buffers()}
    return {name: names for name, names in found.items() if names != [name]}


def refuse_other_shapes(call: str, own: Mapping[str, torch.Tensor], values: Mapping[str, torch.Tensor]) -> None:
    """Local. Raises ConfigError if a value has another shape than the tensor of `own` with its name."""
    for name, tensor in own.items():
        if name in values and values[name].shape != tensor.shape:
            raise refuse(
                call,
                name,
                f"the value has shape {tuple(values[name].shape)}, and the model's tensor {tuple(tensor.shape)}",
                "give values of a model with these shapes",
            )
