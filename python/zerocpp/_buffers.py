"""Buffers: what save(), load() and export() do if a module has assigned a new tensor to a buffer since attach()."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from zerocpp._errors import refuse

# The registration of a buffer: its module, its key, the tensor at attach(), and the full name.
Place = tuple[nn.Module, str, torch.Tensor | None, str]


@dataclass
class _Assigned:
    """A tensor of attach(), the tensor that the module has instead, and the registrations of both."""

    first: torch.Tensor
    now: torch.Tensor
    places: list[Place]


class Buffers:
    """The persistent buffers of an attached module. The extension saves and loads the tensors of attach().

    A module may assign a new tensor: `self.center = 0.9 * self.center + mean`. Within synchronized() the tensor of
    attach() has the value of the new one. The module keeps its own tensors, because other code may hold them.
    """

    def __init__(self, places: list[Place]) -> None:
        self._places = places

    @contextmanager
    def synchronized(self, call: str, loads: bool = False) -> Iterator[None]:
        """Local. Gives the tensors of attach() the values of assigned buffers; the end restores them.

        loads: the module then gets a new tensor with the value that `call` has read.

        Raises ConfigError if an assigned buffer has another shape or type, or is None.
        """
        assigned = self._assigned(call)
        before = [each.first.detach().clone() for each in assigned]
        now = [each.now.detach().clone() for each in assigned]
        _write(assigned, now)
        try:
            yield
            if loads:
                for each in assigned:
                    read = each.first.detach().clone()
                    for module, key, _, _ in each.places:
                        module._buffers[key] = read
        finally:
            _write(assigned, before)

    def not_persistent(self) -> set[str]:
        """Local. The names of buffers that state_dict() leaves out under all their names."""
        kept = {id(first) for module, key, first, _ in self._places if key not in module._non_persistent_buffers_set}
        return {name for _, _, first, name in self._places if id(first) not in kept}

    def require_same(self, call: str) -> None:
        """Local. Raises ConfigError with the name of a buffer that is not the tensor of attach()."""
        for module, key, first, name in self._places:
            if module._buffers.get(key) is not first:
                raise _refused(call, name, "the sections of a pipeline have the tensors of attach()")

    def _assigned(self, call: str) -> list[_Assigned]:
        places: dict[int, list[Place]] = {}
        for place in self._places:
            module, key, first, _ = place
            if key not in module._non_persistent_buffers_set:
                places.setdefault(id(first), []).append(place)
        found: list[_Assigned] = []
        for same in places.values():
            for module, key, first, name in same:
                now = module._buffers.get(key)
                if now is first:
                    continue
                reason = _difference(first, now)
                if first is None or now is None or reason:
                    raise _refused(call, name, reason)
                if any(other._buffers.get(key) is not now for other, key, _, _ in same):
                    raise _refused(call, name, f"{' and '.join(name for *_, name in same)} were one tensor")
                found.append(_Assigned(first, now, same))
                break
        return found


def _write(assigned: list[_Assigned], values: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for each, value in zip(assigned, values):
            each.first.copy_(value)


def _difference(first: torch.Tensor | None, now: torch.Tensor | None) -> str:
    """How the tensors differ; empty if they differ at most in their values."""
    kinds = ["None" if each is None else f"{each.dtype} of shape {tuple(each.shape)}" for each in (first, now)]
    return "" if kinds[0] == kinds[1] else f"it was {kinds[0]}, and is {kinds[1]}"


def _refused(call: str, name: str, reason: str) -> Exception:
    return refuse(
        call,
        name,
        f"this buffer was replaced since attach(): {reason}",
        "write into the buffer with copy_(), or set it before attach()",
    )
