#!/usr/bin/env python3
"""Prints sizes of the code: the largest classes and structs, the files and lines of each room of the three trees, and
the tics in words.

    tools/house.py [TREE ...]              # the working tree; or commits and folders, side by side

A class counts its public names (overloads count once; no constructors, destructors, operators) and its members (data).
A struct counts its public functions and data together. The script reads headers as text, and counts no class or struct
that is inside another. Files and lines are those of C++. A folder's own files are not those of its folders. A tic is
a turn of phrase that tools/check_words.py counts; its pages here are those of docs/, of the trees and of the root.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import check_words  # noqa: E402

TREES = ("zero", "app", "plugins")
PAGES = ("docs", "README.md", "CONTRIBUTING.md")
CODE = (".h", ".cpp")
MOST_FILES = 25
MOST_NAMES = 15
MOST_MEMBERS = 12
NUM_CLASSES = 10
NUM_STRUCTS = 5
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^\s*#[^\n]*', re.S | re.M)
CLASS = re.compile(r"\b(class|struct)\s+(?:\[\[[^\]]*\]\]\s*)?(\w+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
ACCESS = re.compile(r"^(?:(public|private|protected)\s*:\s*)")
NO_MEMBER = re.compile(
    r"^(using|friend|static_assert|enum|struct|class|template\s*<[^>]*>\s*(struct|class|using)|typedef)\b"
)


def texts(tree):
    """{path: text} of the files of the three trees, and of the pages. `tree`: None, a folder, or a commit."""
    folder = ROOT if tree is None else Path(tree)
    if tree is None or folder.is_dir():
        files = [file for name in (*TREES, "docs") for file in (folder / name).glob("**/*")]
        files += [folder / name for name in PAGES if name != "docs"]
        return {
            str(file.relative_to(folder)): file.read_text(encoding="utf-8", errors="replace")
            for file in files
            if file.is_file()
        }
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-tree", "-r", "--name-only", tree, *TREES, *PAGES],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\n")[:-1]
    ask = "".join(f"{tree}:{name}\n" for name in names).encode()
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


def own_files(files):
    """{folder: files of its own} of the sources."""
    folders = [Path(path).parent for path in files if Path(path).parts[0] in TREES and Path(path).suffix in CODE]
    return {str(folder): folders.count(folder) for folder in set(folders)}


def rooms(files):
    """{room: (files, most files of one of its folders, lines)} of the sources."""
    sizes, most = {}, {}
    for folder, number in own_files(files).items():
        room = Path(folder).parts[1] if len(Path(folder).parts) > 1 else ""
        most[room] = max(most.get(room, 0), number)
    for path, text in files.items():
        parts = Path(path).parts
        if len(parts) > 2 and parts[0] in TREES and Path(path).suffix in CODE:
            number, lines = sizes.get(parts[1], (0, 0))
            sizes[parts[1]] = (number + 1, lines + len(text.splitlines()))
    return {room: (number, most[room], lines) for room, (number, lines) in sizes.items()}


def tics(files, suffixes):
    """The tics in 1,000 words of the comments of sources, or of pages."""
    prose = [
        line
        for path, text in files.items()
        if Path(path).suffix in suffixes
        for line in check_words.prose_in(Path(path), text)
    ]
    return f"{1000 * len(check_words.tics_in(prose)) / max(check_words.words_in(prose), 1):.1f}"


def table(rows):
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def largest_of(sizes, count):
    """The `count` largest of {name: size}, as pairs; equal sizes are sorted by name, so the order is fixed."""
    return sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:count]


def rows_of(rooms_of_houses):
    """A row for each room, sorted by lines in the last tree; a cell is empty if that tree lacks the room."""
    names = {name for rooms_of_one in rooms_of_houses for name in rooms_of_one}
    last = rooms_of_houses[-1]
    for name in sorted(names, key=lambda name: (-last.get(name, (0, 0, 0))[2], name)):
        cells = ("{}, {}, {:,}".format(*each[name]) if name in each else "" for each in rooms_of_houses)
        yield [f"{name}: files, most in one folder, lines", *cells]


def rows_of_folders(houses):
    """The rows about folders, files and words of all rooms together."""
    found = [rooms(files) for files in houses]
    folders = [own_files(files) for files in houses]
    largest = [largest_of(each, 1)[0] for each in folders]
    return [
        ["rooms", *(len(each) for each in found)],
        ["folders with sources", *(len(each) for each in folders)],
        ["folder with the most files of its own", *("{}: {}".format(*one) for one in largest)],
        [
            f"folders with more than {MOST_FILES} files of their own",
            *(sum(num > MOST_FILES for num in each.values()) for each in folders),
        ],
        ["files", *(f"{sum(num for num, _, _ in each.values()):,}" for each in found)],
        ["lines", *(f"{sum(lines for _, _, lines in each.values()):,}" for each in found)],
        ["tics in 1,000 words of comments", *(tics(files, CODE) for files in houses)],
        ["tics in 1,000 words of pages", *(tics(files, (".md",)) for files in houses)],
    ]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", metavar="TREE", nargs="*", help="commit or folder; default: the working tree")
    columns = parser.parse_args(arguments).trees or [None]
    try:
        houses = [texts(revision) for revision in columns]
    except subprocess.CalledProcessError as error:
        parser.error(f"git knows no such commit: {error.stderr.strip()}")
    heads = [tree or "working tree" for tree in columns]
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
    num_named = (sum(names > MOST_NAMES for names, _ in each.values()) for each in found)
    num_filled = (sum(members > MOST_MEMBERS for _, members in each.values()) for each in found)
    print(table([[f"classes with more than {MOST_NAMES} public names", *num_named]]))
    print(table([[f"classes with more than {MOST_MEMBERS} members", *num_filled]]))
    found = [{name: sum(sizes) for name, sizes in classes(files, "struct").items()} for files in houses]
    largest = [largest_of(each, NUM_STRUCTS) for each in found]
    for place in range(NUM_STRUCTS):
        print(table([[f"struct {place + 1}: public names", *("{}: {}".format(*each[place]) for each in largest)]]))
    print(table(rows_of_folders(houses)))
    print(table(list(rows_of([rooms(files) for files in houses]))))
    print(table([["lines of README.md", *(len(files["README.md"].splitlines()) for files in houses)]]))


if __name__ == "__main__":
    main(sys.argv[1:])
