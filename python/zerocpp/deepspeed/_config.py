"""Reads a configuration of DeepSpeed as DeepSpeed 0.19.8 does."""

from __future__ import annotations

import difflib
import importlib
import json
import logging
import os
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

from zerocpp import _C, _errors
from zerocpp.deepspeed import _keys

_log = logging.getLogger("zerocpp")


def refuse(key: str, value: object, reason: str, remedy: str) -> _C.ConfigError:
    """Local. Returns the package's error, with the value as JSON, as in the user's file."""
    return _errors.refuse(key, json.dumps(value, default=str), reason, remedy)


def _parser() -> Any:
    """Returns hjson if it is installed, as DeepSpeed does, because it allows comments; else the module json."""
    try:
        return importlib.import_module("hjson")
    except ImportError:
        return json


def read_json(source: str | PathLike[str] | dict[str, Any]) -> dict[str, Any]:
    """Local. Returns the configuration: a dict, or the path of a JSON file."""
    if isinstance(source, dict):
        return source

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise refuse(key, value, "the file has this key twice", "remove one of them")
            found[key] = value
        return found

    try:
        with open(fspath(source), encoding="utf-8") as file:
            found = _parser().load(file, object_pairs_hook=without_duplicates)
    except OSError as error:
        raise refuse(
            "config", str(source), f"cannot be read: {error.strerror}", "give a dict, or the path of a JSON file"
        ) from error
    except ValueError as error:
        raise refuse("config", str(source), f"not JSON: {error}", "correct the file") from error
    if not isinstance(found, dict):
        raise refuse("config", str(source), "the file holds no JSON object", 'write {"KEY": VALUE}')
    return found


@dataclass
class Config:
    """The values that the engine uses."""

    micro_batch: int = 1
    accumulate: int = 1
    clip: float = 1.0
    print_every: int | None = None
    drop_last: bool = False
    dtype: str | None = None
    auto_cast: bool = False
    sums_ranks: bool = False  # gradients are summed over ranks, not averaged
    managed: bool = True  # the engine counts micro-batches; else each step() updates
    autocast: str | None = None  # type of the section torch_autocast
    buffer_dtype: str | None = None  # None: buffers keep their type
    optimizer: tuple[str, dict[str, Any]] | None = None
    scheduler: tuple[str, dict[str, Any]] | None = None
    options: dict[str, Any] = field(default_factory=dict)  # options of zero.attach()
    ignored: list[tuple[str, str]] = field(default_factory=list)

    @property
    def stage(self) -> int:
        """Local. The ZeRO stage, 0 to 3."""
        return int(self.options["stage"])


def _switched_off(value: Any) -> bool:
    if isinstance(value, dict):
        return not value or value.get("enabled") is False
    return value is None or value is False or value == 0 or value == []


class Reader:
    """Reads each key once, and refuses or lists the others."""

    def __init__(self, given: dict[str, Any], ranks: int) -> None:
        self._given = given
        self._ranks = ranks
        self.config = Config()

    def read(self) -> Config:
        """Local. Returns the values of all keys. Raises ConfigError that names a misspelt or unsupported key."""
        self._sort_keys("", self._given)
        self._read_batches()
        config, given = self.config, self._given
        config.clip = self._number(given, "", "gradient_clipping", 1.0)
        if config.clip < 0:
            raise refuse("gradient_clipping", config.clip, "must not be negative", "use a norm, or 0: off")
        every = self._whole(given, "", "steps_per_print", None, least=0)
        config.print_every = every or None
        config.drop_last = self._flag(given, "", "dataloader_drop_last", False)
        total = self._text(given, "", "gradient_allreduce_op", "mean")
        if total not in ("mean", "sum"):
            raise refuse("gradient_allreduce_op", total, "no such sum", 'use "mean" or "sum"')
        config.sums_ranks = total == "sum"
        config.managed = self._flag(given, "", "managed_gradient_accumulation", True)
        self._read_types()
        self._read_optimizer()
        self._read_scheduler()
        self._read_states()
        config.options["clip"] = config.clip
        if config.managed and config.accumulate > 1:
            config.options.update(accumulate=config.accumulate, average_micro_batches=True)
        return config

    # ---- keys

    def _sort_keys(self, section: str, values: dict[str, Any]) -> None:
        prefix = f"{section}." if section else ""
        known = _keys.READ[section]
        for key, value in values.items():
            name = prefix + key
            if key in known:
                if name in _keys.READ:
                    self._sort_keys(name, self._section(values, prefix, key) or {})
                elif name == "bfloat16":
                    self._sort_keys("bf16", self._section(values, "", key) or {})
                elif value == "auto":
                    raise refuse(
                        name, value, "only Hugging Face's Trainer fills in this value", "write the value itself"
                    )
                continue
            if name in _keys.REFUSED:
                if not _switched_off(value) and not (key.endswith("_parallel_size") and value == 1):
                    raise refuse(name, value, "it is not supported", _keys.REFUSED[name])
                continue
            reason = _keys.IGNORED.get(name) or (_keys.IGNORED.get(section) if section else None)
            nearest = self._nearest(key, section)
            if name not in _keys.IGNORED and nearest is not None:
                reason = None
            if reason is None:
                raise refuse(name, value, "no such key", f"did you mean {nearest}?" if nearest else "remove the key")
            self.config.ignored.append((name, reason))

    def _nearest(self, key: str, section: str) -> str | None:
        prefix = f"{section}." if section else ""
        names = list(_keys.READ[section])
        for name in (*_keys.IGNORED, *_keys.REFUSED):
            if name.startswith(prefix) and "." not in name[len(prefix) :]:
                names.append(name[len(prefix) :])
        found = difflib.get_close_matches(key, names, n=1, cutoff=0.7)
        return prefix + found[0] if found else None

    @staticmethod
    def _section(values: dict[str, Any], prefix: str, key: str) -> dict[str, Any] | None:
        value = values.get(key)
        if value is not None and not isinstance(value, dict):
            raise refuse(prefix + key, value, "not an object", 'write {"KEY": VALUE}')
        return value

    @staticmethod
    def _number(values: dict[str, Any], prefix: str, key: str, default: Any) -> Any:
        value = values.get(key)
        if value is None:
            return default
        if value == "auto":
            raise refuse(
                prefix + key, value, "only Hugging Face's Trainer fills in this value", "write the value itself"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refuse(prefix + key, value, "not a number", "write a number")
        return value

    def _whole(self, values: dict[str, Any], prefix: str, key: str, default: Any, least: int = 1) -> Any:
        value = self._number(values, prefix, key, default)
        if value is None:
            return None
        if value != int(value) or value < least:
            raise refuse(prefix + key, value, f"not a whole number of {least} or more", "write such a number")
        return int(value)

    @staticmethod
    def _flag(values: dict[str, Any], prefix: str, key: str, default: bool) -> bool:
        value = values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise refuse(prefix + key, value, "neither true nor false", "write true or false")
        return value

    @staticmethod
    def _text(values: dict[str, Any], prefix: str, key: str, default: str) -> str:
        value = values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise refuse(prefix + key, value, "not a string", "write it in quotes")
        return value

    # ---- values

    def _read_batches(self) -> None:
        given, ranks = self._given, self._ranks
        whole = self._whole(given, "", "train_batch_size", None)
        micro = self._whole(given, "", "train_micro_batch_size_per_gpu", None)
        accumulate = self._whole(given, "", "gradient_accumulation_steps", None)
        if whole is None and micro is None:
            raise refuse(
                "train_batch_size",
                None,
                "neither it nor train_micro_batch_size_per_gpu is given",
                "set train_micro_batch_size_per_gpu",
            )
        if accumulate is None:
            accumulate = max(whole // micro // ranks, 1) if whole is not None and micro is not None else 1
        if micro is None:
            micro = whole // ranks // accumulate
        if whole is not None and whole != micro * accumulate * ranks:
            raise refuse(
                "train_batch_size",
                whole,
                f"not micro-batch * accumulation * ranks = {micro} * {accumulate} * {ranks}",
                "change it, or leave it out",
            )
        self.config.micro_batch, self.config.accumulate = micro, accumulate

    def _read_types(self) -> None:
        given, config = self._given, self.config
        newer = given.get("bf16") is not None
        bf16 = given.get("bf16" if newer else "bfloat16") or {}
        fp16 = given.get("fp16") or {}
        half = self._flag(fp16, "fp16.", "enabled", False)
        if self._flag(bf16, "bf16." if newer else "bfloat16.", "enabled", False):
            if half:
                raise refuse("fp16.enabled", True, "bf16.enabled is also true", "set one of them to false")
            config.dtype = "bf16"
        elif half:
            config.dtype = "fp16"
            config.auto_cast = self._flag(fp16, "fp16.", "auto_cast", False)
            scale = self._number(fp16, "fp16.", "loss_scale", 0)
            config.options["loss_scale"] = float(scale) if scale > 0 else self._dynamic_scale(fp16)
        if config.dtype is not None:
            config.options["dtype"] = config.dtype
        self._read_autocast()
        types = given.get("data_types") or {}
        names = {
            "fp32": "fp32",
            "float32": "fp32",
            "float": "fp32",
            "bf16": "bf16",
            "bfloat16": "bf16",
            "fp16": "fp16",
            "float16": "fp16",
            "half": "fp16",
        }
        found: dict[str, str | None] = {}
        for key in ("grad_accum_dtype", "param_dtype", "buffer_dtype"):
            value = types.get(key)
            found[key] = None if value is None else names.get(str(value).removeprefix("torch."))
            if value is not None and found[key] is None:
                raise refuse(f"data_types.{key}", value, "no such type", 'use "fp32", "bf16" or "fp16"')
        config.buffer_dtype = found["buffer_dtype"]
        if found["param_dtype"] not in (None, config.dtype or "fp32"):
            raise refuse(
                "data_types.param_dtype",
                types["param_dtype"],
                f"the model has type {config.dtype or 'fp32'} by fp16.enabled and bf16.enabled",
                "leave it out",
            )
        name = found["grad_accum_dtype"]
        if config.dtype is not None and name in (None, "fp32"):
            config.options["reduce_dtype"] = "fp32"  # allows any number of backward passes in a step
        elif name is None:
            return
        elif name != (config.dtype or "fp32"):
            config.ignored.append(("data_types.grad_accum_dtype", "a sum has the gradients' type, or is fp32"))

    def _dynamic_scale(self, fp16: dict[str, Any]) -> dict[str, float | bool]:
        power = self._number(fp16, "fp16.", "initial_scale_power", 16)
        if not 0 <= power <= 126:
            raise refuse("fp16.initial_scale_power", power, "not from 0 to 126", "use for example 16: 65536")
        least = self._number(fp16, "fp16.", "min_loss_scale", 1)
        if not 0 < least <= 2.0**power:
            raise refuse(
                "fp16.min_loss_scale", least, f"not above 0 and at most {2.0**power:g}, the first scale", "use 1"
            )
        interval = self._whole(fp16, "fp16.", "loss_scale_window", 1000)
        return {
            "first": 2.0**power,
            "interval": interval,
            "least": float(least),
            "hysteresis": self._whole(fp16, "fp16.", "hysteresis", 2),
            "restored_by_update": self._flag(fp16, "fp16.", "consecutive_hysteresis", False),
        }

    def _read_autocast(self) -> None:
        section, config = self._given.get("torch_autocast") or {}, self.config
        if not self._flag(section, "torch_autocast.", "enabled", False):
            return
        given = self._text(section, "torch_autocast.", "dtype", "bfloat16").removeprefix("torch.")
        if given not in ("bfloat16", "float16"):
            raise refuse("torch_autocast.dtype", given, "no such type", 'use "bfloat16" or "float16"')
        config.autocast = "bf16" if given == "bfloat16" else "fp16"
        if config.autocast == "fp16":
            config.options.setdefault("loss_scale", "dynamic")

    def _read_optimizer(self) -> None:
        section = self._given.get("optimizer")
        if not section or section.get("type") is None:
            return
        given = self._text(section, "optimizer.", "type", "")
        name = given.lower()
        if name not in _keys.OPTIMIZERS:
            known = ", ".join(_keys.OPTIMIZERS)
            raise refuse(
                "optimizer.type",
                given,
                f"none of {known}",
                "use one of these, or give initialize() an optimizer, such as zero.Adafactor()",
            )
        params = dict(self._section(section, "optimizer.", "params") or {})
        prefix = "optimizer.params."
        if "max_grad_norm" in params:
            raise refuse(
                prefix + "max_grad_norm",
                params["max_grad_norm"],
                "DeepSpeed 0.19.8 also refuses it",
                "use gradient_clipping",
            )
        decoupled = self._flag(params, prefix, "adam_w_mode", True)
        if name == "adam" and decoupled:
            name = "adamw"
        by_torch = self._flag(params, prefix, "torch_adam", False)
        values = dict(_keys.OPTIMIZERS[name])
        if by_torch and name == "adamw":
            values["weight_decay"] = 0.01  # torch.optim.AdamW's own default
        for key, value in params.items():
            if value == "auto":
                raise refuse(
                    prefix + key, value, "only Hugging Face's Trainer fills in this value", "write the value itself"
                )
            if key == "adam_w_mode":
                continue
            if key in _keys.IGNORED_PARAMETERS:
                only = _keys.IGNORED_PARAMETERS[key]
                if only is not None and value != only:
                    raise refuse(prefix + key, value, "it is not supported", f"set it to {json.dumps(only)}")
                self.config.ignored.append((prefix + key, "the rules are zero.cpp's own"))
                continue
            if key not in values:
                near = difflib.get_close_matches(key, [*values, *_keys.IGNORED_PARAMETERS], n=1)
                raise refuse(
                    prefix + key,
                    value,
                    f"{given} has no such parameter",
                    f"did you mean {prefix}{near[0]}?" if near else "remove the key",
                )
            if key == "betas":
                if not isinstance(value, (list, tuple)) or len(value) != 2:
                    raise refuse(prefix + key, value, "not two numbers", "write [0.9, 0.999]")
                values[key] = (float(value[0]), float(value[1]))
            elif key == "nesterov":
                values[key] = self._flag(params, prefix, key, False)
            else:
                values[key] = float(self._number(params, prefix, key, values[key]))
        if name == "muon":
            both, matrices, others = (values.pop(key) for key in ("lr", "muon_lr", "adam_lr"))
            values["lr"] = next(rate for rate in (matrices, both, 0.02) if rate is not None)
            values["adamw_lr"] = next(rate for rate in (others, both, 3e-4) if rate is not None)
        self.config.optimizer = (name, values)

    def _read_scheduler(self) -> None:
        section = self._given.get("scheduler")
        if not section or section.get("type") is None:
            return
        name = self._text(section, "scheduler.", "type", "")
        if name not in _keys.SCHEDULERS:
            near = difflib.get_close_matches(name, _keys.SCHEDULERS, n=1)
            raise refuse(
                "scheduler.type",
                name,
                f"none of {', '.join(_keys.SCHEDULERS)}",
                f"did you mean {near[0]}?" if near else "give initialize() an lr_scheduler",
            )
        params = dict(self._section(section, "scheduler.", "params") or {})
        for key, value in params.items():
            if value == "auto":
                raise refuse(
                    f"scheduler.params.{key}",
                    value,
                    "only Hugging Face's Trainer fills in this value",
                    "write the value itself",
                )
            if key not in _keys.SCHEDULERS[name]:
                near = difflib.get_close_matches(key, _keys.SCHEDULERS[name], n=1)
                raise refuse(
                    f"scheduler.params.{key}",
                    value,
                    f"{name} has no such parameter",
                    f"did you mean scheduler.params.{near[0]}?" if near else "remove the key",
                )
        for key, remedy in (
            ("total_num_steps", "write the number of steps"),
            ("cycle_min_lr", "write the lowest rate"),
            ("cycle_max_lr", "write the highest rate"),
        ):
            if key in _keys.SCHEDULERS[name] and key not in params:
                raise refuse(f"scheduler.params.{key}", None, f"{name} needs it", remedy)
        self.config.scheduler = (name, params)

    def _read_states(self) -> None:
        options = self.config.options
        states = self._given.get("zero_optimization") or {}
        prefix = "zero_optimization."
        stage = self._whole(states, prefix, "stage", 0, least=0)
        if stage > 3:
            raise refuse(prefix + "stage", stage, "no such stage", "use 0, 1, 2 or 3")
        options["stage"] = stage
        group = self._number(states, prefix, "mics_shard_size", -1)
        if group > 0:
            options["group"] = int(group)
        wire = {}
        if self._flag(states, prefix, "zero_quantized_weights", False) and stage == 3:
            wire["gather"] = "int8"
        if self._flag(states, prefix, "zero_quantized_gradients", False):
            wire["reduce"] = "int4"
        if wire:
            options["wire"] = wire
        secondary = self._whole(states, prefix, "zero_hpz_partition_size", 1)
        if secondary > 1 and stage == 3:
            options["secondary_group"] = secondary
        self._read_offload(states, stage)

    def _read_offload(self, states: dict[str, Any], stage: int) -> None:
        offload: dict[str, dict[str, float]] = {}
        disks: list[str] = []
        tier, part = self._tier(states, "offload_optimizer", ("cpu_offload",), disks)
        if tier and stage == 0:
            raise refuse(
                "zero_optimization.offload_optimizer",
                tier,
                "DeepSpeed offloads nothing at stage 0",
                "set zero_optimization.stage to 1, 2 or 3",
            )
        if tier:
            offload["optimizer"] = {tier: part}
            if stage > 1:
                offload["gradient"] = {"host": part}
        tier, _ = self._tier(states, "offload_param", ("cpu_offload_param", "cpu_offload_params"), disks)
        if tier and stage < 3:
            raise refuse(
                "zero_optimization.offload_param",
                tier,
                f"stage {stage} keeps parameters on the device",
                "set zero_optimization.stage to 3",
            )
        if tier:
            offload["parameter"] = {tier: 1.0}
        if offload:
            self.config.options["offload"] = offload
        if disks:
            self.config.options["disk"] = disks

    def _tier(self, states: dict[str, Any], key: str, old: tuple[str, ...], disks: list[str]) -> tuple[str, float]:
        """The tier to which a section of offload moves a state, and the share that it moves; an empty tier: none."""
        prefix = f"zero_optimization.{key}."
        section = states.get(key) or {}
        part = float(self._number(section, prefix, "ratio", 1.0))
        if not 0 <= part <= 1:
            raise refuse(prefix + "ratio", part, "not from 0 to 1", "write the part that is offloaded")
        device = self._text(section, prefix, "device", "none")
        if device == "nvme":
            if not section.get("nvme_path"):
                raise refuse(
                    prefix + "device", device, "no nvme_path is given", 'add "nvme_path": "/folder/on/that/disk"'
                )
            path = self._text(section, prefix, "nvme_path", "")
            if path not in disks:
                disks.append(path)
            return "disk", part
        if device not in ("cpu", "none"):
            raise refuse(prefix + "device", device, "no such device", "use none, cpu or nvme")
        if device == "none" and section.get("nvme_path"):  # for offload_states()
            path = self._text(section, prefix, "nvme_path", "")
            if os.path.isdir(path) and path not in disks:
                disks.append(path)
        flags = [flag for flag in old if self._flag(states, "zero_optimization.", flag, False)]
        return ("host", part) if device == "cpu" or flags else ("", part)


_listed: set[tuple[str, ...]] = set()


def list_ignored(config: Config, rank: int) -> None:
    """Local. Logs the ignored keys on rank 0, as one table, once for each set of keys."""
    names = tuple(name for name, _ in config.ignored)
    if rank != 0 or not names or names in _listed:
        return
    _listed.add(names)
    width = max(map(len, names))
    rows = "\n".join(f"  {name:<{width}}  {reason}" for name, reason in config.ignored)
    _log.warning("DeepSpeed keys that have no effect here:\n%s", rows)
