#!/usr/bin/env python3
"""Tests of tools/charts/steps_chart.py: the reading of a table, and that docs/steps.svg is up to date."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/charts"))
sys.dont_write_bytecode = True

import steps_chart  # noqa: E402


class StepsChart(unittest.TestCase):
    def test_times_come_from_the_steps_column(self):
        page = (
            "| gpt2, states on the device | step ms | of compute |\n|---|--:|--:|\n"
            "| compute | 1,921 | |\n| DDP | 2,795 | 1.46 |\n"
        )
        self.assertEqual(steps_chart.times(page, steps_chart.ON), {"compute": 1921, "DDP": 2795})
        with self.assertRaisesRegex(LookupError, "no table"):
            steps_chart.times(page, steps_chart.OFF)

    def test_the_picture_agrees_with_the_page(self):
        self.assertEqual(
            steps_chart.CHART.read_text(),
            steps_chart.chart(steps_chart.PAGE.read_text()),
            "draw it again: tools/charts/steps_chart.py",
        )


if __name__ == "__main__":
    unittest.main()
