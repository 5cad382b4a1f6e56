#!/usr/bin/env python3
"""zerocpp.deepspeed: losses equal plain torch's, and DeepSpeed's keys keep their meaning."""

import sys
import tempfile
import unittest
from pathlib import Path

import ranks

if not ranks.why_not():
    import torch

    sys.path.insert(0, str(ranks.PACKAGE))
    import zerocpp
    import zerocpp.deepspeed as deepspeed
    from zerocpp.deepspeed._config import Reader


def net(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))


def config(**keys):
    return {"train_micro_batch_size_per_gpu": 3, "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}, **keys}


def start(model=None, **keys):
    model = net() if model is None else model
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config(**keys))


def train(engine, steps=6, scale=1.0, wrong=None):
    """Trains both the engine and plain torch. Returns the largest difference of losses."""
    accumulate, world, worst = engine.gradient_accumulation_steps(), engine.world.size, 0.0
    reference = net()
    if engine.bfloat16_enabled():
        reference.to(torch.bfloat16).float()
    optimizer = torch.optim.AdamW(reference.parameters(), lr=1e-2, weight_decay=0)
    torch.manual_seed(1)
    x, y = torch.randn(steps, accumulate, world, 3, 8) * scale, torch.randn(steps, accumulate, world, 3, 4)
    for step in range(steps):
        for part in range(accumulate):
            for rank in range(world):
                loss = torch.nn.functional.mse_loss(reference(x[step, part, rank]), y[step, part, rank])
                (loss / accumulate / world).backward()
                if rank == engine.world.rank:
                    expected = loss.item()
            mine = engine.world.rank
            found = torch.nn.functional.mse_loss(engine(x[step, part, mine]), y[step, part, mine])
            engine.backward(found)
            engine.step()
            worst = max(worst, abs(found.item() - expected))
        norm = torch.nn.utils.clip_grad_norm_(reference.parameters(), engine.gradient_clipping() or 1e30)
        assert abs(norm.item() - engine.get_global_grad_norm()) < 1e-5 * max(1.0, norm.item())
        optimizer.step()
        optimizer.zero_grad()
    return worst


def rank_of_two(keys):
    engine, *_ = start(**keys)
    found = {
        "worst": train(engine),
        "batch": engine.train_batch_size(),
        "accumulate": engine.gradient_accumulation_steps(),
    }
    engine.destroy()
    return found


class Losses(ranks.PackageTest):
    def test_equal_plain_torch_at_every_stage(self):
        for stage in range(4):
            engine, *_ = start(zero_optimization={"stage": stage})
            self.assertLess(train(engine), 2e-6)
            self.assertEqual(engine.global_steps, 6)
            engine.destroy()

    def test_accumulation_averages_micro_batches(self):
        engine, *_ = start(gradient_accumulation_steps=3, zero_optimization={"stage": 2})
        self.assertLess(train(engine), 2e-6)
        self.assertEqual((engine.global_steps, engine.micro_steps), (6, 18))
        engine.destroy()

    def test_absent_clip_is_one(self):
        engine, *_ = start()
        self.assertEqual(engine.gradient_clipping(), 1.0)
        self.assertLess(train(engine, scale=20.0), 1e-3)
        engine.destroy()

    def test_offloaded_states_train_alike(self):
        engine, *_ = start(
            zero_optimization={"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}
        )
        self.assertLess(train(engine), 2e-6)
        self.assertGreater(engine.core.report().state_bytes["host"], 0)
        engine.destroy()

    def test_masters_begin_as_rounded_values(self):
        model = net()
        rounded = model[0].weight.detach().bfloat16().float()
        engine, *_ = start(model, bf16={"enabled": True}, zero_optimization={"stage": 2})
        self.assertTrue(torch.equal(deepspeed.utils.safe_get_full_fp32_param(model[0].weight), rounded))
        engine.destroy()

    def test_two_ranks_equal_plain_torch(self):
        for keys in (
            {"zero_optimization": {"stage": 3}},
            {"gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2}},
        ):
            for found in ranks.run(rank_of_two, keys=keys):
                self.assertLess(found["worst"], 2e-6)
                self.assertEqual(found["batch"], 6 * found["accumulate"])


class Steps(ranks.PackageTest):
    def test_overflow_skips_and_halves(self):
        engine, optimizer, _, scheduler = start(
            fp16={"enabled": True}, scheduler={"type": "WarmupLR", "params": {"warmup_type": "linear"}}
        )
        rate = engine.get_lr()
        weight = deepspeed.utils.safe_get_full_fp32_param(engine.module[0].weight)
        loss = (engine(torch.ones(3, 8, dtype=torch.float16)).float() * 1e5).sum()
        engine.backward(loss)
        engine.step()
        self.assertFalse(engine.was_step_applied())
        self.assertTrue(optimizer.overflow)
        self.assertEqual((engine.skipped_steps, engine.get_lr()), (1, rate))
        self.assertTrue(torch.equal(deepspeed.utils.safe_get_full_fp32_param(engine.module[0].weight), weight))
        engine.backward(engine(torch.ones(3, 8, dtype=torch.float16)).float().mean())
        engine.step()
        self.assertTrue(engine.was_step_applied())
        self.assertEqual(engine.core.report().loss_scale, 2.0**15)
        engine.destroy()

    def test_unscaled_loss_is_refused(self):
        engine, *_ = start(fp16={"enabled": True})
        with self.assertRaisesRegex(RuntimeError, "Loss scaling is required"):
            engine(torch.ones(3, 8, dtype=torch.float16)).float().mean().backward()
        engine.destroy()

    def test_scheduler_follows_updates_only(self):
        engine, _, _, scheduler = start(
            gradient_accumulation_steps=2,
            scheduler={
                "type": "WarmupDecayLR",
                "params": {"total_num_steps": 8, "warmup_num_steps": 4, "warmup_max_lr": 0.1, "warmup_type": "linear"},
            },
        )
        rates = []
        for _ in range(16):
            engine.backward(engine(torch.ones(3, 8)).mean())
            engine.step()
            rates.append(engine.get_lr()[0])
        for found, expected in zip(rates[1::2], [0.0, 0.025, 0.05, 0.075, 0.1, 0.075, 0.05, 0.025]):
            self.assertAlmostEqual(found, expected)
        engine.destroy()

    def test_gradients_can_be_read(self):
        engine, *_ = start(zero_optimization={"stage": 3})
        engine.backward(engine(torch.ones(3, 8)).sum())
        gradient = deepspeed.utils.safe_get_full_grad(engine.module[2].bias)
        self.assertTrue(torch.equal(gradient, torch.full((4,), 3.0)))
        engine.step()
        engine.destroy()

    def test_gathered_parameters_can_be_written(self):
        engine, *_ = start(zero_optimization={"stage": 3})
        with deepspeed.zero.GatheredParameters(engine.module[0].weight, modifier_rank=0), torch.no_grad():
            engine.module[0].weight.fill_(2.0)
        self.assertEqual(float(engine.module_state_dict()["0.weight"].mean()), 2.0)
        engine.destroy()


class Checkpoints(ranks.PackageTest):
    def test_load_returns_all_states(self):
        with tempfile.TemporaryDirectory() as folder:
            engine, *_ = start(zero_optimization={"stage": 3}, scheduler={"type": "WarmupLR"})
            for _ in range(3):
                engine.backward(engine(torch.ones(3, 8)).mean())
                engine.step()
            engine.save_checkpoint(folder, client_state={"epoch": 2, "seen": torch.arange(3)})
            self.assertEqual(Path(folder, "latest").read_text(), "global_step3")
            weights, rate = engine.module_state_dict(), engine.get_lr()
            engine.save_16bit_model(folder)
            engine.destroy()
            engine, *_ = start(net(7), zero_optimization={"stage": 1}, scheduler={"type": "WarmupLR"})
            path, state = engine.load_checkpoint(folder)
            self.assertEqual(path, str(Path(folder, "global_step3")))
            self.assertEqual((state["epoch"], state["seen"].tolist()), (2, [0, 1, 2]))
            self.assertEqual((engine.global_steps, engine.get_lr()), (3, rate))
            for name, value in engine.module_state_dict().items():
                self.assertTrue(torch.equal(value, weights[name]), name)
                self.assertTrue(torch.equal(torch.load(Path(folder, "pytorch_model.bin"))[name], weights[name]), name)
            engine.destroy()

    def test_missing_latest_loads_nothing(self):
        engine, *_ = start()
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(engine.load_checkpoint(folder), (None, None))
        engine.destroy()


class Keys(ranks.PackageTest):
    def test_bad_input_names_key_and_remedy(self):
        for keys, pattern in (
            ({"gradient_cliping": 1}, r"gradient_cliping = 1: no such key\n  did you mean gradient_clipping\?"),
            (
                {"zero_optimization": {"stagee": 1}},
                r"zero_optimization.stagee = 1: .*\n  did you mean zero_optimization.stage\?",
            ),
            ({"zero_optimization": {"stage": 4}}, "zero_optimization.stage = 4: no such stage"),
            (
                {"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}},
                "offload_param.device = .*nvme_path",
            ),
            ({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}, "stage 2 keeps parameters"),
            ({"gradient_accumulation_steps": "auto"}, 'gradient_accumulation_steps = "auto": only Hugging Face'),
            ({"train_batch_size": 7}, "train_batch_size = 7: not micro-batch"),
            ({"optimizer": {"type": "Adagrad"}}, 'optimizer.type = "Adagrad": none of'),
            ({"optimizer": {"type": "Adam", "params": {"beta": 1}}}, r"did you mean optimizer.params.betas\?"),
            ({"scheduler": {"type": "OneCycle"}}, 'scheduler.type = "OneCycle": none of'),
            ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, "fp16.enabled = true: bf16.enabled is true"),
            ({"amp": {"enabled": True}}, "amp = .*not supported"),
            ({"gradient_clipping": "1"}, 'gradient_clipping = "1": not a number'),
        ):
            with self.subTest(keys), self.assertRaisesRegex(zerocpp.ConfigError, pattern):
                Reader(config(**keys), 2).read()

    def test_batch_sizes_follow_each_other(self):
        for keys, expected in (
            ({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 3}, (3, 4)),
            ({"train_batch_size": 24, "gradient_accumulation_steps": 2}, (6, 2)),
            ({"train_batch_size": 24}, (12, 1)),
            ({"train_micro_batch_size_per_gpu": 5}, (5, 1)),
        ):
            found = Reader(keys, 2).read()
            self.assertEqual((found.micro_batch, found.accumulate), expected)

    def test_ignored_keys_are_listed_once(self):
        with self.assertLogs("zerocpp", "WARNING") as log:
            for _ in range(2):
                start(zero_optimization={"overlap_comm": True, "reduce_bucket_size": "auto"})[0].destroy()
        self.assertEqual(len(log.output), 1)
        self.assertIn("zero_optimization.reduce_bucket_size", log.output[0])

    def test_engine_needs_an_optimizer_to_train(self):
        engine, optimizer, *_ = deepspeed.initialize(model=net(), config={"train_batch_size": 1})
        self.assertIsNone(optimizer)
        with self.assertRaisesRegex(zerocpp.ConfigError, r"backward\(\) needs an optimizer"):
            engine.backward(engine(torch.ones(1, 8)).mean())
        engine.destroy()

    def test_module_deepspeed_is_not_replaced(self):
        self.assertIsNot(sys.modules.get("deepspeed"), deepspeed)


if __name__ == "__main__":
    unittest.main()
