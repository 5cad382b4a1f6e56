"""deepspeed.runtime.zero.offload_config: devices and states of offload_states()."""

from __future__ import annotations

from enum import Enum


class OffloadDeviceEnum(str, Enum):
    """Devices to which states can move."""

    none = "none"
    cpu = "cpu"
    nvme = "nvme"


class OffloadStateTypeEnum(str, Enum):
    """States that can move. hp_params are master copies; lp_params are the parameters themselves."""

    optim_states = "optim_states"
    hp_params = "hp_params"
    lp_params = "lp_params"
    lp_grads = "lp_grads"
    contiguous_grad_buffer = "contiguous_grad_buffer"
