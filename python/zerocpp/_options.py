"""The options of attach(): names, types, and the refusal of unknown ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

from zerocpp import _C
from zerocpp._errors import refuse

Size = str | int
Type = Literal["fp32", "bf16", "fp16"]


class Options(TypedDict, total=False):
    """Keyword arguments of attach() and plan(). None is the same as left out. docs/guide/python.md explains them."""

    stage: int | None
    group: int | None
    secondary_group: int | None
    shards: str | None
    shard_weights: Sequence[float] | None
    local: Mapping[str, float] | None
    wire: Mapping[str, str | float] | None
    clip: float | None
    reduce: Literal["auto", "each", "last"] | None
    accumulate: int | None
    leaves: int | None
    average_micro_batches: bool | None
    delayed_update: bool | None
    exact_steps: int | None
    ema: float | None
    dtype: Type | None
    reduce_dtype: Type | None
    loss_scale: float | Literal["dynamic"] | None
    device_memory: Size | None
    host_memory: Size | None
    disk: str | PathLike[str] | Sequence[str] | None
    disk_memory: Size | None
    offload: bool | Mapping[str, Mapping[str, float]] | None
    checksums: bool | None
    units: str | Sequence[str] | None
    threads: int | None
    max_skipped_steps: int | None
    device: str | None
    awaits_load: bool | None


class PipelineOptions(Options, total=False):
    """Keyword arguments of attach_pipeline(): those of attach(), and how a model is cut into sections."""

    pipeline: int | None
    sections: int | None
    schedule: Literal["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "auto"] | None
    depth: int | None
    cut: str | Sequence[str] | None
    activation_memory: Size | None


OF_PIPELINES = ("pipeline", "sections", "schedule", "depth", "cut", "activation_memory")


def names() -> list[str]:
    """Local. The names of all options, as the library lists them."""
    return [name for name in _C.option_names() if name not in ("optimizer", "groups")]


def nearest(name: str, known: Iterable[str]) -> str:
    """Local. The text "did you mean X?"."""
    return f"did you mean {difflib.get_close_matches(name, list(known), n=1, cutoff=0)[0]}?"


def require_known(given: Mapping[str, Any], pipelines: bool = False) -> None:
    """Local. Raises ConfigError for an unknown option. `pipelines`: also those of attach_pipeline() are known."""
    known = [*names(), *OF_PIPELINES] if pipelines else names()
    for name in given:
        if name in ("sync", "servers", "quorum"):
            raise refuse(
                "attach",
                name,
                "the Python package has no parameter servers, and a process group could not carry their messages",
                "use stages 0 to 3, or `zero train` with sync.servers",
            )
        if name in OF_PIPELINES and not pipelines:
            raise refuse(name, given[name], "attach() makes no pipeline", "call zero.attach_pipeline()")
        if name not in known:
            raise refuse("attach", name, "no such option", nearest(name, known))
