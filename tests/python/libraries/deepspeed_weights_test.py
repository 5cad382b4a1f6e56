#!/usr/bin/env python3
"""zerocpp.deepspeed: weights from checkpoints, in a model that has other shapes, buffers or accumulation."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks

if not ranks.why_not():
    import torch
    from deepspeed_test import net, start

    import zerocpp
    from zerocpp.deepspeed.utils import zero_to_fp32


def with_buffers():
    """A model with a buffer of two names, and with one that state_dict() leaves out."""
    model = net()
    model.register_buffer("places", torch.arange(3.0))
    model[0].register_buffer("mask", model.places)
    model.register_buffer("waves", torch.polar(torch.ones(3), torch.arange(3.0)))
    model.register_buffer("angles", torch.ones(2), persistent=False)
    return model


class Weights(ranks.PackageTest):
    def test_other_shapes_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            engine, *_ = start()
            engine.save_checkpoint(folder)
            engine.destroy()
            wider = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(8, 4))
            before = [parameter.clone() for parameter in wider.parameters()]
            with self.assertRaisesRegex(zerocpp.ConfigError, r"2.weight: .*\(4, 16\).*\(4, 8\)"):
                zero_to_fp32.load_state_dict_from_zero_checkpoint(wider, folder)
            self.assertTrue(all(map(torch.equal, before, wider.parameters())))
            values = net(1)
            zero_to_fp32.load_state_dict_from_zero_checkpoint(values, folder)
            self.assertTrue(all(map(torch.equal, values.parameters(), net().parameters())))

    def test_buffers_follow_the_state_dict(self):
        with tempfile.TemporaryDirectory() as folder:
            engine, *_ = start(with_buffers(), zero_optimization={"stage": 3})
            engine.places.mul_(2)
            engine.angles.fill_(5)
            engine.save_checkpoint(folder)
            saved = engine.module_state_dict()
            engine.destroy()
            found = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(folder)
            self.assertEqual(found.keys(), saved.keys())
            self.assertTrue(all(torch.equal(found[name], value) for name, value in saved.items()))
            for choice in ({"load_module_only": True}, {"load_optimizer_states": False}):
                engine, *_ = start(with_buffers(), zero_optimization={"stage": 3})
                engine.load_checkpoint(folder, **choice)
                self.assertEqual(engine.places.tolist(), [0.0, 2.0, 4.0])
                self.assertEqual(engine.angles.tolist(), [1.0, 1.0])
                engine.destroy()

    def test_resume_may_change_accumulation(self):
        with tempfile.TemporaryDirectory() as folder:
            for accumulate, updates in ((2, 1), (3, 2), (4, 3)):
                engine, *_ = start(gradient_accumulation_steps=accumulate, zero_optimization={"stage": 2})
                engine.load_checkpoint(folder)
                for part in range(accumulate):
                    self.assertEqual(engine.is_gradient_accumulation_boundary(), part == accumulate - 1)
                    engine.backward(engine(torch.ones(3, 8)).mean())
                    engine.step()
                self.assertEqual(engine.global_steps, updates)
                engine.save_checkpoint(folder)
                engine.destroy()


if __name__ == "__main__":
    unittest.main()
