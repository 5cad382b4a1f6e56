"""A small model, its training in plain PyTorch, and the comparison with the same training on an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

STEPS = 4
STAGES: dict[int, dict[str, Any]] = {0: {}, 3: {"device_memory": "min"}}


def samples(step: int, rank: int) -> tuple[Any, Any]:
    import torch

    random = torch.Generator().manual_seed(100 + 10 * step + rank)
    return torch.randn(8, 16, generator=random), torch.randn(8, 16, generator=random)


def mlp() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16))


def squares(model: Any, step: int, rank: int) -> Any:
    import torch

    x, y = samples(step, rank)
    return torch.nn.functional.mse_loss(model(x), y)


def optimizer_of(model: Any) -> Any:
    import torch

    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)


def mean_gradients(models: list[Any]) -> None:
    """Gives all models the mean of their gradients, as ranks do."""
    import torch

    for same in zip(*(model.parameters() for model in models)):
        found = [parameter.grad for parameter in same if parameter.grad is not None]
        if found:
            mean = torch.stack(found).sum(0) / len(models)
            for parameter in same:
                parameter.grad = mean.clone()


def plain_losses(make: Callable[[], Any], loss_of: Callable[..., Any], world: int) -> tuple[list[float], list[Any]]:
    """The losses of plain PyTorch, and the models: one for each rank, in one process."""
    models = [make() for _ in range(world)]
    optimizers = [optimizer_of(model) for model in models]
    losses = []
    for step in range(STEPS):
        of_ranks = [loss_of(model, step, rank) for rank, model in enumerate(models)]
        for loss, optimizer in zip(of_ranks, optimizers):
            optimizer.zero_grad()
            loss.backward()
        mean_gradients(models)
        for optimizer in optimizers:
            optimizer.step()
        losses.append(sum(loss.item() for loss in of_ranks) / world)
    return losses, models


def compared(
    make: Callable[[], Any],
    loss_of: Callable[..., Any],
    between: Callable[..., None] = lambda engine, model, step: None,
    **options: Any,
) -> dict[str, Any]:
    """Trains with `loss_of`. Returns the largest relative distance to the losses of plain PyTorch, whether all stages
    have equal losses, and the distance of buffers."""
    import zerocpp as zero

    world = zero.world()
    wanted, models = plain_losses(make, loss_of, world.size)
    found: list[list[float]] = []
    of_buffers = 0.0
    for stage, budget in STAGES.items():
        model = make()
        losses = []
        with zero.attach(model, optimizer_of(model), stage=stage, **budget, **options) as engine:
            for step in range(STEPS):
                loss = loss_of(model, step, world.rank)
                loss.backward()
                losses.append(engine.step(loss=loss).loss)
                between(engine, model, step)
        for own, other in zip(model.buffers(), models[world.rank].buffers()):
            of_buffers = max(of_buffers, (own.double() - other.double()).abs().max().item())
        found.append(losses)
    return {
        "distance": max(abs(a - b) / abs(b) for a, b in zip(found[0], wanted)),
        "equal": all(losses == found[0] for losses in found),
        "buffers": of_buffers,
        "falls": found[0][-1] != found[0][0],
    }


def refusal(call: Callable[[], Any]) -> str:
    import zerocpp as zero

    try:
        call()
    except zero.ConfigError as error:
        return str(error)
    return "no error"
