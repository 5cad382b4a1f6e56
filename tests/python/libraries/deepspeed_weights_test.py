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


if __name__ == "__main__":
    unittest.main()
