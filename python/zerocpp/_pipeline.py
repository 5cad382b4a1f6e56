"""attach_pipeline(): ZeRO and a pipeline for one module, and the PipelineEngine that it returns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import nn
from torch.utils import _pytree

from zerocpp import _C, _attached, _checkpoints, _config, _log, _optimizer, _options
from zerocpp._errors import refuse

if TYPE_CHECKING:
    from typing_extensions import Unpack


@_log.drains
def attach_pipeline(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | _optimizer.Rule | None = None,
    *,
    world: _C.World | None = None,
    config: _config.Source | None = None,
    **options: Unpack[_options.PipelineOptions],
) -> PipelineEngine:
    """Collective. Returns the engine of `model`. With a pipeline the first passes() attaches the model.

        engine = zero.attach_pipeline(model, zero.AdamW(lr=3e-4), pipeline=2, stage=1, accumulate=4)
        losses = engine.passes(lambda micro: model(**batches[micro]).loss)
        engine.step()

    The model is cut into sections over the ranks of a line, unmodified. Weights and losses have the bits of attach()
    with as many micro-batches. docs/guide/pipeline.md explains sections, lines and orders of passes.

    optimizer, config: as for attach(). The configuration may have a section [parallel].
    options: those of attach(), without local, delayed_update, wire and device; and
        pipeline: ranks in a line, which divides the number of ranks; 1: no pipeline
        sections: parts of the model; None: one a rank, or two with interleaved and zb-v
        schedule: "1f1b" (the default), "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v" or "auto"
        depth: of 1f1b, for slow links: more forward passes ahead
        cut: "work" (the default), "measured", or the first unit of each section after the first: ["h.2", "h.4"]
        activation_memory: most bytes of a rank's activations with schedule "auto", such as "2GiB"

    Raises ConfigError, before anything is allocated, for an impossible option, and if ranks differ in an option.
    """
    _options.require_known(options, pipelines=True)
    given = _attached.read_model(model, optimizer, world, dict(options), config=config)
    _checkpoints.teach_torch()
    how = {name: given.options.get(name) for name in _options.OF_PIPELINES}
    tensors = given.tensors
    with given.read.freezing_others():
        core = _C.Pipeline(
            given.world,
            tensors.parameters,
            tensors.buffers,
            tensors.own_unit,
            tensors.fp32,
            tensors.keeps_buffers,
            given.passed(_options.names()),
            how,
        )
    return PipelineEngine(core, model, given)


class PipelineEngine(_attached.Attached):
    """The sections of one module on this rank. `with` closes it at the end.

    Before the first passes(), or prepare(), the model is not attached: only close(), text() and discard_gradients()
    work.
    """

    _core: _C.Pipeline
    _is_cut = False

    @property
    def lines(self) -> int:
        """Local. The number of lines. Each computes its own micro-batches, and losses are averaged over lines."""
        return self.world.size // int(self.options.get("pipeline") or 1)

    @property
    def line(self) -> int:
        """Local. This rank's line, from 0. All ranks of a line read the same batches."""
        return self.world.rank % self.lines

    # ---- passes

    @_log.drains
    def passes(self, loss: Callable[[int], torch.Tensor], parts: float = 1) -> list[float]:
        """Collective. Runs all forward and backward passes of a step. Returns the losses of its micro-batches.

        loss: called with the number of a micro-batch, from 0 to `accumulate` - 1. It runs the whole forward pass and
            returns the loss, without backward(). Every rank of a line must read the same batches. It must run the same
            operators on the same sizes each time, and may not read values of tensors that depend on parameters. With
            the option `leaves`, micro-batch i is the leaf `engine.leaves[i]`.
        parts: each loss is divided by it before its backward pass. The result is not divided. With leaves use 1, and
            give the result to step(leaf_losses=...).

        All ranks of a line return the same losses. The first call runs `loss` once more, to learn its operators, then
        cuts the model and attaches it. Raises ConfigError with the name of an operator that a pipeline cannot have
        (docs/guide/pipeline.md). Raises any exception of `loss` as it is; other ranks notice when this rank ends.
        """
        self.prepare(loss)
        with _eagerly():
            return self._core.passes(loss, float(parts))

    @_log.drains
    def prepare(self, loss: Callable[[int], torch.Tensor]) -> None:
        """Collective. Cuts and attaches the model without computing a loss, so load() works before the first passes().

        No-op if that is done. loss: see passes().
        """
        self._require_same_parameters()
        self._require_buffers_of_attach("passes")
        if self._is_cut:
            return
        before = list(self.model.named_buffers())
        with _eagerly():
            self._core.prepare(loss)
        if self.lines < self.world.size:
            self._require_same_buffers(before)
        self._is_cut = True

    @_log.drains
    def evaluate(self, function: Callable[[], Any], *, key: Sequence[int] | None = None) -> Any:
        """Collective. Runs `function` without gradients, and returns its result on every rank of the line.

        All lines must call it: at stage 3 a section gathers its parameters from them.

        function: a forward pass. Its result may be a tensor, or tuples, lists and dicts of tensors.
        key: calls with equal keys must run the same operators on the same sizes: give for example the sizes of the
            inputs. They learn the operators once. Without a key each call learns them, and runs `function` once more.

        Raises ConfigError before the first passes(), and for operators that a pipeline cannot have.
        """
        self._require_buffers_of_attach("evaluate")
        specs: list[tuple[Any, list[Any]]] = []

        def tensors() -> list[torch.Tensor]:
            leaves, spec = _pytree.tree_flatten(function())
            specs.append((spec, leaves))
            return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

        with _eagerly():
            results = iter(self._core.evaluate(None if key is None else list(key), tensors))
        spec, leaves = specs[-1]
        whole = [next(results) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        return _pytree.tree_unflatten(whole, spec)

    # ---- the engine itself

    def _data_rank(self) -> tuple[int, int]:
        return self.lines, self.line

    def _require_buffers_of_attach(self, call: str) -> None:
        if self.lines < self.world.size:
            self._buffers.require_same(call)

    def _require_same_buffers(self, before: list[tuple[str, torch.Tensor]]) -> None:
        now = dict(self.model.named_buffers())
        for name, buffer in before:
            if now.get(name) is not buffer:
                raise refuse(
                    "passes",
                    name,
                    "the function replaced this buffer by another tensor, which only one section may have",
                    "write into the buffer: copy_(), mul_(), add_()",
                )

    def text(self) -> str:
        """Local. Returns the sections, the values that cross between them, and the order of passes; empty before the
        first passes()."""
        return self._core.text()

    def plan_text(self) -> str:
        """Local. Returns the text of a run's plan.txt."""
        return self.text()


@overload
def together(
    function: Callable[..., torch.Tensor], inputs: Iterable[torch.Tensor], like: torch.Tensor
) -> torch.Tensor: ...
@overload
def together(
    function: Callable[..., Sequence[torch.Tensor]], inputs: Iterable[torch.Tensor], like: Sequence[torch.Tensor]
) -> list[torch.Tensor]: ...
def together(function: Callable[..., Any], inputs: Iterable[torch.Tensor], like: Any) -> Any:
    """Local if `function` is. Returns function(*inputs), computed as one operator of a pipeline, so it may read values.

        kept = zero.together(lambda x: x[x > 0].sum(), [x], like=torch.empty((), requires_grad=True))

    like: a tensor with the sizes and the type of the result, or a list of them; its values are not read. It needs a
        gradient if the result does.
    function: uses tensors from `inputs` only, parameters too, and draws no random numbers.

    Raises ConfigError if the result is not like `like`. Without a pipeline the function is simply called.
    """
    given, single = list(inputs), isinstance(like, torch.Tensor)

    def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        result = function(*tensors)
        return [result] if single else list(result)

    results = _C.together(run, given, [like] if single else list(like)) if _C.in_pass() else run(given)
    return results[0] if single else results


def _eagerly() -> AbstractContextManager[Any]:
    """torch.compile makes graphs of operators of several sections; so compiled functions run as they are written."""
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]
