#!/usr/bin/env python3
"""Runs the scripts that made the numbers of torch and transformers again, and compares them with the numbers in the C++
tests.

The Python of ZERO_TEST_PYTHON, or the one that runs this test, must have torch of the version that the numbers name.
For the models of transformers it must also have transformers.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.dont_write_bytecode = True

PYTHON = os.environ.get("ZERO_TEST_PYTHON") or sys.executable
VERSION = re.search(r"with torch (\d+(?:\.\d+)+)", (TESTS / "optim/torch_numbers.h").read_text())[1]
NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?"


def version_at_hand(module="torch"):
    said = subprocess.run(
        [PYTHON, "-c", f"import {module}; print({module}.__version__)"], capture_output=True, text=True
    )
    return said.stdout.strip().split("+")[0] if said.returncode == 0 else None


def printed(script, *arguments):
    ran = subprocess.run([PYTHON, "-B", str(TESTS / script), *map(str, arguments)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def lists(text):
    """Each list of numbers in braces, in order of appearance."""
    found = re.findall(r"\{\s*(" + NUMBER + r"(?:,\s*" + NUMBER + r")*)\s*\}", text)
    return [[float(x) for x in re.findall(NUMBER, numbers)] for numbers in found]


def named(text):
    """The lists of a header that one of the scripts wrote, by name."""
    return {name: lists(body)[0] for name, body in re.findall(r"(k\w+)(\{[^}]*\})", text)}


@unittest.skipIf(version_at_hand() != VERSION, f"{PYTHON} has no torch {VERSION}; ZERO_TEST_PYTHON may name another")
class NumbersOfTorch(unittest.TestCase):
    def expect_near(self, seen, committed, rounding, what):
        self.assertEqual(len(seen), len(committed), what)
        for i, (a, b) in enumerate(zip(seen, committed)):
            self.assertLessEqual(abs(a - b), rounding(b), f"{what}[{i}]: {a}, committed is {b}")

    def test_optimizers_take_the_committed_steps(self):
        seen, committed = (
            named(text) for text in (printed("optim/torch_numbers.py"), (TESTS / "optim/torch_numbers.h").read_text())
        )
        self.assertEqual(list(seen), list(committed))
        self.assertEqual(len(committed), 9)
        for name, numbers in committed.items():
            # Twenty steps, each wrong by half a unit in the last place. bf16 has 8 bits, and a step is 0.02 of a
            # direction.
            bf16 = name in ("kMuonWide", "kMuonTall")
            self.expect_near(seen[name], numbers, lambda _: 20 * 0.02 * 2**-7 if bf16 else 20 * 6e-8, name)

    def test_adafactor_takes_the_committed_steps(self):
        text = (TESTS / "optim/whole/adafactor_kernel_test.cpp").read_text()
        begin = text.index("printed by tests/optim/adafactor_numbers.py")
        committed = [
            numbers for numbers in lists(text[begin : text.index("for (const Case", begin)]) if len(numbers) > 3
        ]
        seen = lists(printed("optim/adafactor_numbers.py"))
        shapes = [15, 24, 5]
        self.assertEqual([len(numbers) for numbers in committed], shapes)
        self.assertEqual([len(numbers) for numbers in seen], shapes)
        for case, (a, b) in enumerate(zip(seen, committed)):
            self.expect_near(a, b, lambda _: 3e-7, f"case {case}")

    def test_the_grad_scaler_has_committed_values(self):
        seen, committed = (
            named(text)
            for text in (printed("torch/grad_scaler_numbers.py"), (TESTS / "torch/grad_scaler_numbers.h").read_text())
        )
        self.assertEqual(sorted(committed), ["kLosses", "kScaleExponents", "kSkipped"])
        self.assertEqual(len(committed["kLosses"]), 200)
        self.expect_near(seen["kLosses"], committed["kLosses"], lambda loss: 2e-3 * loss + 1e-4, "kLosses")
        for name in ("kScaleExponents", "kSkipped"):
            self.assertEqual(seen[name], committed[name], name)

    def test_another_number_is_noticed(self):
        committed = named((TESTS / "optim/torch_numbers.h").read_text())["kAdamW"]
        with self.assertRaises(AssertionError):
            self.expect_near([committed[0] + 1e-5, *committed[1:]], committed, lambda _: 20 * 6e-8, "kAdamW")


def tensors(folder):
    """Type, shape and bytes of each tensor in the files of a folder, by name: weights, tokens, logits."""
    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        data = file.read_bytes()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:begin]).items():
            if name != "__metadata__":
                first, last = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[begin + first : begin + last])
    return found


def floats(values):
    return struct.unpack(f"<{len(values) // 4}f", values)


@unittest.skipIf(
    version_at_hand("transformers") is None, f"{PYTHON} has no transformers; ZERO_TEST_PYTHON may name another"
)
class NumbersOfTransformers(unittest.TestCase):
    def test_committed_models_have_their_logits(self):
        committed = TESTS / "train/transformers"
        with tempfile.TemporaryDirectory() as folder:
            printed("train/transformers_numbers.py", "--again", folder)
            names = sorted(path.name for path in committed.iterdir())
            self.assertEqual(names, ["bert", "gpt2", "llama", "llama_tied"])
            for name in names:
                seen, kept = tensors(Path(folder) / name), tensors(committed / name)
                apart = [
                    abs(a - b)
                    for a, b in zip(floats(seen.pop("logits")[2]), floats(kept.pop("logits")[2]), strict=True)
                ]
                self.assertLessEqual(max(apart), 1e-5, name)  # other CPUs add in another order
                self.assertGreater(len(kept), 20, name)
                self.assertEqual(seen, kept, name)


if __name__ == "__main__":
    unittest.main()
