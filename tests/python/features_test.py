#!/usr/bin/env python3
"""Features of PyTorch on an attached model: losses equal those of plain PyTorch, at stages 0 and 3.

All features run in one process of each rank, because importing torch takes longer than all of them.
"""

from __future__ import annotations

import copy
import importlib.util
import time
import traceback
import unittest
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import ranks
from plain_torch import STAGES, STEPS, compared, mean_gradients, mlp, optimizer_of, refusal, samples, squares

# ---- passes


def checkpointed(reentrant: bool, dropout: float = 0.2) -> Any:
    """Three blocks that keep only their inputs."""
    import torch
    from torch import nn

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.entry = nn.Linear(16, 16)
            self.blocks = nn.ModuleList(
                nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(dropout), nn.Linear(32, 16)) for _ in range(3)
            )

        def forward(self, x: Any) -> Any:
            x = self.entry(x)
            for block in self.blocks:
                x = x + torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant)
            return x

    torch.manual_seed(2)
    return Blocks()


def seeded(model: Any, step: int, rank: int) -> Any:
    import torch

    torch.manual_seed(1000 * step + rank)
    return squares(model, step, rank)


def in_bf16(model: Any, step: int, rank: int) -> Any:
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        return seeded(model, step, rank)


def autocast() -> dict[str, Any]:
    return compared(mlp, in_bf16)


def autocast_with_checkpoints() -> dict[str, Any]:
    return compared(lambda: checkpointed(False), in_bf16)


def autocast_with_reentrant_checkpoints() -> dict[str, Any]:
    return compared(lambda: checkpointed(True), in_bf16)


def checkpoints() -> dict[str, Any]:
    return compared(lambda: checkpointed(False), seeded)


def reentrant_checkpoints() -> dict[str, Any]:
    return compared(lambda: checkpointed(True), seeded)


def custom_function() -> dict[str, Any]:
    import torch
    from torch import nn

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            ctx.save_for_backward(x, weight)
            return x @ weight.t()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            x, weight = ctx.saved_tensors
            return gradient @ weight, gradient.t() @ x

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            return self.two(torch.relu(Product.apply(x, self.one.weight) + self.one.bias))

    def make() -> Any:
        torch.manual_seed(3)
        return Net()

    return compared(make, squares)


def hooks() -> dict[str, Any]:
    def make() -> Any:
        model = mlp()
        model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 1.5,))
        model[0].register_forward_hook(lambda module, inputs, output: output * 0.5)
        model[3].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))
        model[3].weight.register_hook(lambda gradient: gradient * 0.25)
        return model

    return compared(make, squares)


def double_backward() -> dict[str, Any]:
    import torch

    def penalty(model: Any, step: int, rank: int) -> Any:
        x, y = samples(step, rank)
        x.requires_grad_()
        out = model(x)
        loss = torch.nn.functional.mse_loss(out, y)
        (of_input,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        of_weights = torch.autograd.grad(loss, [model[0].weight, model[3].bias], create_graph=True)
        return loss + 0.1 * of_input.pow(2).mean() + sum(0.1 * gradient.pow(2).sum() for gradient in of_weights)

    return compared(mlp, penalty)


# ---- torch.func, copies, writes


def functional_call() -> dict[str, Any]:
    import torch

    def half(model: Any, step: int, rank: int) -> Any:
        x, y = samples(step, rank)
        values = {name: parameter * 0.5 for name, parameter in model.named_parameters()}
        return torch.nn.functional.mse_loss(torch.func.functional_call(model, values, (x,)), y)

    return compared(mlp, half)


def gradients_of_samples() -> dict[str, Any]:
    import torch
    import zerocpp as zero

    def gradients(model: Any) -> dict[str, Any]:
        values = {name: parameter.detach() for name, parameter in model.named_parameters()}

        def loss(values: dict[str, Any], x: Any, y: Any) -> Any:
            return torch.nn.functional.mse_loss(torch.func.functional_call(model, values, (x[None],)), y[None])

        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(values, *samples(0, 0))

    model = mlp()
    wanted = gradients(model)
    distance = 0.0
    for stage, budget in STAGES.items():
        with zero.attach(model, stage=stage, **budget):
            for name, found in gradients(model).items():
                distance = max(distance, (found - wanted[name]).abs().max().item())
    return {"distance": distance, "samples": wanted["0.weight"].shape[0]}


def copies() -> dict[str, Any]:
    """A deep copy is an ordinary model, which a single rank can use."""
    import torch
    import zerocpp as zero
    from zerocpp import _C

    model = mlp()
    x, _ = samples(0, 0)
    wanted = model(x)
    found: dict[str, Any] = {"equal": True, "attached": False, "trains": True}
    for stage, budget in STAGES.items():
        with zero.attach(model, stage=stage, **budget):
            own = copy.deepcopy(model)
            found["attached"] |= any(_C.is_attached(parameter) for parameter in own.parameters())
            if zero.world().rank == 0:
                found["equal"] &= torch.equal(own(x), wanted)
                optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
                squares(own, 0, 0).backward()
                optimizer.step()
                found["trains"] &= own[0].weight.grad is not None and not torch.equal(own(x), wanted)
        found["equal"] &= torch.equal(model(x), wanted)
    return found


def writes() -> dict[str, Any]:
    import torch
    import zerocpp as zero
    from torch import nn

    def write(model: Any) -> None:
        torch.manual_seed(9)
        model.load_state_dict(
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 16)).state_dict()
        )
        with torch.no_grad():
            model[2].weight.fill_(0.5)
            model[2].bias.add_(1)
            model[0].bias[3:7] = 2.0
        nn.init.orthogonal_(model[0].weight)
        nn.init.trunc_normal_(model[3].bias)
        nn.init.kaiming_uniform_(model[3].weight)

    wanted = mlp()
    write(wanted)
    found = {"equal": True}
    for stage, budget in STAGES.items():
        model = mlp()
        with zero.attach(model, stage=stage, **budget) as engine:
            write(model)
            squares(model, 0, zero.world().rank).backward()
            engine.discard_gradients()
            values = engine.state_dict()
        for name, value in wanted.state_dict().items():
            found["equal"] &= torch.equal(values[name], value)
    return found


def generated() -> dict[str, Any]:
    import zerocpp as zero
    from small_models import batch, make

    model = make("gpt2").eval()
    tokens = batch("gpt2", 0)["input_ids"][:, :4]
    how = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    wanted = model.generate(tokens, **how).tolist()
    found = []
    for stage, budget in STAGES.items():
        with zero.attach(model, stage=stage, **budget):
            found.append(model.generate(tokens, **how).tolist() == wanted)
    return {"equal": all(found)}


# ---- modules


def tied() -> dict[str, Any]:
    import torch
    import zerocpp as zero
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 16)
            self.head = nn.Linear(16, 20, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x: Any) -> Any:
            return self.head(torch.tanh(self.table(x)))

    def make() -> Any:
        torch.manual_seed(4)
        return Net()

    def loss(model: Any, step: int, rank: int) -> Any:
        tokens = torch.randint(0, 20, (12,), generator=torch.Generator().manual_seed(10 * step + rank))
        return torch.nn.functional.cross_entropy(model(tokens), tokens.roll(1))

    found = compared(make, loss)
    model = make()
    with zero.attach(model, stage=3) as engine:
        values = engine.state_dict()
        found["names"] = sorted(values)
        found["same"] = model.head.weight is model.table.weight and torch.equal(*values.values())
    return found


def buffers() -> dict[str, Any]:
    import torch
    from torch import nn

    def make() -> Any:
        torch.manual_seed(5)
        return nn.Sequential(
            nn.BatchNorm1d(16, affine=False), nn.Linear(16, 16, bias=False), nn.BatchNorm1d(16), nn.Linear(16, 16)
        )

    return compared(make, squares)


def parametrized() -> dict[str, Any]:
    import torch
    from torch import nn
    from torch.nn.utils import parametrizations, parametrize, prune

    class Symmetric(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

    def make() -> Any:
        torch.manual_seed(6)
        model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
        parametrizations.weight_norm(model[0])
        parametrizations.spectral_norm(model[1])
        parametrizations.orthogonal(model[2])
        parametrize.register_parametrization(model[3], "weight", Symmetric())
        prune.l1_unstructured(model[4], "weight", amount=0.3)
        torch.nn.utils.weight_norm(model[5])
        return model

    return compared(make, squares)


# ---- engines


def two_engines() -> dict[str, Any]:
    """A generator and a discriminator, which take turns. With frozen(), as at stage 3 here, the schedule stays the
    same."""
    import torch
    import zerocpp as zero
    from torch.nn.functional import binary_cross_entropy_with_logits as entropy

    def make() -> tuple[Any, Any]:
        return mlp(), torch.nn.Sequential(mlp(), torch.nn.Linear(16, 1))

    def of_judge(maker: Any, judge: Any, step: int, rank: int) -> Any:
        noise, real = samples(step, rank)
        made = maker(noise).detach()
        return entropy(judge(real), torch.ones(8, 1)) + entropy(judge(made), torch.zeros(8, 1))

    def of_maker(maker: Any, judge: Any, step: int, rank: int) -> Any:
        return entropy(judge(maker(samples(step, rank)[0])), torch.ones(8, 1))

    world = zero.world()
    pairs = [make() for _ in range(world.size)]
    optimizers = [(optimizer_of(maker), optimizer_of(judge)) for maker, judge in pairs]
    wanted = []
    for step in range(STEPS):
        for turn, loss_of in ((1, of_judge), (0, of_maker)):
            losses = [loss_of(*pair, step, rank) for rank, pair in enumerate(pairs)]
            for loss, own in zip(losses, optimizers):
                own[turn].zero_grad()
                loss.backward()
            mean_gradients([pair[turn] for pair in pairs])
            for own in optimizers:
                own[turn].step()
            wanted.append(sum(loss.item() for loss in losses) / world.size)
    found = []
    for stage, budget in STAGES.items():
        maker, judge = make()
        losses = []
        with (
            zero.attach(maker, optimizer_of(maker), stage=stage, **budget) as of_pictures,
            zero.attach(judge, optimizer_of(judge), stage=stage, **budget) as of_marks,
        ):
            for step in range(STEPS):
                of_marks.optimizer.zero_grad()
                loss = of_judge(maker, judge, step, world.rank)
                loss.backward()
                losses.append(of_marks.step(loss=loss).loss)
                of_pictures.optimizer.zero_grad()
                with of_marks.frozen() if stage == 3 else nullcontext():
                    loss = of_maker(maker, judge, step, world.rank)
                    loss.backward()
                losses.append(of_pictures.step(loss=loss).loss)
            mismatches = of_marks.report().trace_mismatches
        found.append(losses)
    return {
        "distance": max(abs(a - b) / abs(b) for a, b in zip(found[0], wanted)),
        "equal": found[0] == found[1],
        "buffers": 0.0,
        "falls": mismatches == 0,
    }


def evaluation() -> dict[str, Any]:
    """Passes between two steps change nothing: without gradients, and with gradients in a frozen() scope."""
    import torch

    def evaluate(engine: Any, model: Any, step: int) -> None:
        model.eval()
        with torch.no_grad():
            squares(model, 50, 0)
        with engine.frozen():
            squares(model, 51, 0).backward()
        model.train()

    return compared(mlp, squares, evaluate)


# ---- refusals


def wrapped() -> dict[str, str]:
    import warnings

    import torch
    import torch.distributed as dist
    import zerocpp as zero
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    cpu = torch.device("cpu")
    found = {
        "DataParallel": refusal(lambda: zero.attach(torch.nn.DataParallel(mlp()))),
        "DistributedDataParallel": refusal(lambda: zero.attach(torch.nn.parallel.DistributedDataParallel(mlp()))),
        "FullyShardedDataParallel": refusal(lambda: zero.attach(FullyShardedDataParallel(mlp(), device_id=cpu))),
        "fully_shard": refusal(
            lambda: zero.attach(fully_shard(mlp(), mesh=dist.init_device_mesh("cpu", (zero.world().size,))))
        ),
        "inside": refusal(lambda: zero.attach(torch.nn.Sequential(torch.nn.parallel.DistributedDataParallel(mlp())))),
    }
    model = mlp()
    with zero.attach(model, stage=3):
        found["around DataParallel"] = refusal(lambda: torch.nn.DataParallel(model))
        found["around DistributedDataParallel"] = refusal(lambda: torch.nn.parallel.DistributedDataParallel(model))
        found["around FullyShardedDataParallel"] = refusal(lambda: FullyShardedDataParallel(model, device_id=cpu))
    dist.destroy_process_group()
    return found


def types() -> dict[str, str]:
    import torch
    import zerocpp as zero

    with torch.device("meta"):
        empty = torch.nn.Linear(4, 4)
    return {
        "float64": refusal(lambda: zero.attach(mlp().double())),
        "complex64": refusal(lambda: zero.attach(torch.nn.Linear(4, 4, dtype=torch.complex64))),
        "meta": refusal(lambda: zero.attach(empty)),
    }


FEATURES = [
    autocast,
    autocast_with_checkpoints,
    autocast_with_reentrant_checkpoints,
    checkpoints,
    reentrant_checkpoints,
    custom_function,
    hooks,
    double_backward,
    functional_call,
    gradients_of_samples,
    copies,
    writes,
    tied,
    buffers,
    parametrized,
    two_engines,
    evaluation,
    wrapped,
    types,
]


def run_features(names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        begin = time.monotonic()
        try:
            found[name] = globals()[name]()
        except Exception:
            found[name] = {"error": traceback.format_exc()}
            raise
        finally:
            print(f"{name}: {time.monotonic() - begin:.2f} s", flush=True)
    return found


class Features(ranks.PackageTest):
    found: list[dict[str, Any]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        names = [feature.__name__ for feature in FEATURES]
        if importlib.util.find_spec("transformers") is not None:
            names.append(generated.__name__)
        cls.found = ranks.run(run_features, names=names)

    def trains(self, feature: Callable[[], Any], distance: float = 2e-6) -> None:
        for of_rank in self.found:
            found = of_rank[feature.__name__]
            self.assertLessEqual(found["distance"], distance)
            self.assertLessEqual(found["buffers"], 1e-6)
            self.assertTrue(found["equal"], "stages 0 and 3 have other losses")
            self.assertTrue(found["falls"])

    def test_autocast(self) -> None:
        self.trains(autocast, 1e-4)
        self.trains(autocast_with_checkpoints, 1e-4)
        self.trains(autocast_with_reentrant_checkpoints, 1e-4)

    def test_checkpoints(self) -> None:
        self.trains(checkpoints)
        self.trains(reentrant_checkpoints)

    def test_custom_functions(self) -> None:
        self.trains(custom_function)

    def test_hooks(self) -> None:
        self.trains(hooks)

    def test_double_backward(self) -> None:
        self.trains(double_backward)

    def test_functional_calls(self) -> None:
        self.trains(functional_call)
        for of_rank in self.found:
            found = of_rank["gradients_of_samples"]
            self.assertEqual(found["samples"], 8)
            self.assertLessEqual(found["distance"], 1e-6)

    def test_a_copy_is_an_ordinary_model(self) -> None:
        for of_rank in self.found:
            self.assertEqual(of_rank["copies"], {"equal": True, "attached": False, "trains": True})

    def test_writes_reach_parameters(self) -> None:
        for of_rank in self.found:
            self.assertEqual(of_rank["writes"], {"equal": True})

    def test_generation(self) -> None:
        for of_rank in self.found:
            if "generated" not in of_rank:
                self.skipTest("this Python has no transformers")
            self.assertEqual(of_rank["generated"], {"equal": True})

    def test_tied_weights(self) -> None:
        self.trains(tied)
        for of_rank in self.found:
            self.assertEqual(of_rank["tied"]["names"], ["head.weight", "table.weight"])
            self.assertTrue(of_rank["tied"]["same"])

    def test_buffers_are_those_of_the_rank(self) -> None:
        self.trains(buffers)

    def test_parametrizations(self) -> None:
        self.trains(parametrized)

    def test_several_engines(self) -> None:
        self.trains(two_engines)

    def test_evaluation_changes_nothing(self) -> None:
        self.trains(evaluation)

    def test_wrappers_are_refused(self) -> None:
        for of_rank in self.found:
            for name, text in of_rank["wrapped"].items():
                wrapper = name.removeprefix("around ") if name != "inside" else "DistributedDataParallel"
                self.assertRegex(text, f"(?s)wrapped in {wrapper}.*\n  |{wrapper} = .*is attached\n  ")

    def test_types_are_refused(self) -> None:
        for of_rank in self.found:
            found = of_rank["types"]
            self.assertIn("Double", found["float64"])
            self.assertIn("ComplexFloat", found["complex64"])
            self.assertIn("deferred", found["meta"])


if __name__ == "__main__":
    unittest.main()
