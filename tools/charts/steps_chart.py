#!/usr/bin/env python3
"""Draws docs/steps.svg from the tables of docs/performance.md: a training step of GPT-2 in zero.cpp, DDP, FSDP2 and
DeepSpeed.

    tools/charts/steps_chart.py

A bar is a row of one of two tables of benchmarks/peer_steps.py: states on the device, or states off it. The dashed line
is the row `compute` of the same table. tests/tools/steps_chart_test.py compares picture and page. Exit status: 0
written; 1 a row is missing.
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from faults_chart import picture  # noqa: E402
from loss_time_chart import table  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE, CHART = ROOT / "docs/performance.md", ROOT / "docs/steps.svg"

# First words of a table of the page, the name of the group, and its rows.
ON, OFF = "| gpt2, states on the device", "| gpt2, states off the device"
GROUPS = [
    (
        ON,
        "states on the device",
        ["zero.cpp stage 0", "zero.cpp stage 3", "DDP", "FSDP2", "DeepSpeed ZeRO-1", "DeepSpeed ZeRO-3"],
    ),
    (OFF, "gradients and moments on the host", ["zero.cpp stage 3, host", "DeepSpeed ZeRO-3, offload"]),
    (
        OFF,
        "parameters and moments on disk, gradients on the host",
        ["zero.cpp stage 3, disk", "DeepSpeed ZeRO-3, NVMe"],
    ),
]
LEFT, WIDTH, HEIGHT, STEP = 250, 540, 18, 25
COLORS = """    .ours { fill: #0b6bcb; }
    .peer { fill: #8c959f; }
    .floor { stroke: #1f2328; stroke-width: 1.5; stroke-dasharray: 4 3; }
    @media (prefers-color-scheme: dark) {
      .ours { fill: #58a6ff; }
      .peer { fill: #6e7681; }
      .floor { stroke: #f0f6fc; }
    }
"""


def times(text, begin):
    """{system: ms} of a table, in the table's order."""
    header, rows = table(text, begin)
    column = header.index("step ms")
    return {row[0]: float(row[column].replace(",", "")) for row in rows}


def chart(text):
    """The picture, as SVG."""
    longest = max(times(text, begin)[system] for begin, _, systems in GROUPS for system in systems)
    note = (
        "Dashed: forward and backward alone. "
        "The first group is one run, the other two are another: compare bars within a run."
    )
    parts, said, y = [f'  <text class="note" x="24" y="58">{note}</text>'], [], 78
    for begin, name, systems in GROUPS:
        found, bars = times(text, begin), []
        parts.append(f'  <text class="name" x="24" y="{y + 14}">{escape(name)}</text>')
        y += STEP
        top = y
        for system in systems:
            width, kind = WIDTH * found[system] / longest, "ours" if system.startswith("zero.cpp") else "peer"
            parts += [
                f'  <text class="end" x="{LEFT - 10}" y="{y + 14}">{escape(system)}</text>',
                f'  <rect class="{kind}" x="{LEFT}" y="{y}" width="{width:.1f}" height="{HEIGHT}"/>',
                f'  <text class="figure" x="{LEFT + width + 7:.1f}" y="{y + 14}">{found[system]:,.0f}</text>',
            ]
            bars.append(f"{system} {found[system]:,.0f}")
            y += STEP
        floor = LEFT + WIDTH * found["compute"] / longest
        parts.append(
            f'  <line class="floor" x1="{floor:.1f}" y1="{top - 3}" x2="{floor:.1f}" y2="{y - STEP + HEIGHT + 3}"/>'
        )
        said.append(f"{name} (compute {found['compute']:,.0f} ms): {', '.join(bars)}")
        y += 8
    return picture(
        "A training step of GPT-2 (124M, fp32) on two ranks, 128 tokens each, in ms", said, y + 8, parts, COLORS
    )


def main():
    try:
        CHART.write_text(chart(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    except (LookupError, ValueError, KeyError) as fault:
        print(f"docs/performance.md lacks rows of the chart: {fault}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
