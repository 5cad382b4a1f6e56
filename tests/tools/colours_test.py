#!/usr/bin/env python3
"""Colour-blind people can tell the colours of the report page apart, on a light page, on a dark one and in print.

Eyes without one kind of cone are simulated in linear RGB by the matrices of Machado, Oliveira and Fernandes (2009). The
distance of two colours is that in CIELAB (CIE76): an eye just notices about 2.3.
"""

import itertools
import re
import unittest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "app/report/page/assets/page.css"
APART = 15
EYES = {
    "with all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "without red cones": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "without green cones": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "without blue cones": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)  # of sRGB, D65
WHITE = (0.95047, 1.0, 1.08883)


def themes():
    """The colours of each theme by name: those of runs and tags, and of the page."""
    blocks = re.findall(r"\{([^{}]*--color-0: [^{}]*)\}", PAGE.read_text())
    return [dict(re.findall(r"--(color-\d|page|write): (#[0-9a-f]{6})", block)) for block in blocks]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def linear(hexadecimal):
    shares = (int(hexadecimal[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]


def lab(color):
    def root(t):
        return t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116

    x, y, z = (root(t / white) for t, white in zip(times(TO_XYZ, color), WHITE))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one, other, eye):
    seen = (lab([min(1, max(0, share)) for share in times(EYES[eye], linear(color))]) for color in (one, other))
    return sum((a - b) ** 2 for a, b in zip(*seen)) ** 0.5


class Colours(unittest.TestCase):
    def test_each_theme_has_seven(self):
        self.assertGreaterEqual(len(themes()), 3)
        for theme in themes():
            self.assertEqual(sum(name.startswith("color-") for name in theme), 7)

    def test_every_eye_sees_different_colours(self):
        for theme, eye in itertools.product(themes(), EYES):
            for one, other in itertools.combinations(
                [name for name in theme if name.startswith("color-") or name in ("page", "write")], 2
            ):
                with self.subTest(one=theme[one], other=theme[other], eye=eye):
                    self.assertGreaterEqual(distance(theme[one], theme[other], eye), APART)

    def test_red_equals_green_without_green_cones(self):
        self.assertGreater(distance("#cc3333", "#667700", "with all cones"), 40)
        self.assertLess(distance("#cc3333", "#667700", "without green cones"), APART)


if __name__ == "__main__":
    unittest.main()
