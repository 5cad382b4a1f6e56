#!/usr/bin/env python3
"""Functions of the engine that read and write: export_pretrained(), iter_parameters(), mean(), the log."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import ranks

BYTES = 20_000  # of one part


def exported(
    kind: str, folder: str, tokenizer: str | None, stage: int, dtype: str | None, resized: bool = False
) -> dict[str, Any]:
    """Trains two steps, exports, and compares what transformers reads with the engine's weights.

    resized: the embedding is enlarged first, which makes the tables of encoder and decoder one module.
    """
    import torch
    import transformers
    import zerocpp as zero
    from small_models import VOCABULARY, batch, loss_of, make, part_of

    world = zero.world()
    model: Any = make(kind)
    if resized:
        model.resize_token_embeddings(VOCABULARY + 3)
        assert model.get_encoder().embed_tokens is model.get_decoder().embed_tokens
    with zero.attach(model, zero.AdamW(lr=1e-2), stage=stage, dtype=dtype) as engine:
        for step in range(2):
            loss_of(kind, model, part_of(batch(kind, step), world.rank, world.size)).backward()
            engine.step()
        engine.export_pretrained(folder, part_size=BYTES, tokenizer=tokenizer)
        wanted = engine.state_dict()
    if world.rank != 0:
        return {}
    again = getattr(transformers, type(model).__name__).from_pretrained(folder, dtype="auto")
    found = again.state_dict()
    return {
        "equal": all(torch.equal(found[name], wanted[name]) for name in wanted),
        "names": sorted(found) == sorted(wanted),
        "types": sorted({str(value.dtype) for value in found.values()}),
    }


def described_exports(folder: str) -> list[Any]:
    """The architectures and the type that config.json names, and those of the model's own configuration."""
    import transformers
    import zerocpp as zero

    found = []
    sizes: dict[str, Any] = dict(vocab_size=97, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    for full in (False, True):
        config = transformers.GPT2Config(**sizes, num_labels=3, architectures=["GPT2LMHeadModel"], dtype="float16")
        model = transformers.GPT2ForSequenceClassification(config)
        with zero.attach(model, stage=3, dtype="bf16") as engine:
            engine.export_pretrained(folder, full_precision=full)
            engine.world.barrier()
        written = json.loads(Path(folder, "config.json").read_text())
        own = model.config
        found.append([written["architectures"], written["dtype"], own.architectures, str(own.dtype)])
    return found


def failing_exports(folder: str) -> dict[str, Any]:
    """An export whose generation_config is wrong, after one with a complex buffer and an int8 parameter."""
    import safetensors.torch
    import torch
    import zerocpp as zero
    from small_models import make

    model: Any = make("gpt2")
    waves = torch.polar(torch.ones(3), torch.arange(3.0))
    model.register_buffer("waves", waves.conj())
    model.register_parameter("codes", torch.nn.Parameter(torch.arange(4, dtype=torch.int8), requires_grad=False))
    with zero.attach(model, stage=3) as engine:
        engine.export_pretrained(folder)
        before = safetensors.torch.load_file(f"{folder}/model.safetensors")
        with torch.no_grad():
            model.lm_head.weight.zero_()
        model.generation_config.do_sample, model.generation_config.temperature = False, 0.5
        try:
            engine.export_pretrained(folder)
            text = "not refused"
        except (ValueError, zero.IoError) as error:
            text = f"{type(error).__name__}: {error}"
        engine.world.barrier()
        after = safetensors.torch.load_file(f"{folder}/model.safetensors")
    return {
        "text": text,
        "unchanged": all(torch.equal(before[name], value) for name, value in after.items()),
        "complex": torch.equal(before["waves"], waves.conj().resolve_conj()),
        "codes": before["codes"].tolist() == [0, 1, 2, 3],
        "hidden": [path.name for path in Path(folder).iterdir() if path.name.startswith(".")],
    }


def bad_exports(folder: str) -> list[str]:
    import torch
    import zerocpp as zero
    from small_models import make

    found = []

    def attempt(engine: Any, *arguments: Any, **named: Any) -> None:
        try:
            engine.export_pretrained(*arguments, **named)
            found.append("not refused")
        except zero.Error as error:
            found.append(f"{type(error).__name__}: {error}")

    with zero.attach(torch.nn.Linear(2, 2)) as engine:
        attempt(engine, folder)
    model = make("gpt2")
    with zero.attach(model) as engine:
        attempt(engine, folder, tokenizer="/nonexistent")
        attempt(engine, folder, part_size="many")
        attempt(engine, folder, part_size=0)
        attempt(engine, "/proc/none")  # cannot be created
        model(torch.zeros(1, 4, dtype=torch.long)).logits.mean().backward()  # the engine still works
        engine.step()
    return found


def iterated(full_precision: bool) -> dict[str, Any]:
    import torch
    import zerocpp as zero
    from small_models import make

    model = make("mixed")
    engine = zero.attach(model, stage=3, dtype="bf16")
    sizes, names = [], []
    wanted = engine.state_dict(full_precision=full_precision)
    equal = True
    kept = []
    for name, value in engine.iter_parameters(full_precision):
        names.append(name)
        sizes.append(str(value.dtype))
        equal = equal and torch.equal(value, wanted[name])
        kept.append((value, value.clone()))
    same = all(torch.equal(a, b) for a, b in kept)  # the values stay valid
    for _ in engine.iter_parameters():
        break  # on all ranks
    norms: dict[str, float] = {}
    loss = model(torch.zeros(1, 4, dtype=torch.long)).float().square().mean()
    loss.backward()
    norms = engine.grad_norms()
    norm = engine.step().grad_norm
    found = zero.engine_of(model) is engine
    engine.close()
    return {
        "equal": equal,
        "same": same,
        "sorted": names == sorted(names),
        "all": len(names) == len(list(model.parameters())),
        "types": sorted(set(sizes)),
        "norm": abs(sum(v * v for v in norms.values()) ** 0.5 - norm) < 1e-5 * norm,
        "engine_of": found,
    }


def means() -> list[float]:
    import torch
    import zerocpp as zero

    rank = zero.world().rank
    return [zero.mean(rank + 0.5), zero.mean(torch.tensor(0.1 * (rank + 1))), zero.mean(float("nan") if rank else 1.0)]


def logs(level: str, handler: bool) -> dict[str, Any]:
    import logging

    import torch
    import zerocpp as zero

    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger = logging.getLogger("zerocpp")
    if handler:
        logger.addHandler(Keep())
        logger.propagate = False
    logger.setLevel(level)
    model = torch.nn.Linear(2, 2)
    with zero.attach(model, zero.AdamW(), max_skipped_steps=3) as engine:
        model(torch.full((1, 2), float("inf"))).sum().backward()
        report = engine.step()
    return {"skipped": report.skipped, "lines": [[r.name, r.levelname, r.getMessage()] for r in records]}


class Exports(ranks.PackageTest):
    def setUp(self) -> None:
        if importlib.util.find_spec("transformers") is None:
            self.skipTest("this Python has no transformers")

    def test_transformers_reads_them(self) -> None:
        for kind, stage, dtype in (("gpt2", 3, None), ("llama", 3, "bf16"), ("t5", 2, None), ("vit", 3, None)):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                tokenizer = Path(folder, "tokenizer")
                tokenizer.mkdir()
                (tokenizer / "tokenizer.json").write_text('{"a": 1}')
                (tokenizer / "other.bin").write_text("x")
                out = Path(folder, "out")
                out.mkdir()
                (out / "model-00001-of-00099.safetensors").write_text("of an earlier export")
                found = ranks.run(
                    exported, kind=kind, folder=str(out), tokenizer=str(tokenizer), stage=stage, dtype=dtype
                )[0]
                self.assertTrue(found["equal"], kind)
                self.assertTrue(found["names"], kind)
                self.assertEqual(found["types"], ["torch.bfloat16" if dtype else "torch.float32"])
                self.assertEqual((out / "tokenizer.json").read_text(), '{"a": 1}')
                self.assertFalse((out / "other.bin").exists())
                parts = sorted(out.glob("*.safetensors"))
                index = json.loads((out / "model.safetensors.index.json").read_text())
                self.assertEqual({part.name for part in parts}, set(index["weight_map"].values()))
                self.assertGreater(len(parts), 1)
                self.assertEqual([path.name for path in out.iterdir() if path.name.startswith(".")], [])

    def test_shared_modules_are_exported_once(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = ranks.run(exported, kind="t5", folder=folder, tokenizer=None, stage=3, dtype=None, resized=True)[0]
            self.assertEqual([found["equal"], found["names"]], [True, True])
            index = json.loads(Path(folder, "model.safetensors.index.json").read_text())
            self.assertEqual([name for name in index["weight_map"] if "embed_tokens" in name], [])

    def test_configuration_describes_the_written_model(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for found in ranks.run(described_exports, folder=folder):
                for (architectures, dtype, *own), wanted in zip(found, ("bfloat16", "float32"), strict=True):
                    self.assertEqual([architectures, dtype], [["GPT2ForSequenceClassification"], wanted])
                    self.assertEqual(own, [["GPT2LMHeadModel"], "torch.float16"])

    def test_any_failure_reaches_all_ranks(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for rank, found in enumerate(ranks.run(failing_exports, folder=folder)):
                self.assertRegex(found["text"], "^ValueError: " if rank == 0 else "^IoError: .*rank 0.*: ValueError: ")
                self.assertEqual([found[name] for name in ("unchanged", "complex", "codes")], [True] * 3)
                self.assertEqual(found["hidden"], [])

    def test_all_ranks_refuse_bad_exports(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for found in ranks.run(bad_exports, folder=folder):
                for wanted, text in zip(
                    (
                        "ConfigError: export_pretrained = Linear: the model has no config of transformers",
                        "ConfigError: tokenizer = /nonexistent: no such folder",
                        "ConfigError: part_size = many",
                        "ConfigError: part_size = 0",
                        "IoError: export_pretrained = /proc/none: rank 0 cannot write",
                    ),
                    found,
                    strict=True,
                ):
                    self.assertIn(wanted, text)


class Reading(ranks.PackageTest):
    def test_parameters_come_unit_by_unit(self) -> None:
        for full, types in ((True, ["torch.float32"]), (False, ["torch.bfloat16", "torch.float32"])):
            for found in ranks.run(iterated, full_precision=full):
                self.assertEqual(found.pop("types"), types)
                self.assertEqual([name for name, true in found.items() if not true], [])

    def test_means_have_equal_bits(self) -> None:
        for of_rank in ranks.run(means, ranks=3):
            self.assertEqual(of_rank[:1], [1.5])
            self.assertAlmostEqual(of_rank[1], 0.2, places=7)
            self.assertNotEqual(of_rank[2], of_rank[2])


class Log(ranks.PackageTest):
    def test_lines_reach_the_logger(self) -> None:
        how = ranks.ended(logs, ranks=1, level="INFO", handler=True)
        self.assertEqual(how.status, 0, how.output)
        lines = how.results[0]["lines"]
        self.assertTrue(any("a step is skipped" in text for _, _, text in lines), lines)
        self.assertEqual({name for name, _, _ in lines}, {"zerocpp"})
        self.assertIn("WARNING", {level for _, level, _ in lines})
        self.assertNotIn("a step is skipped", how.output)

    def test_level_of_the_logger_counts(self) -> None:
        how = ranks.ended(logs, ranks=1, level="ERROR", handler=True)
        self.assertEqual(how.status, 0, how.output)
        self.assertEqual(how.results[0]["lines"], [])

    # Python's last resort writes warnings to standard error.
    def test_warnings_are_seen_without_a_handler(self) -> None:
        how = ranks.ended(logs, ranks=2, level="WARNING", handler=False)
        self.assertEqual(how.status, 0, how.output)
        self.assertIn("rank 0: a step is skipped", how.output)


if __name__ == "__main__":
    unittest.main()
