#!/usr/bin/env python3
"""Keeps the prose plain: comments, messages, pages, help texts and names of tests.

    tools/check_words.py [ROOT]             the words of each room and of the pages, and what breaks a rule
    tools/check_words.py --list FILE...     the tics of some files, with their places

A tic is a turn of phrase that costs the reader a second reading: a clause for a noun ("what is gathered"), "where" for if,
"alone" for only, ", too" for also, bytes that lie or stand, "so that", a sentence that begins with "Of" or "One that". CONTRIBUTING.md
says what to write instead. Rules, each printed with the place that breaks it:

  tics    at most 1.0 in 1,000 words, in the pages, in each room's comments, and in the messages of all rooms
  width   no source line and no line of prose has more than 120 columns
  test    a test's name has at most six words
  help    the help text of a key has at most 120 characters

Exit status: 0 all hold, 1 some do not.
"""

import re
import subprocess
import sys
from pathlib import Path

MOST = 1.0
WIDTH = 120
MOST_NAME_WORDS = 6
SOURCES = {".h", ".cpp", ".cu", ".cuh"}
TREES = ("zero", "app", "plugins", "include")
OPTION_TABLE = "app/config/options/option_table.cpp"

TICS = [re.compile(pattern) for pattern in (
    r"\b[Ww]hat (?:is|are|was|were|it|they|comes|lies|goes|has|had|a rank|others|another|no|all)\b(?![^.]*\?)",
    r"(?:^|[.,;:(] )[Ww]here (?!to\b)",
    r"\balone\b",
    r", too\b",
    r"\b(?:lies?|lay|stands?|stood)\b",
    r"\bso that\b",
    r"(?:^|[.;:] )(?:One|Those|That) (?:that|of|which|with)\b",
    r"(?:^|[.] )Of (?!course)",
)]
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
COMMENT = re.compile(r"(?:^|\s)//\s?(.*)")
TEST = re.compile(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),\s*(\w+)", re.MULTILINE)
OPTION = re.compile(r'^    Option\{"([^"]+)".*?"((?:\\.|[^"\\])*)"\},$', re.MULTILINE | re.DOTALL)
# A string that is one piece of text may be several literals in a row. Characters and comments are matched to be skipped.
STRING = re.compile(r"""'(?:\\.|[^'\\\n])'|//[^\n]*|R"([^(\s]*)\(.*?\)\1"|((?:"(?:\\.|[^"\\\n])*"\s*)+)""", re.DOTALL)
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
NAME_WORD = re.compile(r"[A-Z][a-z0-9]*|[0-9]+|[A-Z]+(?![a-z])")


def prose_of(file):
    """(number, text) of the lines of a file that hold prose: comments of sources, and pages without their blocks of code."""
    fenced = False
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if file.suffix == ".md":
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced:
                yield number, line
        elif match := COMMENT.search(line):
            yield number, match[1]


def messages_of(file):
    """(number, text) of the strings of a source that hold words with spaces between: what a user may read. No raw strings."""
    text = file.read_text(encoding="utf-8", errors="replace")
    for match in STRING.finditer(text):
        if not match[2] or text[text.rfind("\n", 0, match.start()) + 1:match.start()].lstrip().startswith("#include"):
            continue
        message = "".join(LITERAL.findall(match[2])).replace("\\n", "\n").replace('\\"', '"')
        if " " in message.strip():
            yield text.count("\n", 0, match.start()) + 1, message


def tics_in(texts):
    return [(number, match[0], text) for number, text in texts for tic in TICS for match in tic.finditer(text)]


def tics_of(file):
    return tics_in(prose_of(file)) + (tics_in(messages_of(file)) if file.suffix in SOURCES else [])


def words_in(texts):
    return sum(len(WORD.findall(text)) for _, text in texts)


def rate_of(name, files, read, faults, figures):
    """Adds the figure of some files, and a fault if they have too many tics."""
    words = sum(words_in(read(file)) for file in files)
    rate = 1000 * sum(len(tics_in(read(file))) for file in files) / max(words, 1)
    figures.append(f"{name}: {rate:.1f} tics in 1,000 words ({words:,} words)")
    if rate > MOST:
        faults.append(f"{name}: tics: {rate:.1f} in 1,000 words, and {MOST} is the most: tools/check_words.py --list FILE...")


def files_of(root):
    """{room or "pages": files}, of the files that git knows."""
    names = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for name in names:
        path = Path(name)
        if path.suffix == ".md" and path.name != "CHANGELOG.md":
            found.setdefault("pages", []).append(root / path)
        elif path.suffix in SOURCES and path.parts[0] in TREES:
            found.setdefault("/".join(path.parts[:2]), []).append(root / path)
        elif path.suffix in SOURCES and path.parts[0] == "tests":
            found.setdefault("tests", []).append(root / path)
    return {room: [file for file in files if file.is_file()] for room, files in found.items()}


def too_wide(file, root):
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return [f"{file.relative_to(root)}:{number}: width: {len(line)} columns" for number, line in enumerate(lines, 1)
            if len(line) > WIDTH and (file.suffix != ".md" or number in prose_lines(file))]


def prose_lines(file):
    """The numbers of a page's lines that are paragraphs or list items: no tables, no code, no pictures."""
    return {number for number, text in prose_of(file) if not re.match(r"\s*[|#<!\[]", text)}


def long_helps(root):
    """The keys whose help text is too long, as lines to print."""
    file = root / OPTION_TABLE
    rows = OPTION.findall(file.read_text(encoding="utf-8")) if file.is_file() else []
    return [f"{OPTION_TABLE}: help: {key} has {len(text)} characters" for key, text in rows if len(text) > WIDTH]


def check(root):
    """(faults, figures), both as lines to print."""
    root = Path(root).resolve()
    faults, figures, sources = [], [], []
    for room, files in sorted(files_of(root).items()):
        if room == "tests":
            faults += [f"{file.relative_to(root)}: test: {suite}.{name} has more than {MOST_NAME_WORDS} words" for file in files
                       for suite, name in TEST.findall(file.read_text(encoding="utf-8")) if len(NAME_WORD.findall(name)) > MOST_NAME_WORDS]
            continue
        rate_of(room, files, prose_of, faults, figures)
        if room.split("/")[0] in TREES:
            sources += files
        faults += [fault for file in files for fault in too_wide(file, root)]
    rate_of("messages", sources, messages_of, faults, figures)
    return faults + long_helps(root), figures


def main(arguments):
    if arguments[:1] == ["--list"]:
        for name in arguments[1:]:
            for number, tic, text in tics_of(Path(name)):
                print(f"{name}:{number}: {tic.strip()}: {text.strip()[:120]}")
        return 0
    faults, figures = check(arguments[0] if arguments else Path(__file__).resolve().parent.parent)
    print("\n".join([*figures, *faults]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
