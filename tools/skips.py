#!/usr/bin/env python3
"""Prints which tests were skipped and why: a line for each reason, from logs of CTest and of Python's unittest.

    tools/skips.py build/release/Testing/Temporary/LastTest.log
    tools/skips.py --allowed tools/allowed_skips.txt build/python_tests/*.log

CTest counts a skipped test as passed. A reason has one of three forms: after GoogleTest's "FILE:LINE: Skipped"; in
unittest's "... skipped 'REASON'" (with --verbose); and in the line "skipped: REASON" of a script that ends with 77. A
missing log has no reasons.

With --allowed the exit status is 1 if a reason is not in that file. A line of the file is REASON | WHY; a * in the
reason is any text.
"""

import argparse
import ast
import collections
import re
import sys
from pathlib import Path


def reasons(log):
    """The reason of each skipped test, in order."""
    lines = log.splitlines()
    found = []
    for previous, line in zip(["", *lines], [*lines, ""]):
        if previous.endswith(": Skipped"):
            found.append(line.removeprefix("skipped: "))
        elif said := re.search(r"\.\.\. skipped (['\"].*['\"])$", line):
            found.append(ast.literal_eval(said[1]))
        elif said := re.match(r"skipped: (.*)", line):
            found.append(said[1])
    return found


def allowed_reasons(text):
    """The reasons of the file, with their stars."""
    rows = [line.partition(" | ") for line in text.splitlines() if line and not line.startswith("#")]
    for reason, _, why in rows:
        if not reason.strip() or not why.strip():
            raise SystemExit(f"skips.py: this line has not the form REASON | WHY: {reason}")
    return [reason.strip() for reason, _, _ in rows]


def is_allowed(reason, patterns):
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), reason, re.DOTALL) for pattern in patterns)


def main(arguments):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--allowed", type=Path, help="file of reasons; any other reason is a failure")
    parser.add_argument("logs", nargs="*", type=Path)
    given = parser.parse_args(arguments)
    patterns = ["*"] if given.allowed is None else allowed_reasons(given.allowed.read_text())
    counts = collections.Counter(
        reason for log in given.logs if log.exists() for reason in reasons(log.read_text(errors="replace"))
    )
    others = [reason for reason in counts if not is_allowed(reason, patterns)]
    for reason in sorted(counts):
        print(f"  skipped, {counts[reason]} x: {reason}{' (not allowed)' if reason in others else ''}")
    if others:
        print(f"  FAILED: reasons that {given.allowed} does not have. Install what is missing, or add a line there.")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
