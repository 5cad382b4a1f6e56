#!/usr/bin/env python3
"""Tests of benchmarks/peers/known_gpt.py that need no torch: samples, names and learning rates of a peer."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.dont_write_bytecode = True

from peers.known_gpt import LR, lr_of, name_in_file, shuffled_offset, texts, windows_of  # noqa: E402


class KnownGpt(unittest.TestCase):
    def test_peers_draw_the_same_windows(
        self,
    ):  # the numbers of tests/data/sample/sample_order_test.cpp
        self.assertEqual(
            [shuffled_offset(1337, g, 1_003_790) for g in range(6)], [194049, 360250, 721948, 396675, 783171, 938563]
        )

    def test_ranks_share_a_steps_windows(self):
        alone = windows_of(7, 0, 1, 12, 100_000)
        self.assertEqual(windows_of(7, 0, 2, 12, 100_000) + windows_of(7, 1, 2, 12, 100_000), alone)
        self.assertNotEqual(windows_of(8, 0, 1, 12, 100_000), alone)

    def test_peers_parameters_have_gpt2s_names(self):
        self.assertEqual(name_in_file("tokens.weight"), "transformer.wte.weight")
        self.assertEqual(name_in_file("blocks.3.out.bias"), "transformer.h.3.attn.c_proj.bias")
        self.assertEqual(name_in_file("blocks.0.down.weight"), "transformer.h.0.mlp.c_proj.weight")

    def test_peers_have_the_same_rate(self):  # lr * (step + 1) / (warmup + 1)
        self.assertAlmostEqual(lr_of(0, 30), LR / 31)
        self.assertAlmostEqual(lr_of(29, 30), LR * 30 / 31)
        self.assertEqual([lr_of(30, 30), lr_of(500, 30), lr_of(0, 0)], [LR] * 3)

    def test_validation_follows_the_training_text(self):
        training, few = texts(2)
        self.assertEqual(len(few), 2 * 64 + 1)
        self.assertTrue(texts(480)[1].startswith(few))
        self.assertEqual(texts(480)[0], training)


if __name__ == "__main__":
    unittest.main()
