#!/usr/bin/env python3
"""Draws docs/loss_time.svg from tables of docs/distributed.md: time to a loss with a slow rank and over a slow link.

    tools/charts/loss_time_chart.py

A bar is a cell of a table of benchmarks/stragglers.py, or a row of a table of benchmarks/slow_link.py. The first has
one table for two ranks and one for four. The second has one for each link, each with one and with two ranks a machine.
A cell begins with its seconds, or gives the reason why there are none. tests/tools/loss_time_chart_test.py compares
picture and page. Exit status: 0 written; 1 the page lacks a table.
"""

import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from faults_chart import picture  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE, CHART = ROOT / "docs/distributed.md", ROOT / "docs/loss_time.svg"

SECONDS = "seconds to a loss"
RANKS = ("two ranks", "four ranks")
LINKS, SHAPES = ("50 Mbit/s", "500 Mbit/s"), ("one rank a machine", "two ranks a machine")
KINDS = ("first", "second", "third")
LEFT, WIDTH, HEIGHT, STEP = 410, 310, 10, 12
COLORS = """    .first { fill: #8cc4ff; }
    .second { fill: #0b6bcb; }
    .third { fill: #033d8b; }
    @media (prefers-color-scheme: dark) {
      .first { fill: #b6daff; }
      .second { fill: #58a6ff; }
      .third { fill: #1f6feb; }
    }
"""


def table(text, begin, word=""):
    """Header and rows, as lists of cells, of the table whose first heading begins with `begin` and contains `word`."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith(begin) and word in line.split("|")[1]), None)
    if at is None:
        raise LookupError(f"no table '{begin}'" + (f" of {word}" if word else ""))
    rows = []
    for line in [lines[at], *lines[at + 2 :]]:
        if not line.startswith("|"):
            break
        rows.append(
            [
                re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cell.strip()).replace("`", "")
                for cell in line.strip("|").split("|")
            ]
        )
    return rows[0], rows[1:]


def timed(words):
    """(seconds or None, words) of a cell."""
    number = re.match(r"[0-9.]+", words)
    return float(number[0]) if number else None, words


def slow_rank(text, ranks):
    """Names of the k, and [(mode, [(seconds or None, words), one for each k]), ...], for `ranks` ranks."""
    header, rows = table(text, f"| {SECONDS}", ranks)
    return header[1:], [(row[0], [timed(words) for words in row[1:]]) for row in rows]


def slow_links(text, shape):
    """[(system, [(seconds or None, words), one for each link]), ...]: the links have the same systems."""
    found = {}
    for link in LINKS:
        header, rows = table(text, f"| {link}, {shape} ")
        column = next((i for i, name in enumerate(header) if name.startswith(SECONDS)), None)
        if column is None:
            raise LookupError(f"the table of {link}, {shape} has no column '{SECONDS} ...'")
        for row in rows:
            found.setdefault(row[0], []).append(timed(row[column]))
    odd = [name for name, cells in found.items() if len(cells) != len(LINKS)]
    if odd:
        raise LookupError(f"'{odd[0]}' is in one table of a link and not in the other")
    return list(found.items())


def chart(text):
    """The picture, as SVG."""
    parts, said, y = [], [], 40

    def words(x, row, text_there, kind="figure"):
        parts.append(f'  <text class="{kind}" x="{x:.1f}" y="{row}">{escape(text_there)}</text>')

    def panel(heading, legend, rows):
        nonlocal y
        most = max((seconds for _, cells in rows for seconds, _ in cells if seconds), default=1)
        y += 32
        words(24, y, heading, "name")
        y += 12
        for kind, name, x in zip(KINDS, legend, range(LEFT, LEFT + 360, 120)):
            parts.append(f'  <rect class="{kind}" x="{x}" y="{y}" width="12" height="12"/>')
            words(x + 17, y + 11, name, "note")
        y += 24
        for name, cells in rows:
            words(LEFT - 10, y + STEP * len(cells) / 2 + 4, name, "end")
            for kind, (seconds, cell) in zip(KINDS, cells):
                width = WIDTH * seconds / most if seconds else 0
                parts.append(f'  <rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{HEIGHT}"/>')
                words(LEFT + width + 7, y + HEIGHT, cell)
                y += STEP
            said.append(f"{name}: {', '.join(cell for _, cell in cells)}")
            y += 8

    for ranks in RANKS:
        factors, modes = slow_rank(text, ranks)
        panel(
            f"{ranks.capitalize()}, one of which computes k times slower: seconds to a validation loss (and steps)",
            factors,
            modes,
        )
    for shape in SHAPES:
        panel(
            f"Two machines with a slow link, {shape}: seconds to a validation loss (and steps)",
            LINKS,
            slow_links(text, shape),
        )
    title = "When ranks wait, and what crosses: time by mode"
    return picture(title, said, y + 16, parts, COLORS)


def main():
    try:
        CHART.write_text(chart(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    except (LookupError, ValueError) as fault:
        print(f"docs/distributed.md lacks tables of the chart: {fault}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
