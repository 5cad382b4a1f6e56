#!/usr/bin/env python3
"""save(blocking=False) writes while training continues; a checkpoint of another model is refused."""

from __future__ import annotations

import gc
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import mlp, refusal, samples, squares

STEPS = 4


def saves_while_training(folder: str) -> dict[str, Any]:
    """Saves after the second step, and trains two more. A second model continues from the checkpoint."""
    import zerocpp as zero

    world = zero.world()
    found: dict[str, Any] = {}

    def train(engine: zero.Engine, model: Any, first: int) -> list[float]:
        losses = []
        for step in range(first, STEPS):
            loss = squares(model, step, world.rank)
            loss.backward()
            losses.append(engine.step(loss=loss).loss)
            if step == 1:
                found["saving"] = engine.save(f"{folder}/one", notes={"step": 1}, blocking=False)
                found["running"] = found["saving"].running
        return losses

    model = mlp()
    with zero.attach(model, zero.AdamW(lr=1e-2), stage=3) as engine:
        losses = train(engine, model, 0)
        saving = found.pop("saving")
        saving.wait()
        found["done"] = saving.done and saving.poll() and saving.path == f"{folder}/one"
        wanted = engine.save(f"{folder}/two")  # blocking
        found["blocking"] = [wanted.done, wanted.running]
    again = mlp()
    with zero.attach(again, zero.AdamW(lr=1e-2), stage=1) as engine:
        loaded = engine.load(f"{folder}/one")
        found["loaded"] = [loaded.steps, loaded.notes]
        found["equal"] = train(engine, again, 2) == losses[2:]
    return found


def saves_a_pipeline(folder: str) -> dict[str, Any]:
    """Saves after the second step of a pipeline, and trains two more. A model without a pipeline continues."""
    import torch
    import zerocpp as zero

    batches = [[samples(step, micro) for micro in range(2)] for step in range(STEPS)]
    found: dict[str, Any] = {}

    def loss_of(model: Any, step: int) -> Callable[[int], torch.Tensor]:
        def loss(micro: int) -> torch.Tensor:
            x, y = batches[step][micro]
            return torch.nn.functional.mse_loss(model(x), y)

        return loss

    losses = []
    model = mlp()
    with zero.attach_pipeline(model, zero.AdamW(lr=1e-2), stage=1, pipeline=2, accumulate=2) as engine:
        for step in range(STEPS):
            losses.append(engine.passes(loss_of(model, step)))
            if step == 0:
                found["early"] = refusal(lambda: engine.save(f"{folder}/early", blocking=False))
            engine.step()
            if step == 1:
                saving = engine.save(f"{folder}/one", notes={"step": 1}, blocking=False)
                found["running"] = saving.running
        saving.wait()
        found["done"] = saving.done
        second = engine.save(f"{folder}/two", blocking=False)
    found["closed"] = second.done and Path(folder, "two/manifest.json").exists()
    again = mlp()
    same = []
    with zero.attach_pipeline(again, zero.AdamW(lr=1e-2), pipeline=1, accumulate=2) as engine:
        engine.prepare(loss_of(again, 0))
        loaded = engine.load(f"{folder}/one")
        found["loaded"] = [loaded.steps, loaded.notes]
        for step in range(2, STEPS):
            same.append(engine.passes(loss_of(again, step)))
            engine.step()
    found["equal"] = same == losses[2:]
    return found


def polls_in_steps(folder: str) -> dict[str, Any]:
    """Steps alone publish the checkpoint. close() and the next save wait for one that is running."""
    import zerocpp as zero

    model = mlp()
    found: dict[str, Any] = {}
    with zero.attach(model, stage=3) as engine:

        def step() -> None:
            squares(model, 0, 0).backward()
            engine.step()

        step()
        saving = engine.save(f"{folder}/one", blocking=False)
        while saving.running:
            step()
        found["published"] = Path(folder, "one/manifest.json").exists()
        second = engine.save(f"{folder}/two", blocking=False)
        third = engine.save(f"{folder}/three", blocking=False)
        found["second"] = second.done
    found["third"] = third.done and Path(folder, "three/manifest.json").exists()
    return found


def fails(folder: str) -> dict[str, Any]:
    """A folder that leaves its place while ranks write: every rank raises IoError in a step."""
    import zerocpp as zero

    world = zero.world()
    model = mlp()
    engine = zero.attach(model, stage=3)
    squares(model, 0, 0).backward()
    engine.step()
    saving = engine.save(f"{folder}/one", blocking=False)
    world.barrier()
    if world.rank == 0:
        Path(folder, "one.tmp").rename(f"{folder}/elsewhere")
    world.barrier()

    def steps() -> None:
        while saving.running:
            squares(model, 1, 0).backward()
            engine.step()

    found = {"step": ranks.error_of(steps), "wait": ranks.error_of(saving.wait), "done": saving.done}
    squares(model, 2, 0).backward()
    engine.step()  # the engine still works
    engine.close()
    return found


def abandons(folder: str) -> dict[str, Any]:
    """An exception on all ranks ends the engine, and gives the save up."""
    import zerocpp as zero

    try:
        with zero.attach(mlp(), stage=3) as engine:
            saving = engine.save(f"{folder}/one", blocking=False)
            raise KeyError("a fault of the program")
    except KeyError:
        pass
    return {"wait": refusal(saving.wait), "done": saving.done, "exists": Path(folder, "one").exists()}


def exits_with_a_save(folder: str) -> None:
    """Nothing but the running save refers to the engine."""
    import zerocpp as zero

    model = mlp()
    engine = zero.attach(model, stage=3)
    squares(model, 0, 0).backward()
    engine.step()
    engine.save(f"{folder}/at the end", blocking=False)
    del engine, model
    gc.collect()


def raises_with_a_save(folder: str) -> None:
    """The other rank may not arrive, so the end of the program does not wait."""
    import zerocpp as zero

    exits_with_a_save(folder)
    if zero.world().rank == 1:
        raise ValueError("a fault of rank 1")
    zero.world().barrier()


def other_checkpoints(folder: str) -> dict[str, str]:
    import torch
    import zerocpp as zero

    found = {}
    with zero.attach(mlp(), zero.AdamW(), stage=3) as engine:
        engine.save(folder + "/mlp")
    for name, model, rule in (
        ("shape", torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)), zero.AdamW()),
        ("name", torch.nn.Sequential(torch.nn.Linear(16, 32)), zero.AdamW()),
        ("optimizer", mlp(), zero.SGD(momentum=0.9)),
    ):
        with zero.attach(model, rule, stage=3) as engine:
            before = engine.state_dict()
            found[name] = refusal(lambda engine=engine: engine.load(folder + "/mlp"))
            same = all(torch.equal(before[key], value) for key, value in engine.state_dict().items())
            found[name] += "" if same else " (changed)"
    with zero.attach(mlp(), stage=3) as engine:
        found["none"] = ranks.error_of(lambda: engine.load(folder + "/nothing"))
    return found


class Calls(ranks.CallsTest):
    calls = [saves_while_training, saves_a_pipeline, polls_in_steps, fails, abandons, other_checkpoints]

    def test_training_continues_while_a_save_runs(self) -> None:
        for found in self.of(saves_while_training):
            self.assertTrue(found["running"])
            self.assertEqual((found["done"], found["blocking"]), (True, [True, False]))
            self.assertEqual((found["loaded"], found["equal"]), ([2, {"step": 1}], True))

    def test_pipelines_also_train_while_saving(self) -> None:
        for found in self.of(saves_a_pipeline):
            self.assertEqual((found["running"], found["done"], found["closed"]), (True, True, True))
            self.assertIn("between a backward pass and its step()", found["early"])
            self.assertEqual((found["loaded"], found["equal"]), ([2, {"step": 1}], True))

    def test_steps_publish_the_checkpoint(self) -> None:
        for found in self.of(polls_in_steps):
            self.assertEqual(found, {"published": True, "second": True, "third": True})

    def test_failed_save_raises_on_all_ranks(self) -> None:
        for found in self.of(fails):
            self.assertRegex(found["step"], "^IoError: ")
            self.assertEqual(found["wait"], found["step"])
            self.assertFalse(found["done"])

    def test_abandoned_save_is_not_published(self) -> None:
        for found in self.of(abandons):
            self.assertIn("one: its engine ended before the checkpoint was complete", found["wait"])
            self.assertEqual((found["done"], found["exists"]), (False, False))

    def test_checkpoint_of_another_model_is_refused(self) -> None:
        for found in self.of(other_checkpoints):
            self.assertIn("0.weight has shape [32, 16], and the model has [8, 16]", found["shape"])
            self.assertIn("holds 2.weight, which the model does not have", found["name"])
            self.assertIn("its optimizer keeps [parameter, exp_avg, exp_avg_sq]", found["optimizer"])
            self.assertRegex(found["none"], "IoError: .*nothing.*No such file")
            for name in ("shape", "name", "optimizer"):
                self.assertNotIn("changed", found[name])


class Ends(ranks.FolderTest):
    def test_exit_waits_for_a_save(self) -> None:
        how = ranks.ended(exits_with_a_save, folder=self.folder)
        self.assertEqual(how.status, 0, how.output)
        self.assertTrue(Path(self.folder, "at the end/manifest.json").exists(), how.output)

    def test_exception_does_not_wait_for_saves(self) -> None:
        how = ranks.ended(raises_with_a_save, folder=self.folder)
        self.assertNotEqual(how.status, 0)
        self.assertIn("ValueError: a fault of rank 1", how.output)
        self.assertNotIn("Fatal", how.output)
        self.assertFalse(Path(self.folder, "at the end").exists())


if __name__ == "__main__":
    unittest.main()
