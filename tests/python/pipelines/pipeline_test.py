#!/usr/bin/env python3
"""A pipeline from Python: models of transformers in sections over ranks have the bits of attach() on fewer ranks.

One process imports torch and transformers, and forks the ranks of all groups, because each import takes seconds.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import forked_ranks
import ranks
from pipeline_models import batch_of, loss_of, model_of

MICROS = 4
STEPS = 3


def hash_of(weights: dict[str, Any]) -> str:
    """SHA-256 of all weights."""
    found = hashlib.sha256()
    for name in sorted(weights):
        found.update(name.encode() + weights[name].contiguous().numpy().tobytes())
    return found.hexdigest()


# ---- one training


def numbers_of(step: int, line: int) -> list[int]:
    return [1000 * line + 10 * step + micro for micro in range(MICROS)]


def optimizer_of(model: Any) -> Any:
    import torch

    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.01)


def train(kind: str, save: str = "", load: str = "", **options: Any) -> dict[str, Any]:
    """Trains with attach_pipeline() if `pipeline` is given, else with attach()."""
    import torch
    import zerocpp as zero

    model = model_of(kind)
    torch.manual_seed(5)
    common: dict[str, Any] = dict(accumulate=MICROS, clip=1.0, average_micro_batches=True, threads=1)
    losses: list[float] = []
    norms: list[float] = []
    first = 0
    if "pipeline" in options:
        engine: Any = zero.attach_pipeline(model, optimizer_of(model), **common, **options)
        line = engine.line
    else:
        engine = zero.attach(model, optimizer_of(model), **common, **options)
        line = engine.world.rank
    schedule = torch.optim.lr_scheduler.LambdaLR(engine.optimizer, lambda step: 0.9**step)
    if load:
        if "pipeline" in options:
            example = batch_of(kind, 0)
            engine.prepare(lambda micro: loss_of(kind, model, example))
        first = engine.load(load).steps
        for _ in range(first):
            schedule.step()
    for step in range(first, STEPS):
        batches = [batch_of(kind, number) for number in numbers_of(step, line)]
        if "pipeline" in options:
            losses += engine.passes(lambda micro: loss_of(kind, model, batches[micro]))
        else:
            for batch in batches:
                loss = loss_of(kind, model, batch)
                losses.append(loss.item())
                loss.backward()
        norms.append(engine.step().grad_norm)
        schedule.step()
        if save and step == 1:
            engine.save(save, notes={"by": "test"})
    found: dict[str, Any] = {"losses": losses, "norms": norms}
    if kind in ("gpt2", "llama"):
        batch = {"input_ids": batch_of(kind, 99)["input_ids"][:, :7]}
        if "pipeline" in options:
            logits = engine.evaluate(lambda: model(**batch, use_cache=False)["logits"])
            again = engine.evaluate(lambda: {"of": [model(**batch, use_cache=False).logits, 3]}, key=[4, 7])
            assert torch.equal(logits, again["of"][0]) and again["of"][1] == 3
        else:
            with torch.no_grad():
                logits = model(**batch, use_cache=False).logits
        found["logits"] = hash_of({"logits": logits})
    if kind == "resnet":
        images = batch_of(kind, 99)["pixel_values"]
        model.eval()
        if "pipeline" in options:
            found["scores"] = hash_of({"scores": engine.evaluate(lambda: model(images).logits)})
        else:
            with torch.no_grad():
                found["scores"] = hash_of({"scores": model(images).logits})
        found["buffers"] = hash_of(dict(model.named_buffers()))
    found["weights"] = hash_of(engine.state_dict())
    engine.close()
    found["given back"] = hash_of({name: value.detach() for name, value in model.state_dict().items()})
    return found


def plain(kind: str) -> list[float]:
    """The losses of the same training in plain PyTorch."""
    import torch

    model = model_of(kind)
    torch.manual_seed(5)
    optimizer = optimizer_of(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)
    losses: list[float] = []
    for step in range(STEPS):
        for number in numbers_of(step, 0):
            loss = loss_of(kind, model, batch_of(kind, number))
            losses.append(loss.item())
            (loss / MICROS).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return losses


def averages(**options: Any) -> dict[str, Any]:
    """Weights, averages, an evaluation with these, and the files that export() writes; on rank 0."""
    import torch
    import zerocpp as zero
    from torch import nn

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 8), nn.Linear(8, 8))
    engine: Any = zero.attach_pipeline(model, zero.AdamW(lr=1e-2), ema=0.9, accumulate=MICROS, threads=1, **options)
    inputs = [torch.randn(4, 16, generator=torch.Generator().manual_seed(number)) for number in range(MICROS)]
    for _ in range(STEPS):
        engine.passes(lambda micro: model(inputs[micro]).square().mean(), parts=MICROS)
        engine.step()
    found: dict[str, Any] = {"weights": hash_of(engine.state_dict())}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / name for name in ("weights", "averages")}
        engine.export(paths["weights"])
        with engine.averaged():
            found["averages"] = hash_of(engine.state_dict())
            found["evaluated"] = engine.evaluate(lambda: model(inputs[0])).flatten().tolist()
            engine.export(paths["averages"])
        if engine.world.rank == 0:
            found |= {f"exported {name}": hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items()}
    found["after"] = hash_of(engine.state_dict())
    engine.close()
    return found


# ---- wrong use


def absent_reads() -> dict[str, str]:
    """What happens to a read of values in a pass, by its name: an error, or "" if it works."""
    import copy
    import io

    import torch
    import zerocpp as zero

    reads: dict[str, Callable[[Any], Any]] = {
        "item": lambda x: x.sum().item(),
        "float": lambda x: float(x.sum()),
        "if": lambda x: bool((x > 0).any()),
        "numpy": lambda x: x.detach().numpy(),
        "tolist": lambda x: x.tolist(),
        "repr": repr,
        "nonzero": lambda x: torch.nonzero(x),
        "mask": lambda x: x[x > 0],
        "data_ptr": lambda x: x.data_ptr(),
        "dlpack": lambda x: x.detach().__dlpack__(),
        "deepcopy": lambda x: copy.deepcopy(x.detach()),
        "save": lambda x: torch.save(x.detach(), io.BytesIO()),
        "storage": lambda x: x.detach().untyped_storage().tolist(),
        "iterate": lambda x: [float(row.sum()) for row in x],
        "equal": lambda x: torch.equal(x, x + 1),
        "allclose": lambda x: torch.allclose(x, x + 1),
        "index": lambda x: list(range(x.argmax())),
        "sizes": lambda x: (x.shape, x.view(-1).size(), x.dtype, x.device, len(x), x.is_contiguous(), x.stride()),
        "grad": lambda x: x.sum().backward(),
    }
    found: dict[str, str] = {}
    for name, read in reads.items():
        model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 8), torch.nn.Linear(8, 8))
        engine = zero.attach_pipeline(model, zero.AdamW(), pipeline=2, accumulate=MICROS)

        def loss(micro: int, model: Any = model, read: Any = read) -> Any:
            x = model[0](torch.ones(4, 16))
            read(x)
            return model[2](model[1](x)).sum()

        found[name] = ranks.error_of(lambda: engine.prepare(loss))  # noqa: B023
        engine.close()
    return found


def refusals() -> dict[str, str]:
    """Errors of wrong calls, and of models that a pipeline cannot have."""
    import torch
    import zerocpp as zero
    from torch import nn

    found: dict[str, str] = {}

    def attached(model: Any, **options: Any) -> Any:
        return zero.attach_pipeline(model, zero.AdamW(), accumulate=MICROS, **{"pipeline": 2, **options})

    def net() -> Any:
        return nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(8, 8))

    model = net()
    engine = attached(model)
    inputs = torch.ones(4, 16)
    found["step before"] = ranks.error_of(engine.step)
    found["load before"] = ranks.error_of(lambda: engine.load("nowhere"))
    found["report before"] = ranks.error_of(engine.report)
    found["twice"] = ranks.error_of(lambda: zero.attach(model))
    found["no tensor"] = ranks.error_of(lambda: engine.passes(lambda micro: 1.0))
    found["no loss"] = ranks.error_of(lambda: engine.passes(lambda micro: torch.ones(())))
    found["backward"] = ranks.error_of(lambda: engine.passes(lambda micro: model(inputs).sum().backward()))
    found["its own"] = ranks.error_of(lambda: engine.passes(lambda micro: {}[micro]))
    engine.passes(lambda micro: model(inputs).sum())
    engine.step()
    with torch.no_grad():
        found["parameter outside"] = ranks.error_of(lambda: model(inputs))
    model[1].weight = nn.Parameter(torch.zeros(8, 16))
    found["replaced"] = ranks.error_of(lambda: engine.passes(lambda micro: model(inputs).sum()))
    engine.close()

    found["option"] = ranks.error_of(lambda: attached(net(), section=3))
    found["pipeline=3"] = ranks.error_of(lambda: attached(net(), pipeline=3))
    found["schedule"] = ranks.error_of(lambda: attached(net(), schedule="2f2b"))
    found["cut"] = ranks.error_of(lambda: attached(net(), cut="halves"))
    found["leaves"] = ranks.error_of(lambda: attached(net(), leaves=8))
    rank = zero.world().rank
    for name, option in {
        "other pipeline": dict(pipeline=1 + rank),
        "other schedule": dict(schedule=("1f1b", "zb-h1")[rank]),
        "other cut": dict(cut=("work", ["1"])[rank]),
        "other clip": dict(clip=rank),
        "other model": dict(dtype=("fp32", "bf16")[rank]),
    }.items():
        found[name] = ranks.error_of(lambda: attached(net(), **option))  # noqa: B023
    found["attach"] = ranks.error_of(lambda: zero.attach(net(), pipeline=2))
    found["attach config"] = ranks.error_of(lambda: zero.attach(net(), config={"parallel": {"pipeline": 2}}))

    class Statistics(nn.Module):
        """It writes a buffer by giving the module another tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 8)
            self.register_buffer("mean", torch.zeros(16))

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            self.mean = 0.5 * self.mean + 0.5 * x.detach().mean(0)
            return self.last(x)

    made = Statistics()
    engine = attached(made)
    found["replaced buffer"] = ranks.error_of(lambda: engine.passes(lambda micro: made(inputs).sum()))
    engine.close()
    normed = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 8))
    engine = attached(normed)
    engine.passes(lambda micro: normed(inputs).sum())
    engine.step()
    normed[1].running_mean = torch.zeros(16)
    found["assigned buffer"] = ranks.error_of(lambda: engine.passes(lambda micro: normed(inputs).sum()))
    engine.close()
    engine = attached(net(), config={"parallel": {"schedule": "gpipe", "cut": ["2"]}})
    found["config"] = str(engine.options["schedule"])
    engine.close()

    # The last section has only parameters of no group.
    model = net()
    kept = [parameter.detach().clone() for parameter in model[1:].parameters()]
    some = torch.optim.AdamW(model[0].parameters(), lr=1e-3)
    engine = zero.attach_pipeline(model, some, accumulate=MICROS, pipeline=2, cut=["1"])
    first = engine.passes(lambda micro: model(inputs).square().sum())[0]
    engine.step()
    fell = engine.passes(lambda micro: model(inputs).square().sum())[0] < first
    engine.step()
    engine.close()
    found["no group"] = f"kept {all(map(torch.equal, kept, model[1:].parameters()))}, fell {fell}"

    # Last: messages of these passes may be under way.
    model = net()
    engine = attached(model)
    engine.passes(lambda micro: model(inputs).sum())
    engine.step()
    shorter = torch.ones(3, 16)
    found["other sizes"] = ranks.error_of(
        lambda: engine.passes(lambda micro: model(shorter if micro == 2 else inputs).sum())
    )
    found["afterwards"] = ranks.error_of(lambda: engine.passes(lambda micro: model(inputs).sum()))
    engine.close(give_back=False)
    found["left empty"] = ranks.error_of(lambda: zero.attach(model))
    return found


def fails(case: str, rank: int) -> None:
    """Rank 1 fails inside the function of passes(), in its second step. In `waits` it is late: rank 0 gets SIGINT."""
    import threading

    import torch
    import zerocpp as zero
    from torch import nn

    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(8, 8))
    engine = zero.attach_pipeline(model, zero.AdamW(), accumulate=MICROS, pipeline=2, stage=1)

    def loss(micro: int) -> Any:
        if rank == 1 and step == 1 and micro == 1:
            if case == "raises":
                raise ValueError("a fault of this rank")
            if case == "waits":
                time.sleep(3)
                return model(torch.ones(4, 16)).sum()
            os.kill(os.getpid(), signal.SIGKILL)
        return model(torch.ones(4, 16)).sum()

    with engine:
        for step in range(3):
            if case == "waits" and rank == 0 and step == 1:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            engine.passes(loss)
            engine.step()


def compiled() -> bool:
    """Compiled blocks run as they are written."""
    import torch
    import zerocpp as zero
    from torch import nn

    found = []
    for compiles in (False, True):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(8, 8))
        if compiles:
            model[1].compile()
        engine = zero.attach_pipeline(model, zero.AdamW(), accumulate=MICROS, pipeline=2)
        losses = engine.passes(lambda micro: model(torch.ones(4, 16)).sum())  # noqa: B023
        found.append([losses, engine.step().grad_norm])
        engine.close()
    return found[0] == found[1]


def leaves_open() -> None:
    """Two engines, one of them in a cycle, are not closed at the end of the process."""
    import torch
    import zerocpp as zero
    from torch import nn

    for accumulate in (4, 2):
        model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(8, 8))
        engine = zero.attach_pipeline(model, zero.AdamW(), accumulate=accumulate, pipeline=2)
        engine.passes(lambda micro, model=model: model(torch.ones(4, 16)).sum())
        model.owner = [engine]  # type: ignore[assignment]
    later = zero.attach_pipeline(nn.Linear(16, 16), zero.AdamW(), accumulate=4, pipeline=2)  # never cut
    assert not later.closed


# ---- ranks: groups of cases, each in its own forked ranks


def run_cases(cases: dict[str, dict[str, Any]]) -> dict[str, Any]:
    known = (train, plain, averages, absent_reads, refusals, leaves_open)
    functions = {function.__name__: function for function in known}
    return {name: functions[given.pop("do", "train")](**given) for name, given in cases.items()}


KINDS = ("gpt2", "llama", "bert", "t5", "dropout", "adapters", "reads", "function", "resnet")
ONE: dict[str, dict[str, Any]] = {kind: dict(kind=kind, stage=0) for kind in KINDS}
WITHOUT: dict[str, dict[str, Any]] = {
    "gpt2 without": dict(kind="gpt2", pipeline=1),
    "averages": dict(do="averages", pipeline=1),
}
PLAIN = {f"plain {kind}": dict(do="plain", kind=kind) for kind in ("gpt2", "llama", "bert")}
TWO: dict[str, dict[str, Any]] = {
    "gpt2 1f1b": dict(kind="gpt2", pipeline=2, schedule="1f1b", stage=1),
    "gpt2 depth": dict(kind="gpt2", pipeline=2, depth=1),
    "gpt2 interleaved": dict(kind="gpt2", pipeline=2, schedule="interleaved", stage=0),
    "llama zb-h1": dict(kind="llama", pipeline=2, schedule="zb-h1", stage=3),
    "llama zb-v": dict(kind="llama", pipeline=2, schedule="zb-v", stage=0),
    "bert gpipe": dict(kind="bert", pipeline=2, schedule="gpipe", stage=3),
    "bert zb-h1": dict(kind="bert", pipeline=2, schedule="zb-h1", stage=1),
    "t5 zb-h1": dict(kind="t5", pipeline=2, schedule="zb-h1"),
    "dropout": dict(kind="dropout", pipeline=2),
    "adapters": dict(kind="adapters", pipeline=2, stage=1),
    "reads": dict(kind="reads", pipeline=2, schedule="zb-h1"),
    "function": dict(kind="function", pipeline=2),
    "function zb-h1": dict(kind="function", pipeline=2, schedule="zb-h1"),
    "resnet": dict(kind="resnet", pipeline=2, stage=1),
    "resnet zb-v": dict(kind="resnet", pipeline=2, schedule="zb-v"),
    "reentrant": dict(kind="reentrant", pipeline=2, schedule="zb-h1", stage=3),
    "not reentrant": dict(kind="not reentrant", pipeline=2),
    "averages": dict(do="averages", pipeline=2),
    "averages zb-h1": dict(do="averages", pipeline=2, schedule="zb-h1", stage=1),
}
THREE = {"gpt2 of three": dict(kind="gpt2", pipeline=3, stage=3)}
LINES = {
    "llama of two lines": dict(kind="llama", pipeline=2, stage=3, device_memory="min"),
    "gpt2 of two lines": dict(kind="gpt2", pipeline=2, stage=1, schedule="zb-h1"),
    "resnet of two lines": dict(kind="resnet", pipeline=2, stage=2),
}
COPIES: dict[str, dict[str, Any]] = {kind: dict(kind=kind, stage=0) for kind in ("llama", "gpt2", "resnet")}
DROPOUT = {"dropout": dict(kind="dropout", pipeline=2)}


def all_groups(folder: str) -> dict[str, list[dict[str, Any]]]:
    import gc

    import peft  # noqa: F401 (imported once, before the ranks are forked)
    import torch
    import transformers
    import zerocpp  # noqa: F401

    for name in ("GPT2LMHeadModel", "LlamaForCausalLM", "BertForMaskedLM", "T5ForConditionalGeneration"):
        getattr(transformers, name)
    torch.optim.SGD([torch.zeros(1)], lr=0.1)
    gc.freeze()
    place = Path(folder)
    checkpoint = {name: str(place / name) for name in ("by attach", "by pipeline")}
    one = dict(ONE)
    one["gpt2"] = dict(one["gpt2"], save=checkpoint["by attach"])
    two = {**TWO, "loads": dict(kind="gpt2", pipeline=2, stage=3, load=checkpoint["by attach"])}
    two["gpt2 1f1b"] = dict(two["gpt2 1f1b"], save=checkpoint["by pipeline"])
    last = {"loads": dict(kind="gpt2", load=checkpoint["by pipeline"])}
    wrong = {"reads": dict(do="absent_reads"), "refusals": dict(do="refusals")}
    groups: dict[str, tuple[int, Callable[[int], Any]]] = {
        "one": (1, lambda rank: run_cases({**one, **PLAIN, **WITHOUT})),
        "two": (2, lambda rank: run_cases(two)),
        "three": (3, lambda rank: run_cases(THREE)),
        "copies": (2, lambda rank: run_cases(COPIES)),
        "lines": (4, lambda rank: run_cases(LINES)),
        "last": (1, lambda rank: run_cases(last)),
        "wrong": (2, lambda rank: run_cases(wrong)),
        "raises": (2, lambda rank: fails("raises", rank)),
        "dies": (2, lambda rank: fails("dies", rank)),
        "waits": (2, lambda rank: fails("waits", rank)),
        "open": (2, lambda rank: leaves_open()),
    }
    if os.environ.get("ZERO_TEST_TIER", "full") == "full":
        groups["compiled"] = (2, lambda rank: compiled())
    only = os.environ.get("ZERO_TEST_GROUPS")
    return {
        name: forked_ranks.run_group(name, place, size, body)
        for name, (size, body) in groups.items()
        if not only or name in only.split(",")
    }


@ranks.needs("transformers", "peft")
class Pipelines(forked_ranks.GroupsTest):
    groups = all_groups

    def results(self, group: str) -> list[dict[str, Any]]:
        for rank in self.found[group]:
            self.assertEqual(rank["status"], 0, rank["output"])
        return [rank["result"] for rank in self.found[group]]

    def require_equal(self, group: str, case: str, wanted: list[dict[str, Any]], lines: int = 1) -> None:
        """Asserts that each rank has the losses of its line, and the norms, logits and weights of `wanted`."""
        for rank, result in enumerate(self.results(group)):
            with self.subTest(case, rank=rank):
                own = dict(result[case])
                self.assertEqual(own, wanted[rank % lines])

    def test_two_sections_have_bits_of_attach(self) -> None:
        (one,) = self.results("one")
        self.assertEqual(one["gpt2 without"], one["gpt2"])
        for case, given in TWO.items():
            if given.get("do"):
                continue
            wanted = one["llama" if "reentrant" in case else given["kind"]]
            if "reentrant" in case:  # it evaluates nothing
                wanted = {key: value for key, value in wanted.items() if key != "logits"}
            self.require_equal("two", case, [wanted])

    def test_averages_and_exports_have_equal_bits(self) -> None:
        (one,) = self.results("one")
        wanted = one["averages"]
        self.assertNotEqual(wanted["averages"], wanted["weights"])
        self.assertEqual(wanted["after"], wanted["weights"])
        self.assertNotEqual(wanted["exported averages"], wanted["exported weights"])
        for case in ("averages", "averages zb-h1"):
            first, second = (rank[case] for rank in self.results("two"))
            self.assertEqual(first, wanted)
            self.assertEqual(second, {key: value for key, value in wanted.items() if "exported" not in key})

    def test_three_sections_have_equal_bits(self) -> None:
        self.require_equal("three", "gpt2 of three", [self.results("one")[0]["gpt2"]])

    def test_lines_have_the_bits_of_ranks(self) -> None:
        copies = self.results("copies")
        for kind in COPIES:
            self.require_equal("lines", f"{kind} of two lines", [rank[kind] for rank in copies], lines=2)

    def test_losses_are_those_of_plain_torch(self) -> None:
        (one,) = self.results("one")
        for kind in ("gpt2", "llama", "bert"):
            for ours, theirs in zip(one[kind]["losses"], one[f"plain {kind}"]):
                self.assertLess(abs(ours - theirs), 2e-6 * theirs)

    def test_checkpoints_pass_between_pipeline_and_attach(self) -> None:
        (one,) = self.results("one")
        wanted = dict(one["gpt2"], losses=one["gpt2"]["losses"][2 * MICROS :], norms=one["gpt2"]["norms"][2:])
        self.require_equal("two", "loads", [wanted])
        self.require_equal("last", "loads", [wanted])

    def test_reads_of_absent_values_are_refused(self) -> None:
        for rank in self.results("wrong"):
            reads = dict(rank["reads"])
            self.assertEqual(reads.pop("sizes"), "")
            for name, text in reads.items():
                with self.subTest(name):
                    self.assertRegex(text, "^(ConfigError|RuntimeError)")
                    self.assertRegex(text, "section of the pipeline|one section has|passes\\(\\)")

    def test_wrong_use_is_refused(self) -> None:
        words = {
            "step before": "before the first passes",
            "load before": "before the first passes",
            "report before": "before the first passes",
            "twice": "attached already",
            "no tensor": "ConfigError: passes = <class 'float'>",
            "no loss": "must return a loss",
            "backward": "leave backward",
            "its own": "KeyError: 0",
            "no group": "kept True, fell True",
            "parameter outside": "another section",
            "replaced": "was replaced since attach",
            "other sizes": "aten::linear [3, 16] [16, 16] [16]: operator 0 of the forward pass of micro-batch 2",
            "afterwards": "an exception ended passes",
            "left empty": "has no values",
            "option": "did you mean sections",
            "pipeline=3": "must divide",
            "schedule": "zb-h1",
            "cut": "measured",
            "leaves": "train.accumulate is 4",
            "other pipeline": "attach_pipeline() = rank 1: differs from rank 0's: parallel.pipeline = 2, not 1",
            "other schedule": "parallel.schedule = zb-h1, not 1f1b",
            "other cut": "parallel.cut = [1], not work",
            "other clip": "clip = 1, not 0",
            "other model": "dtype = bf16, not fp32",
            "attach": "attach_pipeline",
            "attach config": "attach_pipeline",
            "replaced buffer": "ConfigError: passes = mean: the function replaced this buffer",
            "assigned buffer": "ConfigError: passes = 1.running_mean: this buffer was replaced since attach()",
            "config": "gpipe",
        }
        for rank in self.results("wrong"):
            for name, part in words.items():
                with self.subTest(name):
                    self.assertIn(part, rank["refusals"][name])

    def test_exception_comes_out_as_itself(self) -> None:
        self.assertEqual(self.found["raises"][1]["error"], "ValueError: a fault of this rank")
        self.assertRegex(self.found["raises"][0]["error"], "^CommError: .*rank 1")

    def test_killed_rank_is_named(self) -> None:
        self.assertEqual(self.found["dies"][1]["status"], -signal.SIGKILL)
        self.assertRegex(self.found["dies"][0]["error"], "^CommError: .*rank 1")

    def test_an_interrupt_ends_a_wait(self) -> None:
        self.assertEqual(self.found["waits"][0]["error"], "KeyboardInterrupt: ")
        self.assertRegex(self.found["waits"][1]["error"], "^CommError: .*rank 0")

    @ranks.whole
    def test_compiled_blocks_run_as_written(self) -> None:
        self.assertEqual(self.results("compiled"), [True, True])

    def test_open_engines_end_quietly(self) -> None:
        for rank in self.found["open"]:
            self.assertEqual(rank["status"], 0, rank["output"])
            self.assertNotIn("Fatal", rank["output"])
            self.assertNotIn("Traceback", rank["output"])


if __name__ == "__main__":
    unittest.main()
