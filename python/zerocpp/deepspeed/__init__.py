"""DeepSpeed's interface over zero.cpp, for scripts that use it:

    import zerocpp.deepspeed as deepspeed

    engine, optimizer, loader, scheduler = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                                                config="ds_config.json")
    for x, y in data:
        loss = criterion(engine(x), y)
        engine.backward(loss)
        engine.step()

It follows DeepSpeed 0.19.8, is imported by this name only, and never registers itself as the module `deepspeed`.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import zerocpp
from zerocpp._model import hidden_matrices
from zerocpp._optimizer import GroupedRule
from zerocpp.deepspeed import comm, ops, runtime, utils, zero
from zerocpp.deepspeed._config import Config, Reader, list_ignored, read_json, refuse
from zerocpp.deepspeed._engine import DeepSpeedEngine
from zerocpp.deepspeed._schedules import SCHEDULES, LRRangeTest, OneCycle, WarmupCosineLR, WarmupDecayLR, WarmupLR
from zerocpp.deepspeed.comm import init_distributed

__all__ = [
    "DeepSpeedEngine",
    "LRRangeTest",
    "OneCycle",
    "WarmupCosineLR",
    "WarmupDecayLR",
    "WarmupLR",
    "add_config_arguments",
    "comm",
    "init_distributed",
    "initialize",
    "ops",
    "runtime",
    "utils",
    "zero",
]


def initialize(
    args: Any = None,
    model: nn.Module | None = None,
    optimizer: Any = None,
    model_parameters: Any = None,
    training_data: Dataset[Any] | None = None,
    lr_scheduler: Any = None,
    distributed_port: int = 29500,
    mpu: Any = None,
    dist_init_required: bool | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    config: str | PathLike[str] | dict[str, Any] | None = None,
    mesh_param: Any = None,
    config_params: str | PathLike[str] | dict[str, Any] | None = None,
) -> tuple[DeepSpeedEngine, Any, DataLoader[Any] | None, Any]:
    """Collective. Returns (engine, optimizer, dataloader, scheduler). A part that was not requested is None.

    optimizer: an optimizer of torch.optim, zero.AdamW(lr=3e-4) and others, or a function of the parameters that returns
        one. It has priority over the section `optimizer`.
    model_parameters: parameters, or groups as dicts, for the section `optimizer`; by default all trained parameters.
    lr_scheduler: a scheduler, or a function of the optimizer that returns one. engine.step() steps it.
    config: a dict, or the path of a JSON file; args.deepspeed_config is also read.

    Raises ConfigError, before anything is allocated, for a misspelt or unsupported key or argument.
    """
    if isinstance(model, nn.Module):
        _end_engine_of(model)
    else:
        raise refuse("model", type(model).__name__, "not a torch.nn.Module", "give initialize() the model")
    for key, value in (("mpu", mpu), ("mesh_param", mesh_param)):
        if value is not None:
            raise refuse(key, str(value), "all ranks are data-parallel", "leave it out")
    zero.end_init()
    found = _read_config(args, config if config is not None else config_params)
    init_distributed(distributed_port=distributed_port, dist_init_required=dist_init_required)
    world = zerocpp.world()
    list_ignored(found, world.rank)
    engine = DeepSpeedEngine(model, found, _optimizer(found, model, optimizer, model_parameters), world)
    engine.collate_fn = collate_fn
    if engine.optimizer is not None:
        engine.lr_scheduler = _scheduler(found, engine.optimizer, lr_scheduler)
    if training_data is not None:
        engine.training_dataloader = engine.deepspeed_io(training_data)
    return engine, engine.optimizer, engine.training_dataloader, engine.lr_scheduler


def _end_engine_of(model: nn.Module) -> None:
    """Collective if `model` has an engine. Ends it, because a script may initialize() the same model again."""
    for parameter in model.parameters():
        engine = zero.engine_of_parameter(parameter)
        if engine is not None:
            logging.getLogger("zerocpp").warning("initialize(): the earlier engine of this model ends")
            engine.close()


def _read_config(args: Any, given: Any) -> Config:
    by_args = getattr(args, "deepspeed_config", None) or getattr(args, "deepscale_config", None)
    if by_args is not None and given is not None:
        raise refuse("config", "given", "args.deepspeed_config is also given", "give only one of the two")
    source = by_args if given is None else given
    if source is None:
        raise refuse("config", None, "there is no configuration", "give a dict, or the path of a JSON file")
    return Reader(read_json(source), zerocpp.world().size).read()


def _optimizer(config: Config, model: nn.Module, given: Any, parameters: Any) -> Any:
    trained = [p for p in model.parameters() if p.requires_grad]
    if given is not None:
        is_function = callable(given) and not isinstance(given, torch.optim.Optimizer)
        return given(trained if parameters is None else list(parameters)) if is_function else given
    if config.optimizer is None:
        return None
    name, values = config.optimizer
    groups = _groups(trained, parameters)
    if name in ("adam", "adamw", "sgd"):
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[name]
        return kind(groups, **values)
    if any(isinstance(group, dict) for group in groups) or len(groups) != len(trained):
        raise refuse(
            "model_parameters",
            f"{len(groups)} entries",
            f"{name} has one group: all trained parameters",
            "leave model_parameters out, or use Adam, AdamW or SGD",
        )
    if name == "lion":
        return zerocpp.Lion(**values)
    if name == "muon":
        return _muon(model, **values)
    ratio = (values.pop("min_coeff"), values.pop("max_coeff"))
    return zerocpp.LAMB(trust_ratio=ratio, **values)


def _muon(model: nn.Module, lr: float, adamw_lr: float, **values: Any) -> GroupedRule:
    """Returns Muon with DeepSpeed's two groups: matrices, and all others. A scheduler sets the rates of both."""
    rates = {True: lr, False: adamw_lr}
    rule = zerocpp.Muon(lr=lr, adamw_lr=0.0, **values)  # 0: AdamW has the rate of its group
    matrices = hidden_matrices(model)

    def divide(parameters: dict[str, torch.Tensor]) -> list[dict[str, Any]]:
        groups = [
            {
                "params": [tensor for tensor in parameters.values() if (id(tensor) in matrices) == use_muon],
                "lr": rate,
                "weight_decay": rule.weight_decay,
                "use_muon": use_muon,
            }
            for use_muon, rate in rates.items()
        ]
        return [group for group in groups if group["params"]]

    return GroupedRule(rule, divide)


def _groups(trained: list[nn.Parameter], parameters: Any) -> list[Any]:
    """Returns the trained parameters, or groups of these; frozen parameters are left out."""
    if parameters is None:
        return trained
    given: Iterable[Any] = parameters.parameters() if isinstance(parameters, nn.Module) else parameters
    groups: list[Any] = []
    for entry in given:
        if isinstance(entry, dict):
            own = entry["params"]
            own = [own] if isinstance(own, torch.Tensor) else list(own)
            groups.append({**entry, "params": [p for p in own if p.requires_grad]})
        elif entry.requires_grad:
            groups.append(entry)
    return groups


def _scheduler(config: Config, optimizer: Any, given: Any) -> Any:
    if given is not None:
        return given(optimizer) if callable(given) and not hasattr(given, "step") else given
    if config.scheduler is None:
        return None
    name, values = config.scheduler
    return SCHEDULES[name](optimizer, **values)


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Local. Adds --deepspeed and --deepspeed_config."""
    group = parser.add_argument_group("DeepSpeed", "DeepSpeed configurations")
    group.add_argument("--deepspeed", default=False, action="store_true", help="use DeepSpeed's interface")
    group.add_argument("--deepspeed_config", default=None, type=str, help="DeepSpeed's JSON file")
    return parser
