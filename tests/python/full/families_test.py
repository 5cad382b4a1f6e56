#!/usr/bin/env python3
"""Ten families of transformers at stages 0 to 3, with states on device, host and disk, on one, two and four ranks.
Losses are those of plain PyTorch, and all ways have equal bits. Two ranks try every combination; other worlds try every
two of family, stage and tier, as ../training_test.py does."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
import training_test

TIERS = ["min", "host", "disk"]


@ranks.needs("transformers")
class Families(ranks.PackageTest):
    def check_pairs(self, world: int, kinds: list[str], compares: bool = True) -> None:
        with self.subTest(world=world, kinds=kinds):
            results = ranks.run(
                training_test.train,
                ranks=world,
                kinds=kinds,
                stages=[0, 1, 2, 3],
                tiers=list(training_test.TIERS),
                compares=compares,
                pairwise=True,
            )
            self.assertEqual(len(results[0]), 4 * len(kinds))
            training_test.check(self, results, 2e-6)

    def test_every_family_on_every_tier(self) -> None:
        from small_models import FAMILIES, MORE_FAMILIES

        kinds = FAMILIES + MORE_FAMILIES
        results = ranks.run(training_test.train, kinds=kinds, stages=[0, 1, 2, 3], tiers=TIERS, compares=True)
        self.assertEqual(len(results[0]), 12 * len(kinds))
        training_test.check(self, results, 2e-6)

    def test_every_family_in_other_worlds(self) -> None:
        from small_models import FAMILIES, MORE_FAMILIES

        for world in (1, 4):
            self.check_pairs(world, FAMILIES + MORE_FAMILIES)

    # Without torch's losses, because ranks have statistics of their own samples.
    def test_mixed_layers_on_four_ranks(self) -> None:
        self.check_pairs(4, ["mixed"], compares=False)

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

    @ranks.needs("peft")
    def test_adapters_in_other_worlds(self) -> None:
        for world in (1, 4):
            self.check_pairs(world, ["adapters", "quantized"])


if __name__ == "__main__":
    unittest.main()
