#!/usr/bin/env python3
"""Names the tests that a change can break, for `./test.sh changed`.

    tools/changed_tests.py [BASE]      the change since the commit BASE (default: HEAD), including uncommitted files

Prints a line for each test program, `PROGRAM FILTER`, with a filter for GoogleTest. The program with the most suites
comes first. A test file is chosen
  - if it changed,
  - if it mirrors the room of a changed source, or of a header of such a source (tests/engine for zero/engine),
  - if it includes a changed header, directly or through other headers,
  - if it includes the header of a changed source, directly.
Suites of the slow and full tiers are left out, and so are programs that are slow as a whole, except for changed test
files. Programs that only a build with sanitizers has (cmake/fuzz_seeds.cmake) are left out, also for changed files. For
a changed tools/x.py, tools/x.sh or its test it prints `SCRIPT tests/tools/x_test.py`.

For a changed file of the Python package it prints `PYTHON tests/python/x_test.py`. These are the tests of any change of
the package, and tests with the name of the module or of its folder. A changed test of the package is also chosen. Other
changes (in cmake/, of a page) are left to `./test.sh`.
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
PYTHON_TESTS = ["tests/python/engine_test.py", "tests/python/style_test.py"]  # for any change of the package
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


def includes_of(file):
    return INCLUDE.findall((ROOT / file).read_text(encoding="utf-8", errors="replace"))


def headers_behind(file, known):
    """All files of the repository that a file includes, directly or through other headers."""
    seen, waiting = set(), [file]
    while waiting:
        for path in includes_of(waiting.pop()):
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


def python_tests(changed, known):
    """The tests of the Python package to run, as paths."""
    tests = {path for path in known if path.startswith("tests/python/") and path.endswith("_test.py")}
    chosen = {path for path in changed & tests if not path.startswith("tests/python/full/")}
    for path in changed:
        parts = Path(path).parts
        if parts[:2] not in (("python", "zerocpp"), ("python", "extension")):
            continue
        chosen |= tests & set(PYTHON_TESTS)
        names = {Path(path).stem.strip("_"), *(parts[2:3] if len(parts) > 3 else ())}
        chosen |= {test for test in tests if any(re.match(rf"{re.escape(name)}_", Path(test).name) for name in names)}
    return sorted(path for path in chosen if (ROOT / path).is_file())


def main(arguments):
    base = arguments[0] if arguments else "HEAD"
    changed = set(git("diff", "--name-only", base)) | set(git("ls-files", "--others", "--exclude-standard"))
    known = set(git("ls-files")) | changed
    table, slow = programs()
    rooms = {room_of(path) for path in changed if path.endswith((".h", ".cpp", ".cu", ".cuh"))} - {None}
    headers = {path for path in changed if path.endswith((".h", ".inc", ".cuh"))}
    own_headers = {path[:-4] + ".h" for path in changed if path.endswith(".cpp")} & known
    filters = {}
    for test in sorted(
        path for path in known if path.startswith("tests/") and path.endswith("_test.cpp") and (ROOT / path).is_file()
    ):
        program = program_of(test, table)
        mirrors = Path(test).parts[1] in rooms
        if (
            program is None
            or (program in slow and test not in changed)
            or not (
                test in changed
                or mirrors
                or own_headers & set(includes_of(test))
                or headers & headers_behind(test, known)
            )
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
    for test in python_tests(changed, known):
        print("PYTHON", test)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
