"""Reads weights from a checkpoint folder without an engine (docs/checkpoint_format.md)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from zerocpp import _C
from zerocpp.deepspeed._config import refuse

_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}
_TYPES |= {"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8}
_TYPES |= {"BOOL": torch.bool, "C64": torch.complex64}


def checkpoint_folder(load_dir: str | os.PathLike[str], tag: str | None = None) -> Path | None:
    """Local. Returns load_dir/tag, or the folder that the file `latest` names. None if there is no such folder."""
    if tag is None:
        latest = Path(load_dir, "latest")
        if not latest.is_file():
            return None
        tag = latest.read_text(encoding="utf-8").strip()
    path = Path(load_dir, str(tag))
    return path if path.is_dir() else None


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise _C.IoError(f"{path}: {error.strerror}\n  name a checkpoint that save_checkpoint() wrote") from error
    begin, end = text.find(b'"manifest":'), text.rfind(b"}")
    own = text[begin + len(b'"manifest":') : end]
    if begin < 0 or f'"sha256":"{hashlib.sha256(own).hexdigest()}"'.encode() not in text[:begin]:
        raise _C.IoError(f"{path}: the file is damaged\n  load another checkpoint")
    found = json.loads(own)
    if found.get("format") != "zero.cpp checkpoint" or found.get("version") != 2:
        raise refuse("checkpoint", str(folder), "not a checkpoint of this version", "convert it with zero convert")
    return dict(found)


def read_notes(folder: Path) -> dict[str, Any]:
    """Local. Returns the notes of the save()."""
    notes: dict[str, str] = _manifest(folder)["run"]
    return {key: json.loads(text) for key, text in notes.items() if key != "state_sums"}  # written by the save itself


def read_weights(
    folder: Path, trained_only: bool = False, buffers: Mapping[str, list[str]] | None = None
) -> dict[str, torch.Tensor]:
    """Local. Returns the weights and persistent buffers in `folder`, under all names. A trained weight is fp32.

    buffers: names of the model's buffers, as buffer_names() returns them; by default those of the model that was saved.
    """
    manifest = _manifest(folder)
    if buffers is None:
        buffers = json.loads(manifest["run"].get("buffers", "{}"))
    tensors = manifest["tensors"]
    flat: dict[int, torch.Tensor] = {}
    found: dict[str, torch.Tensor] = {}
    for file in manifest["files"]:
        path = folder / file["name"]
        if path.stat().st_size != file["bytes"]:
            raise _C.IoError(
                f"{path}: {path.stat().st_size} bytes instead of {file['bytes']}\n  load another checkpoint"
            )
        with path.open("rb") as data:
            for number, state, begin, numel, offset in file["slices"]:
                if state != 0:
                    continue
                dtype = _TYPES[tensors[number]["dtype"]]
                size = int(torch.Size(tensors[number]["shape"]).numel())
                whole = flat.setdefault(number, torch.empty(size, dtype=dtype))
                whole[begin : begin + numel] = _values(data, offset, numel, dtype)
            for extra in file["extras"]:
                kind, _, name = extra["name"].partition("/")
                names = buffers.get(name, [name])
                if kind == "buffer" and names and names[0] not in found:
                    dtype, shape = _TYPES[extra["dtype"]], torch.Size(extra["shape"])
                    value = _values(data, extra["offset"], shape.numel(), dtype).reshape(shape)
                    found |= dict.fromkeys(names, value)
    for number, tensor in enumerate(tensors):
        if trained_only and not tensor["trainable"]:
            continue
        value = flat[number] if number in flat else torch.empty(0, dtype=_TYPES[tensor["dtype"]])
        value = value.reshape(tensor["shape"])
        found |= dict.fromkeys((tensor["name"], *tensor["aliases"]), value)
    return found


def _values(data: Any, offset: int, numel: int, dtype: torch.dtype) -> torch.Tensor:
    if numel == 0:
        return torch.empty(0, dtype=dtype)
    data.seek(offset)
    return torch.frombuffer(bytearray(data.read(numel * dtype.itemsize)), dtype=dtype)
