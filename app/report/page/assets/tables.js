"use strict";
// Tables and bars.

const named = (run) => [swatchOf(run), run.name];

// rows: [label, cell, ...]; a cell is text or elements.
function table(head, rows, kind = "") {
  return element("div", {class: "scroll"}, element("table", {class: kind},
    element("thead", {}, element("tr", {}, ...head.map((cell) => element("th", {}, ...[].concat(cell))))),
    element("tbody", {}, ...rows.map(([label, ...cells]) => element("tr", {},
      element("th", {scope: "row"}, ...[].concat(label)), ...cells.map((cell) => element("td", {}, ...[].concat(cell))))))));
}

// rows: {label, parts: [[name, value]], mark, text}; one scale for all of them.
function bars(rows, unit, colors) {
  const sum = (row) => row.parts.reduce((total, [, value]) => total + value, 0);
  const most = Math.max(...rows.map((row) => Math.max(sum(row), row.mark || 0))) || 1;
  const percent = (value) => `${(100 * value / most).toFixed(2)}%`;
  const box = element("div", {class: "bars"});
  for (const row of rows) {
    const bar = element("div", {class: "bar"}, ...row.parts.filter(([, value]) => value > 0).map(([name, value]) =>
      element("i", {style: `width: ${percent(value)}; background: ${colors[name]}`, title: `${name}: ${say(value, unit)}`})));
    if (row.mark) bar.append(element("u", {style: `left: calc(${percent(row.mark)} - 2px)`, title: `peak: ${say(row.mark, unit)}`}));
    box.append(element("span", {}, ...[].concat(row.label)), bar, element("span", {}, row.text));
  }
  return box;
}

const kVerdicts = {1: ["better", " ▲"], "-1": ["worse", " ▼"]};

// A sign says what is better: colours are those of runs.
function changeOf(figure, i) {
  if (!figure.changes[i]) return null;
  const [verdict, sign] = kVerdicts[figure.verdicts[i]] || [undefined, ""];
  return element("small", {class: verdict, title: verdict}, figure.changes[i] + sign);
}

function figuresTable(data) {
  return element("div", {}, table(["", ...data.runs.map(named)], data.figures.map((figure) => [figure.label,
    ...figure.texts.map((text, i) => [text, changeOf(figure, i)])])),
  ...data.figures.filter((figure) => figure.note).map((figure) => element("p", {}, `${figure.label}: ${figure.note}`)));
}

function figureCards(figures) {
  return element("div", {class: "cards"}, ...figures.filter((figure) => !["-", "0 B", "0 ms"].includes(figure.texts[0])).map((figure) =>
    element("div", {class: "card"}, element("b", {}, figure.texts[0]), element("span", {}, figure.label))));
}

// The colour of a run says nothing where there is one, and a tag or a phase has the same.
const labelOf = (runs, run, text) => (runs.length > 1 ? [swatchOf(run), `${run.name}, ${text}`] : text);

function memoryBars(runs) {
  const rows = [];
  for (const run of runs)
    for (const {tier, tags, total, peak} of run.memory)
      rows.push({label: labelOf(runs, run, tier), parts: Object.entries(tags), mark: peak,
        text: say(total, "bytes") + (peak > total ? `, peak ${say(peak, "bytes")}` : "")});
  const used = new Set(rows.flatMap((row) => row.parts.map(([name]) => name)));
  return rows.length === 0 ? null : element("div", {},
    legend(Object.entries(kTagColors).filter(([name]) => used.has(name))), bars(rows, "bytes", kTagColors));
}

const kMostRankRows = 64;

// A row a rank.
function rankTables(runs) {
  const shown = runs.filter((run) => run.ranks.length > 0);
  if (shown.length === 0) return null;
  return element("div", {}, ...shown.map((run) => {
    const number = run.ranks[0].values.length, rows = Math.min(number, kMostRankRows);
    const cell = (column, rank) => column.values[rank] === null ? "–" : say(column.values[rank], column.unit);
    return element("div", {}, runs.length > 1 ? element("h3", {style: "margin-top: 16px"}, ...named(run)) : null,
      table(["rank", ...run.ranks.map((column) => column.label)],
        [...Array(rows).keys()].map((rank) => [String(rank), ...run.ranks.map((column) => cell(column, rank))])),
      number > rows ? element("p", {class: "note"}, `metrics.jsonl has the other ${number - rows} ranks, too`) : null);
  }));
}

const kBarColors = {forward: kPhaseColors.forward, backward: kPhaseColors.backward, update: kPhaseColors.update, "the rest": kPhaseColors.wait};

function phaseBars(runs) {
  const rows = [];
  for (const run of runs)
    for (const [what, times] of [["predicted", run.predicted], ["measured", run.measured]]) {
      if (!times || times.total <= 0) continue;
      const rest = Math.max(0, times.total - times.forward - times.backward - times.update);
      rows.push({label: labelOf(runs, run, what),
        parts: [["forward", times.forward], ["backward", times.backward], ["update", times.update], ["the rest", rest]],
        text: say(times.total, "seconds") + (times.bound ? `, bound by ${times.bound}` : times.exposed > 0 ? `, waits ${say(times.exposed, "seconds")}` : "")});
    }
  return rows.length === 0 ? null : element("div", {}, legend(Object.entries(kBarColors)), bars(rows, "seconds", kBarColors));
}

function configuration(data) {
  const head = ["key", ...data.runs.map(named)];
  const rows = (keys) => keys.map(({key, values}) => [element("code", {}, key), ...values.map((value) => element("code", {}, value || "–"))]);
  const differing = data.keys.filter((key) => key.differs);
  const out = element("div", {});
  if (data.runs.length > 1)
    out.append(differing.length === 0 ? element("p", {}, "No key differs.") : table(head, rows(differing), "words"));
  out.append(element("details", {}, element("summary", {}, `all ${data.keys.length} keys`), table(head, rows(data.keys), "words")));
  return out;
}

// Its words stay whole: a browser breaks lines after the hyphens of a flag.
const commandInWords = (command) => command.split(" ").flatMap((word) => [" ", element("span", {class: "whole"}, word)]).slice(1);

function facts(data) {
  const labels = [...new Set(data.runs.flatMap((run) => run.facts.map(([label]) => label)))];
  const shown = {ended: dateInWords, command: commandInWords};
  const value = (run, label) => {
    const fact = run.facts.find(([name]) => name === label);
    return fact ? (shown[label] || String)(fact[1]) : "–";
  };
  return table(["", ...data.runs.map(named)], labels.map((label) => [label, ...data.runs.map((run) => value(run, label))]), "words");
}
