#!/usr/bin/env python3
"""Draws docs/sweep.svg from the table of a sweep in docs/guide/report.md. It has memory by tier, time of a step,
utilization, and accuracy (val_loss for a language model), by stage and tier.

    tools/charts/sweep_chart.py

A row is a run of the table that `zero sweep` printed. Utilization is left out if the table lacks it.
tests/tools/sweep_chart_test.py compares picture and page. Exit status: 0 written; 1 the page lacks the table.
"""

import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from faults_chart import picture  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PAGE, CHART = ROOT / "docs/guide/report.md", ROOT / "docs/sweep.svg"

PLACES = {"none": "on the device", "host-1": "moments on the host", "disk-1": "moments on disk"}
TIERS = ["device", "host", "disk"]
RESULTS = ["accuracy", "val_loss"]  # the chart draws the first of these that the table has
BYTES = {"B": 1 / (1 << 20), "KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
LEFT, MEMORY, TIME, SECONDS, USED, SHARE, RESULT, HEIGHT, STEP = 180, 185, 525, 90, 685, 60, 876, 16, 24
COLORS = """    .device { fill: #0b6bcb; }
    .host { fill: #2da44e; }
    .disk { fill: #8c959f; }
    .time { fill: #9a6700; }
    .utilization { fill: #8250df; }
    @media (prefers-color-scheme: dark) {
      .device { fill: #58a6ff; }
      .host { fill: #3fb950; }
      .disk { fill: #6e7681; }
      .time { fill: #d29922; }
      .utilization { fill: #a371f7; }
    }
"""


def mebibytes(cell):
    """The number in a cell of the table: "6.37 MiB" is 6.37, "-" is 0."""
    return 0.0 if cell == "-" else float(cell.split()[0].replace(",", "")) * BYTES[cell.split()[1]]


def runs(text):
    """The runs of the sweep: stage, place, milliseconds of a step, utilization in percent, result and its name, MiB by
    tier."""
    found, columns = [], []
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if cells[0] == "run":
            columns = cells
        name = re.fullmatch(r"stage-(\d)_optimizer-(none|host-1|disk-1)", cells[0])
        if not name or len(cells) != len(columns):
            continue
        run = dict(zip(columns, cells))
        if not run["a step"].endswith(" ms"):
            raise ValueError(f"{cells[0]}: a step of {run['a step']}")
        result = next(key for key in RESULTS if key in run)
        found.append(
            {
                "stage": int(name[1]),
                "place": PLACES[name[2]],
                "ms": float(run["a step"].split()[0]),
                "utilization": float(run["utilization"].rstrip("%")) if "utilization" in run else None,
                "result": (result, run[result]),
                "cells": [run[tier] for tier in TIERS],
                "memory": [mebibytes(run[tier]) for tier in TIERS],
            }
        )
    if not found:
        raise LookupError("no table of a sweep over zero.stage and zero.optimizer")
    return found


def chart(text):
    """The picture, as SVG."""
    table = runs(text)
    most_memory = max(sum(run["memory"]) for run in table)
    most_ms = max(run["ms"] for run in table)
    tells_use = all(run["utilization"] is not None for run in table)
    most_used = max(run["utilization"] for run in table) if tells_use else None
    parts, said, y, stage = [], [], 96, None

    def words(x, row, said_there, kind="figure"):
        parts.append(f'  <text class="{kind}" x="{x:.1f}" y="{row + 13}">{escape(said_there)}</text>')

    for run in table:
        if run["stage"] != stage:
            stage = run["stage"]
            y += 10
            words(24, y, f"stage {stage}", "name")
            y += STEP
        words(LEFT - 10, y, run["place"], "end")
        end, held = LEFT, []
        for tier, size, cell in zip(TIERS, run["memory"], run["cells"]):
            if size == 0:
                continue
            width = MEMORY * size / most_memory
            parts.append(f'  <rect class="{tier}" x="{end:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}"/>')
            end += width
            held.append(cell.removesuffix(" MiB"))
        words(end + 7, y, f"{' + '.join(held)} MiB")
        width = SECONDS * run["ms"] / most_ms
        parts.append(f'  <rect class="time" x="{TIME}" y="{y}" width="{width:.1f}" height="{HEIGHT}"/>')
        words(TIME + width + 7, y, f"{run['ms']:.3g} ms")
        words(RESULT, y, run["result"][1], "figure end")
        said.append(
            f"stage {stage}, {run['place']}: {' + '.join(held)} MiB, {run['ms']:.3g} ms, {' '.join(run['result'])}"
        )
        if tells_use:
            width = SHARE * run["utilization"] / most_used
            parts.append(f'  <rect class="utilization" x="{USED}" y="{y}" width="{width:.1f}" height="{HEIGHT}"/>')
            words(USED + width + 7, y, f"{run['utilization']:.3g}%")
            said[-1] += f", utilization {run['utilization']:.3g}%"
        y += STEP

    title = f"A sweep over stages and places of the moments: memory, time, {'utilization, ' if tells_use else ''}result"
    same = {run["result"] for run in table}
    note = f"All {len(table)} runs end with {' '.join(same.pop())}." if len(same) == 1 else ""
    parts += [f'  <text class="note" x="24" y="58">{escape(note)}</text>']
    x = LEFT
    for tier in TIERS:
        parts.append(f'  <rect class="{tier}" x="{x}" y="74" width="12" height="12"/>')
        words(x + 17, 72, tier, "note")
        x += 75
    words(TIME, 72, "a step, median", "note")
    if tells_use:
        words(USED, 72, "utilization", "note")
    words(RESULT, 72, table[0]["result"][0], "note end")
    return picture(title, said, y + 16, parts, COLORS)


def main():
    try:
        CHART.write_text(chart(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    except (LookupError, ValueError) as fault:
        print(f"docs/guide/report.md lacks the table of the chart: {fault}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
