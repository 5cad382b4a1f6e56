#!/usr/bin/env python3
"""Opens a page of `zero report` in a headless browser, clicks through it, and checks the result.

    tests/tools/page_test.py --zero build/release/bin/zero

The test inserts its own script into the page. The script writes its results into the document, and the browser prints
the document (--dump-dom). Exit status 77 if there is no Chromium.
"""

import argparse
import html
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SKIPPED = 77
ROOT = Path(__file__).resolve().parents[2]
EVIL = "<b>x</b></script><script>window.wrong = 1</script>"
zero = browser = None

CATCH = (
    "<script>window.errors = []; window.addEventListener('error', (e) => errors.push(e.message));"
    "window.addEventListener('unhandledrejection', (e) => errors.push(`rejected: ${e.reason}`));"
    "document.addEventListener('securitypolicyviolation', (e) => errors.push(`refused by ${e.effectiveDirective}: ${e.blockedURI}`));"
    "const told = console.error; console.error = (...words) => errors.push(words.join(' '));</script>"
)
PROBE = """<script>
window.addEventListener("load", () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const change = (selector, value, event) => {
    const node = one(selector);
    if (typeof value === "boolean") node.checked = value; else node.value = value;
    node.dispatchEvent(new Event(event, {bubbles: true}));
  };
  const found = {};
  try { (() => { STEPS })(); } catch (error) { errors.push(String(error.stack)); }
  setTimeout(() => {  // behind what these steps began, a rejection and a refusal among it
    const out = document.createElement("pre");
    out.id = "found";
    out.textContent = JSON.stringify({...found, errors});
    document.body.append(out);
  }, 100);
});
</script>"""


def write_run(folder, steps, seconds, stage, with_timeline=False, report=True, command="zero train", host=0):
    folder.mkdir(parents=True)
    keys = f'[zero]\nstage = {stage}\n[run]\ntimeline = "{"t.json" if with_timeline else ""}"\n'
    (folder / "config.toml").write_text(keys)
    tags = {"parameter": 4096, "gradient": 4096, "moment": 8192, "total": 16384}
    lines = [
        {
            "t": 100 + step * seconds,
            "step": step,
            "loss": 5 * math.exp(-step / 50) + 0.1 * math.sin(step * 7),
            "lr": 0.001,
            "grad_norm": 1 + math.sin(step),
            "tokens_per_second": 100 / seconds,
            "step_seconds": seconds,
            "memory_bytes": tags,
            "host_bytes": host,
            "disk_bytes": 0,
            "sent_bytes": 3000,
            "tokens": step * 100,
            "samples": step,
        }
        for step in range(1, steps + 1)
    ]
    lines.insert(
        40, {"t": 100 + 40 * seconds, "step": 40, "event": "skipped", "reason": "loss spike", "loss": 93, "limit": 3}
    )
    lines.append(
        {"t": 100 + steps * seconds, "step": steps, "val_loss": 2.5, "val_perplexity": math.exp(2.5), "eval_seconds": 0}
    )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if report:
        (folder / "report.json").write_text(
            json.dumps(
                {
                    "model": "gpt2",
                    "world": 2,
                    "stage": stage,
                    "steps": steps,
                    "step_s_median": seconds,
                    "memory_bytes": [tags],
                    "peak_memory_bytes": [{"total": 20000}],
                    "command": command,
                    "predicted": {"seconds": seconds, "bound": "compute"},
                    "profile": {
                        "forward_seconds": seconds / 3,
                        "backward_seconds": seconds / 2,
                        "update_seconds": 0.01,
                    },
                }
            )
        )
    if with_timeline:
        span = {"ph": "X", "pid": 0, "tid": 1000}
        (folder / "t.json").write_text(
            json.dumps(
                {
                    "traceEvents": [
                        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1000, "args": {"name": "compute"}},
                        {**span, "name": "forward", "ts": 0, "dur": 5e4},
                        {**span, "name": "wait gather h.0", "ts": 10, "dur": 1e3, "args": {"bytes": 64}},
                        {**span, "name": "step", "ts": 9e4, "dur": 1e4},
                    ]
                }
            )
        )
    return folder


# The parts of each chart and timeline that are outside its own drawing.
OUTSIDE = """all(".plot svg").flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text, circle")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom;
  }).map((node) => `${svg.getAttribute("aria-label").slice(0, 40)}: ${node.textContent || node.tagName} at ${node.getAttribute("x") || node.getAttribute("cx")}`);
})"""


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def look(self, runs, steps, *flags):
        """The results of the test's script in the page of `runs`."""
        page = self.root / "page.html"
        subprocess.run([zero, "report", *map(str, runs), "-o", page], check=True, stdout=subprocess.DEVNULL)
        text = page.read_text()
        text = text.replace("<title>", CATCH + "<title>", 1).replace(
            "</body>", PROBE.replace("STEPS", steps) + "</body>", 1
        )
        page.write_text(text)
        dumped = subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--virtual-time-budget=4000",
                f"--user-data-dir={self.root}/browser",
                *flags,
                "--dump-dom",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=240,
        ).stdout
        match = re.search(r'<pre id="found">(.*?)</pre>', dumped, re.DOTALL)
        self.assertIsNotNone(match, dumped[-2000:])
        found = json.loads(html.unescape(match[1]))
        self.assertEqual(found["errors"], [])
        return found

    def two(self):
        return [
            write_run(self.root / "fast", 200, 0.1, 1, True),
            write_run(self.root / "slow", 120, 0.3, 3, report=False),
        ]

    def trained(self):
        """The folder of a short run of two ranks that learn digits."""
        if not (Path(zero).parent.parent / "lib/libzero_app.so").exists():
            self.skipTest("this build has no libtorch, and `zero train` needs it")
        flags = {
            "train.steps": 60,
            "schedule.warmup": 10,
            "train.eval_every": 20,
            "train.sample": 0,
            "checkpoint.every": 40,
            "run.timeline": "timeline.json",
            "run.threads": 1,
            "run.dir": self.root / "digits",
        }
        words = [word for key, value in flags.items() for word in (f"--{key}", str(value))]
        subprocess.run(
            [zero, "train", "examples/mnist_mlp/mnist_mlp.toml", "-n", "2", *words],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        return flags["run.dir"]

    def test_a_run_that_was_trained_has_all_of_its_page(self):
        looks = f"""
            found.title = one("h1").textContent;
            found.subtitle = one("#subtitle").textContent;
            found.sections = all("h2").map((node) => node.textContent);
            found.charts = all(".chart h3").map((node) => node.textContent);
            found.empty = view.charts.filter((chart) => chart.root.querySelectorAll(".curve, circle").length === 0).map((chart) => chart.title);
            found.unscaled = view.charts.filter((chart) => chart.root.querySelectorAll(".grid-line").length < 2).map((chart) => chart.title);
            found.accuracies = view.charts.find((chart) => chart.title === "Accuracy").root.querySelectorAll("circle").length;
            found.rows = all(".timeline text").map((node) => node.textContent);
            found.activities = all(".timeline rect").map((node) => node.dataset.say.split(":")[0]);
            found.flags = all(".whole").map((node) => node.textContent);
            found.plan = one("details pre").textContent;
            found.said = one("main").textContent;
            found.outside = {OUTSIDE};
            found.wide = all("main section > *").filter((node) => node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.outerHTML.slice(0, 80));"""
        run = self.trained()
        for flags in ((), ("--window-size=500,900",)):
            found = self.look([run], looks, *flags)
            self.assertEqual(found["title"], "digits")
            for part in ("mlp", "2 ranks", "stage 3"):
                self.assertIn(part, found["subtitle"])
            for section in (
                "In short",
                "Curves",
                "Ranks",
                "A step, rank by rank",
                "Plan and measurement",
                "Configuration",
                "The run",
            ):
                self.assertIn(section, found["sections"])
            for title in ("Loss", "Accuracy"):
                self.assertIn(title, found["charts"])
            for wrong in ("empty", "unscaled", "outside", "wide"):
                self.assertEqual(found[wrong], [], wrong)
            self.assertEqual(found["accuracies"], 3)  # at steps 20, 40 and 60
            self.assertIn("--train.steps=60", found["flags"])
            for row in ("rank 0", "rank 1", "compute", "gather", "reduce"):
                self.assertIn(row, found["rows"])
            for activity in ("forward", "backward", "step"):
                self.assertIn(activity, found["activities"])
            self.assertIn("parameters", found["plan"])
            for wrong in ("undefined", "NaN", "null"):
                self.assertNotIn(wrong, found["said"])

    def test_two_runs_stand_in_one_chart_and_can_be_hidden(self):
        found = self.look(
            self.two(),
            """
            const chart = one(".plot svg");
            found.charts = all(".chart .plot svg").length;
            found.curves = chart.querySelectorAll(".curve").length;
            found.title = one("h1").textContent;
            found.timeline = all(".timeline rect").length;
            found.rows = all("table")[0].textContent;
            found.differs = all("table.words")[0].textContent;
            one("#controls button").click();
            found.curvesOfOne = one(".plot svg").querySelectorAll(".curve").length;""",
        )
        self.assertEqual(found["title"], "fast, slow")
        self.assertGreaterEqual(found["charts"], 6)
        self.assertEqual((found["curves"], found["curvesOfOne"]), (4, 2))  # training and validation
        self.assertEqual(found["timeline"], 3)
        self.assertIn("x 3", found["rows"])
        self.assertIn("zero.stage", found["differs"])

    def twelve(self):
        """Twelve runs, each with slower steps than the one before."""
        return [write_run(self.root / f"run{i + 1}", 60, 0.1 * (i + 1), 1) for i in range(12)]

    def test_no_two_of_twelve_runs_look_alike(self):
        found = self.look(
            self.twelve(),
            f"""
            found.title = one("h1").textContent;
            const look = (colored, number) => `${{colored}} ${{number ? number.textContent : ""}}`;
            found.series = view.charts.map((chart) => [...new Set(chart.series.map((s) => `${{s.color}} ${{s.dash}} ${{s.run.number}} ${{s.label}}`))].length === chart.series.length);
            found.dashes = view.charts.map((chart) => [...new Set(chart.series.map((s) => `${{s.color}} ${{s.dash}} ${{s.run.number}}`))].length === chart.series.length);
            found.drawn = view.charts.map((chart) => {{
              const ofRun = (id) => [...chart.root.querySelectorAll(`[data-run="${{id}}"]`)];
              return view.runs.map((run) => {{
                const parts = ofRun(run.id), curve = parts.flatMap((part) => [...part.querySelectorAll(".curve")])[0];
                return look(curve.style.stroke, parts.flatMap((part) => [...part.querySelectorAll("text")])[0]);
              }});
            }});
            const swatches = (nodes) => nodes.map((node) => look(node.style.background || node.style.borderColor, node));
            found.buttons = swatches(all("#controls button .swatch"));
            found.heads = swatches([...all("table")[0].querySelectorAll("thead .swatch")]);
            found.bars = swatches(all(".bars .swatch")).slice(0, 12);
            one(".plot svg").dispatchEvent(new PointerEvent("pointermove", {{clientX: 200, clientY: 300, bubbles: true}}));
            found.tip = [...new Set(swatches([...one(".chart .tip").querySelectorAll(".swatch")]))];
            found.outside = {OUTSIDE};""",
        )
        self.assertGreaterEqual(len(found["drawn"]), 6)
        self.assertTrue(all(found["series"]) and all(found["dashes"]), found)
        for looks in [*found["drawn"], found["buttons"], found["heads"], found["bars"], found["tip"]]:
            self.assertEqual(len(set(looks)), 12, looks)
            self.assertEqual(looks, found["buttons"])
        self.assertEqual(found["title"], "run1, run2, run3, run4 and 8 more")
        self.assertEqual([look.split()[-1] for look in found["buttons"][7:]], ["8", "9", "10", "11", "12"])
        self.assertEqual(found["outside"], [])

    def test_the_run_that_is_pointed_at_or_has_the_focus_stands_out(self):
        found = self.look(
            self.twelve(),
            """
            const lit = () => {
              const parts = all("[data-run]"), dim = new Set(parts.filter((node) => node.matches(".dim")).map((node) => node.dataset.run));
              return {lit: [...new Set(parts.filter((node) => node.matches(".lit")).map((node) => node.dataset.run))], dim: dim.size,
                mixed: parts.some((node) => node.matches(".dim.lit") || (dim.has(node.dataset.run) && !node.matches(".dim"))),
                faint: [...new Set([...one(".plot svg").querySelectorAll("g.dim")].map((node) => getComputedStyle(node).opacity))]};
            };
            const buttons = all("#controls button[data-run]"), enter = (node, kind) => node.dispatchEvent(new PointerEvent(kind));
            found.none = lit();
            enter(buttons[8], "pointerenter");
            found.button = lit();
            change("#log", true, "change");
            found.redrawn = lit();
            change("#log", false, "change");
            enter(buttons[8], "pointerleave");
            found.left = lit();
            const svg = view.charts.find((chart) => chart.title === "Time of a step").root.querySelector("svg"), box = svg.getBoundingClientRect();
            const curve = svg.querySelector('g[data-run="3"] .curve').getBoundingClientRect();
            const point = (y) => svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 2, clientY: y, bubbles: true}));
            point(curve.top + 2);
            found.curve = lit();
            found.told = [...svg.parentElement.querySelectorAll(".tip .lit")].map((node) => node.textContent);
            point(box.top);
            found.nothing = lit();
            point(curve.top + 2);
            enter(svg, "pointerleave");
            found.gone = lit();
            buttons[10].focus();
            found.focus = lit();
            enter(buttons[2], "pointerenter");
            found.pointerFirst = lit();
            buttons[2].click();
            found.hidden = lit();
            enter(buttons[2], "pointerleave");
            buttons[10].blur();
            found.blurred = lit();""",
        )
        for name, run in {
            "button": "8",
            "redrawn": "8",
            "curve": "3",
            "focus": "10",
            "pointerFirst": "2",
            "hidden": "10",
        }.items():
            self.assertEqual((found[name]["lit"], found[name]["dim"], found[name]["mixed"]), ([run], 11, False), name)
            self.assertEqual(found[name]["faint"], ["0.15"], name)
        for name in ("none", "left", "nothing", "gone", "blurred"):
            self.assertEqual((found[name]["lit"], found[name]["dim"]), ([], 0), name)
        self.assertEqual(found["told"], ["run4  400 ms"])

    def test_the_test_hears_of_what_fails_later(self):
        run = write_run(self.root / "run", 5, 0.1, 3)
        with self.assertRaisesRegex(AssertionError, "rejected: Error: lost"):
            self.look([run], 'Promise.reject(new Error("lost"));')
        with self.assertRaisesRegex(AssertionError, "refused by img-src: http://127.0.0.1:1/x.png"):
            self.look([run], 'new Image().src = "http://127.0.0.1:1/x.png";')

    def test_every_control_changes_the_curves(self):
        found = self.look(
            self.two(),
            """
            const path = () => one(".plot svg .curve:not(.raw)").getAttribute("d");
            const first = path();
            found.glyphs = all(".chart .glyph").length;
            change("#events", false, "change");
            found.glyphsOff = all(".chart .glyph").length;
            change("#smooth", "90", "input");
            found.raw = all(".raw").length;
            found.smoothed = path() !== first;
            change("#smooth", "0", "input");
            found.back = path() === first;
            change("#log", true, "change");
            found.log = path() !== first;
            change("#log", false, "change");
            change("#axis", "time", "change");
            found.time = path() !== first;
            found.ticks = one(".plot svg").textContent;
            change("#axis", "step", "change");
            found.light = getComputedStyle(document.body).backgroundColor;
            change("#theme", "dark", "change");
            found.dark = getComputedStyle(document.body).backgroundColor;""",
        )
        self.assertGreater(found["glyphs"], 0)
        self.assertEqual(found["glyphsOff"], 0)
        self.assertGreater(found["raw"], 0)
        for name in ("smoothed", "back", "log", "time"):
            self.assertTrue(found[name], name)
        self.assertIn(" s", found["ticks"])
        self.assertNotEqual(found["light"], found["dark"])

    def test_a_pointer_shows_values_and_a_drag_zooms(self):
        found = self.look(
            self.two(),
            """
            const svg = () => one(".plot svg"), at = (x) => {
              const box = svg().getBoundingClientRect();
              return {clientX: box.left + x * box.width, clientY: box.top + 50, bubbles: true, pointerType: "mouse"};
            };
            svg().dispatchEvent(new PointerEvent("pointermove", at(0.5)));
            found.tip = one(".chart .tip").textContent;
            const before = one(".plot svg .curve").getAttribute("d");
            svg().dispatchEvent(new PointerEvent("pointerdown", at(0.4)));
            svg().dispatchEvent(new PointerEvent("pointermove", at(0.6)));
            svg().dispatchEvent(new PointerEvent("pointerup", at(0.6)));
            found.zoomed = one(".plot svg .curve").getAttribute("d") !== before;
            found.button = !one("#whole").hidden;
            one("#whole").click();
            found.whole = one(".plot svg .curve").getAttribute("d") === before;""",
        )
        self.assertRegex(found["tip"], r"step \d+.*fast training.*slow training")
        self.assertTrue(found["zoomed"] and found["button"] and found["whole"], found)

    def test_events_that_are_close_have_glyphs_side_by_side(self):
        run = write_run(self.root / "busy", 100, 0.1, 3)
        with open(run / "metrics.jsonl", "a") as file:
            file.writelines(
                json.dumps({"t": 120, "step": step, "event": "stopped", "reason": "x"}) + "\n" for step in (41, 41, 90)
            )
        found = self.look(
            [run],
            """
            const chart = one(".plot svg");
            found.lines = chart.querySelectorAll(".mark").length;
            found.glyphs = [...chart.querySelectorAll(".glyph")].map((glyph) => Number(glyph.getAttribute("x"))).sort((a, b) => a - b);""",
        )
        self.assertEqual((found["lines"], len(found["glyphs"])), (4, 4))
        for left, right in zip(found["glyphs"], found["glyphs"][1:]):
            self.assertGreaterEqual(right - left, 10)

    def test_a_point_at_the_edge_of_a_chart_is_drawn_whole(self):
        found = self.look(
            [write_run(self.root / f"edge{i}", 100, 0.1, 3) for i in range(6)],
            """
            const chart = view.charts.find((chart) => chart.title === "Perplexity").root, clip = chart.querySelector("clipPath rect");
            found.clip = [0, Number(clip.getAttribute("width"))].map((x) => x + Number(clip.getAttribute("x")));
            found.points = all(".chart circle").map((point) => [Number(point.getAttribute("cx")), Number(point.getAttribute("r"))]);""",
        )
        for x, r in found["points"]:
            self.assertTrue(found["clip"][0] <= x - r and x + r <= found["clip"][1], found)

    def of_large_numbers(self, name):
        """A run with a million rows a second, which ends with a checkpoint."""
        run = write_run(self.root / name, 200, 0.1, 1, True)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            if "loss" in line and "event" not in line:
                line.update(
                    rows_per_second=2.5e6 + 1e4 * line["step"],
                    val_loss_ema=2.5,
                    val_perplexity_ema=12.2,
                    wide=7.5e8,
                    **{"phase_seconds": {"forward": 0.03, "backward": 0.05, "update": 0.02}},
                )
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for step in (199, 200):
            folder = run / f"checkpoints/step-{step:08}"
            folder.mkdir(parents=True)
            (folder / "manifest.json").write_text("{}")
        return run

    def test_labels_and_glyphs_lie_within_their_chart(self):
        runs = [self.of_large_numbers(name) for name in ("one", "other")]
        for flags in ((), ("--window-size=420,900",)):
            found = self.look(
                runs,
                f"""
                const rows = view.charts.find((chart) => chart.title === "Rows a second").root;
                found.labels = [...rows.querySelectorAll("text")].map((node) => node.textContent);
                found.glyphs = rows.querySelectorAll(".glyph").length;
                found.ends = rows.querySelectorAll(".mark").length;
                found.outside = {OUTSIDE};
                change("#axis", "tokens", "change");
                found.outsideByTokens = {OUTSIDE};
                change("#log", true, "change");
                found.outsideOfLog = {OUTSIDE};""",
                *flags,
            )
            self.assertEqual((found["outside"], found["outsideByTokens"], found["outsideOfLog"]), ([], [], []))
            self.assertIn("4,000,000", found["labels"])
            self.assertEqual((found["ends"], found["glyphs"]), (2 * 3, 2 * 3))  # a skip, two checkpoints in each run

    def test_a_name_looks_the_same_in_all_charts(self):
        runs = [self.of_large_numbers(name) for name in ("one", "other")]
        looks = """
            const seen = new Map(), see = (name, look) => seen.set(name, new Set([...(seen.get(name) || []), look]));
            for (const s of view.charts.flatMap((chart) => chart.series)) if (s.label) see(`${s.label} of ${s.run.name}`, `${s.color} ${s.dash}`);
            found.looks = [...seen].map(([name, looks]) => [name, [...looks]]);
            const colors = new Map(), color = (name, value) => colors.set(name, new Set([...(colors.get(name) || []), value]));
            for (const node of all(".legend span")) {
              const own = node.querySelector(".swatch"), line = node.querySelector("line");
              if (own) color(node.textContent, own.style.background);
              else if (line) color(node.textContent, line.style.stroke);
            }
            found.colors = [...colors].map(([name, values]) => [name, [...values]]);"""
        for shown in (runs[:1], runs):
            found = self.look(shown, looks)
            names = dict(found["looks"])
            self.assertIn("validation, averaged weights of one", names)
            for name, values in [*names.items(), *found["colors"]]:
                self.assertEqual(len(values), 1, (name, values))
        self.assertIn("parameter", dict(self.look(runs[:1], looks)["colors"]))

    def test_a_legend_names_what_a_timeline_shows(self):
        found = self.look(
            self.two(),
            """found.names = [...one(".timeline").parentElement.parentElement.querySelectorAll(".legend span")]
            .map((node) => node.textContent).filter(Boolean);""",
        )
        self.assertEqual(found["names"], ["forward", "step", "wait"])

    def test_memory_has_a_chart_by_tier_where_states_lie_off_the_device(self):
        titles = 'found.titles = view.charts.map((chart) => chart.root.querySelector("h3").textContent);'
        found = self.look(
            [write_run(self.root / "offloaded", 50, 0.1, 3, host=4096)],
            titles
            + """
            const chart = view.charts.find((chart) => chart.root.querySelector("h3").textContent === "Memory by tier").root;
            found.curves = chart.querySelectorAll(".curve").length;
            found.text = chart.textContent;""",
        )
        self.assertEqual(found["curves"], 2)  # device and host; no state is on disk
        self.assertIn("host", found["text"])
        self.assertIn("Perplexity", found["titles"])
        self.assertNotIn("Memory by tier", self.look([write_run(self.root / "resident", 50, 0.1, 3)], titles)["titles"])

    def test_each_rank_has_a_row(self):
        run = write_run(self.root / "ranks", 20, 0.1, 3)
        figures = {
            "steps": 10,
            "wait_seconds": [0, 0.25],
            "samples": [6, 2],
            "gradients": [0, 20],
            "age": [None, 1.5],
            "sent_bytes": {"group": {"int8": [1024, 2048]}},
        }
        with open(run / "metrics.jsonl", "a") as file:
            file.writelines(
                json.dumps({"t": 102 + step, "step": 20 + step, "ranks": figures}) + "\n" for step in (1, 2)
            )
        found = self.look(
            [run],
            """
            const heading = all("h2").find((node) => node.textContent === "Ranks");
            found.rows = [...heading.parentElement.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent));
            found.charts = all(".chart h3").map((node) => node.textContent);""",
        )
        self.assertEqual(
            found["rows"][0],
            [
                "rank",
                "waits for others, a step",
                "samples of a micro-batch, last",
                "gradients applied",
                "their age, mean",
                "sent a step in its group, int8",
            ],
        )
        self.assertEqual(
            found["rows"][1:], [["0", "0 ms", "6", "0", "–", "1 KiB"], ["1", "250 ms", "2", "40", "1.5", "2 KiB"]]
        )
        for title in (
            "Waits for other ranks, a step",
            "Samples of a micro-batch, by rank",
            "Age of gradients, by rank",
        ):
            self.assertIn(title, found["charts"])
        alone = self.look(
            [write_run(self.root / "alone", 5, 0.1, 3)],
            """found.sections = all("h2").map((node) => node.textContent);""",
        )
        self.assertNotIn("Ranks", alone["sections"])

    def test_servers_and_workers_are_counted_below_the_title(self):
        run = write_run(self.root / "served", 5, 0.1, 3)
        report = json.loads((run / "report.json").read_text())
        (run / "report.json").write_text(json.dumps({**report, "world": 1, "served": {"servers": 1, "workers": 1}}))
        with open(run / "metrics.jsonl", "a") as file:
            file.write(
                json.dumps(
                    {"t": 130, "step": 6, "served": {"updates": 3, "mean_age": 1, "pushed_bytes": 7, "pulled_bytes": 7}}
                )
                + "\n"
            )
        subtitle = 'found.subtitle = one("#subtitle").textContent; found.charts = all(".chart h3").map((node) => node.textContent);'
        found = self.look([run], subtitle)
        self.assertEqual(found["subtitle"], "gpt2 · 1 server and 1 worker · stage 3")
        self.assertEqual([title for title in found["charts"] if "served" in title], [])
        self.assertIn("Between servers and workers, a step", found["charts"])
        self.assertEqual(
            self.look([write_run(self.root / "alike", 5, 0.1, 3)], subtitle)["subtitle"], "gpt2 · 2 ranks · stage 3"
        )

    def test_a_sign_says_what_is_better_and_no_colour(self):
        found = self.look(
            [write_run(self.root / "fast", 50, 0.1, 1), write_run(self.root / "slow", 50, 0.3, 1)],
            """
            const row = [...one("table").querySelectorAll("tr")].find((line) => line.textContent.startsWith("time of a step"));
            found.change = row.querySelector("small").textContent;
            found.colors = all("table small.better, table small.worse").map((node) => getComputedStyle(node).color === getComputedStyle(document.body).color);
            found.said = one("main section p").textContent;""",
        )
        self.assertEqual(found["change"], "x 3 ▼")
        self.assertTrue(found["colors"] and all(found["colors"]), found)
        self.assertIn("▲ is better, ▼ is worse", found["said"])

    def test_a_point_alone_stands_behind_the_steps_before_it(self):
        found = self.look(
            [write_run(self.root / "run", 200, 0.1, 1)],
            """
            const svg = view.charts.find((chart) => chart.title === "Perplexity").root.querySelector("svg");
            found.steps = [...svg.querySelectorAll('text[text-anchor="middle"]:not(.glyph)')].map((node) => Number(node.textContent));""",
        )
        self.assertEqual((found["steps"][0], found["steps"][-1]), (0, 200))

    def test_a_few_runs_have_charts_of_their_own_on_one_scale(self):
        runs = [self.of_large_numbers("one"), self.of_large_numbers("other")]
        lines = [json.loads(line) for line in (runs[1] / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            if "memory_bytes" in line:
                line["memory_bytes"] = {tag: 4 * value for tag, value in line["memory_bytes"].items()}
        (runs[1] / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        looks = """
            const own = view.charts.filter((chart) => chart.title.includes(": "));
            found.titles = own.map((chart) => chart.title);
            found.names = own.map((chart) => [...chart.root.querySelectorAll(".legend span")].map((node) => node.textContent));
            found.scales = own.map((chart) => [...chart.root.querySelectorAll('text[text-anchor="end"]')].map((node) => node.textContent).join(" "));
            found.runs = own.map((chart) => [...new Set([...chart.root.querySelectorAll("[data-run]")].map((node) => node.dataset.run))].join());"""
        found = self.look(runs, looks)
        self.assertEqual(
            found["titles"],
            [
                "Time of a step, by phase: one",
                "Time of a step, by phase: other",
                "Memory on the device: one",
                "Memory on the device: other",
            ],
        )
        self.assertEqual(found["names"][0], ["forward", "backward", "update"])
        self.assertEqual(found["names"][3], ["total", "parameter", "gradient", "moment"])
        self.assertEqual(found["scales"][2], found["scales"][3])
        self.assertEqual(found["runs"], ["0", "1", "0", "1"])
        self.assertEqual(
            self.look([write_run(self.root / f"run{i}", 20, 0.1, 1) for i in range(5)], looks)["titles"], []
        )

    def test_nothing_of_a_run_becomes_markup(self):
        run = write_run(self.root / "<b>bold<", 5, 0.1, 0, command=EVIL)
        found = self.look(
            [run],
            """
            found.title = one("h1").textContent;
            found.bold = all("h1 b").length;
            found.wrong = window.wrong === undefined;
            found.text = one("main").textContent;""",
        )
        self.assertEqual(found["title"], "<b>bold<")
        self.assertEqual(found["bold"], 0)
        self.assertTrue(found["wrong"])
        self.assertIn(EVIL, found["text"])

    def test_a_narrow_page_is_not_wider_than_its_window(self):
        found = self.look(
            self.two(),
            """
            const frame = document.createElement("div");
            document.documentElement.style.width = document.body.style.width = "400px";
            view.redraw();
            found.wide = all("main section > *").filter((node) => node.getBoundingClientRect().right > 401)
              .map((node) => node.outerHTML.slice(0, 80));""",
            "--window-size=500,900",
        )
        self.assertEqual(found["wide"], [])

    def test_a_run_that_just_began_has_a_page(self):
        folder = self.root / "new"
        folder.mkdir()
        (folder / "config.toml").write_text("[train]\nsteps = 5\n")
        found = self.look([folder], """found.text = document.body.textContent;""")
        self.assertIn("no line of metrics.jsonl is there", found["text"])


def main():
    global zero, browser
    parser = argparse.ArgumentParser()
    parser.add_argument("--zero", required=True)
    options, rest = parser.parse_known_args()
    zero = options.zero
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("skipped: there is no Chromium here (apt-get install chromium)")
        return SKIPPED
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    sys.exit(main())
