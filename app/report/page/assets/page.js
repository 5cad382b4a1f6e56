"use strict";
// The page: its controls, its sections, and which curves make a chart.

// A curve of each rank, where there are few (MetricsFile::kMostRankCurves).
function ofRanks(key) { return [...Array(8).keys()].map((rank) => [`ranks.${key}.${rank}`, `rank ${rank}`]); }

// curves: [name, label, how]. `needs`: a chart where one of these is there. `split`: for a run alone, where each curve has a colour; of several runs `total` is shown,
// and of a few with `each` a chart of each run.
// `first`: the first curve looks like that one of other charts, so that a name looks the same in all of them.
const kCharts = [
  {title: "Loss", curves: [["loss", "training"], ["val_loss", "validation", "dots"], ["val_loss_ema", "validation, averaged weights", "dots"]]},
  {title: "Accuracy", unit: "percent", curves: [["accuracy", "accuracy", "dots"], ["val_accuracy", "validation", "dots"], ["val_accuracy_ema", "validation, averaged weights", "dots"]]},
  {title: "Perplexity", first: 1, curves: [["val_perplexity", "validation", "dots"], ["val_perplexity_ema", "validation, averaged weights", "dots"]]},
  {title: "Learning rate", curves: [["lr"]]},
  {title: "Gradient norm", curves: [["grad_norm"]]},
  {title: "Tokens a second", unit: "rate", curves: [["tokens_per_second"]]},
  {title: "Rows a second", unit: "rate", curves: [["rows_per_second"]]},
  {title: "Time of a step", unit: "seconds", curves: [["step_seconds"]]},
  {title: "Time of a step, by phase", unit: "seconds", split: true, each: true,
    curves: ["forward", "backward", "update", "gather", "reduce", "wait"].map((name) => ["phase_seconds." + name, name])},
  {title: "Memory on the device", unit: "bytes", split: true, each: true, total: ["memory_bytes.total"],
    curves: ["total", "parameter", "gradient", "master", "moment", "gathered", "staging", "activation", "secondary"].map((name) => ["memory_bytes." + name, name])},
  {title: "Memory by tier", unit: "bytes", needs: ["host_bytes", "disk_bytes"],
    curves: [["memory_bytes.total", "device"], ["host_bytes", "host"], ["disk_bytes", "disk"]]},
  {title: "Sent a step", unit: "bytes", curves: [["sent_bytes"]]},
  {title: "Disk, bytes a step", unit: "bytes", curves: [["transfers.disk.read_bytes", "read"], ["transfers.disk.written_bytes", "written"]]},
  {title: "Link, bytes a step", unit: "bytes", curves: [["transfers.link_up.bytes", "up"], ["transfers.link_down.bytes", "down"]]},
  {title: "Waits of a step", unit: "seconds", curves: [["transfers.disk.exposed_seconds", "for the disk"],
    ["transfers.link_up.exposed_seconds", "for the link, up"], ["transfers.link_down.exposed_seconds", "for the link, down"]]},
  {title: "Waits for other ranks, a step", unit: "seconds", split: true, curves: ofRanks("wait_seconds")},
  {title: "Samples of a micro-batch, by rank", split: true, curves: ofRanks("samples")},
  {title: "Age of gradients, in updates", curves: [["served.mean_age", "mean"], ["served.most_age", "most"]]},
  {title: "Age of gradients, by rank", split: true, curves: ofRanks("age")},
  {title: "Updates by the servers, a step", curves: [["served.updates", "updates"], ["served.dropped", "gradients left out"], ["served.replaced", "workers that came back"]]},
  {title: "Between servers and workers, a step", unit: "bytes", curves: [["served.pushed_bytes", "gradients"], ["served.pulled_bytes", "weights"]]},
  {title: "Waits of the first server, a step", unit: "seconds", curves: [["served.waited_seconds"]]},
];
const kNoCharts = ["samples", "tokens", "elapsed_seconds", "eval_seconds"];
const kMostInTitle = 4;  // names of runs
const kMostWithOwn = 4;  // runs that have charts of their own
const kAxes = [["step", "step"], ["elapsed_seconds", "time"], ["tokens", "tokens"], ["samples", "samples"]];

const view = {
  runs: [], charts: [], hidden: new Set(), pointed: null, focused: null, smooth: 0, log: false, events: true, axis: "step", range: null,
  xOf(run, step) {
    const curve = this.axis === "step" ? null : run.curves[kAxes.find(([, name]) => name === this.axis)[0]];
    return curve ? valueAt(curve, step) : step;
  },
  xInWords(x) { return this.axis === "time" ? say(x, "seconds") : `${this.axis} ${digits(Math.round(x))}`; },
  zoom(range) { this.range = range; this.redraw(); },
  redraw() {
    for (const chart of this.charts) chart.draw();
    document.getElementById("whole").hidden = this.range === null;
    this.light({});
  },
  // {pointed: run}, {focused: run}; null: none. The run that is pointed at stands out, or else the one that has the focus.
  light(change) {
    Object.assign(this, change);
    const lit = [this.pointed, this.focused].find((run) => run && !this.hidden.has(run));
    for (const node of document.querySelectorAll("[data-run]")) {
      node.classList.toggle("dim", lit !== undefined && node.dataset.run !== lit.id);
      node.classList.toggle("lit", lit !== undefined && node.dataset.run === lit.id);
    }
  },
};

function seriesOf(curves, split, first = 0, runs = view.runs) {
  const single = runs.length === 1;
  return curves.flatMap(([name, label, how], i) => runs.filter((run) => run.curves[name]).map((run) => ({
    run, label, points: run.curves[name], dots: how === "dots", color: single ? kNamedColors[label] || colorOf(first + i) : run.color,
    dash: single && split ? kDashes[i > 6 && !kNamedColors[label] ? 1 : 0] : kDashes[(first + i) % 4]})));
}

// A chart of each run, on one scale.
function chartsOfEach(title, unit, curves) {
  const charts = [];
  for (const run of view.runs) {
    const series = seriesOf(curves, true, 0, [run]);
    if (series.length > 0) charts.push(new Chart(`${title}: ${run.name}`, unit, series, view, charts));
  }
  return charts;
}

function allCharts() {
  const single = view.runs.length === 1, known = new Set(kNoCharts), charts = [];
  for (const {title, unit, curves, split, each, first, total, needs} of kCharts) {
    curves.forEach(([name]) => known.add(name));
    if (needs && !needs.some((name) => view.runs.some((run) => run.curves[name]))) continue;
    const wanted = single || !split ? curves : total ? [total] : [];
    const series = seriesOf(wanted, split, first);
    if (series.length > 0) charts.push(new Chart(title, unit || "", series, view));
    if (each && !single && view.runs.length <= kMostWithOwn) charts.push(...chartsOfEach(title, unit, curves));
  }
  // What is logged beside.
  for (const name of new Set(view.runs.flatMap((run) => Object.keys(run.curves))))
    if (!known.has(name) && !name.startsWith("phase_seconds."))
      charts.push(new Chart(name, name.endsWith("bytes") ? "bytes" : name.endsWith("seconds") ? "seconds" : "", seriesOf([[name]]), view));
  return charts;
}

function setTheme(name) {
  if (name === "auto") document.documentElement.removeAttribute("data-theme"); else document.documentElement.setAttribute("data-theme", name);
}

function controls(host) {
  const check = (id, text, change) => element("label", {}, element("input", {type: "checkbox", id, onchange: (e) => change(e.target.checked)}), text);
  const choose = (id, text, options, change) => element("label", {}, text, element("select", {id, onchange: (e) => change(e.target.value)},
    ...options.map((option) => element("option", {}, option))));
  const axes = kAxes.filter(([curve], i) => i === 0 || view.runs.every((run) => run.curves[curve])).map(([, name]) => name);
  if (view.runs.length > 1)
    for (const run of view.runs)
      host.append(element("button", {type: "button", title: "show or hide", "data-run": run.id,
        onclick: (e) => {
          if (!view.hidden.delete(run)) view.hidden.add(run);
          e.currentTarget.classList.toggle("off", view.hidden.has(run));
          view.redraw();
        },
        onpointerenter: () => view.light({pointed: run}), onpointerleave: () => view.light({pointed: null}),
        // A click leaves the focus behind it, where nobody looks any more.
        onfocus: (e) => view.light({focused: e.currentTarget.matches(":focus-visible") ? run : null}), onblur: () => view.light({focused: null}),
      }, ...named(run)));
  host.append(
    element("label", {}, "smooth", element("input", {type: "range", id: "smooth", min: 0, max: 99, value: 0,
      oninput: (e) => { view.smooth = Number(e.target.value) / 100; view.redraw(); }})),
    check("log", "log scale", (on) => { view.log = on; view.redraw(); }),
    check("events", "events", (on) => { view.events = on; view.redraw(); }),
    choose("axis", "over", axes, (name) => { view.axis = name; view.zoom(null); }),
    element("button", {type: "button", id: "whole", hidden: "", onclick: () => view.zoom(null)}, "whole run"),
    element("span", {class: "spacer"}),
    choose("theme", "theme", ["auto", "light", "dark"], setTheme));
  host.querySelector("#events").checked = true;
}

function section(title, words, ...content) {
  if (content.every((part) => part === null)) return null;
  return element("section", {}, element("h2", {}, title), words ? element("p", {}, words) : null, ...content);
}

function planSection(runs) {
  const parts = runs.filter((run) => run.balance.length > 0 || run.states.length > 0 || run.plan).map((run) => element("div", {},
    runs.length > 1 ? element("h3", {style: "margin-top: 16px"}, ...named(run)) : null,
    run.balance.length > 0 ? table(["", "planned", "measured", ""], run.balance) : null,
    run.states.length > 0 ? table(["states of a rank", "parameter", "gradient", "master", "moment", "total"], run.states) : null,
    run.plan ? element("details", {}, element("summary", {}, "the plan as it was printed"), element("pre", {}, run.plan)) : null));
  return section("Plan and measurement", "What was computed before the run, beside what the run then held, sent and took.",
    ...(parts.length > 0 ? parts : [null]));
}

function timelines(runs) {
  const shown = runs.filter((run) => run.timeline), most = Math.max(...shown.map((run) => run.timeline.seconds));
  const hosts = shown.map((run) => ({run, host: element("div", {class: "plot timeline"})}));
  const draw = () => hosts.forEach(({run, host}) => drawTimeline(host, run.timeline, most));
  const root = shown.length === 0 ? null : section("A step, rank by rank",
    "What goes on side by side hides behind what stands above it; a wait is what nothing hid." + (shown.length > 1 ? " All on one scale." : ""),
    legend(activitiesIn(shown.map((run) => run.timeline))), ...hosts.map(({run, host}) => element("div", {}, runs.length > 1 ? element("h3", {}, ...named(run)) : null, host)));
  return {root, draw};
}

function build(data) {
  const runs = view.runs = data.runs, single = runs.length === 1;
  runs.forEach((run, i) => Object.assign(run, {id: String(i), color: colorOf(i), number: i < kColors ? "" : String(i + 1)}));
  const names = runs.map((run) => run.name), shown = names.slice(0, kMostInTitle), more = names.length - shown.length;
  document.getElementById("title").textContent = shown.join(", ") + (more ? ` and ${more} more` : "");
  const fact = (run, label) => (run.facts.find(([name]) => name === label) || [])[1];
  const first = runs[0];
  const parts = !single ? [`${runs.length} runs side by side`] : [fact(first, "model"), fact(first, "parameters") && fact(first, "parameters") + " parameters",
    fact(first, "ran on"), fact(first, "stage") && "stage " + fact(first, "stage"), fact(first, "type"), dateInWords(fact(first, "ended"))].filter(Boolean);
  document.getElementById("subtitle").append(...parts.flatMap((part, i) => [i === 0 ? "" : " · ", element("span", {}, part)]));
  const header = document.querySelector("header");
  for (const run of runs) for (const note of run.notes) header.append(element("p", {class: "note"}, single ? note : `${run.name}: ${note}`));
  controls(document.getElementById("controls"));
  view.charts = allCharts();
  const kinds = [...new Set(runs.flatMap((run) => run.events.map(([, kind]) => kind)))];
  const lines = timelines(runs);
  const sections = [
    single ? section("In short", "", figureCards(data.figures))
      : section("In short", `Changes are from ${first.name}; ▲ is better, ▼ is worse.`, figuresTable(data)),
    view.charts.length === 0 ? null : section("Curves", "Point at a curve for its values, drag over a stretch to see it alone, click twice to see all again.",
      kinds.length > 0 ? element("div", {class: "legend"}, ...kinds.map((kind) => element("span", {}, `${kGlyphs[kind] || "●"} ${kind}`))) : null,
      element("div", {class: "grid"}, ...view.charts.map((chart) => chart.root))),
    section("Memory of a rank, by tag and tier", "Just before the first update of the last step, of the rank that holds most. The line is the peak.", memoryBars(runs)),
    section("Ranks", "What each rank waited for, took and sent: means of a step over the run. A rank that others wait for waits least itself.", rankTables(runs)),
    section("Time of a step, predicted and measured", "Forward and backward hold what they gather, reduce and wait for.", phaseBars(runs)),
    lines.root,
    planSection(runs),
    section("Configuration", single ? "" : "Keys that differ, then all.", configuration(data)),
    section(single ? "The run" : "The runs", "", facts(data)),
  ];
  document.getElementById("sections").append(...sections.filter((part) => part !== null));
  document.getElementById("footer").textContent = `Made by zero report ${data.version} on ${data.made}.`;
  const draw = () => { view.redraw(); lines.draw(); };
  draw();
  let waiting = 0, width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(draw);
  });
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
}

document.addEventListener("DOMContentLoaded", () => build(JSON.parse(document.getElementById("runs").textContent)));
