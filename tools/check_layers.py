#!/usr/bin/env python3
"""Proves the floors of docs/architecture.md: who may include whom, and who may know of torch.

    tools/check_layers.py [ROOT]

Rules, each printed with the file and line that breaks it:
  floor   a folder of zero/ includes only folders on lower floors, never a sibling on its own
  torch   a folder of zero_core includes no header of torch
  facade  zero/zero.h is for users; nothing in zero/ includes it
  folder  every folder of zero/ has a floor; every folder of tests/ mirrors one, or is one of the few that test the whole
  user    what zero/zero.h includes, and what that includes, has no seam of tests, and nothing of an engine's inside; nor
          does it declare one of these
  readme  every folder of zero/ has a README.md of at most 12 lines, which gives its floor and names files that are there
  bytes   tools/state_bytes.txt lists each file of engine, memory and optim that copies, fills or reads bytes of states: once,
          with the number of places, whose bytes they are, and what a GPU does instead
  name    the first line of a header is '// NAME: what it is'. NAME has at most 60 characters; what it writes as code,
          `x()` or a lone CamelCase word, the header has
Exit status: 0 all hold, 1 some do not.
"""

import re
import sys
from pathlib import Path

FLOORS = {
    "base": 0,
    "device": 1, "plan": 1, "flight": 1, "rendezvous": 1,
    "comm": 2, "launcher_memory": 2, "memory": 2, "optim": 2,
    "engine": 3, "transport": 3,
    "checkpoint": 4, "data": 4, "launch": 4, "report": 4, "serve": 4,
    "torch": 5, "cuda": 5,
    "models": 6,
    "train": 7,
    "config": 8,
    "command": 9,
    "bench": 10, "doctor": 10, "inspect": 10, "page": 10,
    "cli": 11,
}
CORE = {name for name, floor in FLOORS.items() if floor <= 4}
MAX_README_LINES = 12
WHOLE_TESTS = {"world", "parity", "faults", "issues", "fuzz"}
SOURCES = {".h", ".cpp", ".cc", ".inc", ".cu", ".cuh"}

INSIDE = {"engine/engine.h", "engine/engine_seams.h", "memory/disk_seam.h", "memory/file_calls.h", "memory/link.h", "memory/paced_link.h",
          "memory/memory_monitor.h", "torch/activation_store_shared.h", "torch/attach_seams.h"}
DECLARED_INSIDE = re.compile(r"^\s*(?:class|struct) (DiskSeam|Engine|EngineSeams|FileCalls|Link|LinkClock|MemoryMonitor);")

ROOMS_OF_STATES = ("engine", "memory", "optim")
LIST_OF_BYTES = "tools/state_bytes.txt"
TOUCH = re.compile(r"\bmem(?:cpy|set|move)\(|\b(?:copy|fill)_n\(|\bstd::(?:ranges::)?(?:copy|fill|transform)\(|\b(?:convert_elements|sum_ranks)\("
                   r"|\breinterpret_cast<(?:const )?(?:float|[A-Z]\w*|std::u?int\d+_t)\*>")
COUNTED_FILE = re.compile(r"^(\w+/\S+) +\| (\d+) +\| [^|]*\w[^|]*\| [^|]*\w[^|]*$")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
NAMED_FILE = re.compile(r"^- `([^`]+)`", re.MULTILINE)
FIRST_LINE = re.compile(r"^// ((?:[^:]|::){1,60}?): \S")
NAMED_CODE = re.compile(r"\b(\w+)\(\)|^((?:[A-Z][a-z0-9]+){2,}\w*)$")
COMMENT = re.compile(r"//[^\n]*")
TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2|torchgen)/")


def includes(file):
    """The (line number, quote, path) of each #include of a file."""
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def included_from_zero(root, file, quote, path):
    """The path below zero/ that an include names, or None. A quoted name beside the file counts as what it resolves to,
    so that "../engine/x.h" hides nothing."""
    if path.startswith("zero/"):
        return Path(path).relative_to("zero")
    beside = (file.parent / path).resolve()
    if quote == '"' and beside.exists() and beside.is_relative_to(root / "zero"):
        return beside.relative_to(root / "zero")
    return None


def broken_rule(folder, target):
    """Why a file of `folder` may not include `target` (both below zero/), or None if it may."""
    if target == Path("zero.h"):
        return "facade: zero/zero.h is for users; include the header that is meant"
    other = target.parts[0]
    if other == folder:
        return None
    if other not in FLOORS:
        return f"folder: zero/{other} has no floor"
    if FLOORS[other] == FLOORS[folder]:
        return f"floor: {folder} and {other} are siblings on floor {FLOORS[folder]}"
    if FLOORS[other] > FLOORS[folder]:
        return f"floor: {folder} (floor {FLOORS[folder]}) includes {other} (floor {FLOORS[other]}), which is above it"
    return None


def readme_faults(root, folder):
    """What is wrong with the README.md of a folder of zero/."""
    name = f"zero/{folder}/README.md"
    file = root / name
    if not file.is_file():
        return [f"{name}:1: readme: a folder says what it is, its floor, and where to begin reading"]
    text = file.read_text(encoding="utf-8")
    faults = []
    if (lines := len(text.splitlines())) > MAX_README_LINES:
        faults.append(f"{name}:{MAX_README_LINES + 1}: readme: {lines} lines, and {MAX_README_LINES} is the most")
    if f"Floor {FLOORS[folder]}." not in text:
        faults.append(f"{name}:1: readme: it does not say 'Floor {FLOORS[folder]}.'")
    named = NAMED_FILE.findall(text)
    if not named:
        faults.append(f"{name}:1: readme: it names no file (a line '- `x.h`: what it is')")
    faults += [f"{name}:1: readme: there is no {missing}" for missing in named if not (file.parent / missing).is_file()]
    return faults


def check_readmes(root):
    """What is wrong with the README.md of every folder that has a floor, as lines to print."""
    root = Path(root).resolve()
    folders = {file.parent.name for file in (root / "zero").glob("*/*") if file.suffix in SOURCES}
    return [fault for folder in sorted(folders & FLOORS.keys()) for fault in readme_faults(root, folder)]


def name_fault(text):
    """What is wrong with the first line of a header, or None."""
    first, _, rest = text.partition("\n")
    match = FIRST_LINE.match(first)
    if not match:
        return "a header begins with '// NAME: what it is'"
    code = COMMENT.sub("", rest)
    for function, kind in NAMED_CODE.findall(match[1]):
        if not re.search(rf"\b{function or kind}\b", code):
            return f"it begins with {function or kind}, which is not in this header"
    return None


def check_names(root):
    """The headers of zero/ that do not begin with the name of the thing, as lines to print."""
    root = Path(root).resolve()
    faults = ((file, name_fault(file.read_text(encoding="utf-8"))) for file in sorted((root / "zero").rglob("*.h")))
    return [f"{file.relative_to(root)}:1: name: {fault}" for file, fault in faults if fault]


def counted_places(root):
    """The places that tools/state_bytes.txt counts, by file, and its faulty lines, as lines to print."""
    counted, faults = {}, []
    listed = root / LIST_OF_BYTES
    for number, line in enumerate(listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else [], 1):
        match = COUNTED_FILE.match(line)
        if not match:
            if line and not line.startswith("#"):
                faults.append(f"{LIST_OF_BYTES}:{number}: bytes: a line is 'FILE | PLACES | WHOSE BYTES | ON A GPU'")
        elif match[1] in counted:
            faults.append(f"{LIST_OF_BYTES}:{number}: bytes: {match[1]} is listed twice")
        else:
            counted[match[1]] = int(match[2])
    return counted, faults


def check_bytes(root):
    """The faults of tools/state_bytes.txt, and the files with another number of places than it counts, as lines to print."""
    root = Path(root).resolve()
    counted, faults = counted_places(root)
    found = {}
    for file in (file for room in ROOMS_OF_STATES for file in (root / "zero" / room).rglob("*") if file.suffix in SOURCES):
        if count := len(TOUCH.findall(COMMENT.sub("", file.read_text(encoding="utf-8")))):
            found[str(file.relative_to(root / "zero"))] = count
    return faults + [f"zero/{name}:1: bytes: {found.get(name, 0)} places touch the bytes of states, and {LIST_OF_BYTES} counts "
                     f"{counted.get(name, 0)}: say there whose bytes they are"
                     for name in sorted(found.keys() | counted.keys()) if found.get(name, 0) != counted.get(name, 0)]


def check_user_headers(root):
    """The includes and declarations that show the inside to whoever includes zero/zero.h, as lines to print."""
    root = Path(root).resolve()
    violations, waiting, seen = [], [root / "zero/zero.h"], set()
    while waiting:
        file = waiting.pop()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if match := DECLARED_INSIDE.match(line):
                violations.append(f"{file.relative_to(root)}:{number}: user: zero/zero.h leads here, and {match[1]} is not for users")
        for number, quote, path in includes(file):
            target = included_from_zero(root, file, quote, path)
            if target and str(target) in INSIDE:
                violations.append(f"{file.relative_to(root)}:{number}: user: zero/zero.h leads here, and zero/{target} is not for users")
            elif target:
                waiting.append(root / "zero" / target)
    return sorted(violations)


def check(root):
    """All includes and folders below `root` that break a rule, as lines to print."""
    root = Path(root).resolve()
    violations = []
    for file in sorted((root / "zero").rglob("*")):
        parts = file.relative_to(root / "zero").parts
        if file.suffix not in SOURCES or len(parts) == 1:  # zero/zero.h may include everything
            continue
        folder, name = parts[0], file.relative_to(root)
        if folder not in FLOORS:
            violations.append(f"{name}:1: folder: zero/{folder} has no floor")
            continue
        for number, quote, path in includes(file):
            if folder in CORE and TORCH_HEADER.match(path):
                violations.append(f"{name}:{number}: torch: {folder} is part of zero_core, but includes <{path}>")
            target = included_from_zero(root, file, quote, path)
            reason = broken_rule(folder, target) if target else None
            if reason:
                violations.append(f"{name}:{number}: {reason}")
    for folder in sorted(path for path in (root / "tests").glob("*") if path.is_dir() and any(path.rglob("*.*"))):
        if not (root / "zero" / folder.name).is_dir() and folder.name not in WHOLE_TESTS | {"__pycache__"}:
            violations.append(f"tests/{folder.name}:1: folder: there is no zero/{folder.name} that it tests")
    return violations


def main(arguments):
    root = arguments[0] if arguments else Path(__file__).resolve().parent.parent
    violations = check(root) + check_user_headers(root) + check_readmes(root) + check_names(root) + check_bytes(root)
    for line in violations:
        print(line)
    print(f"{len(violations)} rules are broken." if violations else "Every include goes down, every folder and header says what it is.")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
