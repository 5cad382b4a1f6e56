"""Update rules, and the torch.optim.Optimizer that represents an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from zerocpp import _C, _log, _zero_grad
from zerocpp._errors import refuse

if TYPE_CHECKING:
    from zerocpp._attached import Attached


@dataclass(frozen=True)
class Rule:
    """The base of zero.AdamW and others: hyper-parameters for all trained parameters."""

    lr: float = 1e-3
    weight_decay: float = 0.0

    @property
    def name(self) -> str:
        """Local. The library's name of the rule, such as "adamw"."""
        return type(self).__name__.lower()

    def keys(self) -> dict[str, Any]:
        """Local. Returns the hyper-parameters by name, with lr and weight_decay."""
        return asdict(self)


@dataclass(frozen=True)
class AdamW(Rule):
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01


@dataclass(frozen=True)
class Adam(Rule):
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True)
class SGD(Rule):
    momentum: float = 0.0
    nesterov: bool = False


@dataclass(frozen=True)
class Lion(Rule):
    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)


@dataclass(frozen=True)
class LAMB(Rule):
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    trust_ratio: tuple[float, float] = (0.01, 10.0)


@dataclass(frozen=True)
class AdamW8bit(AdamW):
    pass


@dataclass(frozen=True)
class Muon(Rule):
    lr: float = 0.02
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    muon_scale: str = "original"
    adamw_lr: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-10


@dataclass(frozen=True)
class Adafactor(Rule):
    lr: float = 1e-2
    beta2_decay: float = -0.8
    eps1: float = torch.finfo(torch.float32).eps
    eps2: float = 1e-3
    clip: float = 1.0


Groups = list[dict[str, Any]]


@dataclass(frozen=True)
class GroupedRule:
    """A rule with several groups. `divide` returns the groups of the trained parameters, which it gets by name.

    A group of zero.Muon may have the key `use_muon`, which says whether Muon updates its parameters.
    """

    rule: Rule
    divide: Callable[[dict[str, torch.Tensor]], Groups]


def without_decay_of_vectors(rule: Rule) -> GroupedRule:
    """Local. Returns the rule with the groups of `zero train`: parameters below two dimensions have no weight decay."""

    def divide(parameters: dict[str, torch.Tensor]) -> Groups:
        matrices = [tensor for tensor in parameters.values() if tensor.ndim >= 2]
        vectors = [tensor for tensor in parameters.values() if tensor.ndim < 2]
        groups: Groups = [
            {"params": matrices, "lr": rule.lr, "weight_decay": rule.weight_decay},
            {"params": vectors, "lr": rule.lr, "weight_decay": 0.0},
        ]
        return [group for group in groups if group["params"]] or groups[:1]

    return GroupedRule(rule, divide)


# Hyper-parameters of a group that cannot change after attach().
_CONSTANTS = (
    "betas",
    "eps",
    "momentum",
    "nesterov",
    "dampening",
    "amsgrad",
    "maximize",
    "decoupled_weight_decay",
    "adjust_lr_fn",
    "ns_coefficients",
    "ns_steps",
)

# torch's class, our name, and the hyper-parameters that must be equal in all groups.
_TORCH_RULES: dict[type, tuple[str, tuple[str, ...]]] = {
    torch.optim.AdamW: ("adamw", ("betas", "eps", "decoupled_weight_decay")),
    torch.optim.Adam: ("adam", ("betas", "eps", "decoupled_weight_decay")),
    torch.optim.SGD: ("sgd", ("momentum", "nesterov")),
    torch.optim.Muon: ("muon", ("momentum", "nesterov", "adjust_lr_fn")),
}

# Hyper-parameters of torch.optim.Muon that the rule here has built in.
_OF_NEWTON_SCHULZ = {"ns_coefficients": (3.4445, -4.7750, 2.0315), "eps": 1e-7, "ns_steps": 5}


def _number(value: Any) -> Any:
    """Returns a plain number, because learning rates may be tensors."""
    if isinstance(value, torch.Tensor):
        return value.item()
    return tuple(_number(v) for v in value) if isinstance(value, (tuple, list)) else value


def _rule_of(optimizer: torch.optim.Optimizer) -> tuple[str, dict[str, Any]]:
    kind = type(optimizer)
    if kind not in _TORCH_RULES:
        known = ", ".join(f"torch.optim.{known.__name__}" for known in _TORCH_RULES)
        raise refuse(
            "optimizer",
            kind.__name__,
            "this optimizer is not known",
            f"use {known}; or zero.Lion, zero.LAMB, zero.AdamW8bit, zero.Muon, zero.Adafactor",
        )
    name, common = _TORCH_RULES[kind]
    groups = optimizer.param_groups
    first = groups[0]
    for group in groups:
        for flag in ("amsgrad", "maximize"):
            if group.get(flag):
                raise refuse(f"optimizer.{flag}", True, "it is not supported", f"leave {flag} out")
        if group.get("dampening"):
            raise refuse("optimizer.dampening", group["dampening"], "it is not supported", "leave dampening out")
        for key, value in _OF_NEWTON_SCHULZ.items() if kind is torch.optim.Muon else ():
            if _number(group[key]) != value:
                raise refuse(
                    f"optimizer.{key}", group[key], f"Newton-Schulz iterations have {value} here", f"leave {key} out"
                )
        for key in common:
            if _number(group[key]) != _number(first[key]):
                raise refuse(
                    f"optimizer.{key}",
                    group[key],
                    f"another group has {first[key]}",
                    "give all groups the same; weight_decay and lr may differ",
                )
    keys = {key: _number(first[key]) for key in common}
    if name in ("adam", "adamw"):
        name = "adamw" if keys.pop("decoupled_weight_decay") else "adam"
    if kind is torch.optim.Muon:
        keys["muon_scale"] = keys.pop("adjust_lr_fn") or "original"
    return name, keys


def _refuse_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    raise refuse(
        "optimizer.step",
        type(optimizer).__name__,
        "attach() has this optimizer's parameters, so it finds no gradients and changes nothing",
        "call engine.step(), or engine.optimizer.step()",
    )


def _refuse_states(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> None:
    """Raises ConfigError for a state_dict() with moments, because the engine has its own."""
    if state_dict.get("state"):
        raise refuse(
            "load_state_dict",
            f"states of {len(state_dict['state'])} parameters",
            "the engine has the moments, and they would not change",
            'set state_dict["state"] = {} to load only rates and decays; engine.load() reads moments',
        )


class ReadOptimizer:
    """What attach() reads from its argument `optimizer`: the rule, and the groups with names of parameters."""

    def __init__(
        self, optimizer: Any, names: dict[int, str], trained: Iterable[str], parameters: dict[str, torch.Tensor]
    ) -> None:
        if optimizer is None:
            optimizer = AdamW()
        uses_muon: list[bool | None] = []
        if isinstance(optimizer, (Rule, GroupedRule)):
            rule = optimizer.rule if isinstance(optimizer, GroupedRule) else optimizer
            own_parameters = {name: parameters[name] for name in trained}
            self.name, self.keys = rule.name, rule.keys()
            self.groups: Groups = [
                {"params": list(own_parameters.values()), "lr": rule.lr, "weight_decay": rule.weight_decay}
            ]
            if isinstance(optimizer, GroupedRule):
                self.groups = optimizer.divide(own_parameters)
            uses_muon = [group.get("use_muon") for group in self.groups]
            self.defaults = {"lr": rule.lr, "weight_decay": rule.weight_decay}
        elif isinstance(optimizer, torch.optim.Optimizer):
            self.name, self.keys = _rule_of(optimizer)
            self.groups = optimizer.param_groups
            self.defaults = optimizer.defaults
            uses_muon = [True if isinstance(optimizer, torch.optim.Muon) else None] * len(self.groups)
            self.keys["lr"] = float(_number(self.groups[0]["lr"]))
            self.keys["weight_decay"] = float(self.groups[0].get("weight_decay", 0.0))
        else:
            raise refuse(
                "optimizer",
                type(optimizer).__name__,
                "not an optimizer",
                "give an object of torch.optim, or zero.AdamW(lr=3e-4)",
            )
        self.given = optimizer
        self._hooks: list[Any] = []  # of refuse_steps()
        # Names of parameters, weight decay, scale of the rate, and whether Muon takes them; None: it decides.
        self.rows: list[tuple[set[str], float, float, bool | None]] = []
        self.sizes = [len(group["params"]) for group in self.groups]
        self.constants = [self._constants_of(group) for group in self.groups]
        rates = [float(_number(group["lr"])) for group in self.groups]
        if not any(rates):  # a warm-up begins at 0
            rates = [float(_number(group.get("initial_lr", 0.0))) for group in self.groups]
        base = next((rate for rate in rates if rate != 0), 0.0)
        for number, (group, rate, uses) in enumerate(zip(self.groups, rates, uses_muon)):
            own = set()
            for parameter in group["params"]:
                if id(parameter) not in names:
                    raise refuse(
                        "optimizer",
                        f"param_groups[{number}]",
                        "it has a tensor that is no parameter of the model",
                        "make the optimizer from the parameters of this model",
                    )
                own.add(names[id(parameter)])
            scale = rate / base if base else 1.0
            self.rows.append((own, float(group.get("weight_decay", 0.0)), scale, uses))
        missing = set(trained).difference(*(row[0] for row in self.rows))
        self._others = {name: parameters[name] for name in trained if name in missing}

    @contextmanager
    def freezing_others(self) -> Iterator[None]:
        """Local. A scope that makes an engine. Parameters in no group are frozen from here on, as torch never updates
        them. If the scope raises they are trained parameters again."""
        for parameter in self._others.values():
            parameter.requires_grad_(False)
        try:
            yield
        except BaseException:
            self.release_others()
            raise

    def report_others(self) -> None:
        """Local. Logs the names of the parameters that freezing_others() froze, and states that are not read."""
        if isinstance(self.given, torch.optim.Optimizer) and self.given.state:
            _log.logger.warning("attach() does not read the optimizer's states: its moments begin at 0")
        if not self._others:
            return
        names = ", ".join(list(self._others)[:3]) + (", ..." if len(self._others) > 3 else "")
        _log.logger.warning(
            "%d parameters are in no group of the optimizer, and keep their values: %s", len(self._others), names
        )

    def release_others(self) -> None:
        """Local. Ends what freezing_others() did: these parameters get gradients again."""
        for parameter in self._others.values():
            parameter.requires_grad_(True)

    def refuse_steps(self) -> None:
        """Local. From here on step() of the given optimizer raises ConfigError, because it finds no gradients.

        Its load_state_dict() sets the numbers of the engine's groups, and refuses moments.
        """
        if isinstance(self.given, torch.optim.Optimizer):
            self._hooks = [
                self.given.register_step_pre_hook(_refuse_step),
                self.given.register_load_state_dict_pre_hook(_refuse_states),
                self.given.register_load_state_dict_post_hook(self._keep_groups),
            ]

    def _keep_groups(self, optimizer: torch.optim.Optimizer) -> None:
        """Restores the groups, which torch replaced, with the loaded numbers. Schedulers and the engine share them."""
        self.load_numbers(optimizer.param_groups)
        optimizer.param_groups = self.groups

    def load_numbers(self, groups: Groups) -> None:
        """Local. Sets the numbers of the groups, such as rates and decays, to those of as many other groups."""
        for own, loaded in zip(self.groups, groups, strict=True):
            own.update({key: value for key, value in loaded.items() if key != "params"})

    def allow_steps(self) -> None:
        """Local. Ends what refuse_steps() did."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    @staticmethod
    def _constants_of(group: dict[str, Any]) -> dict[str, Any]:
        return {key: _number(group[key]) for key in _CONSTANTS if key in group}

    def require_constants(self) -> None:
        """Local. Raises ConfigError for a group or a parameter added since attach(), or a changed hyper-parameter."""
        if isinstance(self.given, torch.optim.Optimizer) and self.given.param_groups is not self.groups:
            raise refuse(
                "optimizer",
                "param_groups",
                "this list was replaced since attach(), so its rates would have no effect",
                "change lr and weight_decay within the groups",
            )
        if len(self.groups) != len(self.constants):
            raise refuse(
                "optimizer",
                f"{len(self.groups)} groups",
                f"there were {len(self.constants)} at attach()",
                "add groups before attach()",
            )
        for number, (group, size, constants) in enumerate(zip(self.groups, self.sizes, self.constants)):
            if len(group["params"]) != size:
                raise refuse(
                    f"param_groups[{number}].params",
                    f"{len(group['params'])} parameters",
                    f"there were {size} at attach()",
                    "add parameters before attach()",
                )
            for key, value in constants.items():
                if _number(group.get(key)) != value:
                    raise refuse(
                        f"param_groups[{number}].{key}",
                        group.get(key),
                        f"it was {value} at attach(), and cannot change",
                        "schedules may change lr and weight_decay; OneCycleLR and CyclicLR need cycle_momentum=False",
                    )


class EngineOptimizer(torch.optim.Optimizer):
    """The engine as an optimizer, for learning-rate schedulers and trainers. It shares the given optimizer's groups.

    step() is the engine's step(). zero_grad() drops the gradients of the running step. State is read with
    engine.state(); state_dict() holds only the groups' numbers. `fewer_micro_batches`: see the engine's step().
    """

    fewer_micro_batches = False

    def __init__(self, engine: Attached, read: ReadOptimizer) -> None:
        super().__init__([torch.zeros(())], dict(read.defaults))  # a placeholder for the given groups
        self._engine = engine
        self._read = read
        self.param_groups = read.groups
        self._early: _C.StepReport | None = None
        self._opt_called = False

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    @property
    def has_betas(self) -> bool:
        """Local. Whether DeepSpeed's optimizer of this rule has betas in its `defaults`; that of Muon has not."""
        return "betas" in self._read.keys and self._read.name != "muon"

    def rates(self, lr: float | None = None) -> tuple[float, list[float], list[float]]:
        """Local. Returns the rate, the rates of groups, and their weight decays, for the next step.

        lr: the rate of this step; groups keep their ratios of attach(). Without it the rates are those in
        `param_groups`, in any ratio.
        """
        self._read.require_constants()
        decays = [float(_number(group.get("weight_decay", 0.0))) for group in self.param_groups]
        if lr is not None:
            return float(lr), [], decays
        rates = [float(_number(group["lr"])) for group in self.param_groups]
        return rates[0], rates, decays

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Collective. Runs `closure`, if there is one, then the engine's step(). Returns the closure's result."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._early is None:
            self._engine.step(fewer_micro_batches=self.fewer_micro_batches)
        self._early = None
        return loss

    def step_early(self) -> _C.StepReport:
        """Collective. Makes the engine's step now; the next step() does nothing. For trainers that clip separately."""
        if self._early is None:
            self._early = self._engine.step(fewer_micro_batches=True)
        return self._early

    def mark_called(self) -> None:
        """Local. Reports a step to learning-rate schedulers, also to those of the optimizer given to attach()."""
        self._opt_called = True
        if isinstance(self._read.given, torch.optim.Optimizer):
            self._read.given._opt_called = True  # type: ignore[attr-defined]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Local, and the same on every rank. Drops the running step's gradients, if it has any."""
        self._early = None  # an early step that step() has not ended
        _zero_grad.drop_or_clear((p for group in self.param_groups for p in group["params"]), set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Local. Raises ConfigError: groups are fixed from attach() on."""
        if not hasattr(self, "_read"):  # still in the base's constructor
            super().add_param_group(param_group)
            return
        raise refuse("optimizer", "add_param_group", "the engine exists already", "add groups before attach()")

    def state_dict(self) -> dict[str, Any]:
        """Local. Returns the numbers of the groups, in torch's format, without states: engine.save() writes these."""
        groups, number = [], 0
        for group in self.param_groups:
            entry = {key: value for key, value in group.items() if key != "params"}
            entry["params"] = list(range(number, number + len(group["params"])))
            number += len(group["params"])
            groups.append(entry)
        return {"state": {}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Local. Sets the numbers of the groups. engine.load() reads moments: a dict with moments is refused."""
        _refuse_states(self, state_dict)
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise refuse(
                "optimizer",
                f"{len(groups)} groups",
                f"this optimizer has {len(self.param_groups)}",
                "load the state of the same groups",
            )
        self._read.load_numbers(groups)
