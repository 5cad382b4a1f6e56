#!/usr/bin/env python3
"""Prints sizes of the code: the largest classes and structs of the three trees, and the lines of each room and of
README.md.

    tools/house.py [REVISION ...]          # the working tree, or commits side by side

A class counts its public names (overloads count once; no constructors, destructors, operators) and its members (data).
A struct counts its public functions and data together. The script reads headers as text, and counts no class or struct
that is inside another.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREES = ("zero", "app", "plugins")
NUM_CLASSES = 10
NUM_STRUCTS = 5
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^\s*#[^\n]*', re.S | re.M)
CLASS = re.compile(r"\b(class|struct)\s+(?:\[\[[^\]]*\]\]\s*)?(\w+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
ACCESS = re.compile(r"^(?:(public|private|protected)\s*:\s*)")
NO_MEMBER = re.compile(
    r"^(using|friend|static_assert|enum|struct|class|template\s*<[^>]*>\s*(struct|class|using)|typedef)\b"
)


def texts(revision):
    """{path: text} of the files of zero/, app/ and plugins/, and README.md."""
    if revision is None:
        files = [*(file for tree in TREES for file in ROOT.glob(f"{tree}/**/*")), ROOT / "README.md"]
        return {
            str(file.relative_to(ROOT)): file.read_text(encoding="utf-8", errors="replace")
            for file in files
            if file.is_file()
        }
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-tree", "-r", "--name-only", revision, *TREES, "README.md"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\n")[:-1]
    ask = "".join(f"{revision}:{name}\n" for name in names).encode()
    answer = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "--batch"], check=True, capture_output=True, input=ask
    ).stdout
    found, at = {}, 0
    for name in names:
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[2])
        found[name] = answer[end + 1 : end + 1 + size].decode("utf-8", errors="replace")
        at = end + 2 + size
    return found


def statements(body):
    """The statements at the top level of a class's body, without the contents of their braces."""
    part, depth = "", 0
    for position, letter in enumerate(body):
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            rest = body[position + 1 :].lstrip()
            if depth == 0 and "(" in part and rest[:1] not in (";", ",", "{"):  # the end of a function
                yield part
                part = ""
        elif depth == 0 and letter == ";":
            yield part
            part = ""
        elif depth == 0:
            part += letter


def count(name, kind, body):
    """(public names, members) of a class. For a struct, whose data is public: (public functions, data)."""
    access, names, members = "public" if kind == "struct" else "private", set(), 0
    for part in statements(body):
        part = " ".join(part.split())
        while match := ACCESS.match(part):
            access, part = match[1], part[match.end() :]
        if not part or NO_MEMBER.match(part) or "operator" in part or "~" in part:
            continue
        while part.startswith("[["):
            part = part[part.index("]]") + 2 :].lstrip()
        is_function = (
            re.match(r"^(?:[^()=]|\([^()]*\)\s*noexcept)*?\b(\w+)\s*\(", part)
            and "std::function<" not in part.split("=")[0].split("(")[0]
        )
        if is_function and not re.match(r"^[^(]*=", part):
            called = re.match(r"^[^()]*?\b(\w+)\s*\(", part)
            if called and called[1] not in (name, "explicit") and access == "public":
                names.add(called[1])
            continue
        if part.startswith(("static ", "inline static ", "constexpr ")):
            continue
        members += len([one for one in re.sub(r"<[^;]*>", "", part).split(",") if one.strip()])
    return len(names), members


def classes(files, kind="class"):
    """{name: (public names, members)} for the classes of all headers, or for the structs."""
    found = {}
    for path, text in files.items():
        if not path.endswith(".h"):
            continue
        text = NOISE.sub(lambda match: " " if match[0].lstrip().startswith(("/", "#")) else '""', text)
        at = 0
        while match := CLASS.search(text, at):
            depth, end = 1, match.end()
            while depth and end < len(text):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            if match[1] == kind:
                found[match[2]] = count(match[2], match[1], text[match.end() : end - 1])
            at = end
    return found


def rooms(files):
    lines = {}
    for path, text in files.items():
        parts = Path(path).parts
        if len(parts) > 2 and Path(path).suffix in (".h", ".cpp"):
            lines[parts[1]] = lines.get(parts[1], 0) + len(text.splitlines())
    return lines


def table(rows):
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def largest_of(sizes, count):
    """The `count` largest of {name: size}, as pairs; equal sizes are sorted by name, so the order is fixed."""
    return sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:count]


def rows_of(rooms_of_houses):
    """A row for each room, sorted by size in the last revision; a cell is empty if that revision lacks the room."""
    names = {name for rooms_of_one in rooms_of_houses for name in rooms_of_one}
    last = rooms_of_houses[-1]
    for name in sorted(names, key=lambda name: (-last.get(name, 0), name)):
        yield [f"{name}: lines", *(f"{each[name]:,}" if name in each else "" for each in rooms_of_houses)]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revisions", metavar="REVISION", nargs="*", help="a commit; default: the working tree")
    revisions = parser.parse_args(arguments).revisions
    columns = revisions or [None]
    try:
        houses = [texts(revision) for revision in columns]
    except subprocess.CalledProcessError as error:
        parser.error(f"git knows no such commit: {error.stderr.strip()}")
    heads = [revision or "working tree" for revision in columns]
    found = [classes(files) for files in houses]
    print(table([["", *heads], ["---"] + ["---"] * len(heads)]))
    largest = [largest_of({name: sum(sizes) for name, sizes in each.items()}, NUM_CLASSES) for each in found]
    for place in range(NUM_CLASSES):
        print(
            table(
                [
                    [
                        f"class {place + 1}: public names + members",
                        *(
                            "{}: {} + {}".format(each[place][0], *sizes[each[place][0]])
                            for each, sizes in zip(largest, found)
                        ),
                    ]
                ]
            )
        )
    print(
        table(
            [
                [
                    "classes with more than 15 public names",
                    *(sum(names > 15 for names, _ in each.values()) for each in found),
                ]
            ]
        )
    )
    found = [{name: sum(sizes) for name, sizes in classes(files, "struct").items()} for files in houses]
    largest = [largest_of(each, NUM_STRUCTS) for each in found]
    for place in range(NUM_STRUCTS):
        print(table([[f"struct {place + 1}: public names", *("{}: {}".format(*each[place]) for each in largest)]]))
    lines = [rooms(files) for files in houses]
    print(table([["rooms", *(len(each) for each in lines)]]))
    print(table(list(rows_of(lines))))
    print(table([["lines of README.md", *(len(files["README.md"].splitlines()) for files in houses)]]))


if __name__ == "__main__":
    main(sys.argv[1:])
