#!/usr/bin/env python3
"""Seven families of transformers at stages 0 to 3, with states on device, host and disk, on two ranks: losses are those
of plain PyTorch, and all ways have equal bits. ../training_test.py tries every pair of family, stage and tier."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
import training_test


@ranks.needs("transformers")
class Families(ranks.PackageTest):
    def test_every_family_on_every_tier(self) -> None:
        from small_models import FAMILIES

        for kind in FAMILIES:
            with self.subTest(kind):
                results = ranks.run(
                    training_test.train, kinds=[kind], stages=[0, 1, 2, 3], tiers=["min", "host", "disk"], compares=True
                )
                self.assertEqual(len(results[0]), 12)
                training_test.check(self, results, 2e-6)

    @ranks.needs("peft")
    def test_adapters_on_every_tier(self) -> None:
        results = ranks.run(
            training_test.train,
            kinds=["adapters", "quantized"],
            stages=[0, 1, 2, 3],
            tiers=["min", "host", "disk"],
            compares=True,
        )
        training_test.check(self, results, 2e-6)


if __name__ == "__main__":
    unittest.main()
