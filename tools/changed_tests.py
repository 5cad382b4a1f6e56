#!/usr/bin/env python3
"""Names the tests that a change can break, for `./test.sh changed`.

    tools/changed_tests.py [BASE]      the change since the commit BASE (default: HEAD), including uncommitted files

Prints a line for each test program, `PROGRAM FILTER`, with a filter for GoogleTest. The program with the most suites
comes first. A test file is chosen
  - if it changed,
  - if it mirrors the room of a changed source, or of a header of such a source (tests/engine for zero/engine),
  - if it includes a changed header, directly or through other headers.
Suites of the slow and full tiers are left out, and so are programs that are slow as a whole, except for changed test
files. Programs that only a build with sanitizers has (cmake/fuzz_seeds.cmake) are left out, also for changed files. For
a changed tools/x.py, tools/x.sh or its test it prints `SCRIPT tests/tools/x_test.py`. Other changes (in cmake/, of a
page) are left to `./test.sh`.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
TEST = re.compile(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),", re.MULTILINE)
PROGRAM = re.compile(
    r"^zero_tests\((\w+)(?:[^)]*?\bFOLDERS ([\w/ ]+?) (?:APART|ROOMS|LIBS|TIMEOUT|LABEL)\b)?", re.MULTILINE
)
SLOW_PROGRAM = re.compile(r"^zero_tests\((\w+)[^)]*?\bLABEL slow\b", re.MULTILINE)
ONLY_SANITIZED = re.compile(r"^if\([^)]*NOT ZERO_SANITIZE\b[^)]*\)\n +return\(\)", re.MULTILINE)
LATER = re.compile(r"(?:Slow|Full)(?:OnAnyDevice)?$")


def git(*arguments):
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def programs():
    """({folder of tests/: program of a build without sanitizers}, the programs whose tests are all slow)."""
    found, slow = {}, set()
    for file in sorted((ROOT / "cmake").glob("*.cmake")):
        text = file.read_text(encoding="utf-8")
        if ONLY_SANITIZED.search(text):
            continue
        slow |= {f"zero_{name}_test" for name in SLOW_PROGRAM.findall(text)}
        for name, folders in PROGRAM.findall(text):
            for folder in [name, *folders.split()]:
                found[folder] = f"zero_{name}_test"
    return found, slow


def headers_behind(file, known):
    """All files of the repository that a file includes, directly or through other headers."""
    seen, waiting = set(), [file]
    while waiting:
        for path in INCLUDE.findall((ROOT / waiting.pop()).read_text(encoding="utf-8", errors="replace")):
            for name in (path, f"include/{path}"):
                if name in known and name not in seen:
                    seen.add(name)
                    waiting.append(name)
    return seen


def room_of(path):
    parts = Path(path).parts
    return (
        parts[1]
        if parts[0] in ("zero", "app") and len(parts) > 2
        else "cuda"
        if parts[:2] == ("plugins", "cuda")
        else "comm"
        if parts[0] == "plugins"
        else None
    )


def program_of(path, table):
    """The program of a test file: the program of the longest of its folders that has one."""
    folder = Path(path).parent.relative_to("tests")
    for candidate in (folder, *folder.parents):
        if str(candidate) in table:
            return table[str(candidate)]
    return None


def main(arguments):
    base = arguments[0] if arguments else "HEAD"
    changed = set(git("diff", "--name-only", base)) | set(git("ls-files", "--others", "--exclude-standard"))
    known = set(git("ls-files")) | changed
    table, slow = programs()
    rooms = {room_of(path) for path in changed if path.endswith((".h", ".cpp", ".cu", ".cuh"))} - {None}
    headers = {path for path in changed if path.endswith((".h", ".inc", ".cuh"))}
    filters = {}
    for test in sorted(
        path for path in known if path.startswith("tests/") and path.endswith("_test.cpp") and (ROOT / path).is_file()
    ):
        program = program_of(test, table)
        mirrors = Path(test).parts[1] in rooms
        if (
            program is None
            or (program in slow and test not in changed)
            or not (test in changed or mirrors or headers & headers_behind(test, known))
        ):
            continue
        suites = set(TEST.findall((ROOT / test).read_text(encoding="utf-8")))
        filters.setdefault(program, set()).update(
            suite for suite in suites if test in changed or not LATER.search(suite)
        )
    for program, suites in sorted(filters.items(), key=lambda item: (-len(item[1]), item[0])):
        if suites:
            print(program, ":".join(f"{suite}.*:*/{suite}.*" for suite in sorted(suites)))
    for path in sorted(changed):
        script = Path(path)
        name = (
            script.name
            if script.parts[:2] == ("tests", "tools")
            else f"{script.stem}_test.py"
            if script.parts[0] in ("tools", "benchmarks")
            else None
        )
        if name and name.endswith("_test.py") and (ROOT / "tests/tools" / name).is_file():
            print("SCRIPT", f"tests/tools/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
