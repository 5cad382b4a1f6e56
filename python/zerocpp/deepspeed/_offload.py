"""The arguments of offload_states(): DeepSpeed's names, and what cannot move."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from zerocpp.deepspeed._config import Config, refuse
from zerocpp.deepspeed.runtime.zero.offload_config import OffloadDeviceEnum, OffloadStateTypeEnum

# DeepSpeed's names, and the states of an engine. Masters and moments of an engine move together.
_STATES = {
    OffloadStateTypeEnum.optim_states: "optimizer",
    OffloadStateTypeEnum.hp_params: "optimizer",
    OffloadStateTypeEnum.lp_params: "parameter",
    OffloadStateTypeEnum.lp_grads: "gradient",
    OffloadStateTypeEnum.contiguous_grad_buffer: "gradient",
}


def chosen_states(include: Iterable[str] | None) -> list[str]:
    """Local. Returns the engine's names of these states. Raises ConfigError for an unknown name."""
    if include is None:
        return sorted(set(_STATES.values()))
    found = set()
    for state in include:
        try:
            found.add(_STATES[OffloadStateTypeEnum(state)])
        except ValueError as error:
            names = ", ".join(each.value for each in OffloadStateTypeEnum)
            raise refuse("include", str(state), "no such state", f"use {names}") from error
    return sorted(found)


def chosen_device(device: str) -> OffloadDeviceEnum:
    """Local. Returns the device with this name. Raises ConfigError for an unknown name."""
    try:
        return OffloadDeviceEnum(device)
    except ValueError as error:
        raise refuse("device", str(device), "no such device", "use none, cpu or nvme") from error


def require_movable(config: Config, device: torch.device, to: OffloadDeviceEnum) -> None:
    """Local. Raises ConfigError if an engine on `device` cannot move its states to `to`."""
    if device.type != "cpu" and to != OffloadDeviceEnum.none:
        raise refuse(
            "offload_states",
            to.value,
            "states in a GPU's memory do not move while a model trains",
            "place them for the whole run: zero_optimization.offload_optimizer, and at stage 3 offload_param",
        )
    if to != OffloadDeviceEnum.nvme:
        return
    if "offload" in config.options:
        raise refuse(
            "offload_states",
            to.value,
            "zero_optimization.offload_optimizer and offload_param place states for the whole run",
            'write "device": "none" there, and keep nvme_path',
        )
    if "disk" not in config.options:
        raise refuse(
            "offload_states",
            to.value,
            "no nvme_path is given, or that folder is missing",
            'write zero_optimization.offload_optimizer = {"device": "none", "nvme_path": "/folder/on/that/disk"}',
        )
