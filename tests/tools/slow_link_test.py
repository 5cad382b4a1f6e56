#!/usr/bin/env python3
"""Tests of benchmarks/slow_link.py that need neither root nor torch: ways of a plan, and cells and lines of a table."""

import contextlib
import io
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.dont_write_bytecode = True

import slow_link  # noqa: E402
from support.raw_rounds import RawRounds  # noqa: E402


class SlowLink(unittest.TestCase):
    def test_keys_and_plan_use_one_name(self):
        served = {
            "sync": {"mode": "async", "servers": 1, "staleness": 4, "quorum": 0},
            "stage": 3,
            "group": 1,
            "local": False,
        }
        local = {"stage": 3, "group": 2, "local": True}
        coded = {"stage": 3, "group": 2, "local": False, "wire": {"gather": "none", "reduce": "none", "outer": "int8"}}
        keys = {system.name: system.keys for system in slow_link.SETS[2]}
        for way, name in [
            (served, "a server, async, staleness 4"),
            (local, "stage 3, groups of 2, local steps, 50 a round"),
            (coded, "stage 3, groups of 2, int8 between groups"),
        ]:
            self.assertEqual(slow_link.name_of_way(way), slow_link.way_of(keys[name], 2))

    def test_a_missed_loss_has_no_seconds(self):
        self.assertEqual(slow_link.loss_cells({"steps": 60, "loss": 2.5694}, 0.605), ["36.3 (60)", "2.569"])
        self.assertEqual(slow_link.loss_cells({"steps": None, "loss": 3.1}, 0.605), ["not reached", "3.100"])
        self.assertEqual(slow_link.loss_cells(None, 0.605), ["", ""])

    def test_a_curve_has_100_steps(self):
        evals = [[1.0, 2.64, 60], [2.0, 2.66, 90]]
        self.assertFalse(slow_link.is_enough(evals, 2.65))
        self.assertTrue(slow_link.is_enough([*evals, [3.0, 2.6, 100]], 2.65))
        self.assertFalse(slow_link.is_enough([[3.0, 2.7, 100]], 2.65))

    def test_each_link_has_its_widest_spread(self):
        seconds = {
            (50, "stage 2"): [0.6, 0.61, 0.62],
            (50, "DDP"): [0.6, 0.7, 0.9],
            (500, "stage 2"): [0.1, 0.11, 0.12],
            (500, "DDP"): [0.13, 0.13, 0.13],
        }
        rounds = RawRounds(
            records=[{"kind": "asked", "loss": 2.7}]
            + [
                {"kind": "step", "ranks": 1, "mbits": link, "round": i, "system": name, "seconds": each, "sent": 3.5e6}
                for (link, name), found in seconds.items()
                for i, each in enumerate(found)
            ]
        )
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for link in (50, 500):
                slow_link.print_link(FixedPlan(), link, rounds)
        self.assertIn("| stage 2 | 610 | 3.50 |  |  | 1.22 |", printed.getvalue())
        self.assertIn(
            "over 50 Mbit/s a step's mean differs most between rounds by 43 % of its median (DDP)", printed.getvalue()
        )
        self.assertIn(
            "over 500 Mbit/s a step's mean differs most between rounds by 18 % of its median (stage 2)",
            printed.getvalue(),
        )

    def test_visible_exchange_is_compared_with_bytes(self):
        names = {"local steps, 10 a round": [0.13, 0.14, 0.15], "stage 2": [0.6, 0.62, 0.7], "DDP": [0.6, 0.6, 0.6]}
        rounds = RawRounds(
            records=[
                {"kind": "apart", "ranks": 1, "round": i, "system": slow_link.APART.name, "seconds": each}
                for i, each in enumerate([0.07, 0.08, 0.1])
            ]
            + [
                {"kind": "step", "ranks": 1, "mbits": 50, "round": i, "system": name, "seconds": each, "sent": 375000}
                for name, found in names.items()
                for i, each in enumerate(found)
            ]
        )
        systems = [system for system in slow_link.SETS[1] if system.name in names]
        waits, hides = slow_link.exchange_lines(systems, 1, 50, rounds)
        self.assertTrue(
            waits.endswith("if nothing is sent while ranks compute: local steps, 10 a round 1.00 (0.83 to 1.00)"), waits
        )
        self.assertTrue(hides.endswith("if a part may cross while ranks compute: stage 2 9.00 (8.83 to 10.00)"), hides)
        self.assertEqual(slow_link.exchange_lines(systems, 2, 50, rounds), [], "no step without exchange was measured")

    def test_losses_of_pipelines_are_compared(self):
        ours, peer = "a pipeline, 4 micro-batches, 1f1b", "torch.distributed.pipelining, 4 micro-batches, 1f1b"

        def lines(theirs):
            losses = {ours: [5.5, 4.0], peer: theirs, "DDP": []}
            rounds = RawRounds(
                records=[
                    {"kind": "step", "ranks": 1, "mbits": 50, "round": 0, "system": name, "losses": each}
                    for name, each in losses.items()
                ]
            )
            return slow_link.loss_lines(rounds, 1, 50)

        self.assertEqual(
            lines([5.5, 4.000002]),
            [f"losses of {peer} and of {ours}: equal to 1e-06, at most 5.0e-07 of a loss apart in 2 steps"],
        )
        self.assertEqual(
            lines([5.5, 4.00002]),
            [f"losses of {peer} and of {ours}: DIFFERENT, at most 5.0e-06 of a loss apart in 2 steps"],
        )
        self.assertEqual(
            slow_link.loss_lines(
                RawRounds(records=[{"kind": "step", "ranks": 1, "mbits": 50, "round": 0, "system": "DDP"}]), 1, 50
            ),
            [],
        )

    def test_a_silent_step_has_equal_groups(self):
        apart = {
            system.name: slow_link.without_exchange(system, 2)
            for system in slow_link.SETS[2]
            if system.keys is not None
        }
        self.assertEqual(apart["stage 2, all ranks"], slow_link.APART)
        self.assertEqual(apart["stage 2, groups of 2, local steps, 10 a round, int8"], slow_link.GROUPS_APART)
        self.assertIsNone(apart["stage 3, groups of 2, local steps, 50 a round"])

    def test_plans_count_ranks_of_a_machine(self):
        planner = Described(".", 2, alone=0.086, paired=0.111)
        self.assertAlmostEqual(planner.within, 3.3e6 / 0.025)
        self.assertIsNone(Described(".", 2, alone=0.086, paired=0.085).within)
        self.assertIsNone(Described(".", 1, alone=0.086).within)


class FixedPlan:
    ranks = 1

    def plan(self, *_):
        return {"planned": 0, "ways": [{"stage": 2, "group": 2, "local": False, "seconds": 0.5}]}


class Described(slow_link.Planner):
    def __init__(self, folder, ranks, **seconds):
        super().__init__("zero", Path(folder), ranks, **seconds)

    def plan(self, *_):
        return {"planned": 0, "ways": [{"within_bytes": 3.3e6}]}


if __name__ == "__main__":
    unittest.main()
