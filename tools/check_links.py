#!/usr/bin/env python3
"""Follows every relative link of the documents: the file must exist, and the heading if the link names one.

    tools/check_links.py [ROOT]

Prints each broken link with its file and line. Exit status: 0 all links are right, 1 some are broken.
"""

import re
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SKIPPED = {"build", "runs", ".git"}


def anchors(text):
    """The anchors of a document's headings, as GitHub and mkdocs make them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in HEADING.findall(text)}


# Apart from headers, the site has only these sources (tools/site.sh).
IN_THE_SITE = {"main.cpp", "verbs.cpp", "option_table.cpp"}


def check(root):
    root = Path(root).resolve()
    dead = []
    for file in sorted(root.rglob("*.md")):
        if file.relative_to(root).parts[0] in SKIPPED:
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            for link in LINK.findall(line):
                if "://" in link:
                    continue
                path, _, anchor = link.partition("#")
                target = (file.parent / path) if path else file
                where = f"{file.relative_to(root)}:{number}: {link}"
                if not target.exists():
                    dead.append(f"{where}: there is no such file")
                elif (
                    target.suffix == ".cpp"
                    and target.name not in IN_THE_SITE
                    and {"zero", "app", "plugins"} & set(Path(path).parts)
                ):
                    dead.append(f"{where}: the site has no such source: name it without a link")
                elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
                    dead.append(f"{where}: there is no such heading")
    return dead


def main(arguments):
    dead = check(arguments[0] if arguments else Path(__file__).resolve().parent.parent)
    for line in dead:
        print(line)
    print(f"{len(dead)} links are broken." if dead else "All links are right.")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
