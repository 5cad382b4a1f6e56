#!/usr/bin/env python3
"""Tests of tools/charts/faults_chart.py: the reading of a table, and that docs/faults.svg is up to date."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/charts"))
sys.dont_write_bytecode = True

import faults_chart  # noqa: E402


class FaultsChart(unittest.TestCase):
    def test_trials_outside_brackets_are_added(self):
        for cell, count in [
            ("200 (2)", 200),
            ("90 and 128 (6 and 6)", 218),
            ("5,000 and 5,000 (400 and 100)", 10000),
            ("4,640 to 4,660 runs (one in 11)", 4640),
            ("506 pairs (none)", 506),
        ]:
            self.assertEqual(faults_chart.trials(cell), count, cell)

    def test_a_missing_row_is_named(self):
        page = "\n## A rank that fails\n\n| 1 | a fault | 200 (2) | held |\n\n## Next\n\n| 2 | another | 1 | held |\n"
        self.assertEqual(faults_chart.row(page, "A rank that fails", "1 |")[2], "200 (2)")
        with self.assertRaisesRegex(LookupError, "A rank that fails: no row '2"):
            faults_chart.row(page, "A rank that fails", "2 |")

    def test_the_picture_agrees_with_the_page(self):
        self.assertEqual(
            faults_chart.CHART.read_text(),
            faults_chart.chart(faults_chart.PAGE.read_text()),
            "draw it again: tools/charts/faults_chart.py",
        )


if __name__ == "__main__":
    unittest.main()
