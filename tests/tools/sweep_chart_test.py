#!/usr/bin/env python3
"""Tests of tools/charts/sweep_chart.py: the reading of a sweep's table, and that docs/sweep.svg is up to date."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/charts"))
sys.dont_write_bytecode = True

import sweep_chart  # noqa: E402

TABLE = """
run                         val_loss       a step     a second  utilization       device         host         disk\
  sent a step
stage-0_optimizer-none        2.6818      46.7 ms       16,455        24.1%     12.7 MiB            -            -\
     3.18 MiB
stage-3_optimizer-disk-1      2.6818      47.5 ms       16,173        23.7%      512 KiB     14.0 MiB     3.20 MiB\
     3.18 MiB
"""


class SweepChart(unittest.TestCase):
    def test_each_line_is_a_run(self):
        first, second = sweep_chart.runs(TABLE)
        self.assertEqual((first["stage"], first["place"], first["ms"]), (0, "on the device", 46.7))
        self.assertEqual(
            (second["stage"], second["place"], second["result"]), (3, "moments on disk", ("val_loss", "2.6818"))
        )
        self.assertEqual((first["utilization"], second["utilization"]), (24.1, 23.7))
        self.assertEqual(second["memory"], [0.5, 14.0, 3.2])
        self.assertEqual(first["memory"], [12.7, 0, 0])

    def test_an_accuracy_is_the_result(self):
        table = TABLE
        for cell, with_accuracy in [
            ("a step  ", "accuracy     a step  "),
            ("46.7 ms", "91.2%    46.7 ms"),
            ("47.5 ms", "91.2%    47.5 ms"),
        ]:
            table = table.replace(cell, with_accuracy)
        self.assertEqual([run["result"] for run in sweep_chart.runs(table)], [("accuracy", "91.2%")] * 2)
        self.assertIn("All 2 runs end with accuracy 91.2%.", sweep_chart.chart(table))

    def test_a_picture_has_four_figures(self):
        self.assertIn(
            "stage 3, moments on disk: 512 KiB + 14.0 + 3.20 MiB, 47.5 ms, val_loss 2.6818, utilization 23.7%",
            sweep_chart.chart(TABLE),
        )

    def test_a_table_may_lack_the_utilization(self):
        table = "\n".join(line[:61] + line[74:] for line in TABLE.splitlines())
        self.assertEqual([run["utilization"] for run in sweep_chart.runs(table)], [None, None])
        self.assertIn("47.5 ms, val_loss 2.6818", sweep_chart.chart(table))
        self.assertNotIn("utilization<", sweep_chart.chart(table))

    def test_a_page_without_table_is_refused(self):
        with self.assertRaisesRegex(LookupError, "no table of a sweep"):
            sweep_chart.runs("stage-0 took 46.7 ms")

    def test_equal_ends_of_runs_are_named(self):
        self.assertIn("All 2 runs end with val_loss 2.6818.", sweep_chart.chart(TABLE))
        self.assertNotIn("All 2 runs", sweep_chart.chart(TABLE.replace("2.6818", "2.7", 1)))

    def test_the_picture_agrees_with_the_page(self):
        self.assertEqual(
            sweep_chart.CHART.read_text(),
            sweep_chart.chart(sweep_chart.PAGE.read_text()),
            "draw it again: tools/charts/sweep_chart.py",
        )


if __name__ == "__main__":
    unittest.main()
