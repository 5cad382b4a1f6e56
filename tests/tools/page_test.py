#!/usr/bin/env python3
"""Opens a page of `zero report` in a headless browser, clicks through it, and checks its sections and words.

    tests/tools/page_test.py --zero build/release/bin/zero

Exit status 77 if there is no Chromium.
"""

import json
import sys

from report_page import OUTSIDE, Page, main, write_run

EVIL = "<b>x</b></script><script>window.wrong = 1</script>"


class WholePage(Page):
    def test_trained_runs_have_a_whole_page(self):
        looks = f"""
            found.title = one("h1").textContent;
            found.subtitle = one("#subtitle").textContent;
            found.sections = all("h2").map((node) => node.textContent);
            found.charts = all(".chart h3").map((node) => node.textContent);
            const parts = (chart, selector) => chart.root.querySelectorAll(selector).length;
            const titles = (wrong) => view.charts.filter(wrong).map((chart) => chart.title);
            found.empty = titles((chart) => parts(chart, ".curve, circle") === 0);
            found.unscaled = titles((chart) => parts(chart, ".grid-line") < 2);
            found.accuracies = parts(view.charts.find((chart) => chart.title === "Accuracy"), "circle");
            found.rows = all(".timeline text").map((node) => node.textContent);
            found.activities = all(".timeline rect").map((node) => node.dataset.say.split(":")[0]);
            found.flags = all(".whole").map((node) => node.textContent);
            found.plan = one("details pre").textContent;
            found.said = one("main").textContent;
            found.outside = {OUTSIDE};
            found.wide = all("main section > *")
              .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
              .map((node) => node.outerHTML.slice(0, 80));"""
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

    def test_late_failures_are_noticed(self):
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
            found.rows = [...heading.parentElement.querySelectorAll("tr")]
              .map((row) => [...row.children].map((cell) => cell.textContent));
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

    def test_the_title_counts_servers_and_workers(self):
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
        subtitle = (
            'found.subtitle = one("#subtitle").textContent; '
            'found.charts = all(".chart h3").map((node) => node.textContent);'
        )
        found = self.look([run], subtitle)
        self.assertEqual(found["subtitle"], "gpt2 · 1 server and 1 worker · stage 3")
        self.assertEqual([title for title in found["charts"] if "served" in title], [])
        self.assertIn("Between servers and workers, a step", found["charts"])
        self.assertEqual(
            self.look([write_run(self.root / "alike", 5, 0.1, 3)], subtitle)["subtitle"], "gpt2 · 2 ranks · stage 3"
        )

    def test_signs_mark_the_better_run(self):
        found = self.look(
            [write_run(self.root / "fast", 50, 0.1, 1), write_run(self.root / "slow", 50, 0.3, 1)],
            """
            const row = [...one("table").querySelectorAll("tr")]
              .find((line) => line.textContent.startsWith("time of a step"));
            found.change = row.querySelector("small").textContent;
            const color = (node) => getComputedStyle(node).color;
            found.colors = all("table small.better, table small.worse")
              .map((node) => color(node) === color(document.body));
            found.said = one("main section p").textContent;""",
        )
        self.assertEqual(found["change"], "x 3 ▼")
        self.assertTrue(found["colors"] and all(found["colors"]), found)
        self.assertIn("▲ is better, ▼ is worse", found["said"])

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

    def test_a_narrow_page_fits_its_window(self):
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

    def test_a_new_run_has_a_page(self):
        folder = self.root / "new"
        folder.mkdir()
        (folder / "config.toml").write_text("[train]\nsteps = 5\n")
        found = self.look([folder], """found.text = document.body.textContent;""")
        self.assertIn("no line of metrics.jsonl is there", found["text"])


if __name__ == "__main__":
    sys.exit(main())
