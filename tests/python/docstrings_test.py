#!/usr/bin/env python3
"""Each public function of the package has a docstring with the word Local or Collective.

Functions include methods and properties. Overload stubs and methods such as __enter__ need no docstring. A property may
have the word in the docstring of its class.
"""

from __future__ import annotations

import ast
import re
import unittest
from collections.abc import Iterator
from pathlib import Path

import ranks

PACKAGE = ranks.ROOT / "python/zerocpp"


def says_who_calls(*docstrings: str | None) -> bool:
    return any(re.search(r"\b(Local|Collective)\b", text or "") for text in docstrings)


def decorators(function: ast.FunctionDef) -> list[str]:
    return [ast.unparse(decorator) for decorator in function.decorator_list]


def functions(nodes: list[ast.stmt], path: str = "", around: str = "") -> Iterator[tuple[str, ast.FunctionDef, str]]:
    """Yields the full name of each public function, the function, and the docstring of its class."""
    for node in nodes:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node.body, f"{path}{node.name}.", ast.get_docstring(node) or "")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            if not any(re.search(r"\boverload$|\.setter$", name) for name in decorators(node)):
                yield path + node.name, node, around
        elif isinstance(node, (ast.If, ast.Try)):
            yield from functions([*node.body, *node.orelse], path, around)


def undocumented(text: str) -> tuple[int, list[str]]:
    """The number of public functions in this source, and those without a docstring or without the word."""
    count, found = 0, []
    for name, function, of_class in functions(ast.parse(text).body):
        count += 1
        own = ast.get_docstring(function)
        inherited = of_class if "property" in decorators(function) else None
        if not own or not says_who_calls(own, inherited):
            found.append(f"line {function.lineno}: {name}")
    return count, found


def undocumented_in_extension() -> dict[str, list[str]]:
    """The names that users see of the extension: all of them, and those without a docstring or without the word."""
    import zerocpp
    from zerocpp import _C

    shown = [name for name in zerocpp.__all__ if getattr(zerocpp, name) is getattr(_C, name, None)]
    seen: dict[str, tuple[str | None, ...]] = {}
    for name in [*shown, "Scope"]:
        value = getattr(_C, name)
        if not isinstance(value, type):
            seen[name] = (value.__doc__,)
        elif not issubclass(value, Exception):
            for member, kind in vars(value).items():
                if not member.startswith("_"):
                    of_class = [value.__doc__] if isinstance(kind, property) else []
                    seen[f"{name}.{member}"] = (getattr(value, member).__doc__, *of_class)
    wrong = [name for name, texts in seen.items() if not texts[0] or not says_who_calls(*texts)]
    return {"seen": sorted(seen), "wrong": wrong}


class Docstrings(ranks.PackageTest):
    def test_extension_says_local_or_collective(self) -> None:
        (found,) = ranks.run(undocumented_in_extension, ranks=1)
        self.assertLessEqual(
            {"World.size", "World.from_process_group", "Report.profile", "keep_memory"}, {*found["seen"]}
        )
        self.assertEqual(found["wrong"], [])


class Sources(unittest.TestCase):
    def test_functions_say_local_or_collective(self) -> None:
        total, wrong = 0, []
        for file in sorted(Path(PACKAGE).rglob("*.py")):
            count, found = undocumented(file.read_text())
            total += count
            wrong += [f"{file.relative_to(PACKAGE)}, {each}" for each in found]
        self.assertEqual(wrong, [])
        self.assertGreater(total, 200)

    def test_missing_words_are_found(self) -> None:
        text = (
            'def a(): pass\ndef b(): "Returns 1."\ndef c(): "Local."\ndef _d(): pass\n'
            "@overload\ndef e(): ...\n"
            'class F:\n  "Its values are Local."\n  @property\n  def g(self): "A value."\n  def h(self): "A value."\n'
        )
        self.assertEqual(undocumented(text), (5, ["line 1: a", "line 2: b", "line 11: F.h"]))


if __name__ == "__main__":
    unittest.main()
