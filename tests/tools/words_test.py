#!/usr/bin/env python3
"""Tests of tools/check_words.py, on small trees made for each test. Names are claims, as in the C++ tests."""

import subprocess
import unittest

from tools_test import TreeTest

import check_words  # noqa: E402  (tools_test has its folder on the path)


class CheckWords(TreeTest):
    def faults(self):
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        subprocess.run(["git", "add", "-A"], cwd=self.root, check=True)
        return check_words.check(self.root)[0]

    def test_plain_comments_are_clean(self):
        self.write("zero/plan/unit.h", "// Unit: parameters that are gathered together.\nstruct Unit {};\n")
        self.assertEqual(self.faults(), [])

    def test_a_room_with_tics_is_named(self):
        self.write("zero/plan/unit.h", "// Unit: what is gathered, where it lies alone, too.\n")
        (fault,) = self.faults()
        self.assertTrue(fault.startswith("zero/plan: tics: "), fault)

    def test_code_in_pages_does_not_count(self):
        self.write("README.md", "# Units\n\n```\nwhat is gathered lies alone, too\n```\n")
        self.assertEqual(self.faults(), [])

    def test_tics_in_split_messages_are_named(self):
        self.write("zero/plan/unit.cpp", 'throw Error("the unit is "\n            "alone on this rank");\n')
        (fault,) = self.faults()
        self.assertTrue(fault.startswith("messages: tics: "), fault)

    def test_other_strings_are_no_messages(self):
        self.write(
            "zero/plan/unit.cpp",
            '#include "so that.h"\nconst char* name = "alone";\nconst char quote = \'"\';  // it\'s\n'
            'const char* code = R"(where it lies alone, too)";\n',
        )
        self.write("tests/plan/unit_test.cpp", 'const char* text = "what is gathered lies alone, too";\n')
        self.assertEqual(self.faults(), [])

    def test_comments_and_docstrings_of_python_count(self):
        for text in (
            "# what is gathered lies alone\n",
            '"""Gathers.\n\nWhere it lies, so that it stands.\n"""\n',
            "def gather():\n    'Of a unit, alone.'\n",
            "unit = 1  # of one rank alone\n",
        ):
            with self.subTest(text):
                self.write("tools/unit.py", "#!/usr/bin/env python3\n" + text)
                (fault,) = self.faults()
                self.assertTrue(fault.startswith("tools: tics: "), fault)

    def test_strings_in_python_are_messages(self):
        text = 'def refuse(name):\n    """Refuses."""\n    raise ValueError(f"{name} lies "\n        "alone, too")\n'
        self.write("tools/unit.py", text)
        self.assertEqual(self.faults(), [])
        for folder in ("python/zerocpp", "python/zerocpp/deepspeed"):
            with self.subTest(folder):
                self.write(f"{folder}/unit.py", text)
                (fault,) = self.faults()
                self.assertTrue(fault.startswith("messages of python: tics: "), fault)
                self.assertEqual(
                    [tic for _, tic, _ in check_words.tics_of(self.root / folder / "unit.py")],
                    ["alone", ", too", "lies"],
                )
                (self.root / folder / "unit.py").unlink()

    def test_comments_of_scripts_count(self):
        for path in ("cmake/rooms.cmake", "examples/run.toml", "tools/run.sh", "quickstart.sh", "CMakeLists.txt"):
            with self.subTest(path):
                self.write(path, "#!/bin/alone\nunits=1  # what is gathered lies alone\n")
                (fault,) = self.faults()
                self.assertTrue(fault.startswith(f"{path.split('/')[0] if '/' in path else 'root'}: tics: "), fault)
                (self.root / path).unlink()

    def test_comments_count_and_inputs_do_not(self):
        self.write("tests/fuzz/seeds/config.toml", "# what is gathered lies alone\n")
        self.assertEqual(self.faults(), [])
        for path in ("tests/plan/unit_test.cpp", "tests/tools/unit_test.py"):
            with self.subTest(path):
                self.write(path, f"{'#' if path.endswith('.py') else '//'} what is gathered lies alone\n")
                (fault,) = self.faults()
                self.assertTrue(fault.startswith("tests: tics: "), fault)
                (self.root / path).unlink()

    def test_a_wide_line_is_named(self):
        self.write("zero/plan/unit.h", "struct Unit {};  // " + "word " * 30 + "\n")
        (fault,) = self.faults()
        self.assertTrue(fault.startswith("zero/plan/unit.h:1: width: "), fault)

    def test_wide_lines_are_named(self):
        for path in (
            "python/zerocpp/unit.py",
            "python/zerocpp/unit.pyi",
            "tools/unit.sh",
            "test.sh",
            "cmake/unit.cmake",
            "cmake/unit.cmake.in",
            "CMakeLists.txt",
            "Containerfile",
            ".clang-tidy",
        ):
            with self.subTest(path):
                self.write(path, "unit=1\nunit=2  # " + "word " * 30 + "\n")
                (fault,) = self.faults()
                self.assertTrue(fault.startswith(f"{path}:2: width: "), fault)
                (self.root / path).unlink()
        for path in ("tests/plan/unit_test.cpp", "benchmarks/unit.cpp", "python/extension/unit.h", "tests/unit.cu"):
            with self.subTest(path):
                self.write(path, "// " + "word " * 30 + "\n")
                (fault,) = self.faults()
                self.assertTrue(fault.startswith(f"{path}:1: width: "), fault)
                (self.root / path).unlink()

    def test_columns_are_characters(self):
        self.write("tools/unit.py", f'unit = "{"ä" * 111}"\n')
        self.assertEqual(self.faults(), [])
        self.write("tools/unit.py", f'unit = "{"ä" * 112}"\n')
        (fault,) = self.faults()
        self.assertEqual(fault, "tools/unit.py:1: width: 121 columns")

    def test_data_may_have_wide_lines(self):
        for path in ("tests/data/encoded.json", "tests/fuzz/seeds/config/keys.toml", "docs/steps.svg"):
            self.write(path, "word " * 30 + "\n")
        self.assertEqual(self.faults(), [])

    def test_wide_rows_of_tables_are_allowed(self):
        self.write("README.md", "# Units\n\n| unit | " + "word " * 30 + "|\n")
        self.assertEqual(self.faults(), [])

    def test_long_names_of_tests_are_named(self):
        self.write(
            "tests/plan/unit_test.cpp",
            "TEST(Unit, HasNoMoreThanSixWordsInItsName) {}\nTEST(Unit, HasSixWordsInItsName) {}\n",
        )
        self.write(
            "tests/python/unit_test.py",
            "class Unit:\n    def test_it_has_seven_words_in_its_name(self): pass\n"
            "    def test_it_has_six_words_in_total(self): pass\n",
        )
        cpp, python = sorted(self.faults())
        self.assertIn("Unit.HasNoMoreThanSixWordsInItsName", cpp)
        self.assertIn("test_it_has_seven_words_in_its_name", python)

    def test_a_long_help_text_is_named(self):
        row = '    Option{{"train.{}", at<&C::x>, kAny, kFree,\n           "{}"}},\n'
        self.write(
            "app/config/options/option_table.cpp",
            row.format("steps", "steps of the run") + row.format("clip", "word " * 30),
        )
        self.assertTrue(any("help: train.clip has 150 characters" in fault for fault in self.faults()), self.faults())
        self.assertFalse(any("train.steps" in fault for fault in self.faults()))


if __name__ == "__main__":
    unittest.main()
