#!/usr/bin/env python3
"""Prints which tests were skipped and why: a line for each reason, from logs of CTest and of Python's unittest.

    tools/skips.py build/release/Testing/Temporary/LastTest.log

CTest counts a skipped test as passed. A reason has one of three forms: after GoogleTest's "FILE:LINE: Skipped"; in
unittest's "... skipped 'REASON'" (with --verbose); and in the line "skipped: REASON" of a script that ends with 77. A
missing log has no reasons.
"""

import ast
import collections
import re
import sys
from pathlib import Path


def reasons(log):
    """The reason of each skipped test, in order."""
    lines = log.splitlines()
    found = []
    for line, following in zip(lines, [*lines[1:], ""]):
        if line.endswith(": Skipped"):
            found.append(following)
        elif said := re.search(r"\.\.\. skipped (['\"].*['\"])$", line):
            found.append(ast.literal_eval(said[1]))
        elif said := re.match(r"skipped: (.*)", line):
            found.append(said[1])
    return found


def main(names):
    logs = [Path(name) for name in names]
    counts = collections.Counter(
        reason for log in logs if log.exists() for reason in reasons(log.read_text(errors="replace"))
    )
    for reason in sorted(counts):
        print(f"  skipped, {counts[reason]} x: {reason}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
