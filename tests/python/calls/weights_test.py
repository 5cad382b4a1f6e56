#!/usr/bin/env python3
"""load_state_dict() and the files of weights: a wrong value is refused before a tensor changes."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
from plain_torch import mlp, refusal


def other_shapes() -> dict[str, Any]:
    """A value that torch could broadcast, after values that fit."""
    import torch
    import zerocpp as zero

    model = mlp()
    with zero.attach(model, stage=3) as engine:
        before = engine.state_dict()
        values = {name: torch.full_like(value, 7.0) for name, value in before.items()}
        values["3.bias"] = torch.tensor([7.0])
        texts = [refusal(lambda: engine.load_state_dict(values, strict=strict)) for strict in (True, False)]
        after = engine.state_dict()
    return {"texts": texts, "unchanged": all(torch.equal(before[name], value) for name, value in after.items())}


class Weights(ranks.CallsTest):
    calls = [other_shapes]

    def test_values_of_other_shapes_are_refused(self) -> None:
        for found in self.of(other_shapes):
            for text in found["texts"]:
                self.assertRegex(text, r"load_state_dict = 3.bias: .*\(1,\).*\(16,\)")
            self.assertTrue(found["unchanged"])


if __name__ == "__main__":
    unittest.main()
