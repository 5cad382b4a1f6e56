"""plan(): memory, traffic and schedule of a training, before anything is allocated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zerocpp import _C, _config, _deferred, _log, _marks, _model, _optimizer, _options
from zerocpp._errors import refuse

if TYPE_CHECKING:
    from typing_extensions import Unpack

_TAGS = ("parameter", "gradient", "master", "moment", "total")


class Plan:
    """The bytes that a rank holds and sends. `str(plan)` is the table of `zero plan`. All figures are those of a rank.

    The bytes are computed from shapes; they include neither activations nor the program itself.
    """

    def __init__(self, model: str, found: dict[str, Any]) -> None:
        self._found = {"model": model, **found}

    @property
    def json(self) -> dict[str, Any]:
        """Local. All figures, as a dict for JSON."""
        return {key: value for key, value in self._found.items() if key != "schedule"} | {
            "schedule": {key: value for key, value in self._found["schedule"].items() if key != "text"}
        }

    @property
    def bytes(self) -> dict[str, int]:
        """Local. Bytes of states by tier, and on the device also of gathered units and reductions."""
        found = {tier: int(states["total"]) for tier, states in self._found["tiers"].items()}
        found["device"] += int(self._found["working_bytes"])
        return found

    @property
    def sent_bytes(self) -> int:
        """Local. Bytes that a rank sends in a step of this schedule."""
        return int(self._found["schedule"]["sent_bytes"])

    @property
    def schedule(self) -> str:
        """Local. The actions of a step, with a line for each event of the model."""
        return str(self._found["schedule"]["text"])

    def __repr__(self) -> str:
        found = self._found
        return f"Plan({found['model']}, stage {found['stage']}, {found['world']} ranks)"

    def __str__(self) -> str:
        found = self._found
        ranks = "1 rank" if found["world"] == 1 else f"{found['world']:,} ranks"
        lines = [
            f"plan: {found['model']}, {found['num_parameters']:,} parameters, stage {found['stage']} on {ranks}",
            f"  {'unit':<31} {'parameters':>13} {'gathered':>11} {'a shard':>11}",
            *self._unit_rows(),
            f" a rank {'parameter':>9} {'gradient':>8} {'master':>8} {'moment':>8} {'total':>8} {'formula':>8}"
            f" {'sends':>8} {'formula':>8}",
            *(self._stage_row(stage) for stage in found["stages"]),
        ]
        tiers = found["tiers"]
        if any(tiers[tier]["total"] for tier in tiers if tier != "device"):
            lines += [f"  {tier:<6} {_columns(tiers[tier])}" for tier in tiers]
        lines.append(
            f"  beside them at most {_C.format_bytes(found['working_bytes'])} on the device, gathered and reduced"
        )
        return "\n".join(lines)

    def _unit_rows(self) -> list[str]:
        """One row for each unit; equal blocks share a row, even if a block is several units."""
        units = self._found["units"]
        rows: list[str] = []
        shown: set[int] = set()
        for begin, first in enumerate(units):
            if begin in shown:
                continue
            last, count = first, 1
            for number in range(begin + 1, len(units)):
                if number not in shown and _follows(last, units[number]):
                    shown.add(number)
                    last, count = units[number], count + 1
            name = first["name"]
            if count > 1:
                prefix, start, suffix = _numbered(name)
                name = f"{prefix}{start}-{_numbered(last['name'])[1]}{suffix} ({count} x)"
            rows.append(
                f"  {name:<31} {first['num_parameters']:>13,} {_C.format_bytes(first['gathered_bytes']):>11}"
                f" {_C.format_bytes(first['shard_bytes']):>11}{'' if first['trainable'] else '  frozen'}"
            )
        return rows

    def _stage_row(self, stage: dict[str, Any]) -> str:
        formula = stage["formula"]
        return (
            f"{'>' if stage['stage'] == self._found['stage'] else ' '}stage {stage['stage']}"
            f" {_columns(stage['memory_bytes'])} {_C.format_bytes(round(formula['state_bytes'])):>8}"
            f" {_C.format_bytes(stage['sent_bytes']):>8} {_C.format_bytes(round(formula['sent_bytes'])):>8}"
        )


def _columns(states: Mapping[str, int]) -> str:
    return " ".join(f"{_C.format_bytes(states[tag]):>8}" for tag in _TAGS)


def _numbered(name: str) -> tuple[str, int, str]:
    """The parts of a unit's name: "transformer.h.3 (matrices)" is ("transformer.h.", 3, " (matrices)")."""
    found = re.fullmatch(r"(.*\.)(\d+)( \(.*)?", name)
    return (found[1], int(found[2]), found[3] or "") if found else (name, -1, "")


def _follows(last: Mapping[str, Any], unit: Mapping[str, Any]) -> bool:
    a, b = _numbered(last["name"]), _numbered(unit["name"])
    same = all(last[key] == unit[key] for key in ("num_parameters", "dtype", "trainable"))
    return a[1] >= 0 and b == (a[0], a[1] + 1, a[2]) and same


Optimizer = _optimizer.Rule | torch.optim.Optimizer | Callable[[nn.Module], Any] | None


@_log.drains
def plan(
    model: nn.Module | Callable[[], nn.Module],
    optimizer: Optimizer = None,
    *,
    world: int = 1,
    loss: Callable[[nn.Module], torch.Tensor] | None = None,
    config: _config.Source | None = None,
    **options: Unpack[_options.Options],
) -> Plan:
    """Local. Returns the plan of attach() with these arguments on `world` ranks. Allocates nothing.

        print(zero.plan(lambda: GPT2LMHeadModel(config), world=64, stage=3, device_memory="80GiB"))

    model: a module with or without memory, or a function that makes one; the function runs inside deferred().
    optimizer: as for attach(), or a function that makes one of the module.
    loss: returns the loss of one micro-batch, with inputs on the meta device; the module then has no memory. With
        `loss` the schedule is exact. Without it each unit is assumed to be used once in a forward and a backward pass.

    Raises ConfigError as attach() does. If a budget is too small, the error names the smallest possible one.
    """
    if not isinstance(model, nn.Module):
        if not callable(model):
            raise refuse(
                "plan", type(model).__name__, "not a torch.nn.Module", "give a module, or a function that makes one"
            )
        with _deferred.deferred():
            model = model()
    module = model
    given = dict(options)
    _options.require_known(given)
    tensors = _model.tensors_of(module)
    if callable(optimizer) and not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = optimizer(module)
    if config is not None:
        read = _config.read(config, world)
        given = _config.merge(read, given)
        optimizer = _config.optimizer_of(read, optimizer)
    given = _marks.read(module, given, world)
    found = _optimizer.ReadOptimizer(optimizer, tensors.names(), tensors.trained(), dict(tensors.parameters))
    traced = None if loss is None else lambda micro: loss(module)
    with found.freezing_others():
        given.update(optimizer=(found.name, found.keys), groups=found.rows if tensors.trained() else None)
        result = _C.plan(tensors.parameters, tensors.buffers, tensors.own_unit, tensors.fp32, given, int(world), traced)
    found.release_others()
    return Plan(type(module).__name__, result)
