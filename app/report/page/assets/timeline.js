"use strict";
// What each rank did in one step: a row for each of compute, gather, reduce, update, disk and link.

const kRowHeight = 18;
const phase = (name) => [name, kPhaseColors[name]];
const kActivityColors = [...["forward", "backward"].map(phase), ["step", colorOf(3)],
  ...["wait", "gather", "reduce", "update"].map(phase), ["read, up", colorOf(6)], ["write, down", "var(--write)"]];

// "F3.1" of a pipeline's "forward 3.1": micro-batch 3 in section 1.
const kPassLetters = {forward: "F", backward: "B", "backward inputs": "I", "backward weights": "W"};
function passOf(name) {
  const found = name.match(/^(.*) (\d+\.\d+)$/);
  return found && kPassLetters[found[1]] ? kPassLetters[found[1]] + found[2] : "";
}

const activityOf = (name) => kActivityColors.find(([words]) => words.split(", ").includes(name.split(" ")[0]));

// Those that go on in one of these.
function activitiesIn(timelines) {
  const found = new Set(timelines.flatMap(({names, spans}) => [...new Set(spans.map(([, , , name]) => name))].map((name) => activityOf(names[name]))));
  return kActivityColors.filter((activity) => found.has(activity));
}

// `most`: seconds that the width stands for, so that several runs have one scale.
function drawTimeline(host, timeline, most) {
  const width = Math.max(300, host.clientWidth), left = 76, right = width - 8;
  const X = (seconds) => left + seconds / most * (right - left);
  // "disk read 2" is another lane of the row "disk read": transfers that are in flight together share its height.
  const rows = [], places = timeline.rows.map(([rank, lane]) => {
    const name = lane.replace(/ \d+$/, "");
    let row = rows[rows.length - 1];
    if (!row || row.rank !== rank || row.name !== name) rows.push(row = {rank, name, lanes: 0, begins: !row || row.rank !== rank});
    return {row, lane: row.lanes++};
  });
  let y = 4;
  for (const row of rows) {
    if (row.begins) y += 20;
    row.top = y;
    y += kRowHeight;
  }
  const svg = element("svg", {viewBox: `0 0 ${width} ${y + 24}`, role: "img", "aria-label": "timeline of a step of each rank"});
  const scale = scaleOf("seconds", most);
  for (const tick of ticks(0, most / scale.by, Math.max(2, Math.floor(width / 120)))) {
    const x = X(tick * scale.by);
    svg.append(element("line", {class: "grid-line", x1: x, x2: x, y1: 8, y2: y + 4}),
      element("text", {x, y: y + 18, "text-anchor": x > right - 20 ? "end" : "middle"}, `${digits(tick)} ${scale.unit}`));
  }
  for (const {rank, name, top, begins} of rows) {
    if (begins) svg.append(element("text", {x: 0, y: top - 5, style: "font-weight: 600"}, `rank ${rank}`));
    svg.append(element("text", {x: 8, y: top + 12}, name),
      element("line", {class: "grid-line", x1: left, x2: right, y1: top + kRowHeight - 1, y2: top + kRowHeight - 1}));
  }
  const labels = [];
  for (const [place, begin, seconds, name, bytes] of timeline.spans) {
    const text = timeline.names[name], waits = text.startsWith("wait"), {row, lane} = places[place];
    const height = (kRowHeight - 4) / row.lanes, pass = passOf(text);
    svg.append(element("rect", {x: X(begin), width: Math.max(0.6, X(begin + seconds) - X(begin)), y: row.top + 1 + (waits ? 5 : lane * height),
      height: waits ? 6 : Math.max(0.8, height - (row.lanes > 1 ? 0.5 : 0)), style: `fill: ${(activityOf(text) || ["", "var(--soft)"])[1]}`,
      "data-say": `${text}: ${say(seconds, "seconds")}${bytes ? ", " + say(bytes, "bytes") : ""}, from ${say(begin, "seconds")}`}));
    if (pass && X(begin + seconds) - X(begin) > 8 * pass.length)
      labels.push(element("text", {x: (X(begin) + X(begin + seconds)) / 2, y: row.top + 12, "text-anchor": "middle",
        style: "fill: #fff; font-size: 10px; pointer-events: none"}, pass));
  }
  svg.append(...labels);
  host.replaceChildren(svg);
  const tip = new Tip(host);
  svg.addEventListener("pointermove", (event) => {
    const words = event.target.getAttribute("data-say");
    const rect = host.getBoundingClientRect();
    if (words) tip.show(event.clientX - rect.left, event.clientY - rect.top, words); else tip.hide();
  });
  svg.addEventListener("pointerleave", () => tip.hide());
}
