#!/usr/bin/env python3
"""Opens a page of `zero report` in a headless browser, and checks its charts and timelines.

    tests/tools/page_charts_test.py --zero build/release/bin/zero

Exit status 77 if there is no Chromium.
"""

import json
import sys

from report_page import OUTSIDE, Page, main, write_run


class Charts(Page):
    def test_two_runs_share_a_chart(self):
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

    def test_twelve_runs_look_different(self):
        found = self.look(
            self.twelve(),
            f"""
            found.title = one("h1").textContent;
            const look = (colored, number) => `${{colored}} ${{number ? number.textContent : ""}}`;
            const differ = (look) => view.charts
              .map((chart) => new Set(chart.series.map(look)).size === chart.series.length);
            found.series = differ((s) => `${{s.color}} ${{s.dash}} ${{s.run.number}} ${{s.label}}`);
            found.dashes = differ((s) => `${{s.color}} ${{s.dash}} ${{s.run.number}}`);
            found.drawn = view.charts.map((chart) => {{
              const ofRun = (id) => [...chart.root.querySelectorAll(`[data-run="${{id}}"]`)];
              return view.runs.map((run) => {{
                const parts = ofRun(run.id), curve = parts.flatMap((part) => [...part.querySelectorAll(".curve")])[0];
                return look(curve.style.stroke, parts.flatMap((part) => [...part.querySelectorAll("text")])[0]);
              }});
            }});
            const swatches = (nodes) => nodes
              .map((node) => look(node.style.background || node.style.borderColor, node));
            found.buttons = swatches(all("#controls button .swatch"));
            found.heads = swatches([...all("table")[0].querySelectorAll("thead .swatch")]);
            found.bars = swatches(all(".bars .swatch")).slice(0, 12);
            const at = {{clientX: 200, clientY: 300, bubbles: true}};
            one(".plot svg").dispatchEvent(new PointerEvent("pointermove", at));
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

    def test_the_run_in_focus_is_emphasized(self):
        found = self.look(
            self.twelve(),
            """
            const lit = () => {
              const parts = all("[data-run]"), faint = [...one(".plot svg").querySelectorAll("g.dim")];
              const runs = (selector) =>
                new Set(parts.filter((node) => node.matches(selector)).map((node) => node.dataset.run));
              const dim = runs(".dim"), isMixed = (node) =>
                node.matches(".dim.lit") || (dim.has(node.dataset.run) && !node.matches(".dim"));
              return {
                lit: [...runs(".lit")],
                dim: dim.size,
                mixed: parts.some(isMixed),
                faint: [...new Set(faint.map((node) => getComputedStyle(node).opacity))],
              };
            };
            const buttons = all("#controls button[data-run]");
            const enter = (node, kind) => node.dispatchEvent(new PointerEvent(kind));
            found.none = lit();
            enter(buttons[8], "pointerenter");
            found.button = lit();
            change("#log", true, "change");
            found.redrawn = lit();
            change("#log", false, "change");
            enter(buttons[8], "pointerleave");
            found.left = lit();
            const svg = view.charts.find((chart) => chart.title === "Time of a step").root.querySelector("svg");
            const box = svg.getBoundingClientRect();
            const curve = svg.querySelector('g[data-run="3"] .curve').getBoundingClientRect();
            const point = (y) => {
              const at = {clientX: box.left + box.width / 2, clientY: y, bubbles: true};
              svg.dispatchEvent(new PointerEvent("pointermove", at));
            };
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

    def test_pointers_show_values_and_drags_zoom(self):
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

    def test_close_events_have_separate_glyphs(self):
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
            found.glyphs = [...chart.querySelectorAll(".glyph")]
              .map((glyph) => Number(glyph.getAttribute("x")))
              .sort((a, b) => a - b);""",
        )
        self.assertEqual((found["lines"], len(found["glyphs"])), (4, 4))
        for left, right in zip(found["glyphs"], found["glyphs"][1:]):
            self.assertGreaterEqual(right - left, 10)

    def test_points_at_the_edge_are_whole(self):
        found = self.look(
            [write_run(self.root / f"edge{i}", 100, 0.1, 3) for i in range(6)],
            """
            const chart = view.charts.find((chart) => chart.title === "Perplexity").root;
            const clip = chart.querySelector("clipPath rect");
            found.clip = [0, Number(clip.getAttribute("width"))].map((x) => x + Number(clip.getAttribute("x")));
            found.points = all(".chart circle")
              .map((point) => [Number(point.getAttribute("cx")), Number(point.getAttribute("r"))]);""",
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

    def test_labels_and_glyphs_are_in_charts(self):
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

    def test_a_name_has_one_colour(self):
        runs = [self.of_large_numbers(name) for name in ("one", "other")]
        looks = """
            const note = (map, name, value) => map.set(name, new Set([...(map.get(name) || []), value]));
            const seen = new Map(), colors = new Map(), color = (name, value) => note(colors, name, value);
            for (const s of view.charts.flatMap((chart) => chart.series)) {
              if (s.label) note(seen, `${s.label} of ${s.run.name}`, `${s.color} ${s.dash}`);
            }
            found.looks = [...seen].map(([name, looks]) => [name, [...looks]]);
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

    def test_a_legend_explains_a_timeline(self):
        found = self.look(
            self.two(),
            """found.names = [...one(".timeline").parentElement.parentElement.querySelectorAll(".legend span")]
            .map((node) => node.textContent).filter(Boolean);""",
        )
        self.assertEqual(found["names"], ["forward", "step", "wait"])

    def test_passes_of_a_pipeline_have_labels(self):
        """Spans in percent of a step. The first backward pass is too short for a label."""
        run = write_run(self.root / "pipeline", 50, 0.1, 3, True)
        spans = [
            (0, "forward 0.0", 0, 20),
            (0, "forward 3.0", 20, 40),
            (0, "wait section", 40, 60),
            (0, "backward 0.0", 60, 61),
            (0, "backward 1.0", 61, 85),
            (0, "step", 90, 100),
            (1, "forward 3.1", 20, 40),
            (1, "backward inputs 0.1", 40, 60),
            (1, "backward weights 0.1", 60, 80),
            (1, "step", 90, 100),
        ]
        rows = [
            {"ph": "M", "name": "thread_name", "pid": rank, "tid": 1000, "args": {"name": "compute"}} for rank in (0, 1)
        ]
        events = [
            {"ph": "X", "pid": rank, "tid": 1000, "name": name, "ts": 1e3 * begin, "dur": 1e3 * (end - begin)}
            for rank, name, begin, end in spans
        ]
        (run / "t.json").write_text(json.dumps({"traceEvents": rows + events}))
        found = self.look(
            [run],
            """
            const passes = all(".timeline rect");
            found.labels = all(".timeline text").filter((node) => node.style.pointerEvents === "none").map((label) => {
              const box = label.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
              const below = passes.find((node) => {
                const pass = node.getBoundingClientRect();
                return pass.left < x && x < pass.right && pass.top < y && y < pass.bottom;
              });
              return [label.textContent, below.dataset.say.split(":")[0]];
            });
            found.spans = passes.length;
            found.rows = all(".timeline text").map((node) => node.textContent).filter((text) => /^rank/.test(text));
            found.legend = [...one(".timeline").parentElement.parentElement.querySelectorAll(".legend span")]
              .map((node) => node.textContent).filter(Boolean);""",
        )
        self.assertEqual(
            sorted(found["labels"]),
            [
                ["B1.0", "backward 1.0"],
                ["F0.0", "forward 0.0"],
                ["F3.0", "forward 3.0"],
                ["F3.1", "forward 3.1"],
                ["I0.1", "backward inputs 0.1"],
                ["W0.1", "backward weights 0.1"],
            ],
        )
        self.assertEqual(found["spans"], len(spans))
        self.assertEqual(found["rows"], ["rank 0", "rank 1"])
        self.assertEqual(found["legend"], ["forward", "backward", "step", "wait"])

    def test_each_tier_has_a_memory_chart(self):
        titles = 'found.titles = view.charts.map((chart) => chart.root.querySelector("h3").textContent);'
        found = self.look(
            [write_run(self.root / "offloaded", 50, 0.1, 3, host=4096)],
            titles
            + """
            const byTier = (chart) => chart.root.querySelector("h3").textContent === "Memory by tier";
            const chart = view.charts.find(byTier).root;
            found.curves = chart.querySelectorAll(".curve").length;
            found.text = chart.textContent;""",
        )
        self.assertEqual(found["curves"], 2)  # device and host; no state is on disk
        self.assertIn("host", found["text"])
        self.assertIn("Perplexity", found["titles"])
        self.assertNotIn("Memory by tier", self.look([write_run(self.root / "resident", 50, 0.1, 3)], titles)["titles"])

    def test_a_single_point_follows_its_steps(self):
        found = self.look(
            [write_run(self.root / "run", 200, 0.1, 1)],
            """
            const svg = view.charts.find((chart) => chart.title === "Perplexity").root.querySelector("svg");
            found.steps = [...svg.querySelectorAll('text[text-anchor="middle"]:not(.glyph)')]
              .map((node) => Number(node.textContent));""",
        )
        self.assertEqual((found["steps"][0], found["steps"][-1]), (0, 200))

    def test_a_constant_curve_can_be_smoothed(self):
        found = self.look(
            [write_run(self.root / "run", 200, 0.1, 1)],
            """
            const points = Array(200).fill(0.001), mean = smoothed(points, 0.9);
            found.differ = Math.max(...mean) > Math.min(...mean);
            found.close = ticks(1, 1 + Number.EPSILON, 4).length;
            change("#smooth", "90", "input");
            const chart = view.charts.find((chart) => chart.title === "Learning rate").root;
            found.curves = chart.querySelectorAll(".curve").length;
            found.ticks = chart.querySelectorAll(".grid-line").length;""",
        )
        self.assertTrue(found["differ"])  # rounding of the mean
        self.assertLessEqual(found["close"], 100)
        self.assertEqual(found["curves"], 2)
        self.assertIn(found["ticks"], range(2, 10))

    def test_few_runs_have_one_scale(self):
        runs = [self.of_large_numbers("one"), self.of_large_numbers("other")]
        lines = [json.loads(line) for line in (runs[1] / "metrics.jsonl").read_text().splitlines()]
        for line in lines:
            if "memory_bytes" in line:
                line["memory_bytes"] = {tag: 4 * value for tag, value in line["memory_bytes"].items()}
        (runs[1] / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        looks = """
            const own = view.charts.filter((chart) => chart.title.includes(": "));
            found.titles = own.map((chart) => chart.title);
            const of = (chart, selector, read) => [...chart.root.querySelectorAll(selector)].map(read);
            const text = (node) => node.textContent;
            found.names = own.map((chart) => of(chart, ".legend span", text));
            found.scales = own.map((chart) => of(chart, 'text[text-anchor="end"]', text).join(" "));
            const run = (node) => node.dataset.run;
            found.runs = own.map((chart) => [...new Set(of(chart, "[data-run]", run))].join());"""
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


if __name__ == "__main__":
    sys.exit(main())
