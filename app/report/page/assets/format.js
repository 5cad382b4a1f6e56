"use strict";
// Numbers as people read them, and elements of the page.

const kByteUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// What numbers up to `most` are divided by, and the unit that they then have.
function scaleOf(unit, most) {
  if (unit === "bytes") {
    const power = most < 1024 ? 0 : Math.min(5, Math.floor(Math.log2(most) / 10));
    return {by: 1024 ** power, unit: kByteUnits[power]};
  }
  if (unit === "seconds") {
    if (most < 1) return {by: 1e-3, unit: "ms"};
    if (most < 300) return {by: 1, unit: "s"};
    return most < 7200 ? {by: 60, unit: "min"} : {by: 3600, unit: "h"};
  }
  return unit === "percent" ? {by: 0.01, unit: "%"} : {by: 1, unit: ""};
}

function digits(value, wanted = 4) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return String(Number(value.toPrecision(wanted)).toExponential()).replace("e+", "e");
  return size >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(wanted)));
}

function say(value, unit) {
  const scale = scaleOf(unit, Math.abs(value));
  return digits(value / scale.by, unit ? 3 : 5) + (scale.unit ? " " + scale.unit : "");
}

// "2026-11-26T13:55:33Z" -> "2026-11-26 13:55 UTC"
const dateInWords = (date) => date && date.replace(/T(\d\d:\d\d):\d\dZ$/, " $1 UTC");

const kSvgTags = new Set(["svg", "path", "line", "rect", "text", "circle", "g", "clipPath"]);

// element("p", {class: "note", onclick: f}, "text", another): attributes, listeners, and children; text stays text.
function element(tag, attributes = {}, ...children) {
  const node = kSvgTags.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

const kColors = 7;
const colorOf = (number) => `var(--color-${number % kColors})`;
// These names have one colour wherever they stand: in charts, bars and timelines.
const kTagColors = {parameter: colorOf(0), gradient: colorOf(1), master: colorOf(6), moment: colorOf(2),
  gathered: colorOf(5), staging: colorOf(4), activation: colorOf(3), secondary: "var(--soft)"};
const kPhaseColors = {forward: colorOf(0), backward: colorOf(1), update: colorOf(4), gather: colorOf(5), reduce: colorOf(2), wait: "var(--wait)"};
const kNamedColors = {total: "var(--text)", ...kTagColors, ...kPhaseColors};

const swatch = (color) => element("span", {class: "swatch", style: `background: ${color}`});
// Of a run: its colour, and its number where other runs have that colour, too.
const swatchOf = (run) => run.number ? element("span", {class: "swatch numbered", style: `border-color: ${run.color}`}, run.number) : swatch(run.color);
const legend = (entries) => element("div", {class: "legend"},
  ...entries.map(([name, color]) => element("span", {}, swatch(color), name)));

// How wide a label of a chart is, in its pixels; page.css has the size.
const kPen = document.createElement("canvas").getContext("2d");
function labelWidth(text) {
  kPen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return kPen.measureText(text).width;
}

// A box that follows the pointer within `host`.
class Tip {
  constructor(host) {
    this.host = host;
    this.box = element("div", {class: "tip", hidden: ""});
    host.append(this.box);
  }
  show(x, y, ...lines) {
    this.box.replaceChildren(...lines.map((line) => element("div", {}, ...[].concat(line))));
    this.box.hidden = false;
    const room = this.host.clientWidth;
    this.box.style.left = x > room / 2 ? `${Math.max(0, x - this.box.offsetWidth - 12)}px` : `${x + 12}px`;
    this.box.style.top = `${y + 8}px`;
  }
  hide() { this.box.hidden = true; }
}
