"""deepspeed.utils.zero_to_fp32: whole fp32 weights from a checkpoint of save_checkpoint()."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

from zerocpp import _model
from zerocpp.deepspeed._checkpoint import checkpoint_folder, read_weights
from zerocpp.deepspeed._config import refuse


def get_fp32_state_dict_from_zero_checkpoint(
    checkpoint_dir: str | os.PathLike[str],
    tag: str | None = None,
    exclude_frozen_parameters: bool = False,
    lazy_mode: bool = False,
) -> dict[str, torch.Tensor]:
    """Local. Returns the weights in fp32, and the buffers, as CPU tensors. Needs no engine."""
    folder = checkpoint_folder(checkpoint_dir, tag)
    if folder is None:
        wanted = "a file latest" if tag is None else f"a checkpoint {tag}"
        raise refuse(
            "checkpoint_dir", str(checkpoint_dir), f"it lacks {wanted}", "name the folder of save_checkpoint()"
        )
    found = read_weights(folder, trained_only=exclude_frozen_parameters)
    once = {id(value): value.float() if value.is_floating_point() else value for value in found.values()}
    return {name: once[id(value)] for name, value in found.items()}  # tied weights stay one tensor


def convert_zero_checkpoint_to_fp32_state_dict(
    checkpoint_dir: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    max_shard_size: str | None = None,
    safe_serialization: bool = False,
    tag: str | None = None,
    exclude_frozen_parameters: bool = False,
) -> None:
    """Local. Writes the weights as output_dir/pytorch_model.bin, or as model.safetensors, in one file."""
    values = get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag, exclude_frozen_parameters)
    os.makedirs(output_dir, exist_ok=True)
    if safe_serialization:
        from safetensors.torch import save_file

        save_file({name: value.clone() for name, value in values.items()}, Path(output_dir, "model.safetensors"))
    else:
        torch.save(values, Path(output_dir, "pytorch_model.bin"))


def load_state_dict_from_zero_checkpoint(
    model: nn.Module, checkpoint_dir: str | os.PathLike[str], tag: str | None = None
) -> nn.Module:
    """Local, and Collective if the model is attached. Copies the weights into `model`, and returns it.

    Raises ConfigError, before a tensor changes, for a weight of another shape.
    """
    values = get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag)
    own = model.state_dict(keep_vars=True)
    _model.refuse_other_shapes("load_state_dict_from_zero_checkpoint", own, values)
    with torch.no_grad():
        for name, tensor in own.items():
            if name in values:
                tensor.copy_(values[name])
    return model
