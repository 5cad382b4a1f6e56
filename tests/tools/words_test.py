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

    def test_messages_with_tics_are_named_though_split_over_lines(self):
        self.write("zero/plan/unit.cpp", 'throw Error("the unit is "\n            "alone on this rank");\n')
        (fault,) = self.faults()
        self.assertTrue(fault.startswith("messages: tics: "), fault)

    def test_other_strings_are_no_messages(self):
        self.write("zero/plan/unit.cpp", "#include \"so that.h\"\nconst char* name = \"alone\";\nconst char quote = '\"';  // it's\n"
                                         "const char* code = R\"(where it lies alone, too)\";\n")
        self.write("tests/plan/unit_test.cpp", 'const char* text = "what is gathered lies alone, too";\n')
        self.assertEqual(self.faults(), [])

    def test_a_wide_line_is_named(self):
        self.write("zero/plan/unit.h", "struct Unit {};  // " + "word " * 30 + "\n")
        (fault,) = self.faults()
        self.assertTrue(fault.startswith("zero/plan/unit.h:1: width: "), fault)

    def test_a_wide_row_of_a_table_is_allowed(self):
        self.write("README.md", "# Units\n\n| unit | " + "word " * 30 + "|\n")
        self.assertEqual(self.faults(), [])

    def test_a_long_name_of_a_test_is_named(self):
        self.write("tests/plan/unit_test.cpp", "TEST(Unit, HasNoMoreThanSixWordsInItsName) {}\nTEST(Unit, HasSixWordsInItsName) {}\n")
        (fault,) = self.faults()
        self.assertIn("Unit.HasNoMoreThanSixWordsInItsName", fault)

    def test_a_long_help_text_is_named(self):
        row = '    Option{{"train.{}", at<&C::x>, kAny, kFree,\n           "{}"}},\n'
        self.write("app/config/options/option_table.cpp", row.format("steps", "steps of the run") + row.format("clip", "word " * 30))
        self.assertTrue(any("help: train.clip has 150 characters" in fault for fault in self.faults()), self.faults())
        self.assertFalse(any("train.steps" in fault for fault in self.faults()))


if __name__ == "__main__":
    unittest.main()
