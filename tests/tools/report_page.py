"""A page of `zero report` in a headless browser, for page_test.py and page_charts_test.py.

A test inserts its own script into the page. The script writes its results into the document, and the browser prints the
document (--dump-dom).
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
zero = browser = None

CATCH = (
    "<script>window.errors = []; window.addEventListener('error', (e) => errors.push(e.message));"
    "window.addEventListener('unhandledrejection', (e) => errors.push(`rejected: ${e.reason}`));"
    "document.addEventListener('securitypolicyviolation', (e) =>"
    " errors.push(`refused by ${e.effectiveDirective}: ${e.blockedURI}`));"
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
  const frame = svg.getBoundingClientRect(), label = svg.getAttribute("aria-label").slice(0, 40);
  return [...svg.querySelectorAll("text, circle")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom;
  }).map((node) => {
    const name = node.textContent || node.tagName, x = node.getAttribute("x") || node.getAttribute("cx");
    return `${label}: ${name} at ${x}`;
  });
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
