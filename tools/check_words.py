#!/usr/bin/env python3
"""Keeps the prose plain: comments, messages, pages, help texts and names of tests.

    tools/check_words.py [ROOT]             the words of each folder and of the pages, and the faults
    tools/check_words.py --list FILE...     the tics of some files, with their places

A tic is a turn of phrase that costs the reader a second reading. Examples: a clause in place of a noun, a fancy word
for "if", "only" or "also", bytes with a posture. TICS has the patterns, and CONTRIBUTING.md says what to write instead.
Rules, each printed with the place that breaks it:

  tics    at most 1.0 in 1,000 words: in the pages, in the comments of each room (zero, app, plugins, include) and of
          each other top folder, in the messages of all rooms, and in the messages of python/zerocpp
  width   no line of a source (C++, CUDA, Python, shell, CMake) and no line of prose in a page has more than 120
          columns, which are characters
  test    a test's name has at most six words
  help    the help text of a key has at most 120 characters

Comments are those of C++, Python (with its docstrings), shell, CMake and TOML.
Exit status: 0 all hold, 1 some do not.
"""

import ast
import re
import subprocess
import sys
import tokenize
from pathlib import Path

MOST = 1.0
WIDTH = 120
MOST_NAME_WORDS = 6
SOURCES = {".h", ".cpp", ".cu", ".cuh"}
SCRIPTS = {".sh", ".cmake", ".toml"}
NARROW = SOURCES | {".py", ".pyi", ".sh", ".cmake"}  # suffixes of sources whose lines have at most WIDTH columns
NARROW_NAMES = {"CMakeLists.txt", "Containerfile", ".clang-tidy"}
TREES = ("zero", "app", "plugins", "include")
PACKAGE = ("python", "zerocpp")
OPTION_TABLE = "app/config/options/option_table.cpp"

TICS = [
    re.compile(pattern)
    for pattern in (
        r"\b[Ww]hat (?:is|are|was|were|it|they|comes|lies|goes|has|had|a rank|others|another|no|all)\b(?![^.]*\?)",
        r"(?:^|[.,;:(] )[Ww]here (?!to\b)",
        r"\balone\b",
        r", too\b",
        r"\b(?:lies?|lay|stands?|stood)\b",
        r"\bso that\b",
        r"(?:^|[.;:] )(?:One|Those|That) (?:that|of|which|with)\b",
        r"(?:^|[.] )Of (?!course)",
    )
]
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
COMMENT = re.compile(r"(?:^|\s)//\s?(.*)")
SCRIPT_COMMENT = re.compile(r"(?:^|\s)#(?!!)\s?(.*)")
TEST = re.compile(
    r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),\s*(\w+)", re.MULTILINE
)
PYTHON_TEST = re.compile(r"^ +(?:async )?def (test_\w+)\(", re.MULTILINE)
OPTION = re.compile(r'^    Option\{"([^"]+)".*?"((?:\\.|[^"\\])*)"\},$', re.MULTILINE | re.DOTALL)
# One text may be several literals in a row. Characters and comments are matched only to skip them.
STRING = re.compile(r"""'(?:\\.|[^'\\\n])'|//[^\n]*|R"([^(\s]*)\(.*?\)\1"|((?:"(?:\\.|[^"\\\n])*"\s*)+)""", re.DOTALL)
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
NAME_WORD = re.compile(r"[A-Z][a-z0-9]*|[0-9]+|[A-Z]+(?![a-z])")


def docstring_of(node):
    """The constant that is the docstring of a module, class or function, or None."""
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or not node.body:
        return None
    value = getattr(node.body[0], "value", None)
    is_text = isinstance(node.body[0], ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    return value if is_text else None


def python_prose_of(file):
    """(number, text) of the comments of a Python file, and of the lines of its docstrings."""
    with tokenize.open(file) as opened:
        prose = [
            (token.start[0], token.string.lstrip("# "))
            for token in tokenize.generate_tokens(opened.readline)
            if token.type == tokenize.COMMENT and not token.string.startswith("#!")
        ]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if text := docstring_of(node):
            prose += [(text.lineno + below, line.strip()) for below, line in enumerate(text.value.splitlines())]
    return sorted(prose)


def python_messages_of(file):
    """(number, text) of the strings of a Python file that hold a space, without docstrings. {}: an f-string value."""
    nodes = list(ast.walk(ast.parse(file.read_bytes())))
    skipped = {id(docstring_of(node)) for node in nodes}
    skipped |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            message = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            message = node.value
        else:
            continue
        if " " in message.strip():
            yield node.lineno, message


def is_script(file):
    return file.suffix in SCRIPTS or file.name == "CMakeLists.txt"


def prose_of(file):
    """(number, text) of the lines of a file that hold prose: comments, docstrings, and pages without their code."""
    if file.suffix == ".py":
        return python_prose_of(file)
    return list(prose_in(file, file.read_text(encoding="utf-8", errors="replace")))


def prose_in(file, content):
    """The same for the content of a file that is not Python. Only the name of `file` is read."""
    comment = SCRIPT_COMMENT if is_script(file) else COMMENT
    fenced = False
    for number, line in enumerate(content.splitlines(), 1):
        if file.suffix == ".md":
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced:
                yield number, line
        elif match := comment.search(line):
            yield number, match[1]


def messages_of(file):
    """(number, text) of the strings of a source that hold a space, because a user may read them. No raw strings."""
    if file.suffix == ".py":
        yield from python_messages_of(file)
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    for match in STRING.finditer(text):
        if not match[2] or text[text.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip().startswith("#include"):
            continue
        message = "".join(LITERAL.findall(match[2])).replace("\\n", "\n").replace('\\"', '"')
        if " " in message.strip():
            yield text.count("\n", 0, match.start()) + 1, message


def tics_in(texts):
    return [(number, match[0], text) for number, text in texts for tic in TICS for match in tic.finditer(text)]


def has_messages(file):
    folders = file.resolve().parts
    return file.suffix in SOURCES or (file.suffix == ".py" and PACKAGE in zip(folders, folders[1:]))


def tics_of(file):
    return tics_in(prose_of(file)) + (tics_in(messages_of(file)) if has_messages(file) else [])


def words_in(texts):
    return sum(len(WORD.findall(text)) for _, text in texts)


def rate_of(name, files, read, faults, figures):
    """Adds the figure of some files, and a fault if they have too many tics."""
    words = sum(words_in(read(file)) for file in files)
    rate = 1000 * sum(len(tics_in(read(file))) for file in files) / max(words, 1)
    figures.append(f"{name}: {rate:.1f} tics in 1,000 words ({words:,} words)")
    if rate > MOST:
        faults.append(
            f"{name}: tics: {rate:.1f} in 1,000 words, and {MOST} is the most: tools/check_words.py --list FILE..."
        )


def paths_of(root):
    """The paths, relative to root, of the files that git knows."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.splitlines()]


def narrow_files_of(root):
    """The files with a limit for the width of all their lines."""
    return [
        root / path
        for path in paths_of(root)
        if path.suffix in NARROW or path.name in NARROW_NAMES or path.name.endswith(".cmake.in")
    ]


def files_of(root):
    """{room, other top folder, "root" or "pages": files}, of the files that git knows."""
    found = {}
    for path in paths_of(root):
        if path.suffix == ".md" and path.name != "CHANGELOG.md":
            found.setdefault("pages", []).append(root / path)
        elif path.suffix in SOURCES and path.parts[0] in TREES:
            found.setdefault("/".join(path.parts[:2]), []).append(root / path)
        elif path.parts[0] == "tests" and path.suffix == ".toml":
            continue  # an input of tests
        elif path.suffix == ".py" or is_script(path) or (path.parts[0] == "tests" and path.suffix in SOURCES):
            found.setdefault(path.parts[0] if len(path.parts) > 1 else "root", []).append(root / path)
    return {room: [file for file in files if file.is_file()] for room, files in found.items()}


def too_wide(file, root):
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return [
        f"{file.relative_to(root)}:{number}: width: {len(line)} columns"
        for number, line in enumerate(lines, 1)
        if len(line) > WIDTH and (file.suffix != ".md" or number in prose_lines(file))
    ]


def prose_lines(file):
    """The numbers of a page's lines that are paragraphs or list items: no tables, no code, no pictures."""
    return {number for number, text in prose_of(file) if not re.match(r"\s*[|#<!\[]", text)}


def long_helps(root):
    """The keys whose help text is too long, as lines to print."""
    file = root / OPTION_TABLE
    rows = OPTION.findall(file.read_text(encoding="utf-8")) if file.is_file() else []
    return [f"{OPTION_TABLE}: help: {key} has {len(text)} characters" for key, text in rows if len(text) > WIDTH]


def test_names_of(file):
    """(name, number of its words) of each test in a file of C++ or Python."""
    text = file.read_text(encoding="utf-8")
    if file.suffix in SOURCES:
        return [(f"{suite}.{name}", len(NAME_WORD.findall(name))) for suite, name in TEST.findall(text)]
    if file.suffix == ".py":
        return [(name, name.count("_")) for name in PYTHON_TEST.findall(text)]
    return []


def long_names(files, root):
    """The tests whose names have too many words, as lines to print."""
    return [
        f"{file.relative_to(root)}: test: {name} has more than {MOST_NAME_WORDS} words"
        for file in files
        for name, words in test_names_of(file)
        if words > MOST_NAME_WORDS
    ]


def check(root):
    """(faults, figures), both as lines to print."""
    root = Path(root).resolve()
    faults, figures, sources = [], [], []
    for room, files in sorted(files_of(root).items()):
        rate_of(room, files, prose_of, faults, figures)
        if room == "tests":
            faults += long_names(files, root)
        if room.split("/")[0] in TREES:
            sources += files
        if room == "pages":
            faults += [fault for file in files for fault in too_wide(file, root)]
        if room == "python":
            rate_of("messages of python", [file for file in files if has_messages(file)], messages_of, faults, figures)
    rate_of("messages", sources, messages_of, faults, figures)
    faults += [fault for file in narrow_files_of(root) if file.is_file() for fault in too_wide(file, root)]
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
