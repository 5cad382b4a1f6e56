"""attach(config=): options and optimizer from a file, or from a dict."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from zerocpp import _log, _optimizer, _options
from zerocpp._errors import refuse

if TYPE_CHECKING:
    from zerocpp.deepspeed import _config as deepspeed_config

Source = str | PathLike[str] | Mapping[str, Any]


@dataclass
class Config:
    """The options of attach() in a configuration, and its optimizer if it names one. `keys`: the source of each
    option. `usual_optimizer`: the one of attach() if neither the configuration nor the program names one."""

    options: dict[str, Any] = field(default_factory=dict)
    optimizer: _optimizer.Rule | _optimizer.GroupedRule | None = None
    optimizer_key: str = "optimizer"
    usual_optimizer: _optimizer.GroupedRule | None = None
    keys: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, option: str, value: Any) -> None:
        """Local. Sets an option of attach(), and notes the `key` of the configuration that it comes from."""
        self.options[option] = value
        self.keys[option] = key


def read(source: Source, ranks: int) -> Config:
    """Local. Reads zero.toml, a DeepSpeed JSON, or a dict: of options, of sections of zero.toml, or of DeepSpeed."""
    if isinstance(source, Mapping):
        given = dict(source)
        if _is_deepspeed(given):
            return _of_deepspeed(given, ranks)
        if given and all(key in _SECTIONS and isinstance(value, Mapping) for key, value in given.items()):
            return _of_sections(given)
        return _of_options(given)
    path = fspath(source)
    if path.endswith(".toml"):
        return _of_sections(_read_toml(path))
    if path.endswith(".json"):
        from zerocpp.deepspeed._config import read_json

        return _of_deepspeed(read_json(path), ranks)
    raise refuse("config", path, "neither .toml nor .json", "name a zero.toml or a ds_config.json, or give a dict")


def optimizer_of(config: Config, given: Any) -> Any:
    """Local. Returns the optimizer of attach(), or that of its configuration. Raises ConfigError if there are two."""
    if given is None:
        return config.optimizer if config.optimizer is not None else config.usual_optimizer
    if config.optimizer is not None:
        raise refuse(
            "optimizer",
            type(given).__name__,
            f"the configuration says {config.optimizer_key}",
            "leave out the argument, or the configuration's optimizer",
        )
    return given


def merge(config: Config, given: Mapping[str, Any], source: str = "the configuration") -> dict[str, Any]:
    """Local. Returns the options of both. Raises ConfigError, with the name of the source, if they disagree."""
    merged = dict(config.options)
    for name, value in given.items():
        if value is None:
            continue
        if name in merged and merged[name] != value:
            raise refuse(
                name,
                value,
                f"{source} says {config.keys.get(name, name)} = {merged[name]}",
                "give the option in one of the two places only",
            )
        merged[name] = value
    return merged


# ---- a dict of options


def _of_options(given: dict[str, Any]) -> Config:
    config = Config()
    known = [*_options.names(), *_options.OF_PIPELINES]
    for name, value in given.items():
        if name == "optimizer" and isinstance(value, _optimizer.Rule):
            config.optimizer = value
        elif name not in known:
            raise refuse(f"config.{name}", value, "no such option", _options.nearest(name, known))
        else:
            config.set(name, name, value)
    return config


# ---- zero.toml


def _as_is(value: Any) -> Any:
    return value


def _unless(word: Any) -> Callable[[Any], Any]:
    return lambda value: None if value == word else value


def _placement(value: Any) -> Any:
    if value not in ("auto", "device"):
        raise refuse("zero.placement", value, "no such placement", 'use "auto" or "device"')
    return None if value == "auto" else False


# Key of zero.toml: the option of attach(), and a function that returns its value; None leaves the option out.
_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "zero.stage": ("stage", _as_is),
    "zero.group": ("group", _unless("auto")),
    "zero.secondary_group": ("secondary_group", _as_is),
    "zero.shards": ("shards", _as_is),
    "zero.shard_weights": ("shard_weights", _unless("auto")),
    "zero.device_memory": ("device_memory", _as_is),
    "zero.host_memory": ("host_memory", _as_is),
    "zero.disk": ("disk", _as_is),
    "zero.disk_memory": ("disk_memory", _unless("auto")),
    "zero.delayed_update": ("delayed_update", _as_is),
    "zero.checksums": ("checksums", _as_is),
    "zero.placement": ("offload", _placement),
    "train.accumulate": ("accumulate", _as_is),
    "train.leaves": ("leaves", _unless(0)),
    "train.reduce": ("reduce", _as_is),
    "train.dtype": ("dtype", _as_is),
    "train.reduce_dtype": ("reduce_dtype", _unless("same")),
    "train.loss_scale": ("loss_scale", _as_is),
    "train.clip": ("clip", _as_is),
    "train.ema": ("ema", _as_is),
    "parallel.pipeline": ("pipeline", _unless(1)),
    "parallel.sections": ("sections", _unless(0)),
    "parallel.schedule": ("schedule", _as_is),
    "parallel.depth": ("depth", _unless(0)),
    "parallel.cut": ("cut", _as_is),
    "parallel.activation_memory": ("activation_memory", _as_is),
    "run.threads": ("threads", _unless(0)),
    "run.device": ("device", _unless("auto")),
}
# Keys that are parts of one option: the option, and the path of the part in its dict.
_PARTS: dict[str, tuple[str, str]] = {
    "zero.parameter": ("offload", "parameter"),
    "zero.gradient": ("offload", "gradient"),
    "zero.optimizer": ("offload", "optimizer"),
    "comm.gather_wire": ("wire", "gather"),
    "comm.reduce_wire": ("wire", "reduce"),
    "comm.outer_wire": ("wire", "outer"),
    "comm.outer_topk": ("wire", "outer_topk"),
    "sync.local_steps": ("local", "steps"),
    "sync.outer_lr": ("local", "outer_lr"),
    "sync.outer_momentum": ("local", "outer_momentum"),
    "sync.fragments": ("local", "fragments"),
    "sync.overlap": ("local", "overlap"),
    "sync.mix": ("local", "mix"),
}
_SECTIONS = ("zero", "train", "optimizer", "parallel", "comm", "sync", "run", "model", "data", "schedule", "checkpoint",
             "health")  # fmt: skip
_OF_THE_PROGRAM = {
    "model": "the program makes the model",
    "data": "the program reads its data",
    "schedule": "use a scheduler of torch.optim.lr_scheduler on engine.optimizer",
    "checkpoint": "call engine.save()",
    "health": "use max_loss and max_grad_norm of engine.step()",
}
_RULES: dict[str, type[_optimizer.Rule]] = {
    kind.__name__.lower(): kind
    for kind in (
        _optimizer.AdamW,
        _optimizer.Adam,
        _optimizer.SGD,
        _optimizer.Lion,
        _optimizer.LAMB,
        _optimizer.AdamW8bit,
        _optimizer.Muon,
        _optimizer.Adafactor,
    )
}

# Default values of [optimizer] in `zero train` that differ from those of the classes (zero/optim/rule/rule_row.h).
_OF_TRAIN: dict[str, dict[str, Any]] = {
    "adamw": {"betas": (0.9, 0.99), "weight_decay": 0.1},
    "adam": {"betas": (0.9, 0.99)},
    "sgd": {},
    "lion": {"lr": 1e-3, "weight_decay": 0.1},
    "lamb": {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1},
    "adamw8bit": {"betas": (0.9, 0.99), "weight_decay": 0.1},
    "muon": {"lr": 1e-3, "adamw_lr": 0.0, "betas": (0.9, 0.99), "eps": 1e-8},
    "adafactor": {},
}


def _read_toml(path: str) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError as error:  # Python 3.10
        raise refuse("config", path, "this Python has no tomllib", "use Python 3.11, or give a dict") from error
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise refuse("config", path, f"cannot be read: {error.strerror}", "name a zero.toml, or give a dict") from error
    except tomllib.TOMLDecodeError as error:
        raise refuse("config", path, f"not TOML: {error}", "correct the file") from error


def _of_sections(given: Mapping[str, Any]) -> Config:
    config = Config(usual_optimizer=_optimizer.without_decay_of_vectors(_rule_of({})))
    mode = "sync"
    for section, values in given.items():
        if section in _OF_THE_PROGRAM:
            raise refuse("config", f"[{section}]", "attach() does not read this section", _OF_THE_PROGRAM[section])
        if section not in _SECTIONS or not isinstance(values, Mapping):
            raise refuse("config", section, "no such section", _options.nearest(section, _SECTIONS))
        if section == "optimizer":
            rule = _rule_of(values)
            config.optimizer = _optimizer.without_decay_of_vectors(rule)
            config.optimizer_key = f"optimizer.name = {rule.name}"
            continue
        for name, value in values.items():
            key = f"{section}.{name}"
            if key == "sync.mode":
                mode = value
            elif key in _KEYS:
                option, convert = _KEYS[key]
                if (converted := convert(value)) is not None:
                    config.set(key, option, converted)
            elif key in _PARTS:
                option, part = _PARTS[key]
                config.set(key, option, {**_dict_of(config, option, key), part: value})
            else:
                known = [*_KEYS, *_PARTS, "sync.mode"]
                raise refuse(key, value, "attach() does not read this key", _options.nearest(key, known))
    return _with_mode(config, mode)


def _dict_of(config: Config, option: str, key: str) -> dict[str, Any]:
    found = config.options.get(option, {})
    if not isinstance(found, dict):
        raise refuse(
            key, "given", f"{config.keys[option]} says that no state leaves the device", "leave one of them out"
        )
    return found


def _with_mode(config: Config, mode: str) -> Config:
    if mode == "local":
        config.options.setdefault("local", {})
    elif mode != "sync":
        raise refuse("sync.mode", mode, "servers are not for Python programs", 'use "sync" or "local"')
    elif "local" in config.options:
        raise refuse(config.keys["local"], "given", 'sync.mode is "sync"', 'set sync.mode = "local", or remove the key')
    wire = config.options.get("wire", {})
    if wire.get("outer") == "topk":
        wire["outer"] = "none"
        wire.setdefault("outer_topk", 0.01)
    elif "outer_topk" in wire:
        raise refuse(
            "comm.outer_topk", wire["outer_topk"], 'comm.outer_wire is not "topk"', "set it, or remove the key"
        )
    return config


def _rule_of(values: Mapping[str, Any]) -> _optimizer.Rule:
    name = str(values.get("name", "adamw"))
    if name not in _RULES:
        raise refuse("optimizer.name", name, "no such optimizer", _options.nearest(name, _RULES))
    kind = _RULES[name]
    known = list(kind.__dataclass_fields__)
    taken = dict(_OF_TRAIN[name])
    for key, value in values.items():
        if key == "name":
            continue
        if key == "group":
            raise refuse(
                "optimizer.group", "given", "groups are made in the program", "give attach() a torch.optim.AdamW"
            )
        if key not in known:
            raise refuse(f"optimizer.{key}", value, f"{name} has no such key", _options.nearest(key, known))
        taken[key] = tuple(value) if isinstance(value, list) else value
    return kind(**taken)


# ---- DeepSpeed's JSON

_OF_DEEPSPEED = ("zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "bf16", "bfloat16", "fp16",
                 "gradient_accumulation_steps", "gradient_clipping")  # fmt: skip


def _is_deepspeed(given: Mapping[str, Any]) -> bool:
    optimizer = given.get("optimizer")
    return any(key in given for key in _OF_DEEPSPEED) or (isinstance(optimizer, Mapping) and "type" in optimizer)


def _of_deepspeed(given: dict[str, Any], ranks: int) -> Config:
    from zerocpp.deepspeed._config import Reader

    found = Reader(given, ranks).read()
    if found.scheduler is not None:
        raise refuse(
            "scheduler.type",
            json.dumps(found.scheduler[0]),
            "attach() makes no scheduler",
            "use a scheduler of torch on engine.optimizer, or zerocpp.deepspeed.initialize()",
        )
    _refuse_unread(found)
    config = Config()
    for option, value in found.options.items():
        config.set(_KEY_OF_DEEPSPEED.get(option, "zero_optimization"), option, value)
    if found.dtype is not None:
        config.set(f"{found.dtype}.enabled", "dtype", found.dtype)
    if found.optimizer is not None:
        name, values = found.optimizer
        if name == "lamb":
            values["trust_ratio"] = (values.pop("min_coeff"), values.pop("max_coeff"))
        config.optimizer = _RULES[name](**values)
        config.optimizer_key = f"optimizer.type = {name}"
    for key, reason in found.ignored:
        _log.logger.info("config: %s is ignored: %s", key, reason)
    return config


def _refuse_unread(found: deepspeed_config.Config) -> None:
    """Refuses keys that initialize() follows and attach() does not, unless their value is DeepSpeed's default."""
    for key, value, default, remedy in (
        ("torch_autocast.enabled", found.autocast is not None, False, "call the model within torch.autocast()"),
        ("fp16.auto_cast", found.auto_cast, False, "convert the inputs of the model"),
        ("data_types.buffer_dtype", found.buffer_dtype, None, "remove the key"),
        ("gradient_allreduce_op", "sum" if found.sums_ranks else "mean", "mean", "multiply the loss by the ranks"),
        ("managed_gradient_accumulation", found.managed, True, "set gradient_accumulation_steps"),
        ("dataloader_drop_last", found.drop_last, False, "set drop_last of the DataLoader"),
    ):
        if value != default:
            reason = "attach() does not read this key"
            raise refuse(key, json.dumps(value), reason, f"{remedy}, or use zerocpp.deepspeed.initialize()")
    if found.print_every is not None:
        found.ignored.append(("steps_per_print", "attach() prints no steps"))


_KEY_OF_DEEPSPEED = {
    "stage": "zero_optimization.stage",
    "clip": "gradient_clipping",
    "accumulate": "gradient_accumulation_steps",
    "average_micro_batches": "gradient_accumulation_steps",
    "loss_scale": "fp16.loss_scale",
    "reduce_dtype": "data_types.grad_accum_dtype",
    "group": "zero_optimization.mics_shard_size",
    "offload": "zero_optimization.offload_optimizer",
}
