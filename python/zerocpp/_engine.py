"""attach(): ZeRO for one module, and the Engine that it returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from zerocpp import _C, _attached, _config, _log, _optimizer, _options, _plan, _weights, _world
from zerocpp._attached import Loaded, Parameter, _engines, abandon_all, engine_of
from zerocpp._errors import refuse
from zerocpp._saving import Saving

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Engine", "Loaded", "Saving", "_engines", "abandon_all", "attach", "attach_with", "engine_of"]

_STATES = ("parameter", "gradient", "optimizer")


@_log.drains
def attach(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | _optimizer.Rule | None = None,
    *,
    world: _C.World | None = None,
    config: _config.Source | None = None,
    weights: str | PathLike[str] | None = None,
    **options: Unpack[_options.Options],
) -> Engine:
    """Collective. Attaches `model` and returns its engine. Rank 0's parameters and buffers are broadcast first.

    From now on a parameter has no memory until an operator uses it. Its name, shape, identity and autograd history
    stay. Gradients never appear in `.grad`.

    optimizer: a torch.optim.AdamW, Adam, SGD or Muon, whose class and groups are read; or zero.AdamW(lr=3e-4) and
        others. The groups decide: a bias decays if its group does. Parameters in no group keep their values: they are
        frozen until close(). Without `optimizer` it is zero.AdamW().
    config: options from a zero.toml, a DeepSpeed JSON file, or a dict of either form or of options. It may also name
        the optimizer. An option with another value in a keyword is an error.
    weights: a safetensors file, its index, or a folder with model.safetensors or its index. Its values replace the
        model's. Rank 0 reads one parameter at a time, and no rank holds a second model: so a model of deferred() can be
        larger than the memory. It must have exactly the tensors of state_dict(), tied ones under any of their names.
        Give it on every rank.
    options: the fields of AttachOptions in C++ (docs/guide/python.md): stage (0 to 3), clip (gradient norm), accumulate
        (micro-batches a step), dtype ("bf16"), device_memory ("64MiB"), offload ({"optimizer": {"host": 1}}), disk.

    Raises ConfigError, before anything is allocated, for an impossible option, and for weights of another model.
    Raises IoError if the weights cannot be read.
    """
    return attach_with(model, optimizer, world, dict(options), config=config, weights=weights)


def attach_with(
    model: nn.Module,
    optimizer: Any,
    world: _C.World | None,
    options: dict[str, Any],
    keep_buffers: bool = False,
    config: _config.Source | None = None,
    weights: str | PathLike[str] | None = None,
) -> Engine:
    """Collective. Like attach(), but with keep_buffers all buffers keep their types for every value of dtype."""
    _options.require_known(options)
    given = _attached.read_model(model, optimizer, world, options, keep_buffers, config)
    _options.require_known(given.options)
    tensors = given.tensors
    source: Callable[[str], torch.Tensor] | None = None
    if weights is not None:
        device = given.options.get("device") or "cpu"
        values = _weights.first_values(weights, model, tensors, given.world, device)
        source = _weights.not_read if values is None else values.read
    with given.read.freezing_others():
        core = _C.Engine(
            given.world,
            tensors.parameters,
            tensors.buffers,
            tensors.own_unit,
            tensors.fp32,
            tensors.keeps_buffers,
            given.passed(_options.names()),
            source,
        )
    return Engine(core, model, given)


def attach_for_library(key: str, model: nn.Module, optimizer: torch.optim.Optimizer, options: dict[str, Any]) -> Engine:
    """Collective. Like attach() for a library that divides each loss by the number of micro-batches.

    key: what the user calls the options. Raises ConfigError if `config` makes the engine divide a second time.
    """
    engine = attach(model, optimizer, **options)
    if engine.options.get("accumulate", 1) == 1:
        return engine
    try:
        refuse_average(key, engine.options)
    except _C.ConfigError:
        engine.close()
        raise
    return engine


def refuse_other_ranks(key: str, ranks: int, options: Mapping[str, Any], remedy: str) -> None:
    """Local, but for the first call of world(). Raises ConfigError if an engine with `options` has another world.

    key, ranks: the library's name for its number of ranks, and this number.
    """
    own = (options.get("world") or _world.world()).size
    if own != ranks:
        raise refuse(key, ranks, f"the world of an engine has size {own}", remedy)


def refuse_average(key: str, options: Mapping[str, Any]) -> None:
    """Local. Raises ConfigError for average_micro_batches, because the library divides each loss already."""
    if options.get("average_micro_batches"):
        raise refuse(
            f"{key}.average_micro_batches",
            True,
            "the loss is divided by the number of micro-batches already",
            "leave it out; in a file of DeepSpeed leave out gradient_accumulation_steps",
        )


class Engine(_attached.Attached):
    """The engine of one module. `with` closes it at the end.

    Most functions raise ConfigError after close(), and for a name or a tensor that is no parameter of the model.
    Collective functions raise CommError if a rank has ended, or is later than the world's timeout.
    """

    _core: _C.Engine

    # ---- a step

    def backward(self, loss: torch.Tensor, **arguments: Any) -> None:
        """Local on one rank, else Collective if the model's operators are. The same as scaled(loss).backward()."""
        self.scaled(loss).backward(**arguments)

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """Local. Returns `loss` times the loss scale, which fp16 needs; without a scale, `loss` itself."""
        return self._core.scaled(loss)

    def micro_batch(self, number: int) -> None:
        """Local. Assigns the passes from now on to the step's micro-batch `number`: 0 to `accumulate` - 1."""
        self._core.micro_batch(number)

    def merge_copies(self) -> None:
        """Collective; between steps. Makes the outer step of the option `local` now: all copies get the same weights.

        Raises ConfigError without that option.
        """
        self._core.merge_copies()

    # ---- scopes

    def gathered(self, *what: nn.Module | Parameter, write_from: int | None = None) -> _C.Scope:
        """Collective at both ends. Holds parameters whole: any code can read and write them, also through pointers.

        what: modules, parameters or names; without any, the whole model.
        write_from: the rank whose written values count. Without it every rank must write the same values.
        """
        tensors = self._tensors(what)
        return self._core.gathered(tensors, -1 if write_from is None else write_from)

    def using(self, *parameters: Parameter) -> _C.Scope:
        """Collective at the beginning if parameters are sharded. Lets other code read the memory of these parameters.

        For kernels of Triton or of a C++ extension, which are not operators of torch. The scope counts as one operator.
        """
        return self._core.using(self._tensors(parameters))

    def frozen(self) -> _C.Scope:
        """Local. Excludes passes through the model from its steps: its gradients are dropped."""
        return self._core.frozen()

    # ---- states

    def gradient(self, parameter: Parameter) -> torch.Tensor:
        """Collective; between the last backward pass and step(), else ConfigError. Returns the unclipped gradient.

        It has the parameter's shape, in fp32 on every rank: the mean over ranks. It is zero if no rank has a gradient.
        A frozen parameter has none: ConfigError.
        """
        return self._core.gradient(self._name(parameter))

    def grad_norms(self) -> dict[str, float]:
        """Collective; between the last backward pass and step(), else ConfigError. Returns the norm of each gradient.

        The sum of their squares is the square of the step's grad_norm.
        """
        return self._core.grad_norms()

    def state(self, parameter: Parameter, name: str = "parameter") -> torch.Tensor:
        """Collective; between steps. Returns a whole state in fp32: "parameter", or a moment such as "exp_avg".

        It has the parameter's shape; Adafactor's "row_var" and "col_var" have one dimension. A parameter in 16 bits is
        read from its master copy. Raises ConfigError for a state that the parameter has not.
        """
        return self._core.full_state(self._name(parameter), name)

    def state_shard(self, parameter: Parameter, name: str = "parameter") -> tuple[int, torch.Tensor]:
        """Collective; between steps. Returns the index of the first element of this rank's shard, and its values.

        The index is that of the flattened parameter. The values have one dimension, in fp32. Raises ConfigError for a
        state that the parameter has not, and with `shards="hash"`, because a rank then has several ranges.
        """
        return self._core.state_shard(self._name(parameter), name)

    def state_names(self, parameter: Parameter | None = None) -> list[str]:
        """Local. Returns the names of all states, or of those of one parameter."""
        return self._core.state_names(None if parameter is None else self._name(parameter))

    def state_dict(
        self, to: str = "all", full_precision: bool = False, names: Collection[str] | None = None
    ) -> dict[str, torch.Tensor]:
        """Collective. As in the base; with `names` only their units are gathered, and not in full precision."""
        if names is None or to not in ("all", "rank0"):
            return super().state_dict(to, full_precision)
        keep = to == "all" or self.world.rank == 0
        chosen = [(key, value) for key, value in self.model.state_dict(keep_vars=True).items() if key in names]
        with self.frozen():  # clone() is Collective, but not part of a step
            copies = ((key, value.detach().clone().cpu()) for key, value in chosen)
            return {key: value for key, value in copies if keep}

    @_log.drains
    def offload_states(self, *states: str) -> int:
        """Collective; between steps. Moves states from memory to the option `disk`. Returns the bytes that this rank
        moved.

        states: of "parameter", "gradient" and "optimizer" (master copies and moments), the same on every rank; by
            default all three. Whole parameters and gradients (stages 0 to 2) stay.

        Steps keep their bits; until reload_states() they read and write states on the disk. Raises ConfigError if
        states cannot move: without `disk` or room there, with fractions in `offload`, on a GPU; and between a backward
        pass and its step(). Raises IoError if the disk fails.
        """
        for state in states:
            if state not in _STATES:
                raise refuse("offload_states", state, "no such state", f"use {', '.join(_STATES)}")
        parameter, gradient, optimizer = (not states or state in states for state in _STATES)
        return self._core.offload_states(parameter, gradient, optimizer)

    @_log.drains
    def reload_states(self) -> int:
        """Collective; between steps. Moves offloaded states back. Returns the bytes that this rank moved; 0 without
        any."""
        return self._core.reload_states()

    # ---- the engine itself

    def plan(self) -> _plan.Plan:
        """Local. Returns the bytes that a rank holds and sends. After the first step it has the next step's
        schedule."""
        return _plan.Plan(type(self.model).__name__, self._core.plan())

    def plan_text(self) -> str:
        """Local. Returns the text of a run's plan.txt."""
        return str(self.plan())
