#!/usr/bin/env python3
"""Tests of tools/charts/loss_time_chart.py: a page's tables, and that docs/loss_time.svg is up to date."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/charts"))
sys.dont_write_bytecode = True

import loss_time_chart as drawn  # noqa: E402

PAGE = """
| seconds to a loss of 2.6, two ranks (and steps) | k = 1 | k = 4 |
|---|--:|--:|
| sync | 7.3 (70) | 28.5 (70) |
| async | 16.0 (170) | not reached |

| seconds to a loss of 2.6, four ranks (and steps) | k = 1 | k = 4 |
|---|--:|--:|
| sync | 6.9 (70) | 13.9 (70) |
| async | 18.2 (200) | 30.6 (150) |

| 50 Mbit/s, one rank a machine | step ms | seconds to a loss of 2.65 (steps) | validation loss |
|---|--:|--:|--:|
| stage 2 | 608 | 36.5 (60) | 2.569 |
| local, [on their way](#there) | 76 | 7.6 (100) | 2.582 |

| 500 Mbit/s, one rank a machine | step ms | seconds to a loss of 2.65 (steps) | validation loss |
|---|--:|--:|--:|
| stage 2 | 125 | 7.5 (60) | 2.569 |
| local, on their way | 63 | 6.3 (100) | 2.582 |

| 50 Mbit/s, two ranks a machine | seconds to a loss of 2.65 (steps) |
|---|--:|
| async | not reached |

| 500 Mbit/s, two ranks a machine | seconds to a loss of 2.65 (steps) |
|---|--:|
| async | 30.1 (210) |
"""


class LossTimeChart(unittest.TestCase):
    def test_rows_are_modes_with_seconds(self):
        factors, modes = drawn.slow_rank(PAGE, "two ranks")
        self.assertEqual(factors, ["k = 1", "k = 4"])
        self.assertEqual(modes[0], ("sync", [(7.3, "7.3 (70)"), (28.5, "28.5 (70)")]))
        self.assertEqual(modes[1][1][1], (None, "not reached"))
        self.assertIn("not reached", drawn.chart(PAGE))

    def test_numbers_of_ranks_have_panels(self):
        self.assertEqual(drawn.slow_rank(PAGE, "four ranks")[1][0], ("sync", [(6.9, "6.9 (70)"), (13.9, "13.9 (70)")]))
        self.assertIn("Four ranks, one of which computes k times slower", drawn.chart(PAGE))
        with self.assertRaisesRegex(LookupError, "no table '| seconds to a loss' of four ranks"):
            drawn.chart(PAGE.replace("four ranks", "five ranks"))

    def test_both_links_tell_of_a_system(self):
        self.assertEqual(
            drawn.slow_links(PAGE, "one rank a machine")[1],
            ("local, on their way", [(7.6, "7.6 (100)"), (6.3, "6.3 (100)")]),
        )
        self.assertEqual(
            drawn.slow_links(PAGE, "two ranks a machine"), [("async", [(None, "not reached"), (30.1, "30.1 (210)")])]
        )
        with self.assertRaisesRegex(LookupError, "'stage 2' is in one table"):
            drawn.slow_links(PAGE.replace("| stage 2 | 125 | 7.5 (60) | 2.569 |\n", ""), "one rank a machine")

    def test_tables_of_links_have_seconds(self):
        with self.assertRaisesRegex(LookupError, "50 Mbit/s, one rank a machine has no column 'seconds to a loss"):
            drawn.slow_links(
                PAGE.replace("| step ms | seconds to a loss of 2.65 (steps)", "| step ms | seconds", 1),
                "one rank a machine",
            )

    def test_a_page_without_table_is_refused(self):
        with self.assertRaisesRegex(LookupError, "no table '| seconds to a loss'"):
            drawn.chart("It took 7.3 seconds.")

    def test_the_picture_agrees_with_the_page(self):
        self.assertEqual(
            drawn.CHART.read_text(),
            drawn.chart(drawn.PAGE.read_text()),
            "draw it again: tools/charts/loss_time_chart.py",
        )


if __name__ == "__main__":
    unittest.main()
