#!/usr/bin/env python3
"""Tests of benchmarks/slow_link.py that need neither root nor torch: samples of a peer, ways that a plan tries, cells of a table."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.dont_write_bytecode = True

import slow_link  # noqa: E402
import slow_link_peer as peer  # noqa: E402


class SlowLink(unittest.TestCase):
    def test_a_peer_draws_the_windows_that_zero_train_draws(self):  # the numbers of tests/data/sample_order_test.cpp
        self.assertEqual([peer.shuffled_offset(1337, g, 1_003_790) for g in range(6)],
                         [194049, 360250, 721948, 396675, 783171, 938563])

    def test_ranks_share_the_windows_of_a_step(self):
        alone = peer.windows_of(7, 0, 12, 100_000)
        self.assertEqual(peer.windows_of(7, 0, 6, 100_000) + peer.windows_of(7, 1, 6, 100_000), alone)
        self.assertNotEqual(peer.windows_of(8, 0, 12, 100_000), alone)

    def test_a_peers_parameters_have_the_names_of_a_gpt2(self):
        self.assertEqual(peer.name_in_file("tokens.weight"), "transformer.wte.weight")
        self.assertEqual(peer.name_in_file("blocks.3.out.bias"), "transformer.h.3.attn.c_proj.bias")
        self.assertEqual(peer.name_in_file("blocks.0.down.weight"), "transformer.h.0.mlp.c_proj.weight")

    def test_keys_and_plan_name_a_way_alike(self):
        served = {"sync": {"mode": "async", "servers": 1, "staleness": 4, "quorum": 0}, "stage": 3, "group": 1, "local": False}
        local = {"stage": 2, "group": 2, "local": True}
        coded = {"stage": 2, "group": 2, "local": False, "wire": {"gather": "none", "reduce": "none", "outer": "int8"}}
        keys = {system.name: system.keys for system in slow_link.SETS[2]}
        for way, name in [(served, "a server, async, staleness 4"), (local, "groups of 2, local steps, 50 a round"),
                          (coded, "stage 2, groups of 2, int8 between groups")]:
            self.assertEqual(slow_link.name_of_way(way), slow_link.way_of(keys[name], 2))

    def test_a_loss_that_was_not_reached_has_no_seconds(self):
        self.assertEqual(slow_link.loss_cells({"steps": 60, "loss": 2.5694}, 0.605, True), ["36.3 (60)", "2.569"])
        self.assertEqual(slow_link.loss_cells({"steps": None, "loss": 3.1}, 0.605, True), ["not reached", "3.100"])

    def test_a_curve_ends_when_its_loss_is_reached_and_100_steps_are_done(self):
        evals = [[1.0, 2.64, 60], [2.0, 2.66, 90]]
        self.assertFalse(slow_link.is_enough(evals, 2.65))
        self.assertTrue(slow_link.is_enough([*evals, [3.0, 2.6, 100]], 2.65))
        self.assertFalse(slow_link.is_enough([[3.0, 2.7, 100]], 2.65))


if __name__ == "__main__":
    unittest.main()
