#!/usr/bin/env python3
"""Tests of tools/charts/codec_chart.py: the reading of a table, and that docs/codec_losses.svg is up to date."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/charts"))
sys.dont_write_bytecode = True

import codec_chart as drawn  # noqa: E402

TABLE = "step,fp32,int8 sums,int4 sums\n20,4.0,4.1,4.2\n40,2.0,2.0,2.1\n"


class CodecChart(unittest.TestCase):
    def test_a_column_is_a_way(self):
        steps, ways = drawn.read(TABLE)
        self.assertEqual(steps, [20, 40])
        self.assertEqual(ways["int4 sums"], [4.2, 2.1])
        self.assertIn("after step 40: fp32 2.000, int8 sums 2.000, int4 sums 2.100", drawn.chart(TABLE))

    def test_local_steps_have_a_panel(self):
        self.assertNotIn("local steps", drawn.chart(TABLE))
        lines = TABLE.splitlines()
        picture = drawn.chart("\n".join([lines[0] + ",local", lines[1] + ",4.4", lines[2] + ",2.5"]))
        heading = picture.index("Copies that take 10 local steps, in percent above fp32")
        self.assertEqual(picture.count(">local<"), 1)
        self.assertGreater(picture.index(">local<"), heading)
        self.assertIn(">+25 %<", picture[heading:])

    def test_ticks_are_round_and_enclose(self):
        self.assertEqual(drawn.ticks(2.38, 4.1), [2.0, 2.5, 3.0, 3.5, 4.0, 4.5])
        self.assertEqual(drawn.ticks(0, 300), [0, 100, 200, 300])

    def test_labels_do_not_overlap(self):
        heights = {"a": 100.0, "b": 101.0, "c": 99.0}
        self.assertEqual(drawn.spread(heights, 200), {"c": 99.0, "a": 111.0, "b": 123.0})
        self.assertEqual(drawn.spread(heights, 110), {"c": 86.0, "a": 98.0, "b": 110.0})

    def test_a_table_without_fp32_is_refused(self):
        with self.assertRaisesRegex(LookupError, "wanted step, fp32"):
            drawn.chart("step,int8\n20,4.1\n")

    def test_the_picture_agrees_with_the_table(self):
        self.assertEqual(
            drawn.CHART.read_text(), drawn.chart(drawn.TABLE.read_text()), "draw it again: tools/charts/codec_chart.py"
        )


if __name__ == "__main__":
    unittest.main()
