#!/usr/bin/env python3
"""How long the parts of a build took, from Ninja's log: seconds by target, and the slowest steps.

    tools/build_times.py [build/release] [--steps N]

The seconds of a step are those between its start and its end, so they include waits for other compilers on the same
cores. A step that came from the compiler's cache counts its short time. Each step counts once, with its last run, and
only while it is a part of the build.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path


def read_log(folder):
    """{output: seconds} of the last run of each step. Outputs of one step have the same hash: only one of them
    counts."""
    built = set()
    for line in (folder / "build.ninja").read_text().splitlines():
        if line.startswith("build "):
            built.update(line[len("build ") :].split(":", 1)[0].split())
    steps, outputs_of = {}, {}
    for line in (folder / ".ninja_log").read_text().splitlines():
        fields = line.split("\t")
        if len(fields) != 5 or fields[3] not in built:  # the header line, or a step that no longer exists
            continue
        begin, end, _, output, command = fields
        step = (command, begin, end)
        if outputs_of.setdefault(step, output) == output:
            steps[output] = (int(end) - int(begin)) / 1000
    return steps


def target_of(output):
    found = re.match(r"CMakeFiles/(\w+)\.dir/", output)
    return found.group(1) if found else "linking" if re.search(r"\.so$|^bin/|^tests/", output) else "other"


def table(steps, num_steps):
    by_target = defaultdict(float)
    for output, seconds in steps.items():
        by_target[target_of(output)] += seconds
    lines = [f"{sum(steps.values()):8.1f} s in {len(steps)} steps", "", "by target"]
    lines += [f"{seconds:8.1f}  {name}" for name, seconds in sorted(by_target.items(), key=lambda item: -item[1])]
    lines += ["", f"the slowest {min(num_steps, len(steps))} steps"]
    slowest = sorted(steps.items(), key=lambda item: -item[1])[:num_steps]
    lines += [f"{seconds:8.1f}  {re.sub('CMakeFiles/', '', output)}" for output, seconds in slowest]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="build/release", type=Path)
    parser.add_argument("--steps", type=int, default=20, help="number of slowest steps to list")
    asked = parser.parse_args()
    log = asked.folder / ".ninja_log"
    if not log.exists():
        sys.exit(f"{log} does not exist: Ninja has not built in {asked.folder}")
    print(table(read_log(asked.folder), asked.steps))


if __name__ == "__main__":
    main()
