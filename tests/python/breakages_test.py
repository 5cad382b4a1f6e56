#!/usr/bin/env python3
"""Former faults of Python programs: each test asserts the right value."""

from __future__ import annotations

import copy
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import ranks
from plain_torch import STAGES, mlp, refusal, squares


def scalar_model() -> Any:
    import torch

    model = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    return model


def drops_pending_gradients(stage: int) -> dict[str, float]:
    import torch
    import zerocpp as zero

    model = scalar_model()
    one = torch.ones(1, 1)
    with zero.attach(model, zero.SGD(lr=1.0), stage=stage) as engine:
        (100 * model(one)).sum().backward()
        model.zero_grad()
        (2 * model(one)).sum().backward()
        norm = engine.step().grad_norm
    return {"norm": norm, "weight": model.weight.item()}


def reads_of_grad(stage: int) -> dict[str, Any]:
    import torch
    import zerocpp as zero

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    found: dict[str, Any] = {}
    with zero.attach(model, zero.SGD(lr=0.1), stage=stage) as engine:
        seen = []
        model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad is None))
        model(torch.ones(1, 2)).sum().backward()
        model.to(torch.float32)
        model.cpu()
        engine.step()
        model.zero_grad()
        found["hooks"] = len(seen)
        model(torch.ones(1, 2)).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        try:
            engine.step()
        except zero.ConfigError as error:
            found["error"] = str(error)
        engine.discard_gradients()
    return found


def arrays_stay(stage: int) -> dict[str, Any]:
    import numpy as np
    import torch
    import zerocpp as zero

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    array_at_end: dict[str, bool] = {}
    engine = zero.attach(model, zero.SGD(lr=1.0), stage=stage, device_memory="min")
    weight = model[0].weight
    before = weight.detach().clone()
    array = weight.detach().numpy()
    also = np.asarray(weight.detach())
    lost = weight.detach().numpy()
    lost[:] = 7.0
    array_at_end["writes are lost"] = bool((weight == before).all())
    for _ in range(2):
        model(torch.ones(1, 64)).sum().backward()
        engine.step()
    array_at_end["equal"] = bool((torch.from_numpy(array) == before).all() and (also == before.numpy()).all())
    for name, read in {
        "data_ptr": lambda: weight.data_ptr(),
        "dlpack": lambda: torch.from_dlpack(weight.detach()),
    }.items():
        try:
            read()
            array_at_end[name] = False
        except (RuntimeError, BufferError):
            array_at_end[name] = True
    with engine.gathered():
        array_at_end["gathered"] = weight.data_ptr() != 0
    engine.close()
    array_at_end["after"] = bool((torch.from_numpy(array) == before).all())
    return array_at_end


def forked_workers() -> dict[str, Any]:
    import torch
    import zerocpp as zero

    model = torch.nn.Linear(4, 4)

    class Samples(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> torch.Tensor:
            try:
                model.weight.sum().item()
                return torch.ones(4)
            except zero.ConfigError:
                return torch.zeros(4)

    with zero.attach(model, zero.SGD(lr=0.1), stage=3) as engine:
        seen = 0.0
        for batch in torch.utils.data.DataLoader(
            Samples(), batch_size=4, num_workers=1, multiprocessing_context="fork"
        ):
            seen += batch.sum().item()
            model(batch).sum().backward()
            engine.step()
        steps = engine.step.__self__.report().world
    return {"read": seen, "world": steps}


def waits_for_a_late_rank(marks: str) -> dict[str, Any]:
    """Rank 1 sleeps. Rank 0 waits, is interrupted, and writes the time of the interrupt."""
    import zerocpp as zero

    world = zero.world()
    world.barrier()
    if world.rank == 1:
        time.sleep(20)
        return {}
    Path(marks, "waits").write_text(str(os.getpid()))
    begin = time.monotonic()
    try:
        world.barrier()
    except KeyboardInterrupt:
        Path(marks, "interrupted").write_text(str(time.monotonic() - begin))
        raise
    return {}


def loses_a_rank() -> dict[str, Any]:
    """Rank 1 raises; rank 0 sees a CommError from an operator, and from a backward pass."""
    import torch
    import zerocpp as zero

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    world = zero.world()
    engine = zero.attach(model, zero.SGD(lr=0.1), stage=3, device_memory="min")
    if world.rank == 1:
        raise ValueError("a fault of rank 1")
    try:
        for _ in range(3):
            model(torch.ones(1, 4)).sum().backward()
            engine.step()
    except zero.CommError as error:
        print("CAUGHT", type(error).__name__, error, flush=True)
        raise
    return {}


def replaced_parameter() -> str:
    import torch
    import zerocpp as zero

    model = torch.nn.Linear(2, 2)
    with zero.attach(model, stage=0) as engine:
        original = model.weight
        model.weight = torch.nn.Parameter(torch.zeros(2, 2))
        model(torch.ones(1, 2)).sum().backward()
        try:
            engine.step()
        except zero.ConfigError as error:
            text = str(error)
        model.weight = original
        engine.discard_gradients()
    return text


def shares_the_last_parameter() -> dict[str, Any]:
    """A second model whose last parameter is attached already: the remedy of the error ends the first engine."""
    import zerocpp as zero

    first, second = mlp(), mlp()
    second[3].bias = first[3].bias
    found: dict[str, Any] = {"none": refusal(lambda: zero.engine_of(second))}
    engine = zero.attach(first, stage=3)
    found["text"] = refusal(lambda: zero.attach(second, stage=3))
    found["found"] = zero.engine_of(second) is engine
    zero.engine_of(second).close()
    with zero.attach(second, stage=3) as engine:
        squares(second, 0, zero.world().rank).backward()
        found["steps"] = engine.step().step
    return found


def ways_out() -> dict[str, Any]:
    """Errors of each way to write an attached parameter into a file, and its values as operators read them."""
    import torch
    import zerocpp as zero
    from zerocpp import _C

    model = mlp()
    weight = model[0].weight
    wanted = weight.tolist()
    ways: dict[str, Any] = {
        "pickle": lambda: pickle.dumps(weight),
        "pickle of a view": lambda: pickle.dumps(weight.detach()),
        "pickle of the model": lambda: pickle.dumps(model),
        "torch.save": lambda: torch.save(weight, io.BytesIO()),
        "torch.save of the model": lambda: torch.save(model, io.BytesIO()),
        "torch.save of its weights": lambda: torch.save(model.state_dict(), io.BytesIO()),
        "storage": lambda: weight.untyped_storage().tolist(),
    }
    found: dict[str, Any] = {}
    for stage, budget in STAGES.items():
        with zero.attach(model, stage=stage, **budget):
            errors = {way: ranks.error_of(call) for way, call in ways.items()}
            alias = copy.copy(weight)  # a second name of the same parameter
            values = [alias.tolist() == wanted, weight.tolist() == wanted, weight.detach()[1].tolist() == wanted[1]]
            found[str(stage)] = {"errors": errors, "values": values, "alias": _C.is_attached(alias)}
            del alias
    found["after"] = pickle.loads(pickle.dumps(model))[0].weight.tolist() == wanted
    return found


def moves_to_meta() -> dict[str, Any]:
    """model.to("meta") replaces all parameters, so the next step is refused. A copy on meta is harmless."""
    import zerocpp as zero

    rank = zero.world().rank
    found: dict[str, Any] = {}
    for stage, budget in STAGES.items():
        model = mlp()
        with zero.attach(model, stage=stage, **budget) as engine:
            assert model[0].weight.to("meta").is_meta
            squares(model, 0, rank).backward()
            steps = engine.step().step
            model.to("meta")
            found[str(stage)] = {"steps": steps, "text": refusal(engine.step)}
    return found


def exits_without_close() -> dict[str, Any]:
    import torch
    import zerocpp as zero

    model = torch.nn.Linear(2, 2)
    engine = zero.attach(model, stage=3)
    model(torch.ones(1, 2)).sum().backward()
    engine.step()
    return {}


def attaches_again() -> dict[str, Any]:
    import gc

    import torch
    import zerocpp as zero

    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    values = model.weight.detach().clone()
    for _ in range(20):
        with zero.attach(model, stage=3):
            model(torch.ones(1, 64))
    forgotten = torch.nn.Linear(8, 8)
    engine = zero.attach(forgotten, stage=3)
    del engine
    gc.collect()
    return {"equal": bool((model.weight == values).all())}


def built_late(stage: int) -> dict[str, Any]:
    import torch
    import zerocpp as zero

    with zero.deferred(seed=3):
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8))
        model.register_buffer("halves", torch.arange(4) / 8 + torch.tensor(0))
    with zero.attach(model, stage=stage) as engine:
        return {"sum": engine.state_dict()["0.weight"].double().abs().sum().item(), "halves": model.halves.tolist()}


class Breakages(ranks.PackageTest):
    def test_zero_grad_drops_pending_gradients(self) -> None:
        for stage in (0, 3):
            for of_rank in ranks.run(drops_pending_gradients, stage=stage):
                self.assertEqual(of_rank, {"norm": 2.0, "weight": -1.0})

    def test_only_lost_reads_of_grad_count(self) -> None:
        for of_rank in ranks.run(reads_of_grad, stage=3):
            self.assertEqual(of_rank["hooks"], 1)
            self.assertIn("grad", of_rank.get("error", "no error"))

    def test_arrays_of_parameters_stay_valid(self) -> None:
        for stage in (0, 3):
            for of_rank in ranks.run(arrays_stay, stage=stage):
                wanted = ("writes are lost", "equal", "data_ptr", "dlpack", "gathered", "after")
                self.assertEqual(of_rank, dict.fromkeys(wanted, True))

    def test_a_forked_worker_cannot_read_parameters(self) -> None:
        for of_rank in ranks.run(forked_workers):
            self.assertEqual(of_rank, {"read": 0.0, "world": 2})

    def test_interrupt_ends_a_wait(self) -> None:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as marks:
            process = ranks.start(waits_for_a_late_rank, folder, marks=marks)
            waits = Path(marks, "waits")
            while not (waits.exists() and waits.read_text()) and process.poll() is None:
                time.sleep(0.05)
            time.sleep(1)
            os.kill(int(waits.read_text()), signal.SIGINT)
            how = ranks.end(process, folder, 2, limit=60)
            self.assertTrue(Path(marks, "interrupted").exists(), how.output)
            self.assertLess(float(Path(marks, "interrupted").read_text()), 8.0)
            self.assertNotEqual(how.status, 0)

    def test_lost_ranks_have_an_error_type(self) -> None:
        how = ranks.ended(loses_a_rank)
        self.assertNotEqual(how.status, 0)
        self.assertIn("CAUGHT CommError", how.output)
        self.assertIn("ValueError: a fault of rank 1", how.output)
        self.assertLess(how.seconds, 60)

    def test_a_replaced_parameter_is_refused(self) -> None:
        text = ranks.run(replaced_parameter, ranks=1)[0]
        self.assertIn("weight", text)
        self.assertIn("replaced", text)

    def test_exit_without_close_is_quiet(self) -> None:
        how = ranks.ended(exits_without_close)
        self.assertEqual(how.status, 0, how.output)
        self.assertIn("was not closed", how.output)

    def test_engines_come_and_go(self) -> None:
        for of_rank in ranks.run(attaches_again):
            self.assertEqual(of_rank, {"equal": True})

    def test_deferred_models_are_equal_on_ranks(self) -> None:
        one = ranks.run(built_late, ranks=1, stage=0)[0]
        self.assertEqual(one["halves"], [0.0, 0.125, 0.25, 0.375])
        for of_rank in ranks.run(built_late, stage=3):
            self.assertEqual(of_rank, one)


class Attached(ranks.CallsTest):
    calls = [shares_the_last_parameter, ways_out, moves_to_meta]

    def test_shared_last_parameter_has_a_remedy(self) -> None:
        for found in self.of(shares_the_last_parameter):
            self.assertRegex(found["none"], "engine_of = Sequential: this model is not attached\n  ")
            self.assertRegex(
                found["text"], r"attach = 3\.bias: .*attached already\n  .*zero\.engine_of\(model\)\.close\(\)"
            )
            self.assertEqual((found["found"], found["steps"]), (True, 1))

    def test_pickle_and_save_name_the_parameter(self) -> None:
        for found in self.of(ways_out):
            for stage in ("0", "3"):
                self.assertEqual(len(found[stage]["errors"]), 7)
                for way, error in found[stage]["errors"].items():
                    self.assertRegex(
                        error,
                        r"^RuntimeError: 0\.weight: .*\n  .*in Python engine\.export\(\)",
                        f"{way}, stage {stage}",
                    )
                self.assertEqual((found[stage]["values"], found[stage]["alias"]), ([True] * 3, True), stage)
            self.assertTrue(found["after"])

    def test_step_after_meta_is_refused(self) -> None:
        for found in self.of(moves_to_meta):
            for stage in ("0", "3"):
                self.assertEqual(found[stage]["steps"], 1)
                self.assertRegex(found[stage]["text"], r"step = 0\.weight: this parameter was replaced .*\n  ")


class BadInput(ranks.PackageTest):
    def refused(self, text: str, *wanted: str) -> None:
        program = (
            "import torch, zerocpp as zero\nmodel = torch.nn.Linear(2, 2)\ntry:\n  "
            + text
            + "\nexcept zero.ConfigError as error:\n  print(isinstance(error, ValueError), error)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], env=ranks.environment(), text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("True", done.stdout, done.stderr)
        for word in wanted:
            self.assertIn(word, done.stdout)

    def test_options_are_checked(self) -> None:
        self.refused("zero.attach(model, stag=3)", "stag", "did you mean stage")
        self.refused("zero.attach(model, stage=4)", "stage", "4")
        self.refused("zero.attach(model, device_memory='64 MB of')", "device_memory")
        self.refused("zero.attach(model, dtype='float8')", "dtype", "bf16")
        self.refused("zero.attach(model, offload={'optimiser': {'host': 1}})", "optimiser", "optimizer")
        self.refused("zero.attach(model, offload={'optimizer': {'ssd': 1}})", "ssd", "host or disk")

    def test_optimizers_are_checked(self) -> None:
        self.refused("zero.attach(model, torch.optim.Adadelta(model.parameters()))", "Adadelta", "torch.optim.AdamW")
        self.refused("zero.attach(model, torch.optim.AdamW(torch.nn.Linear(2, 2).parameters()))", "no parameter")
        self.refused("zero.attach(model, torch.optim.AdamW(model.parameters(), amsgrad=True))", "amsgrad")

    def test_models_are_checked(self) -> None:
        self.refused("e = zero.attach(model); zero.attach(model)", "attached already", "engine_of")
        self.refused("zero.attach(model.double())", "weight", "Double")
        self.refused("zero.attach(model.to('meta'))", "weight", "deferred", "load_state_dict")
        self.refused("zero.attach(torch.nn.DataParallel(model))", "DataParallel")
        self.refused("e = zero.attach(model); e.close(); e.step()", "ended")
        self.refused("e = zero.attach(model); e.gathered(torch.nn.Linear(2, 2)).__enter__()", "parameter")


if __name__ == "__main__":
    unittest.main()
