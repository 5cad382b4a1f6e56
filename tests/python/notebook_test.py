#!/usr/bin/env python3
"""Cells of a notebook that run again, in one process."""

from __future__ import annotations

import os
import sys
import types
import unittest
from typing import Any

import ranks
from plain_torch import mlp, refusal, squares

MODEL = "model = mlp()"
ATTACH = "engine = zero.attach(model, stage=3, device_memory='min')"
TRAIN = "squares(model, 0, 0).backward(); engine.step()"
FAIL = "with zero.attach(model, stage=3) as engine:\n    raise KeyboardInterrupt"


def cells() -> dict[str, Any]:
    import zerocpp as zero

    names = {"zero": zero, "mlp": mlp, "squares": squares}

    def run(*texts: str) -> None:
        for text in texts:
            exec(text, names)

    found: dict[str, Any] = {}
    run(MODEL, ATTACH, TRAIN, TRAIN)
    found["again"] = refusal(lambda: run(ATTACH))
    run("zero.engine_of(model).close()", ATTACH, TRAIN)
    run(MODEL, ATTACH, TRAIN, MODEL, ATTACH, TRAIN)
    run("engine.close()")
    found["closed"] = refusal(lambda: run(TRAIN))
    run(ATTACH, TRAIN, "engine.close()")
    try:
        run(FAIL)
    except KeyboardInterrupt:
        found["interrupted"] = refusal(lambda: run(ATTACH))
    run(MODEL, ATTACH, TRAIN)
    run("del model, engine", MODEL, ATTACH, TRAIN)
    return found


def ranks_in_a_notebook() -> str:
    """The error of a rank in a notebook: a process of a notebook that has the variables of a rank."""
    import zerocpp as zero

    shell = types.SimpleNamespace(kernel=object())
    sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)  # type: ignore[assignment]
    os.environ.update(RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    text = refusal(zero.world)
    os.environ.pop("WORLD_SIZE"), os.environ.pop("RANK")
    assert zero.world().size == 1
    return text


class Notebook(ranks.PackageTest):
    def test_cells_run_again(self) -> None:
        found = ranks.run(cells, ranks=1)[0]
        self.assertRegex(found["again"], r"(?s)attached already\n  .*zero\.engine_of\(model\)\.close\(\)")
        self.assertIn("ended", found["closed"])
        self.assertRegex(found["interrupted"], "(?s)no values.*\n  .*construct the model again")

    def test_several_ranks_are_refused(self) -> None:
        text = ranks.run(ranks_in_a_notebook, ranks=1)[0]
        self.assertRegex(text, "(?s)2 ranks.*notebook.*\n  .*zero launch")


if __name__ == "__main__":
    unittest.main()
