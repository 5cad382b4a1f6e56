#!/usr/bin/env python3
"""Prints how the house is built: the largest classes of zero/, the lines of each folder, the lines of README.md.

    tools/house.py [REVISION ...]          # of the working tree, or of commits, side by side

A class counts its public names (functions of one name count once; no constructors, destructors, operators) and its members
(data). Read as text: classes of headers, those inside others not counted.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NUM_CLASSES = 10
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^\s*#[^\n]*', re.S | re.M)
CLASS = re.compile(r"\b(class|struct)\s+(?:\[\[[^\]]*\]\]\s*)?(\w+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
ACCESS = re.compile(r"^(?:(public|private|protected)\s*:\s*)")
NO_MEMBER = re.compile(r"^(using|friend|static_assert|enum|struct|class|template\s*<[^>]*>\s*(struct|class|using)|typedef)\b")


def texts(revision):
    """{path: text} of the files of zero/, and README.md."""
    if revision is None:
        files = [*ROOT.glob("zero/**/*"), ROOT / "README.md"]
        return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8", errors="replace")
                for file in files if file.is_file()}
    names = subprocess.run(["git", "-C", str(ROOT), "ls-tree", "-r", "--name-only", revision, "zero", "README.md"],
                           check=True, capture_output=True, text=True).stdout.split("\n")[:-1]
    ask = "".join(f"{revision}:{name}\n" for name in names).encode()
    answer = subprocess.run(["git", "-C", str(ROOT), "cat-file", "--batch"], check=True, capture_output=True, input=ask).stdout
    found, at = {}, 0
    for name in names:
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[2])
        found[name] = answer[end + 1:end + 1 + size].decode("utf-8", errors="replace")
        at = end + 2 + size
    return found


def statements(body):
    """The parts of a class's body at its own depth, each without what stands between its braces."""
    part, depth = "", 0
    for position, letter in enumerate(body):
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            rest = body[position + 1:].lstrip()
            if depth == 0 and "(" in part and rest[:1] not in (";", ",", "{"):  # the end of a function
                yield part
                part = ""
        elif depth == 0 and letter == ";":
            yield part
            part = ""
        elif depth == 0:
            part += letter


def count(name, kind, body):
    """(public names, members) of a class."""
    access, names, members = "public" if kind == "struct" else "private", set(), 0
    for part in statements(body):
        part = " ".join(part.split())
        while match := ACCESS.match(part):
            access, part = match[1], part[match.end():]
        if not part or NO_MEMBER.match(part) or "operator" in part or "~" in part:
            continue
        while part.startswith("[["):
            part = part[part.index("]]") + 2:].lstrip()
        is_function = re.match(r"^(?:[^()=]|\([^()]*\)\s*noexcept)*?\b(\w+)\s*\(", part) and "std::function<" not in part.split("=")[0].split("(")[0]
        if is_function and not re.match(r"^[^(]*=", part):
            called = re.match(r"^[^()]*?\b(\w+)\s*\(", part)
            if called and called[1] not in (name, "explicit") and access == "public":
                names.add(called[1])
            continue
        if part.startswith(("static ", "inline static ", "constexpr ")):
            continue
        members += len([one for one in re.sub(r"<[^;]*>", "", part).split(",") if one.strip()])
    return len(names), members


def classes(files):
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
            if match[1] == "class":
                found[match[2]] = count(match[2], match[1], text[match.end():end - 1])
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


def main(revisions):
    columns = revisions or [None]
    houses = [texts(revision) for revision in columns]
    heads = [revision or "working tree" for revision in columns]
    found = [classes(files) for files in houses]
    print(table([["", *heads], ["---"] + ["---"] * len(heads)]))
    largest = [sorted(each.items(), key=lambda item: -sum(item[1]))[:NUM_CLASSES] for each in found]
    for place in range(NUM_CLASSES):
        print(table([[f"class {place + 1}: public names + members",
                      *(f"{each[place][0]}: {each[place][1][0]} + {each[place][1][1]}" for each in largest)]]))
    print(table([["classes with more than 15 public names", *(sum(names > 15 for names, _ in each.values()) for each in found)]]))
    lines = [rooms(files) for files in houses]
    print(table([["folders of zero/", *(len(each) for each in lines)]]))
    for place in range(5):
        print(table([[f"folder {place + 1}: lines",
                      *("{}: {:,}".format(*sorted(each.items(), key=lambda item: -item[1])[place]) for each in lines)]]))
    print(table([["lines of README.md", *(len(files["README.md"].splitlines()) for files in houses)]]))


if __name__ == "__main__":
    main(sys.argv[1:])
