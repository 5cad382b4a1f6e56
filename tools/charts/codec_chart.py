#!/usr/bin/env python3
"""Draws docs/codec_losses.svg from docs/codec_losses.csv: the validation loss by step with each codec, compared with
fp32.

    tools/charts/codec_chart.py

benchmarks/codec_losses.py writes the file. The curves of losses nearly coincide, so a second panel shows each in
percent of fp32's. A third panel has the ways whose copies take local steps, because they are much farther from fp32.
tests/tools/codec_chart_test.py compares picture and file. Exit status: 0 written; 1 the file lacks the columns.
"""

import csv
import io
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from faults_chart import picture  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TABLE, CHART = ROOT / "docs/codec_losses.csv", ROOT / "docs/codec_losses.svg"

LEFT, WIDTH, HEIGHT, LABELS = 70, 590, 210, 12
PANEL = HEIGHT + 70  # including its heading and its marks
COLORS = """    .middle { text-anchor: middle; }
    .curve { fill: none; stroke-width: 1.8; }
    .grid { stroke: #d0d7de; }
    .c0 { stroke: #1f2328; } .c1 { stroke: #0072b2; } .c2 { stroke: #d55e00; }
    .c3 { stroke: #009e73; } .c4 { stroke: #b8579a; } .c5 { stroke: #b07d00; } .c6 { stroke: #6e7781; }
    @media (prefers-color-scheme: dark) {
      .grid { stroke: #3d444d; }
      .c0 { stroke: #f0f6fc; } .c1 { stroke: #56b4e9; } .c2 { stroke: #ff8a4c; }
      .c3 { stroke: #2fc79a; } .c4 { stroke: #e59bd0; } .c5 { stroke: #e6b73c; } .c6 { stroke: #9198a1; }
    }
"""


def is_local(way):
    return way.startswith("local")


def read(text):
    """Steps, and {way: losses}; the first way is fp32."""
    header, *rows = list(csv.reader(io.StringIO(text)))
    if header[:2] != ["step", "fp32"] or len(header) < 3 or not rows:
        raise LookupError(f"columns {', '.join(header)}: wanted step, fp32, and one for each codec")
    every_step = [name for name in header[1:] if not is_local(name)]
    if len(every_step) > 7:
        raise LookupError(f"{len(every_step)} ways in a panel: there are seven colours")
    steps = [int(row[0]) for row in rows]
    return steps, {name: [float(row[i]) for row in rows] for i, name in enumerate(header[1:], 1)}


def ticks(least, most):
    """Round values that enclose a range, four to eight of them."""
    raw = (most - least) / 5
    unit = 10 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw)
    first = math.floor(least / step + 1e-9)
    return [round(i * step, 9) for i in range(first, math.ceil(most / step - 1e-9) + 1)]


def spread(rows, lowest):
    """Heights of labels, at least LABELS apart and none below `lowest`, in the order of the labelled curves."""
    placed, order = {}, sorted(rows, key=rows.get)
    above = -math.inf
    for name in order:
        above = placed[name] = max(rows[name], above + LABELS)
    below = lowest + LABELS
    for name in reversed(order):
        below = placed[name] = min(placed[name], below - LABELS)
    return placed


def chart(text):
    """The picture, as SVG."""
    steps, ways = read(text)
    base = next(iter(ways.values()))
    parts, said = (
        [],
        [f"after step {steps[-1]}: " + ", ".join(f"{name} {losses[-1]:.3f}" for name, losses in ways.items())],
    )

    def panel(top, heading, curves, write):
        values = [value for curve in curves.values() for value in curve]
        marks = ticks(min(values), max(values))

        def x(step):
            return LEFT + WIDTH * step / steps[-1]

        def y(value):
            return top + HEIGHT * (marks[-1] - value) / (marks[-1] - marks[0])

        parts.append(f'  <text class="name" x="24" y="{top - 16}">{escape(heading)}</text>')
        for mark in marks:
            parts.append(
                f'  <line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>'
            )
            parts.append(f'  <text class="note end" x="{LEFT - 8}" y="{y(mark) + 4:.1f}">{write(mark)}</text>')
        for step in ticks(0, steps[-1]):
            if step <= steps[-1]:
                parts.append(f'  <text class="note middle" x="{x(step):.1f}" y="{top + HEIGHT + 18}">{step:g}</text>')
        at = spread({name: y(curve[-1]) for name, curve in curves.items()}, top + HEIGHT)
        for i, (name, curve) in enumerate(curves.items()):
            points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in zip(steps, curve))
            parts.append(f'  <polyline class="curve c{i}" points="{points}"/>')
            end = LEFT + WIDTH
            parts.append(f'  <path class="curve c{i}" d="M{end} {y(curve[-1]):.1f}L{end + 14} {at[name]:.1f}h10"/>')
            parts.append(f'  <text class="figure" x="{end + 28}" y="{at[name] + 4:.1f}">{escape(name)}</text>')

    every_step = {name: losses for name, losses in ways.items() if not is_local(name)}
    local = {name: losses for name, losses in ways.items() if is_local(name) or losses is base}

    def percent(shown):
        return {name: [100 * (loss / exact - 1) for loss, exact in zip(losses, base)] for name, losses in shown.items()}

    def write_percent(mark):
        return f"{mark:+g} %" if mark else "0"

    panel(88, "Validation loss, by step", every_step, lambda mark: f"{mark:g}")
    panel(88 + PANEL, "The same, in percent above fp32", percent(every_step), write_percent)
    if len(local) > 1:
        panel(88 + 2 * PANEL, "Copies that take 10 local steps, in percent above fp32", percent(local), write_percent)
    return picture("What codecs cost in loss", said, 88 + (3 if len(local) > 1 else 2) * PANEL - 30, parts, COLORS)


def main():
    try:
        CHART.write_text(chart(TABLE.read_text(encoding="utf-8")), encoding="utf-8")
    except (LookupError, ValueError, OSError) as fault:
        print(f"docs/codec_losses.csv lacks columns of the chart: {fault}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
