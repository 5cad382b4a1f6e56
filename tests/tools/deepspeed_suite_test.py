#!/usr/bin/env python3
"""tools/peers/deepspeed_suite.py: its list names tests by pattern, and it counts tests instead of cases."""

import argparse
import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/peers"))
import deepspeed_suite as suite  # noqa: E402


def row(case, outcome, reached=True):
    return {"case": case, "outcome": outcome, "text": "why", "reached": reached}


def printed(rows, differs):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = suite.report(rows, {"differs": differs}, verbose=False)
    return status, output.getvalue()


class List(unittest.TestCase):
    def test_brackets_are_plain_text(self):
        self.assertEqual(suite.reason_of("a.py::test[fp16-2]", {"*::test[fp16*": "why"}), "why")
        self.assertIsNone(suite.reason_of("a.py::testf", {"*::test[fp16*": "why"}))

    def test_each_row_has_a_reason(self):
        listed = suite.read_list(suite.TOOLS / "deepspeed_suite.toml")
        self.assertEqual(listed.keys(), {"files", "internal", "fp32", "differs"})
        for table in ("internal", "fp32", "differs"):
            for pattern, reason in listed[table].items():
                self.assertTrue(len(reason) > 5 and ("::" in pattern or "unit/" in pattern), pattern)
        self.assertFalse(listed["internal"].keys() & listed["differs"].keys())


class Counts(unittest.TestCase):
    def test_one_failed_case_fails_the_test(self):
        status, text = printed([row("a.py::t[1]", "passed"), row("a.py::t[2]", "failed"), row("a.py::u", "passed")], {})
        self.assertEqual(status, 1)
        self.assertIn("1 of 2 tests pass; cases: 2 passed, 1 failed, 0 skipped", text)

    def test_listed_failures_are_explained(self):
        status, text = printed([row("a.py::t[1]", "failed")], {"*::t": "rates differ"})
        self.assertEqual(status, 0)
        self.assertIn("rates differ", text)

    def test_other_tests_do_not_count(self):
        _, text = printed([row("a.py::t", "passed", reached=False), row("a.py::u", "passed")], {})
        self.assertIn("1 of 1 tests pass", text)

    def test_skipped_cases_leave_a_test_passed(self):
        rows = [row("a.py::t[1]", "passed"), row("a.py::t[2]", "skipped")]
        self.assertEqual((suite.verdict(rows), suite.verdict(rows[1:])), ("passed", "skipped"))


class Runs(unittest.TestCase):
    def test_all_expressions_choose_together(self):
        arguments = argparse.Namespace(cases=1, limit=9, ranks=1, theirs=False, files=["x.py"], k=["fp16 or bf16", "2"])
        listed = {"internal": {}, "fp32": {}}
        with tempfile.TemporaryDirectory() as folder, mock.patch("subprocess.run") as run:
            run.return_value.returncode = 4
            with self.assertRaises(SystemExit):
                suite.run_all(Path(folder), arguments, Path(folder), listed)
        command = run.call_args.args[0]
        self.assertEqual([command[i + 1] for i, word in enumerate(command) if word == "-k"], ["(fp16 or bf16) and (2)"])

    def test_a_run_without_results_fails(self):
        arguments = argparse.Namespace(cases=1, limit=9, ranks=1, theirs=False, files=["test_none.py"], k=[])
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "tests").mkdir()
            Path(folder, "tests/test_none.py").write_text("")
            with self.assertRaisesRegex(SystemExit, "pytest ended with"):
                suite.run_all(Path(folder), arguments, Path(folder), {"internal": {}, "fp32": {}})


if __name__ == "__main__":
    unittest.main()
