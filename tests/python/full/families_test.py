#!/usr/bin/env python3
"""Ten families of transformers at stages 0 to 3, with states on device, host and disk, on one, two and four ranks:
losses are those of plain PyTorch, and all ways have equal bits. ../training_test.py tries every pair of family, stage
and tier."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
import training_test

TIERS = ["min", "host", "disk"]


def pairs(kinds: list[str]) -> dict[str, Any]:
    """Two stages and tiers for each family, so that every family, stage and tier occurs in this world."""
    found: dict[str, Any] = {}
    for number, kind in enumerate(kinds):
        found |= training_test.train([kind], [number % 3, 3], TIERS[number % 3 :] + TIERS[: number % 3], True, True)
    return found


@ranks.needs("transformers")
class Families(ranks.PackageTest):
    def test_every_family_on_every_tier(self) -> None:
        from small_models import FAMILIES, MORE_FAMILIES

        kinds = FAMILIES + MORE_FAMILIES
        results = ranks.run(training_test.train, kinds=kinds, stages=[0, 1, 2, 3], tiers=TIERS, compares=True)
        self.assertEqual(len(results[0]), 12 * len(kinds))
        training_test.check(self, results, 2e-6)

    def test_every_family_in_other_worlds(self) -> None:
        from small_models import FAMILIES, MORE_FAMILIES

        kinds = FAMILIES + MORE_FAMILIES
        for world in (1, 4):
            with self.subTest(world=world):
                results = ranks.run(pairs, ranks=world, kinds=kinds)
                self.assertEqual(len(results[0]), 2 * len(kinds))
                training_test.check(self, results, 2e-6)

    @ranks.needs("peft")
    def test_adapters_on_every_tier(self) -> None:
        results = ranks.run(
            training_test.train,
            kinds=["adapters", "quantized"],
            stages=[0, 1, 2, 3],
            tiers=TIERS,
            compares=True,
        )
        training_test.check(self, results, 2e-6)


if __name__ == "__main__":
    unittest.main()
