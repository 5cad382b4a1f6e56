#!/usr/bin/env python3
"""Operators of Python that write into parameters: the same result for any number of ranks, or an error by name."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import ranks

MAX_NORM = 0.75


def normed_net() -> Any:
    """An embedding whose forward pass scales the rows that it reads."""
    import torch
    from torch import nn

    torch.manual_seed(7)
    return nn.Sequential(nn.Embedding(11, 6, max_norm=MAX_NORM), nn.Linear(6, 11))


def loss_of(model: Any, tokens: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(1, 1).flatten())


def tokens_of(step: int, rank: int) -> Any:
    """A few tokens of the rank, so ranks scale different rows."""
    import torch

    return ((torch.arange(20) % 3 + step + 4 * rank) % 11).reshape(2, 10)


def train(readers: list[list[int]], **options: Any) -> list[float]:
    """Three steps, and a last forward pass. Rank r reads the tokens of readers[r]. Returns the weights that it has."""
    import torch
    import zerocpp as zero

    model = normed_net()
    own = readers[zero.world().rank]
    with zero.attach(model, zero.SGD(lr=0.5), threads=1, **options) as engine:
        for step in range(3):
            loss_of(model, torch.cat([tokens_of(step, rank) for rank in own])).backward()
            engine.step()
        with torch.no_grad():
            model(torch.cat([tokens_of(3, rank) for rank in own]))
        return [value for weight in model.parameters() for value in weight.detach().clone().flatten().tolist()]


def trained() -> dict[str, list[float]]:
    """The weights of this rank, by the way of training."""
    found = {f"stage {stage}": train([[0], [1]], stage=stage) for stage in (0, 1, 2, 3)}
    found["local"] = train([[0], [1]], local={"steps": 100})
    return found


def plain(own: list[int]) -> list[float]:
    """The same training in plain PyTorch, on all tokens at once."""
    import torch

    model = normed_net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, torch.cat([tokens_of(step, rank) for rank in own])).backward()
        optimizer.step()
    with torch.no_grad():
        model(torch.cat([tokens_of(3, rank) for rank in own]))
    return [value for weight in model.parameters() for value in weight.detach().flatten().tolist()]


def alone() -> dict[str, list[float]]:
    return {
        "both": train([[0, 1]]),
        "0": train([[0]]),
        "1": train([[1]]),
        "plain both": plain([0, 1]),
        "plain 0": plain([0]),
    }


# ---- writes of a program


def writes(stage: int) -> dict[str, str]:
    """The error of the step after each kind of write, by its name; empty if the step was made."""
    import torch
    import zerocpp as zero
    from torch import nn

    rank = zero.world().rank

    def initialise(weight: Any) -> None:
        torch.manual_seed(rank)
        nn.init.normal_(weight)

    kinds: dict[str, Callable[[Any], Any]] = {
        "add": lambda weight: weight.add_(rank),
        "data": lambda weight: weight.data.add_(rank),
        "detach": lambda weight: weight.detach().add_(rank),
        "row": lambda weight: weight[0].fill_(rank),
        "index": lambda weight: weight.__setitem__((0, 1), rank + 0.5),
        "copy": lambda weight: weight.copy_(torch.full_like(weight, rank)),
        "list": lambda weight: torch._foreach_mul_([weight], rank + 2.0),
        "initialise": initialise,
        "same": lambda weight: weight.data.fill_(3),
    }
    found: dict[str, str] = {}
    for kind, write in kinds.items():
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        engine = zero.attach(model, zero.SGD(lr=0.0), stage=stage)
        with torch.no_grad():
            write(model[1].weight)
        model(torch.ones(2, 4)).sum().backward()
        found[kind] = ranks.error_of(engine.step)
        if kind == "same" and not bool((model[1].weight == 3).all()):
            found[kind] = "the values are not there"
        engine.discard_gradients()
        engine.close()
    return found


def refusals() -> dict[str, str]:
    """Errors of writes within a pass of a pipeline, and of an embedding with max_norm in a leaf."""
    import torch
    import zerocpp as zero
    from torch import nn

    class Clamped(nn.Linear):
        def forward(self, x: Any) -> Any:
            self.weight.data.clamp_(-1, 1)
            return super().forward(x)

    found: dict[str, str] = {}
    model = normed_net()
    tokens = tokens_of(0, 0)
    engine = zero.attach_pipeline(model, zero.SGD(lr=0.5), pipeline=2, accumulate=2)
    found["pipeline"] = ranks.error_of(lambda: engine.passes(lambda micro: loss_of(model, tokens)))
    engine.close()
    clamped = nn.Sequential(nn.Linear(4, 4), Clamped(4, 4), nn.Linear(4, 4))
    engine = zero.attach_pipeline(clamped, zero.SGD(lr=0.5), pipeline=2, accumulate=2)
    found["clamp"] = ranks.error_of(lambda: engine.passes(lambda micro: clamped(torch.ones(2, 4)).sum()))
    engine.close()
    model = normed_net()
    leaves = zero.attach(model, zero.SGD(lr=0.5), leaves=2)
    found["leaves"] = ranks.error_of(lambda: loss_of(model, tokens))
    leaves.close()
    return found


class MaxNorm(ranks.PackageTest):
    def test_ranks_have_the_whole_batchs_result(self) -> None:
        one = ranks.run(alone, ranks=1)[0]
        two = ranks.run(trained)
        for name, way in (("both", "plain both"), ("0", "plain 0")):
            self.assert_close(one[name], one[way])
        self.assert_close(two[0]["stage 0"], one["both"])
        for rank, found in enumerate(two):
            for stage in (0, 1, 2, 3):
                self.assertEqual(found[f"stage {stage}"], two[0]["stage 0"], f"stage {stage}, rank {rank}")
            self.assertEqual(found["local"], one[str(rank)], "a copy has the rows of its own ranks")
        self.assertNotEqual(two[0]["local"], two[1]["local"])

    def assert_close(self, found: list[float], expected: list[float]) -> None:
        self.assertEqual(len(found), len(expected))
        self.assertLess(max(abs(a - b) for a, b in zip(found, expected, strict=True)), 1e-5)


class RankWrites(ranks.PackageTest):
    def test_steps_name_the_parameter(self) -> None:
        for kind, results in ranks.run_cases(writes, {str(stage): {"stage": stage} for stage in (0, 3)}).items():
            self.assertEqual(results.pop("same"), "", kind)
            for write, error in results.items():
                self.assertRegex(error, "ConfigError: .*1.weight: rank 1 wrote different values", f"{write}, {kind}")

    def test_passes_and_leaves_name_the_parameter(self) -> None:
        for found in ranks.run(refusals):
            self.assertRegex(found["pipeline"], "embedding_renorm_: it writes the parameter 0.weight within a pass")
            self.assertRegex(found["clamp"], "clamp_: it writes the parameter 1.weight within a pass")
            self.assertRegex(found["leaves"], "train.leaves = 2: an embedding with max_norm writes into 0.weight")


if __name__ == "__main__":
    unittest.main()
