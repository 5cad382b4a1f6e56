"""export_pretrained(): a folder that from_pretrained() of transformers reads."""

from __future__ import annotations

import copy
import json
import os
import shutil
import struct
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from zerocpp import _C
from zerocpp._errors import refuse

if TYPE_CHECKING:
    from zerocpp._attached import Attached

_TYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
)


class Parts:
    """Writes tensors into files of at most `most_bytes`, each in full before the next tensor is taken."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most = folder, most_bytes
        self._tensors: dict[str, torch.Tensor] = {}
        self._bytes = 0
        self._written: list[list[str]] = []
        self._total = 0

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """Local. Takes a tensor. Writes the earlier tensors first if a part with it would be too large."""
        if self._tensors and self._bytes + tensor.nbytes > self._most:
            self._write()
        self._tensors[name] = tensor
        self._bytes += tensor.nbytes
        self._total += tensor.nbytes

    def finish(self) -> None:
        """Local. Writes the last part."""
        if self._tensors or not self._written:
            self._write()

    def publish(self) -> None:
        """Local. Names the parts as transformers does, and removes the parts of an earlier export."""
        count = len(self._written)
        names = (
            ["model.safetensors"]
            if count == 1
            else [f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]
        )
        index = self._folder / "model.safetensors.index.json"
        for old in (*self._folder.glob("model-*-of-*.safetensors"), self._folder / "model.safetensors", index):
            old.unlink(missing_ok=True)
        for number, name in enumerate(names):
            os.replace(self._temporary(number), self._folder / name)
        if count > 1:
            places = {tensor: name for name, tensors in zip(names, self._written) for tensor in tensors}
            content = {"metadata": {"total_size": self._total}, "weight_map": dict(sorted(places.items()))}
            index.write_text(json.dumps(content, indent=2) + "\n")

    def drop(self) -> None:
        """Local. Removes unfinished files."""
        for number in range(len(self._written) + 1):
            self._temporary(number).unlink(missing_ok=True)

    def _temporary(self, number: int) -> Path:
        return self._folder / f".model-{number}.safetensors.part"

    def _write(self) -> None:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        begin = 0
        for name, tensor in self._tensors.items():
            header[name] = {
                "dtype": _TYPES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [begin, begin + tensor.nbytes],
            }
            begin += tensor.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(self._temporary(len(self._written)), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for tensor in self._tensors.values():
                file.write(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
            file.flush()
            os.fsync(file.fileno())
        self._written.append(list(self._tensors))
        self._tensors, self._bytes = {}, 0


def _buffers(engine: Attached, names: Collection[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """The buffers that belong to the weights, and frozen parameters with an integer type.

    names: the first names of the parameters that are written already.
    """
    for name, tensor in engine.model.state_dict(keep_vars=True).items():
        if engine._names.get(id(tensor), name) not in names:  # else it is a parameter, or a further name of one
            yield name, tensor.detach().cpu().clone().resolve_conj().resolve_neg()


def export(engine: Attached, folder: Path, full_precision: bool, part_bytes: int, tokenizer: Path | None) -> None:
    """Collective. See Engine.export_pretrained()."""
    config = getattr(engine.model, "config", None)
    if not hasattr(config, "save_pretrained"):
        raise refuse(
            "export_pretrained",
            type(engine.model).__name__,
            "the model has no config of transformers",
            "use engine.export(), which writes one safetensors file of any model",
        )
    if part_bytes < 1:
        raise refuse("part_size", part_bytes, "no size of a file", 'give for example "5GB"')
    if tokenizer is not None and not tokenizer.is_dir():
        raise refuse("tokenizer", tokenizer, "no such folder", "name the folder with tokenizer.json")
    first = engine.world.rank == 0
    parts = Parts(folder, part_bytes)
    failure: Exception | None = None

    def attempt(action: Callable[[], None]) -> None:
        nonlocal failure
        if not first or failure is not None:
            return
        try:
            action()
        except Exception as error:  # the other ranks continue, and receive the error at the end
            failure = error

    attempt(lambda: folder.mkdir(parents=True, exist_ok=True))
    types: dict[str, torch.dtype] = {}
    for name, tensor in engine.iter_parameters(full_precision):
        types[name] = tensor.dtype
        attempt(partial(parts.add, name, tensor))

    def finish() -> None:
        for name, tensor in _buffers(engine, types):
            parts.add(name, tensor)
        parts.finish()
        _write_configuration(engine, types, folder, tokenizer)
        parts.publish()

    attempt(finish)
    if failure is not None:
        parts.drop()
    found = engine.world.gather_text(_text(failure))[0]
    if failure is not None and not isinstance(failure, OSError):
        raise failure
    if found:
        raise _C.IoError(
            f"export_pretrained = {folder}: rank 0 cannot write: {found}\n  Free space, or name another folder."
        )


def _text(failure: Exception | None) -> str:
    if failure is None:
        return ""
    return str(failure) if isinstance(failure, OSError) else f"{type(failure).__name__}: {failure}"


def _write_configuration(engine: Attached, types: dict[str, torch.dtype], folder: Path, tokenizer: Path | None) -> None:
    """types: those of the parameters that are written."""
    model: Any = engine.model
    config = copy.deepcopy(model.config)
    if hasattr(type(model), "config_class") or not getattr(config, "architectures", None):  # else a wrapper, as peft's
        config.architectures = [type(model).__name__]
    dtype = next((types[name] for name in engine.parameters if name in types), None)
    if dtype is not None:
        key = "dtype" if hasattr(config, "dtype") else "torch_dtype"  # of transformers before 4.56
        setattr(config, key, str(dtype).removeprefix("torch."))
    config.save_pretrained(folder)
    generation = getattr(model, "generation_config", None)
    if generation is not None:
        generation.save_pretrained(folder)
    if tokenizer is not None:
        for name in TOKENIZER_FILES:
            if (tokenizer / name).is_file():
                shutil.copyfile(tokenizer / name, folder / name)
