"use strict";
// One chart: curves over steps, events as marks, values beside the pointer, a stretch to zoom into.

const kGlyphs = {skipped: "✕", rewound: "↶", stopped: "■", pause: "‖", checkpoint: "◆"};
const kDashes = ["", "6 4", "2 3", "8 3 2 3"];
const kChartHeight = 230;
const kDot = 7;  // the most that a point reaches beyond its place
const kGlyphWidth = 11;
const kMostGlyphs = 4;  // beside each other for one place
const kNear = 20;  // the farthest that a pointer is from the curve that it points at
const kNumberWidth = 18, kNumberHeight = 13, kMostNumbers = 3;  // of a run, on its curve
const kMostTicks = 100;
const kEqual = 1e-9;  // values that differ by less than this part are equal: a moving mean of equal values rounds
const kLeft = 54, kToAxis = 6;  // what labels of an axis have; more where one needs it

// Where x belongs in an ascending list: how many are less.
function placeOf(list, x) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < x) low = middle + 1; else high = middle;
  }
  return low;
}

// A curve between its points.
function valueAt([steps, values], step) {
  const i = placeOf(steps, step);
  if (i === 0 || i === steps.length) return values[Math.min(i, steps.length - 1)];
  const part = (step - steps[i - 1]) / (steps[i] - steps[i - 1]);
  return values[i - 1] + part * (values[i] - values[i - 1]);
}

// A moving mean in which what lies back counts less and less; right from the first value on.
function smoothed(values, weight) {
  let sum = 0, weights = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    weights = weight * weights + (1 - weight);
    return sum / weights;
  });
}

// At least two where there is a stretch between low and high: one alone is no scale. A stretch that is short beside its own
// values gives at most kMostTicks: there, steps are less than the distance of two numbers.
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9), out = [];
  for (let i = 0; i < kMostTicks && (first + i) * step <= high + step * 1e-9; ++i) out.push(Number(((first + i) * step).toPrecision(12)));
  return out.length < 2 && wanted < 32 ? ticks(low, high, 2 * wanted) : out;
}

function logTicks(low, high) {
  const out = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
    for (const m of high / low > 300 ? [1] : [1, 2, 5]) out.push(m * 10 ** power);
  const within = out.filter((tick) => tick >= low && tick <= high);
  const thin = Math.ceil(within.length / 6);
  return within.length < 2 ? ticks(low, high, 4) : within.filter((_, i) => i % thin === 0);
}

// Glyphs of events that are close stand beside each other, none beyond `right`; where there are too many the lines tell them.
function placedGlyphs(marks, right) {
  const placed = [];
  let free = -Infinity;
  for (const mark of [...marks].sort((a, b) => a.x - b.x)) {
    const x = Math.max(mark.x, free);
    if (x >= mark.x + kMostGlyphs * kGlyphWidth) continue;
    placed.push({mark, x});
    free = x + kGlyphWidth;
  }
  for (let last = right, i = placed.length - 1; i >= 0; --i) {
    placed[i].x = Math.min(placed[i].x, last);
    last = placed[i].x - kGlyphWidth;
  }
  return placed;
}

class Chart {
  // series: {run, label, color, dash, points: [steps, values], dots}; view: how all charts are drawn, with redraw(). peers: charts
  // that have one scale with this one, which is among them.
  constructor(title, unit, series, view, peers) {
    Object.assign(this, {unit, series, view, peers: peers || [this]});
    this.plot = element("div", {class: "plot"});
    const names = new Map(series.filter((s) => s.label).map((s) => [s.label, s]));
    const several = names.size > 1;
    this.root = element("section", {class: "chart"}, element("h3", {}, title),
      several ? element("div", {class: "legend"}, ...[...names.values()].map((s) => this.key(s))) : null, this.plot);
    this.title = title;
  }

  key(s) {
    const line = element("line", {x1: 0, y1: 5, x2: 22, y2: 5, "stroke-width": 2, "stroke-dasharray": s.dash,
      style: `stroke: ${this.oneColorAName() ? s.color : "var(--soft)"}`});
    return element("span", {}, element("svg", {width: 22, height: 10, style: "display: inline; width: 22px; margin-right: 6px"}, line), s.label);
  }
  // Or the colour is the run's, and the dash alone tells names apart.
  oneColorAName() { return new Set(this.series.map((s) => s.run.name)).size === 1; }

  // The curves that are seen, with x as the view wants it, within its range.
  lines() {
    const {view} = this;
    return this.series.filter((s) => !view.hidden.has(s.run)).map((s) => {
      let xs = s.points[0].map((step) => view.xOf(s.run, step)), raw = s.points[1];
      let shown = view.smooth > 0 && !s.dots ? smoothed(raw, view.smooth) : raw;
      const keep = xs.map((x, i) => i).filter((i) => !view.range || (xs[i] >= view.range[0] && xs[i] <= view.range[1]))
        .filter((i) => !view.log || (shown[i] > 0 && raw[i] > 0));
      return {...s, xs: keep.map((i) => xs[i]), raw: keep.map((i) => raw[i]), shown: keep.map((i) => shown[i])};
    }).filter((line) => line.xs.length > 0);
  }

  draw() {
    const {view, unit} = this, lines = this.lines();
    const width = Math.max(260, this.plot.clientWidth), box = {left: kLeft, right: width - 10, top: 22, bottom: kChartHeight - 22};
    if (lines.length === 0) {
      this.plot.replaceChildren(element("p", {}, "Nothing to show here."));
      return;
    }
    const all = this.peers.flatMap((chart) => chart.lines());
    const of = (pick, choose, start) => all.reduce((best, line) => pick(line).reduce((a, b) => choose(a, b), best), start);
    let x0 = of((l) => l.xs, Math.min, Infinity), x1 = of((l) => l.xs, Math.max, -Infinity);
    let y0 = of((l) => l.shown, Math.min, Infinity), y1 = of((l) => l.shown, Math.max, -Infinity);
    if (view.range) [x0, x1] = view.range;
    if (x0 === x1) [x0, x1] = x0 > 0 ? [0, x0] : [x0 - 0.5, x0 + 0.5];  // a point alone stands behind the steps before it
    if (!view.log && unit && unit !== "percent" && y0 > 0) y0 = 0;
    if (y1 - y0 <= kEqual * Math.max(Math.abs(y0), Math.abs(y1))) { y1 += Math.abs(y1) * 0.1 || 1; if (!view.log) y0 -= unit ? 0 : Math.abs(y0) * 0.1 || 1; else y0 *= 0.9; }
    const scale = scaleOf(unit, y1), flat = view.log ? Math.log10 : (v) => v;
    const pad = (flat(y1) - flat(y0)) * 0.05, low = y0 === 0 ? 0 : flat(y0) - pad, high = flat(y1) + pad;
    const back = view.log ? (v) => 10 ** v : (v) => v;
    const [bottom, top] = [back(low) / scale.by, back(high) / scale.by];
    const yTicks = view.log ? logTicks(bottom, top) : ticks(bottom, top, 4);
    box.left = Math.max(kLeft, ...[scale.unit, ...yTicks.map((tick) => digits(tick))].map((text) => Math.ceil(labelWidth(text)) + kToAxis + 2));
    const X = (x) => box.left + (x - x0) / (x1 - x0) * (box.right - box.left);
    const Y = (y) => box.bottom - (flat(y) - low) / (high - low) * (box.bottom - box.top);
    const clip = `clip-${this.title.replace(/\W/g, "-")}`;
    const svg = element("svg", {viewBox: `0 0 ${width} ${kChartHeight}`, role: "img", "aria-label": this.inWords(lines)},
      element("clipPath", {id: clip}, element("rect", {x: box.left - kDot, y: 0, width: box.right - box.left + 2 * kDot, height: box.bottom + kDot})));

    for (const tick of yTicks) {
      const y = Y(tick * scale.by);
      svg.append(element("line", {class: "grid-line", x1: box.left, x2: box.right, y1: y, y2: y}),
        element("text", {x: box.left - kToAxis, y: y + 4, "text-anchor": "end"}, digits(tick)));
    }
    if (scale.unit) svg.append(element("text", {x: box.left - kToAxis, y: 10, "text-anchor": "end"}, scale.unit));
    const xScale = scaleOf(view.axis === "time" ? "seconds" : "", x1);
    const xTicks = ticks(x0 / xScale.by, x1 / xScale.by, Math.max(2, Math.floor(width / 110)));
    for (const tick of xTicks) {
      const text = digits(tick) + (xScale.unit ? " " + xScale.unit : ""), half = labelWidth(text) / 2 + 1;
      svg.append(element("text", {x: Math.min(X(tick * xScale.by), width - half), y: kChartHeight - 6, "text-anchor": "middle"}, text));
    }

    const drawn = element("g", {"clip-path": `url(#${clip})`});
    const path = (line, values) => line.xs.map((x, i) => `${i ? "L" : "M"}${X(x).toFixed(1)} ${Y(values[i]).toFixed(1)}`).join("");
    // Curves that cover each other (runs may have the same bits) take turns: a piece of one, a piece of the next.
    const same = (a, b) => a.shown.length === b.shown.length && a.shown.every((value, i) => value === b.shown[i] && a.xs[i] === b.xs[i]);
    lines.forEach((line) => {
      const alike = lines.filter((other) => same(line, other)), turn = alike.indexOf(line), piece = line.dash ? 5 : 12;
      const dash = alike.length > 1 ? `${piece} ${piece * (alike.length - 1)}` : line.dash;
      const style = `stroke: ${line.color}; --dash: ${line.dash || "none"}`, own = element("g", {"data-run": line.run.id});
      if (line.shown !== line.raw && view.smooth > 0 && !line.dots) own.append(element("path", {class: "curve raw", style, d: path(line, line.raw)}));
      own.append(element("path", {class: "curve", style, d: path(line, line.shown), "stroke-dasharray": dash, "stroke-dashoffset": -turn * piece}));
      if (line.dots && line.xs.length < 200)
        for (let i = 0; i < line.xs.length; ++i) own.append(element("circle", {cx: X(line.xs[i]), cy: Y(line.shown[i]), r: Math.min(kDot, 2.6 + 1.4 * (alike.length - 1 - turn)), style: `fill: ${line.color}`}));
      drawn.append(own);
    });
    drawn.append(...this.numbers(lines, X, Y, box));
    const marks = view.events ? this.marks(lines, X, [x0, x1]) : [];
    for (const mark of marks) svg.append(element("line", {class: "mark", "data-run": mark.run.id, style: `stroke: ${mark.color}`, x1: mark.x, x2: mark.x, y1: box.top, y2: box.bottom}));
    for (const {mark, x} of placedGlyphs(marks, box.right))
      svg.append(element("text", {class: "glyph", "data-run": mark.run.id, "text-anchor": "middle", x, y: 11, style: `fill: ${mark.color}`}, kGlyphs[mark.kind] || "●"));
    svg.append(drawn);
    this.plot.replaceChildren(svg);
    this.listen(svg, lines, marks, {width, box, X, Y, xAt: (px) => x0 + (px - box.left) / (box.right - box.left) * (x1 - x0)});
  }

  // The numbers of runs that have one, along their curves: each run's at other places than another's.
  numbers(lines, X, Y, box) {
    const numbered = [...new Set(lines.map((line) => line.run).filter((run) => run.number))];
    const places = Math.max(1, Math.min(kMostNumbers, Math.floor((box.right - box.left) / (kNumberWidth * numbered.length))));
    return lines.filter((line) => line.run.number).map((line) => {
      const drawn = [line.xs.map(X), line.shown.map(Y)], first = drawn[0][0], last = drawn[0][drawn[0].length - 1];
      const own = element("g", {class: "number", "data-run": line.run.id});
      for (let place = 0; place < places; ++place) {
        const x = first + (last - first) * (place + (numbered.indexOf(line.run) + 0.5) / numbered.length) / places, y = valueAt(drawn, x);
        own.append(element("rect", {x: x - kNumberWidth / 2, y: y - kNumberHeight / 2, width: kNumberWidth, height: kNumberHeight, rx: 4, style: `stroke: ${line.color}`}),
          element("text", {x, y: y + 3.2, "text-anchor": "middle"}, line.run.number));
        if (first === last) break;
      }
      return own;
    });
  }

  inWords(lines) {
    return `${this.title}: ` + lines.map((line) => `${line.run.name}${line.label ? " " + line.label : ""} ends at ${say(line.raw[line.raw.length - 1], this.unit)}`).join("; ");
  }

  marks(lines, X, [x0, x1]) {
    const out = [];
    for (const run of new Set(lines.map((line) => line.run)))
      for (const [step, kind, text] of run.events) {
        const at = this.view.xOf(run, step);
        if (at >= x0 && at <= x1) out.push({x: X(at), kind, text, run, color: run.color});
      }
    return out;
  }

  // The run whose curve is nearest to x and the pixel py, or null: none is near. Curves do not go on behind their ends.
  nearest(lines, X, Y, x, py) {
    let run = null, least = kNear;
    for (const {run: own, xs, shown} of lines) {
      const beside = Math.max(0, X(xs[0]) - X(x), X(x) - X(xs[xs.length - 1]));
      const away = beside + Math.abs(Y(valueAt([xs, shown], x)) - py);
      if (away < least) [run, least] = [own, away];
    }
    return run;
  }

  listen(svg, lines, marks, {width, box, X, Y, xAt}) {
    const several = this.view.runs.length > 1, tip = new Tip(this.plot), cross = element("line", {class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden"});
    const chosen = element("rect", {class: "chosen", y: box.top, height: box.bottom - box.top, visibility: "hidden"});
    svg.append(chosen, cross);
    let from = null;
    const pxOf = (event) => {
      const rect = svg.getBoundingClientRect();
      return Math.min(box.right, Math.max(box.left, (event.clientX - rect.left) / rect.width * width));
    };
    const pyOf = (event) => {
      const rect = svg.getBoundingClientRect();
      return (event.clientY - rect.top) / rect.height * kChartHeight;
    };
    const move = (event) => {
      const px = pxOf(event), x = xAt(px);
      const near = lines.map((line) => {
        const i = placeOf(line.xs, x), before = i > 0 && (i === line.xs.length || x - line.xs[i - 1] < line.xs[i] - x);
        return {line, i: before ? i - 1 : i};
      });
      const rows = near.map(({line, i}) => element("span", {"data-run": line.run.id}, line.run.number ? swatchOf(line.run) : swatch(line.color),
        `${several ? line.run.name + " " : ""}${line.label || ""} `, element("b", {}, say(line.raw[i], this.unit))));
      for (const mark of marks.filter((m) => Math.abs(m.x - px) < 7).slice(0, 4)) rows.push(`${kGlyphs[mark.kind] || "●"} ${mark.kind}: ${mark.text}`);
      cross.setAttribute("x1", px);
      cross.setAttribute("x2", px);
      cross.setAttribute("visibility", "visible");
      tip.show(px * this.plot.clientWidth / width, 16, element("b", {}, this.view.xInWords(x)), ...rows);
      if (several) this.view.light({pointed: this.nearest(lines, X, Y, x, pyOf(event))});
      if (from === null) return;
      chosen.setAttribute("x", Math.min(from, px));
      chosen.setAttribute("width", Math.abs(px - from));
      chosen.setAttribute("visibility", "visible");
    };
    svg.addEventListener("pointermove", move);
    svg.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") from = pxOf(event); move(event); });
    svg.addEventListener("pointerleave", () => {
      from = null;
      tip.hide();
      for (const node of [cross, chosen]) node.setAttribute("visibility", "hidden");
      this.view.light({pointed: null});
    });
    svg.addEventListener("pointerup", (event) => {
      const to = pxOf(event), start = from;
      from = null;
      if (start !== null && Math.abs(to - start) > 8) this.view.zoom([Math.min(start, to), Math.max(start, to)].map(xAt));
    });
    svg.addEventListener("dblclick", () => this.view.zoom(null));
  }
}
