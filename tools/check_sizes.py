#!/usr/bin/env python3
"""Keeps files small and tests in step with the code.

    tools/check_sizes.py [--strict] [ROOT]

Fails on a source file of more than 600 lines, and on a file whose name says nothing (utils, helpers, common, misc).
Prints the median size, the share of files under 300 lines, and the lines of tests per line of source. With --strict it
also fails if fewer than nine files in ten are under 300 lines, or if the ratio is below 0.8.
"""

import re
import statistics
import sys
from pathlib import Path

MAX_LINES = 600
SHORT_LINES = 300
MIN_SHARE_SHORT = 0.9
MIN_TEST_RATIO = 0.8
TREES = ("zero", "app", "plugins", "include")
FOLDERS = (*TREES, "tests", "benchmarks", "examples", "tools", "cmake")
SOURCES = {".h", ".cpp", ".cc", ".inc", ".cu", ".cuh", ".py", ".sh", ".cmake"}
NAMELESS = re.compile(r"(^|_)(utils?|helpers?|common|misc)$")


def line_count(file):
    return len(file.read_text(encoding="utf-8", errors="replace").splitlines())


def sizes(root, folder):
    """{path relative to root: lines} of the sources in a folder."""
    files = (file for file in (root / folder).rglob("*") if file.suffix in SOURCES and file.is_file())
    return {file.relative_to(root): line_count(file) for file in sorted(files)}


def check(root, strict):
    """(violations, figures), both as lines to print."""
    root = Path(root).resolve()
    by_folder = {folder: sizes(root, folder) for folder in FOLDERS}
    everything = {file: lines for files in by_folder.values() for file, lines in files.items()}
    violations = []
    for file, lines in everything.items():
        if lines > MAX_LINES:
            violations.append(
                f"{file}:{MAX_LINES + 1}: {lines} lines, and {MAX_LINES} is the most: it holds more than one idea"
            )
        for part in (*file.parts[:-1], file.stem):
            if NAMELESS.search(part):
                violations.append(f"{file}:1: '{part}' names no idea")

    source = {file: lines for tree in TREES for file, lines in by_folder[tree].items()}
    if not source:
        return violations + ["zero:1: there is no source here; is this the repository's root?"], []
    source_lines = sum(source.values())
    test_lines = sum(lines for file, lines in by_folder["tests"].items() if file.parts[1] != "tools")
    share = sum(lines < SHORT_LINES for lines in source.values()) / len(source)
    ratio = test_lines / max(source_lines, 1)
    if strict and share < MIN_SHARE_SHORT:
        violations.append(
            f"zero:1: only {share:.0%} of the files are under {SHORT_LINES} lines; {MIN_SHARE_SHORT:.0%} should be"
        )
    if strict and ratio < MIN_TEST_RATIO:
        violations.append(f"tests:1: {ratio:.2f} lines of tests per line of source; {MIN_TEST_RATIO} is the least")
    largest = max(source, key=source.get)
    return violations, [
        f"sources: {len(source)} files, {source_lines:,} lines, median {statistics.median(source.values()):.0f}, "
        f"{share:.0%} under {SHORT_LINES}, largest {largest} ({source[largest]})",
        f"tests/: {test_lines:,} lines, {ratio:.2f} per line of source",
    ]


def main(arguments):
    strict = "--strict" in arguments
    roots = [argument for argument in arguments if argument != "--strict"]
    violations, figures = check(roots[0] if roots else Path(__file__).resolve().parent.parent, strict)
    for line in violations + figures:
        print(line)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
