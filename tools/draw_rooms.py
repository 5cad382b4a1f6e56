"""The picture of the rooms, docs/architecture.svg: floors on the left, the path of a parameter on the right.

tools/check_layers.py calls it with its own table, so the picture cannot differ from the rules. The right half is the
file tools/parameter_path.svg, drawn by hand.
"""

from pathlib import Path

PICTURE = "docs/architecture.svg"
PATH = Path(__file__).resolve().parent / "parameter_path.svg"

LEFT, WIDTH, GAP = 56, 392, 6
ROW, BOX = 35, 29
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 {height}" width="980" height="{height}" \
role="img" aria-labelledby="title desc">
  <title id="title">The rooms of zero.cpp by floor, and the path of a parameter</title>
  <desc id="desc">Left: the rooms of the program, the plug-ins and the library; an include goes down. \
Right: shards are gathered
    into a unit, an operator uses it, gradients fill the unit's flat gradient, which is reduced to shards \
that update the first.</desc>
"""
STYLE = """  <style>
    text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: #1b2733; }
    .head { font-weight: bold; font-size: 15px; }
    .note { font-size: 11px; fill: #52606d; }
    .move { font-size: 12px; font-weight: bold; fill: #52606d; }
    .middle { text-anchor: middle; }
    .small { font-size: 12.5px; }
    .page { fill: #ffffff; }
    .core { fill: #d9eaf7; stroke: #2b6cb0; }
    .torch { fill: #fdeacc; stroke: #c05621; }
    .verb { fill: #eef0f2; stroke: #7b8794; }
    .rank { fill: #e3f4e1; stroke: #2f855a; }
    .zone { fill: none; stroke: #2b6cb0; stroke-dasharray: 5 4; }
    .way { fill: none; stroke: #52606d; stroke-width: 1.5; marker-end: url(#tip); }
    .tip { fill: #52606d; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .note, .move { fill: #9198a1; }
      .page { fill: #0d1117; }
      .core { fill: #10294a; stroke: #58a6ff; }
      .torch { fill: #3d2a12; stroke: #f0a04b; }
      .verb { fill: #212830; stroke: #9198a1; }
      .rank { fill: #12361f; stroke: #57ab5a; }
      .zone { stroke: #58a6ff; }
      .way { stroke: #9198a1; }
      .tip { fill: #9198a1; }
    }
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">\
<path d="M0 0 L10 5 L0 10 z" class="tip"/></marker>
  </defs>
"""


def boxes(rooms, kind_of, top):
    """The boxes of one floor; their widths follow their names."""
    weights = [len(room) + 4 for room in rooms]
    unit = (WIDTH - GAP * (len(rooms) - 1)) / sum(weights)
    lines, left = [], LEFT
    for room, weight in zip(rooms, weights):
        width = weight * unit
        lines.append(
            f'  <rect class="{kind_of(room)}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{BOX}" rx="5"/>'
            f'<text class="middle small" x="{left + width / 2:.1f}" y="{top + 19}">{room}</text>'
        )
        left += width + GAP
    return lines


def floors_of(table):
    """[(floor, rooms)] from the highest floor down."""
    return [
        (floor, [room for room in table if table[room] == floor]) for floor in sorted(set(table.values()), reverse=True)
    ]


def picture(floors, with_torch):
    """The text of the picture. `floors`: {tree: {room: floor}}; `with_torch`: (tree, room) pairs that include torch."""
    lines, top = [], 52
    titles = {"app": "app/: the program", "plugins": "plugins/: opened by name", "zero": "zero/: the library"}
    for tree in ("app", "plugins", "zero"):
        lines.append(f'  <text class="note" x="{LEFT}" y="{top + 4}">{titles[tree]}</text>')
        top += 12
        for floor, rooms in floors_of(floors[tree]):
            lines.append(f'  <text class="note" x="30" y="{top + 19}">{"" if tree == "plugins" else floor}</text>')
            plain = "core" if tree == "zero" else "verb"
            lines += boxes(rooms, lambda room: "torch" if (tree, room) in with_torch else plain, top)
            top += ROW
        top += 14
    height = max(top + 24, 530)
    return "\n".join(
        [
            HEAD.format(height=height) + STYLE.rstrip("\n"),
            '  <rect class="page" width="100%" height="100%"/>',
            "",
            '  <text class="head" x="30" y="34">Rooms by floor: an include goes down</text>',
            *lines,
            f'  <text class="note" x="30" y="{height - 18}">'
            "Orange: with torch. The library includes neither the program nor plug-ins.</text>",
            "",
            PATH.read_text(encoding="utf-8").rstrip("\n"),
            "</svg>",
            "",
        ]
    )
