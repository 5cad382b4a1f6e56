"""attach(weights=): first values from safetensors files. Only rank 0 reads them, one parameter at a time."""

from __future__ import annotations

from os import PathLike, fspath

import torch
from torch import nn

from zerocpp import _C, _model
from zerocpp._errors import refuse
from zerocpp._pretrained import _TYPES

_OF_FILE = {name: dtype for dtype, name in _TYPES.items()}  # by the name in a file


class FirstValues:
    """The values of a model in a file or a folder: read() gives those of parameters, set_buffers() sets the others."""

    def __init__(self, path: str | PathLike[str], model: nn.Module, tensors: _model.ModelTensors) -> None:
        """Local. Opens the files. Raises ConfigError if they do not have exactly the tensors of the model."""
        self._path, self._tensors = fspath(path), tensors
        self._files = _C.WeightFiles(self._path)
        self._held = self._files.tensors()
        self._parameters: dict[str, torch.Tensor] = {}  # by their first names
        self._buffers: list[torch.Tensor] = []
        self._stored: dict[int, str] = {}  # by id() of a tensor: its name in the files
        self._match(model)

    def _match(self, model: nn.Module) -> None:
        names: dict[int, list[str]] = {}
        wanted: dict[int, torch.Tensor] = {}
        for name, tensor in (*self._tensors.parameters, *model.state_dict(keep_vars=True).items()):
            if isinstance(tensor, torch.Tensor):  # else the extra state of a module
                names.setdefault(id(tensor), []).append(name)
                wanted[id(tensor)] = tensor
        own = self._tensors.names()
        known: set[str] = set()
        for key, tensor in wanted.items():
            known.update(names[key])
            found = [name for name in names[key] if name in self._held]
            if not found:
                raise self._refuse(f"has no {names[key][0]}")
            self._stored[key] = found[-1]  # load_state_dict() also takes the last of several names
            self._require_alike(found[-1], tensor)
            if key in own and tensor.dtype.is_floating_point:
                self._parameters[own[key]] = tensor
            else:
                self._buffers.append(tensor)
        extra = [name for name in self._held if name not in known]
        if extra:
            raise self._refuse(f"has {extra[0]}, and the model has no such tensor")

    def _require_alike(self, name: str, tensor: torch.Tensor) -> None:
        kind, shape = self._held[name]
        if tuple(shape) != tuple(tensor.shape):
            raise self._refuse(f"has {name} of shape {tuple(shape)}, and the model's shape is {tuple(tensor.shape)}")
        if kind not in _OF_FILE:
            raise self._refuse(f"has {name} of type {kind}, which cannot be read")

    def _refuse(self, reason: str) -> _C.ConfigError:
        return refuse("weights", self._path, reason, "give the weights of this model, under the names of state_dict()")

    def _value(self, tensor: torch.Tensor) -> torch.Tensor:
        kind, shape = self._held[self._stored[id(tensor)]]
        value = torch.empty(shape, dtype=_OF_FILE[kind])
        self._files.read(self._stored[id(tensor)], value)
        return value.to(tensor.dtype)

    def read(self, name: str) -> torch.Tensor:
        """Local. Returns the values of the parameter with this first name, rounded to its type, in fp32."""
        return self._value(self._parameters[name]).to(torch.float32).flatten()

    def set_buffers(self, device: str) -> None:
        """Local. Sets the persistent buffers, and frozen parameters with an integer type. device: of deferred ones."""
        with torch.no_grad():
            for tensor in self._buffers:
                value = self._value(tensor)
                if _C.is_deferred(tensor):
                    self._replace(tensor, value.to(device))
                else:
                    tensor.copy_(value)

    def _replace(self, buffer: torch.Tensor, value: torch.Tensor) -> None:
        """Gives a buffer that has no memory yet another tensor, in the module and in the list of tensors."""
        if isinstance(buffer, nn.Parameter):
            raise self._refuse(f"has {self._stored[id(buffer)]}, an integer parameter made inside deferred()")
        tensors = self._tensors
        tensors.buffers = [(name, value if each is buffer else each) for name, each in tensors.buffers]
        places = tensors.buffer_places
        for number, (module, key, each, name) in enumerate(places):
            if each is buffer:
                module._buffers[key] = value
                places[number] = (module, key, value, name)


def first_values(
    path: str | PathLike[str], model: nn.Module, tensors: _model.ModelTensors, world: _C.World, device: str
) -> FirstValues | None:
    """Collective. Opens the files and sets the buffers on rank 0; None on the others. If it fails, all ranks raise."""
    found: FirstValues | None = None
    failure: Exception | None = None
    if world.rank == 0:
        try:
            found = FirstValues(path, model, tensors)
            found.set_buffers(device)
        except Exception as error:  # the other ranks wait for the answer
            failure = error
    text = "" if failure is None else f"rank 0: {failure}"
    text, kind = world.gather_text(text)[0], world.gather_text("io" if isinstance(failure, OSError) else "")[0]
    if failure is not None:
        raise failure
    if text:
        raise _C.IoError(text) if kind else _C.ConfigError(text)
    return found


def not_read(name: str) -> torch.Tensor:
    """Local. The source of the ranks that read no files."""
    raise AssertionError(f"only rank 0 reads {name}")
