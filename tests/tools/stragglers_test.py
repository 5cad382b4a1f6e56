#!/usr/bin/env python3
"""Tests of benchmarks/stragglers.py that need no torch and start no run: shares, times, cells and tables."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(ROOT / "tools/charts"))
sys.dont_write_bytecode = True

import loss_time_chart  # noqa: E402
import stragglers  # noqa: E402
from straggler_modes import MODES, rate_of, shares_by, timing_of  # noqa: E402
from support.raw_rounds import RawRounds, spread, widest  # noqa: E402

SYNC = MODES[0].name


def speed(system, number, rate, k=4.0, seconds=0.4):
    return {
        "kind": "speed",
        "ranks": 2,
        "k": k,
        "round": number,
        "system": system,
        "rate": rate,
        "seconds": seconds,
        "first": 3.0,
        "warm_up": 5,
    }


def curve(system, found, **more):
    return {
        "kind": "curve",
        "ranks": 2,
        "k": None,
        "round": None,
        "system": system,
        "steps": found[-1][0],
        "curve": found,
        **more,
    }


ASKED = {"kind": "asked", "loss": 2.6, "samples": 32, "period": 0.01}


class Stragglers(unittest.TestCase):
    def test_shares_by_k_end_together(self):
        self.assertEqual(shares_by(1, 2, 32), [16, 16])
        self.assertEqual(shares_by(4, 2, 30), [24, 6])
        self.assertEqual(sum(shares_by(4, 4, 32)), 32)

    def test_early_steps_count_for_the_loss(self):
        found = timing_of(ends=[1.0, 2.0, 2.5, 3.0, 9.0], first=1.0, warm_up=2, steps=2, applied=[32, 32, 16, 48, 32])
        self.assertEqual(found, {"seconds": 0.5, "rate": 64.0, "warm_up": 2, "first": 2.0})
        self.assertEqual(stragglers.seconds_to({"steps": 10}, found), 6.0)
        self.assertEqual(stragglers.seconds_to({"steps": 1}, found), 1.0)
        self.assertIsNone(stragglers.seconds_to({"steps": None}, found))

    def test_a_rate_excludes_the_first_steps(self):
        self.assertEqual(rate_of([0.0, 5.0, 5.5, 6.0], 2), 2.0)

    def test_shares_are_of_one_round(self):
        rounds = RawRounds(
            records=[speed(stragglers.ALONE, i, total) for i, total in enumerate([160, 150, 200])]
            + [speed(SYNC, i, rate) for i, rate in enumerate([64, 66, 80])]
        )
        self.assertEqual(stragglers.share_cell(rounds, 2, 4.0, SYNC), "0.40 (66)")

    def test_each_round_has_its_curve(self):
        asynchronous = MODES[-3].name
        rounds = RawRounds(
            records=[curve(SYNC, [[10, 3.0], [20, 2.5]]), speed(SYNC, 0, 80), speed(SYNC, 1, 80, seconds=0.6)]
            + [speed(asynchronous, i, 120) for i in range(2)]
            + [curve(asynchronous, [[steps, 2.6]], k=4.0, round=i) for i, steps in enumerate([55, 105])]
        )
        at = {"ranks": 2, "k": 4.0}
        self.assertEqual(stragglers.to_loss(rounds, {**at, "system": SYNC}), [(9.0, 20), (12.0, 20)])
        self.assertEqual(stragglers.to_loss(rounds, {**at, "system": asynchronous}), [(23.0, 55), (43.0, 105)])
        self.assertEqual(stragglers.loss_cell([(23.0, 55), (43.0, 105)]), "33.0 (80)")
        self.assertEqual(stragglers.loss_cell([(23.0, 55), (None, None)]), "not reached")

    def test_ddp_must_have_the_same_losses(self):
        rounds = RawRounds(records=[curve(SYNC, [[10, 3.0], [20, 2.5]]), curve("DDP", [[10, 3.0], [20, 2.5000005]])])
        self.assertEqual(
            stragglers.same_losses(rounds, 2),
            "two ranks: DDP's losses differ from those of sync by 2e-07 of them at most, "
            "over 2 evaluations up to step 20",
        )
        self.assertIsNone(stragglers.same_losses(rounds, 4))
        with self.assertRaisesRegex(SystemExit, "DDP does not train as sync does: its losses differ by 4.0e-02"):
            stragglers.same_losses(RawRounds(records=[curve(SYNC, [[20, 2.5]]), curve("DDP", [[20, 2.6]])]), 2)

    def test_the_chart_reads_the_printed_table(self):
        rounds = RawRounds(
            records=[ASKED, curve(SYNC, [[20, 2.5]])]
            + [speed(stragglers.ALONE, i, 160) for i in range(3)]
            + [speed(SYNC, i, 64, seconds=seconds) for i, seconds in enumerate([0.4, 0.5, 0.4])]
        )
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            stragglers.print_ranks(rounds, 2)
        self.assertEqual(
            loss_time_chart.slow_rank(printed.getvalue(), "two ranks"),
            (["k = 4"], [("sync, equal shares", [(9.0, "9.0 (20)")])]),
        )
        self.assertIn("| `sync`, equal shares | 0.40 (64) |", printed.getvalue())
        self.assertIn(
            "k = 4: a time differs most between rounds by 17 % of its median (`sync`, equal shares)", printed.getvalue()
        )

    def test_each_round_is_written_at_once(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            rounds = RawRounds(f"{folder}/rounds.json")
            for figures in (ASKED, speed(SYNC, 0, 64)):
                rounds.add(**figures)
                self.assertEqual(RawRounds.read(f"{folder}/rounds.json").records, rounds.records)

    def test_a_spread_is_least_to_most(self):
        self.assertAlmostEqual(spread([0.9, 1.0, 1.2]), 0.3)
        self.assertEqual(widest({"a": 0.1, "b": 0.29}), "29 % of its median (b)")


if __name__ == "__main__":
    unittest.main()
