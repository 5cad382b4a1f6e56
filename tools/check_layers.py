#!/usr/bin/env python3
"""Checks the rooms of docs/architecture.md: which room may include which, and which may use torch.

    tools/check_layers.py [ROOT]
    tools/check_layers.py --draw     writes the picture of the rooms, docs/architecture.svg, from the table below

Rules, each printed with the file and line that breaks it:
  tree    the library (zero/) never includes the program (app/); a plug-in (plugins/) includes only the library, and
          nothing includes a plug-in
  floor   a room includes only rooms on lower floors, never a room on its own floor
  cycle   the folders inside a room include each other in one direction only
  torch   a room of zero_core includes no header of torch
  facade  <zero/...> of include/ is for users; nothing in zero/, app/ or plugins/ includes it
  folder  every room has a floor; every folder of tests/ mirrors a room, or is one of the few that test the whole
  user    the headers that include/zero/zero.h includes, directly or through others, show no seam of tests and nothing
          of an engine's inside, by an include or a declaration
  readme  every room has a README.md that gives its floor, lists its inner rooms, and names existing files
  bytes   tools/state_bytes.txt lists once each file of engine, memory and optim that copies, fills or reads bytes of
          states, with the number of places, the owner of the bytes, and the work that a GPU does instead
  name    the first line of a header is '// NAME: PURPOSE'. NAME has at most 60 characters. If it is code, `x()` or a
          single CamelCase word, the header contains that name
  picture docs/architecture.svg is the picture of this table
Exit status: 0 all hold, 1 some do not.
"""

import collections
import re
import sys
from pathlib import Path

import draw_rooms

FLOORS = {
    "zero": {
        "base": 0,
        "device": 1,
        "plan": 1,
        "comm": 2,
        "memory": 2,
        "optim": 2,
        "engine": 3,
        "checkpoint": 4,
        "serve": 4,
        "torch": 5,
    },
    "app": {
        "data": 0,
        "launch": 0,
        "models": 0,
        "report": 0,
        "train": 1,
        "config": 2,
        "cli": 3,
    },
    "plugins": {"clp": 0, "cuda": 0, "gloo": 0, "mpi": 0, "nccl": 0},
}
TREES = {
    "zero": ("zero",),
    "app": ("zero", "app"),
    "plugins": ("zero", "plugins"),
}  # tree: the trees that it may include
WITH_TORCH = {("zero", "torch"), ("app", "models"), ("app", "train"), ("app", "cli")}
MAX_README_LINES = 40
WHOLE_TESTS = {"world", "parity", "faults", "issues", "fuzz", "support", "tools", "python"}
SOURCES = {".h", ".cpp", ".cc", ".inc", ".cu", ".cuh"}

INSIDE = {
    "zero/engine/rank_engine.h",
    "zero/engine/options/engine_host.h",
    "zero/memory/disk/disk_seam.h",
    "zero/memory/link/link.h",
    "zero/memory/link/paced_link.h",
    "zero/memory/memory_watch.h",
    "zero/torch/activations/activation_store_shared.h",
    "zero/torch/attach_host.h",
}
DECLARED_INSIDE = re.compile(
    r"^\s*(?:class|struct) (DiskSeam|RankEngine|EngineHost|EngineSeams|Link|LinkClock|MemoryWatch);"
)

ROOMS_OF_STATES = ("engine", "memory", "optim")
LIST_OF_BYTES = "tools/state_bytes.txt"
TOUCH = re.compile(
    r"\bmem(?:cpy|set|move)\(|\b(?:copy|fill)_n\(|\bstd::(?:ranges::)?(?:copy|fill|transform)\("
    r"|\b(?:convert_elements|sum_ranks)\("
    r"|\breinterpret_cast<(?:const )?(?:float|[A-Z]\w*|std::u?int\d+_t)\*>"
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
NAMED_FILE = re.compile(r"^- `([^`]+)`", re.MULTILINE)
NAMED_ROOM = re.compile(r"^- `(\w+)/`", re.MULTILINE)
FIRST_LINE = re.compile(r"^// ((?:[^:]|::){1,60}?): \S")
NAMED_CODE = re.compile(r"\b(\w+)\(\)|^((?:[A-Z][a-z0-9]+){2,}\w*)$")
COUNTED_FILE = re.compile(r"^(\w+/\S+) +\| (\d+) +\| [^|]*\w[^|]*\| [^|]*\w[^|]*$")
COMMENT = re.compile(r"//[^\n]*")
TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2|torchgen)/")


def includes(file):
    """The (line number, quote, path) of each #include of a file."""
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def included(root, file, quote, path):
    """The path from the root that an include names, if it is in one of the trees or in include/; else None. A quoted
    name beside the file counts as the file that it resolves to, so "../engine/x.h" hides nothing."""
    if path.split("/")[0] in FLOORS:
        return Path("include") / path if (root / "include" / path).exists() else Path(path)
    beside = (file.parent / path).resolve()
    if quote == '"' and beside.exists() and beside.is_relative_to(root):
        return beside.relative_to(root)
    return None


def sources(root):
    """The source files of the three trees, as paths from the root."""
    for tree in FLOORS:
        for file in sorted((root / tree).rglob("*")):
            if file.suffix in SOURCES and file.is_file():
                yield file.relative_to(root)


def place_of(path):
    """(tree, room) of a path from the root."""
    return path.parts[0], path.parts[1] if len(path.parts) > 2 else ""


def broken_rule(path, target):
    """Why the file `path` may not include `target` (both from the root), or None if it may."""
    if target.parts[0] == "include":
        return f"facade: {target} is for users; include the header that is meant"
    if target.parts[0] not in FLOORS:
        return None
    (tree, room), (other_tree, other) = place_of(path), place_of(target)
    if (tree, room) == (other_tree, other):
        return None
    if other not in FLOORS[other_tree]:
        return f"folder: {other_tree}/{other} has no floor"
    if other_tree not in TREES[tree]:
        return f"tree: {tree}/ does not include {other_tree}/"
    if tree != other_tree:
        return None
    floor, other_floor = FLOORS[tree][room], FLOORS[tree][other]
    if floor == other_floor:
        return f"floor: {room} and {other} are both on floor {floor} of {tree}/"
    if other_floor > floor:
        return f"floor: {room} (floor {floor}) includes {other} (floor {other_floor}), which is above it"
    return None


def check(root):
    """All includes and folders below `root` that break a rule, as lines to print."""
    root = Path(root).resolve()
    violations = []
    for name in sources(root):
        tree, room = place_of(name)
        if room not in FLOORS[tree]:
            violations.append(
                f"{name}:1: folder: {tree}/{room} has no floor" if room else f"{name}:1: folder: it is in no room"
            )
            continue
        for number, quote, path in includes(root / name):
            if (tree, room) not in WITH_TORCH and TORCH_HEADER.match(path):
                violations.append(f"{name}:{number}: torch: {tree}/{room} does without torch, but includes <{path}>")
            target = included(root, root / name, quote, path)
            if reason := target and broken_rule(name, target):
                violations.append(f"{name}:{number}: {reason}")
    rooms = {room for tree in FLOORS for room in FLOORS[tree] if (root / tree / room).is_dir()}
    for folder in sorted(path for path in (root / "tests").glob("*") if path.is_dir() and any(path.rglob("*.*"))):
        if folder.name not in rooms | WHOLE_TESTS | {"__pycache__"}:
            violations.append(f"tests/{folder.name}:1: folder: no room of {', '.join(FLOORS)} has this name")
    return violations


def check_cycles(root):
    """The includes that close a cycle of folders, as lines to print: one for each pair of folders in the cycle."""
    root = Path(root).resolve()
    arrows = collections.defaultdict(dict)  # folder: {folder: the first include}
    for name in sources(root):
        for number, quote, path in includes(root / name):
            target = included(root, root / name, quote, path)
            if target and target.parts[0] in FLOORS and target.parent != name.parent:
                arrows[name.parent].setdefault(
                    target.parent, f"{name}:{number}: cycle: {name.parent} includes {target.parent}"
                )

    def reached(start):
        seen, waiting = set(), [start]
        while waiting:
            for target in arrows.get(waiting.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    reach = {folder: reached(folder) for folder in list(arrows)}
    return sorted(
        f"{line}, which leads back to it"
        for folder, targets in arrows.items()
        for target, line in targets.items()
        if folder in reach.get(target, ())
    )


def readme_faults(root, tree, room):
    """The faults of a room's README.md."""
    folder = root / tree / room
    name = f"{tree}/{room}/README.md"
    if not (folder / "README.md").is_file():
        return [f"{name}:1: readme: a room needs a README.md with its purpose, its floor, and the files to read first"]
    text = (folder / "README.md").read_text(encoding="utf-8")
    faults = []
    if (lines := len(text.splitlines())) > MAX_README_LINES:
        faults.append(f"{name}:{MAX_README_LINES + 1}: readme: {lines} lines, and {MAX_README_LINES} is the most")
    if tree != "plugins" and f"Floor {FLOORS[tree][room]}." not in text:
        faults.append(f"{name}:1: readme: it does not say 'Floor {FLOORS[tree][room]}.'")
    named = [file for file in NAMED_FILE.findall(text) if not file.endswith("/")]
    if not named:
        faults.append(f"{name}:1: readme: it names no file (a line '- `x.h`: PURPOSE')")
    faults += [f"{name}:1: readme: there is no {missing}" for missing in named if not (folder / missing).is_file()]
    inner = {
        path.name
        for path in folder.iterdir()
        if path.is_dir() and any(file.suffix in SOURCES for file in path.iterdir())
    }
    listed = set(NAMED_ROOM.findall(text))
    faults += [
        f"{name}:1: readme: it does not list the inner room {each} (a line '- `{each}/`: PURPOSE')"
        for each in sorted(inner - listed)
    ]
    faults += [
        f"{name}:1: readme: there is no inner room {each}"
        for each in sorted(listed - {path.name for path in folder.iterdir() if path.is_dir()})
    ]
    return faults


def check_readmes(root):
    """The faults of the README.md of every room that has source files, as lines to print."""
    root = Path(root).resolve()
    rooms = sorted({place_of(name) for name in sources(root)})
    return [fault for tree, room in rooms if room in FLOORS[tree] for fault in readme_faults(root, tree, room)]


def name_fault(text):
    """The fault of a header's first line, or None."""
    first, _, rest = text.partition("\n")
    match = FIRST_LINE.match(first)
    if not match:
        return "a header begins with '// NAME: PURPOSE'"
    code = COMMENT.sub("", rest)
    for function, kind in NAMED_CODE.findall(match[1]):
        if not re.search(rf"\b{function or kind}\b", code):
            return f"it begins with {function or kind}, which is not in this header"
    return None


def check_names(root):
    """The headers that do not begin with a name, as lines to print."""
    root = Path(root).resolve()
    faults = (
        (name, name_fault((root / name).read_text(encoding="utf-8"))) for name in sources(root) if name.suffix == ".h"
    )
    return [f"{name}:1: name: {fault}" for name, fault in faults if fault]


def counted_places(root):
    """The numbers of places in tools/state_bytes.txt, by file, and its faulty lines, as lines to print."""
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
    """The faults of tools/state_bytes.txt, and the files whose number of places differs from it, as lines to print."""
    root = Path(root).resolve()
    counted, faults = counted_places(root)
    found = {}
    for name in (name for name in sources(root) if name.parts[0] == "zero" and name.parts[1] in ROOMS_OF_STATES):
        if count := len(TOUCH.findall(COMMENT.sub("", (root / name).read_text(encoding="utf-8")))):
            found[str(name.relative_to("zero"))] = count
    return faults + [
        f"zero/{name}:1: bytes: {found.get(name, 0)} places touch the bytes of states, and {LIST_OF_BYTES} counts "
        f"{counted.get(name, 0)}: say there whose bytes they are"
        for name in sorted(found.keys() | counted.keys())
        if found.get(name, 0) != counted.get(name, 0)
    ]


def check_user_headers(root):
    """The includes and declarations that show internals to users of <zero/zero.h>, as lines to print."""
    root = Path(root).resolve()
    violations, waiting, seen = [], sorted((root / "include/zero").glob("*.h")), set()
    while waiting:
        file = waiting.pop()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        name = file.relative_to(root)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if match := DECLARED_INSIDE.match(line):
                violations.append(f"{name}:{number}: user: include/zero leads here, and {match[1]} is not for users")
        for number, quote, path in includes(file):
            target = included(root, file, quote, path)
            if target and str(target) in INSIDE:
                violations.append(f"{name}:{number}: user: include/zero leads here, and {target} is not for users")
            elif target and target.parts[0] == "app":
                violations.append(f"{name}:{number}: user: include/zero leads here, and {target} is of the program")
            elif target:
                waiting.append(root / target)
    return sorted(violations)


def check_picture(root):
    """The fault of the picture of the rooms if it differs from the table, as lines to print."""
    file = Path(root) / draw_rooms.PICTURE
    if file.is_file() and file.read_text(encoding="utf-8") == draw_rooms.picture(FLOORS, WITH_TORCH):
        return []
    return [f"{draw_rooms.PICTURE}:1: picture: it differs from the table: run tools/check_layers.py --draw"]


def main(arguments):
    here = Path(__file__).resolve().parent.parent
    if arguments == ["--draw"]:
        (here / draw_rooms.PICTURE).write_text(draw_rooms.picture(FLOORS, WITH_TORCH), encoding="utf-8")
        return 0
    root = arguments[0] if arguments else here
    violations = [
        line
        for rule in (check, check_cycles, check_user_headers, check_readmes, check_names, check_bytes)
        for line in rule(root)
    ]
    if not arguments:
        violations += check_picture(root)
    for line in violations:
        print(line)
    print(f"{len(violations)} rules are broken." if violations else "All rules hold.")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
