#!/usr/bin/env python3
"""Draws docs/faults.svg from the tables of docs/reliability.md: how often each thing was killed or damaged.

    tools/charts/faults_chart.py

A bar is a row of a table: the sum of its trials outside brackets, on a logarithmic scale, and the row's last cell.
tests/tools/faults_chart_test.py compares picture and page. Exit status: 0 written; 1 the page lacks a row.
"""

import math
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
PAGE, CHART = ROOT / "docs/reliability.md", ROOT / "docs/faults.svg"

# Heading and row number on the page, and the words of the chart.
BARS = [
    (
        "killed, or cut off",
        [
            ("A rank that fails", 1, "a process of 4 ranks, at any moment"),
            ("A save that is interrupted", 5, "a saver, before each system call"),
            ("A save that is interrupted", 6, "power, before each call of a save"),
            ("A save that is interrupted", 7, "power, with earlier writes flushed"),
        ],
    ),
    (
        "damaged, or failing",
        [
            ("A save that is interrupted", 9, "a checkpoint"),
            ("States on a disk that fails", 1, "a request of a disk with states"),
            ("Health", 1, "a bit that ranks hold alike"),
        ],
    ),
]
SECONDS = [("a quiet machine", "a quiet machine"), ("beside builds", "beside builds and other tests")]
LEFT, WIDTH, DECADES, HEIGHT, STEP = 280, 240, 4, 16, 24
STYLE = """
    .page { fill: #ffffff; stroke: #d0d7de; }
    text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1f2328; }
    .head { font-size: 17px; font-weight: bold; }
    .name { font-size: 14px; font-weight: bold; }
    .note { font-size: 12px; fill: #59636e; }
    .figure { font-size: 12px; }
    .tried { fill: #0b6bcb; }
    .typical { fill: #0b6bcb; }
    .slow { fill: #8c959f; }
    .end { text-anchor: end; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; stroke: #3d444d; }
      text { fill: #f0f6fc; }
      .note { fill: #9198a1; }
      .tried { fill: #58a6ff; }
      .typical { fill: #58a6ff; }
      .slow { fill: #6e7681; }
    }
"""


def picture(title, said, height, parts, colors=""):
    """A whole SVG: frame, title and description for screen readers, around `parts`."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" width="900" height="{height}" role="img" '
        f'aria-labelledby="title desc">\n  <title id="title">{title}</title>\n'
        f'  <desc id="desc">{escape("; ".join(said))}.</desc>\n  <style>{STYLE}{colors}  </style>\n'
        f'  <rect class="page" x="0.5" y="0.5" width="899" height="{height - 1}" rx="8"/>\n'
        f'  <text class="head" x="24" y="34">{title}</text>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def row(text, heading, start):
    """The cells of the row that begins with `start`, below a heading of the page."""
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    for line in section.splitlines():
        if line.startswith(f"| {start}"):
            return [cell.strip() for cell in line.strip("|").split("|")]
    raise LookupError(f"{heading}: no row '{start}'")


def trials(cell):
    """The number of trials in a cell: 218 for "90 and 128 (6 and 6)"; the lower number for "4,640 to 4,660 runs"."""
    counted = re.sub(r"\(.*?\)", "", cell).split(" to ")[0]
    return sum(int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", counted))


def chart(text):
    """The picture, as SVG."""
    parts, said, y = [], [], 64

    def line(label, bars, words):
        nonlocal y
        parts.append(f'  <text class="end" x="{LEFT - 10}" y="{y + 13}">{escape(label)}</text>')
        end = LEFT
        for kind, width in bars:
            parts.append(f'  <rect class="{kind}" x="{end:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}"/>')
            end += width
        parts.append(f'  <text class="figure" x="{end + 7:.1f}" y="{y + 13}">{escape(words)}</text>')
        said.append(f"{label}: {words}")
        y += STEP

    def group(name):
        nonlocal y
        y += 14
        parts.append(f'  <text class="name" x="24" y="{y + 12}">{escape(name)}</text>')
        y += STEP

    for name, rows in BARS:
        group(name)
        for heading, number, label in rows:
            cells = row(text, heading, f"{number} |")
            held, above = cells[3], number
            while held == "the same":
                above -= 1
                held = row(text, heading, f"{above} |")[3]
            count = trials(cells[2])
            line(label, [("tried", WIDTH * math.log10(count) / DECADES)], f"{count:,}: {held}")
    group("from the kill to the next step")
    for start, label in SECONDS:
        median, slow = (float(cell.split()[0]) for cell in row(text, "A rank that fails", start)[1:3])
        line(
            label,
            [("typical", 100 * median), ("slow", 100 * (slow - median))],
            f"{median:g} s in the median, {slow:g} s at the 99th percentile",
        )
    title = "What was killed or damaged, how often, and what held"
    note = (
        '  <text class="note" x="24" y="58">Trials of the full tests, on a logarithmic scale. All of them held.</text>'
    )
    return picture(title, said, y + 16, [note, *parts])


def main():
    try:
        CHART.write_text(chart(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    except (LookupError, ValueError) as fault:
        print(f"docs/reliability.md lacks rows of the chart: {fault}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
