#!/usr/bin/env python3
"""zerocpp.deepspeed: losses equal plain torch's, and DeepSpeed's keys keep their meaning."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

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


class Weighted(torch.nn.Module if not ranks.why_not() else object):
    """A model whose gradient is its input."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return (self.weight * x).sum()


def sum_of_two(total, direct):
    """Returns the weights after one step with rate 1, and whether a direct backward() was refused."""
    engine, *_ = deepspeed.initialize(
        model=(model := Weighted()),
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        config={"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0.0, "gradient_allreduce_op": total},
    )
    refused = False
    if direct:
        try:
            engine(torch.ones(2)).backward()
        except RuntimeError as error:
            refused = "Loss scaling is required" in str(error)
        engine.zero_grad()
    engine.backward(engine(torch.tensor([1.0, 2.0])))
    engine.step()
    weights = engine.module_state_dict()["weight"].tolist()
    engine.destroy()
    return weights, refused


def saved_by_two(folder):
    """Returns the files that each rank finds directly after save_checkpoint()."""
    engine, *_ = start()
    found = []
    for step in range(3):
        engine.save_checkpoint(folder, tag=f"tag{step}")
        found.append(Path(folder, "latest").read_text() == f"tag{step}")
    engine.destroy()
    return all(found)


def built_by_two():
    """Builds a model in Init, and lets rank 0 write a weight. Returns values that every rank sees."""
    deepspeed.init_distributed()
    torch.manual_seed(zerocpp.world().rank)  # ranks draw different seeds
    keys = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
    with deepspeed.zero.Init(config_dict_or_path=keys):
        model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 4))
        model.register_buffer("places", torch.arange(3.0))
        waits = zerocpp.is_deferred(model[0].weight)
    marks = [model[0].weight.ds_shape == torch.Size([4, 8]), str(model[0].weight.dtype)]
    with deepspeed.zero.GatheredParameters(model[0].weight, modifier_rank=0):
        if zerocpp.world().rank == 0:
            model[0].weight.data.fill_(3.0)
    engine, *_ = start(model, **keys)
    values = {name: value.float().tolist() for name, value in engine.module_state_dict().items()}
    engine.backward(engine(torch.ones(3, 8, dtype=torch.bfloat16)).float().sum())
    engine.step()
    engine.destroy()
    return waits, marks, values


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
            fp16={"enabled": True, "hysteresis": 1}, scheduler={"type": "WarmupLR", "params": {"warmup_type": "linear"}}
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

    def test_loss_scale_follows_the_keys(self):
        for keys, expected in (
            (
                {"initial_scale_power": 8, "loss_scale_window": 2, "min_loss_scale": 64, "hysteresis": 1},
                [256, 256, 512, 256, 128, 64, 64],
            ),
            ({"initial_scale_power": 8, "loss_scale_window": 2}, [256, 256, 512, 512, 256, 128, 64]),
            ({"loss_scale": 32}, [32] * 7),
        ):
            engine, optimizer, *_ = start(fp16={"enabled": True, **keys})
            found = [optimizer.cur_scale]
            for step in range(6):
                scale = 1e6 if step > 1 and "loss_scale" not in keys else 1.0
                engine.backward((engine(torch.ones(3, 8, dtype=torch.float16)).float() * scale).sum())
                engine.step()
                found.append(optimizer.cur_scale)
            self.assertEqual(found, expected)
            self.assertEqual(optimizer.dynamic_loss_scale, "loss_scale" not in keys)
            engine.destroy()

    def test_unscaled_loss_is_refused(self):
        engine, *_ = start(fp16={"enabled": True})
        with self.assertRaisesRegex(RuntimeError, "Loss scaling is required"):
            engine(torch.ones(3, 8, dtype=torch.float16)).float().mean().backward()
        engine.destroy()

    def test_step_sums_any_number_of_passes(self):
        for keys in ({}, {"bf16": {"enabled": True}}, {"managed_gradient_accumulation": False}):
            engine, *_ = start(**keys, zero_optimization={"stage": 2})
            x = torch.ones(3, 8, dtype=engine.module[0].weight.dtype)
            for _ in range(3):
                engine.backward(engine(x).float().sum())
            self.assertEqual(deepspeed.utils.safe_get_full_grad(engine.module[2].bias).tolist(), [9.0] * 4)
            engine.step()
            self.assertEqual(engine.global_steps, 1)
            engine.destroy()

    def test_script_can_manage_accumulation(self):
        weights = []
        for managed in (True, False):
            engine, *_ = start(
                gradient_accumulation_steps=2, managed_gradient_accumulation=managed, zero_optimization={"stage": 2}
            )
            torch.manual_seed(3)
            for _ in range(2):
                for x in torch.randn(2, 3, 8):
                    engine.backward(engine(x).square().sum())
                    if managed:
                        engine.step()
                if not managed:
                    engine.step()
                    self.assertTrue(engine.was_step_applied())
            self.assertEqual((engine.global_steps, engine.global_samples), (2, 12))
            weights.append(engine.module_state_dict())
            if not managed:
                with self.assertRaisesRegex(AssertionError, "not supported with managed_gradient_accumulation=False"):
                    engine.set_gradient_accumulation_boundary(True)
            engine.destroy()
        for name in weights[0]:
            self.assertLess(float((weights[0][name] - weights[1][name]).abs().max()), 1e-6)

    def test_scopes_refuse_what_deepspeed_refuses(self):
        engine, *_ = start(zero_optimization={"stage": 2})
        with self.assertRaisesRegex(AssertionError, "gradient partitioning logic of ZeRO stage 2"), engine.no_sync():
            pass
        with engine.coalesce_grad_reduction():
            engine.backward(engine(torch.ones(3, 8)).mean())
            with self.assertRaisesRegex(AssertionError, "illegal to call Engine.step"):
                engine.step()
            with self.assertRaisesRegex(AssertionError, "cannot be nested"), engine.coalesce_grad_reduction():
                pass
        engine.step()
        engine.destroy()

    def test_gradients_can_be_summed_over_ranks(self):
        for total, factor in (("sum", -2.0), ("mean", -1.0)):
            for weights, refused in ranks.run(sum_of_two, total=total, direct=total == "sum"):
                self.assertEqual(weights, [factor, 2 * factor])
                self.assertEqual(refused, total == "sum")

    def test_parameters_in_no_group_keep_values(self):
        model = net()
        before = model[2].weight.detach().clone()
        engine, *_ = deepspeed.initialize(
            model=model, model_parameters=model[0].parameters(), config=config(zero_optimization={"stage": 3})
        )
        engine.backward(engine(torch.ones(3, 8)).sum())
        engine.step()
        after = engine.module_state_dict()
        self.assertTrue(torch.equal(after["2.weight"], before))
        self.assertFalse(torch.equal(after["0.weight"], net()[0].weight))
        engine.destroy()

    def test_buffers_keep_their_type(self):
        for types, expected in ((None, torch.float32), ({"buffer_dtype": "bf16"}, torch.bfloat16)):
            model = net()
            model.register_buffer("places", torch.arange(3.0) / 7)
            engine, *_ = start(model, bf16={"enabled": True}, data_types=types or {})
            self.assertEqual((model[0].weight.dtype, model.places.dtype), (torch.bfloat16, expected))
            self.assertTrue(torch.equal(model.places, (torch.arange(3.0) / 7).to(expected)))
            engine.destroy()

    def test_autocast_follows_the_configuration(self):
        engine, *_ = start(torch_autocast={"enabled": True, "dtype": "bfloat16"})
        self.assertEqual(engine(torch.ones(3, 8)).dtype, torch.bfloat16)
        engine.destroy()
        engine, *_ = start()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(engine(torch.ones(3, 8)).dtype, torch.float32)
        engine.destroy()

    def test_model_can_be_initialized_again(self):
        model = net()
        start(model, zero_optimization={"stage": 3})
        engine, *_ = start(model, zero_optimization={"stage": 1})
        self.assertTrue(torch.equal(engine.module_state_dict()["0.weight"], net()[0].weight))
        engine.destroy()

    def test_range_test_raises_the_rate(self):
        for staircase, expected in ((False, [0.1, 0.15, 0.2, 0.25, 0.3]), (True, [0.1, 0.1, 0.2, 0.2, 0.3])):
            engine, _, _, scheduler = start(
                scheduler={
                    "type": "LRRangeTest",
                    "params": {
                        "lr_range_test_min_lr": 0.1,
                        "lr_range_test_step_size": 2,
                        "lr_range_test_step_rate": 1.0,
                        "lr_range_test_staircase": staircase,
                    },
                }
            )
            found = []
            for _ in expected:
                found.append(engine.get_lr()[0])
                engine.backward(engine(torch.ones(3, 8)).mean())
                engine.step()
            for one, other in zip(found, expected):
                self.assertAlmostEqual(one, other)
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

    def test_weights_load_without_moments(self):
        with tempfile.TemporaryDirectory() as folder:
            model = net()
            model.register_buffer("places", torch.arange(3))
            engine, *_ = start(model, zero_optimization={"stage": 3})
            for _ in range(2):
                engine.backward(engine(torch.ones(3, 8)).mean())
                engine.step()
            engine.save_checkpoint(folder, client_state={"epoch": 2})
            weights = engine.module_state_dict()
            engine.destroy()

            def copy(src, dst):
                dst.load_state_dict(src)

            for arguments, steps in (
                ({"load_module_only": True}, 0),
                ({"load_optimizer_states": False}, 2),
                ({"load_module_only": True, "custom_load_fn": copy}, 0),
            ):
                other = net(7)
                other.register_buffer("places", torch.zeros(3, dtype=torch.int64))
                engine, *_ = start(other, zero_optimization={"stage": 2})
                _, state = engine.load_checkpoint(folder, **arguments)
                self.assertEqual((state, engine.global_steps), ({"epoch": 2}, steps))
                for name, value in engine.module_state_dict().items():
                    self.assertTrue(torch.equal(value, weights[name]), name)
                self.assertEqual(float(engine.core.state("0.weight", "exp_avg").abs().max()), 0.0)
                engine.destroy()

    def test_weights_are_read_without_an_engine(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
                self.two.weight = self.one.weight

            def forward(self, x):
                return self.two(self.one(x))

        from zerocpp.deepspeed.utils import zero_to_fp32

        with tempfile.TemporaryDirectory() as folder:
            engine, *_ = start(Tied(), bf16={"enabled": True}, zero_optimization={"stage": 3})
            engine.backward(engine(torch.ones(3, 4, dtype=torch.bfloat16)).float().mean())
            engine.step()
            engine.save_checkpoint(folder)
            masters = {name: engine.core.state(name) for name in ("one.weight", "two.weight", "one.bias", "two.bias")}
            engine.destroy()
            zero_to_fp32.convert_zero_checkpoint_to_fp32_state_dict(folder, Path(folder, "whole"))
            found = torch.load(Path(folder, "whole", "pytorch_model.bin"))
            self.assertEqual(found.keys(), masters.keys())
            self.assertIs(found["one.weight"], found["two.weight"])
            for name, value in masters.items():
                self.assertTrue(torch.equal(found[name], value), name)
            manifest = Path(folder, "global_step1", "manifest.json")
            manifest.write_text(manifest.read_text().replace('"steps":1', '"steps":2'))
            with self.assertRaisesRegex(zerocpp.IoError, "manifest.json: the file is damaged"):
                zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(folder)
            with self.assertRaisesRegex(zerocpp.ConfigError, "it lacks a file latest"):
                zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(Path(folder, "whole"))

    def test_each_rank_finds_the_file_latest(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(ranks.run(saved_by_two, folder=folder), [True, True])

    def test_missing_latest_loads_nothing(self):
        engine, *_ = start()
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(engine.load_checkpoint(folder), (None, None))
        engine.destroy()


class Init(ranks.PackageTest):
    def test_all_ranks_build_the_same_model(self):
        (waits, marks, values), other = ranks.run(built_by_two)
        self.assertTrue(waits)
        self.assertEqual(marks, [True, "torch.bfloat16"])
        self.assertEqual(values["0.weight"], [[3.0] * 8] * 4)
        self.assertEqual(values["places"], [0.0, 1.0, 2.0])
        self.assertEqual([waits, marks, values], other)

    def test_initialize_ends_an_open_scope(self):
        with deepspeed.zero.Init():
            engine, *_ = start(net())
            self.assertFalse(torch.ones(1).is_meta)
        self.assertIsNone(deepspeed.zero._open_init)
        engine.destroy()

    def test_seed_decides_the_values(self):
        found = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            with deepspeed.zero.Init():
                model = torch.nn.Linear(4, 4)
            engine, *_ = start(model)
            found.append(engine.module_state_dict()["weight"])
            engine.destroy()
        self.assertTrue(torch.equal(found[0], found[1]))
        self.assertFalse(torch.equal(found[0], found[2]))

    def test_attach_inside_deferred_is_refused(self):
        with (
            zerocpp.deferred(),
            self.assertRaisesRegex(zerocpp.ConfigError, r"attach = Linear: called inside deferred"),
        ):
            zerocpp.attach(torch.nn.Linear(2, 2))


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
            ({"scheduler": {"type": "TwoCycle"}}, 'scheduler.type = "TwoCycle": none of'),
            ({"scheduler": {"type": "OneCycle"}}, "scheduler.params.cycle_min_lr = .*OneCycle needs it"),
            ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, "fp16.enabled = true: bf16.enabled is also true"),
            ({"amp": {"enabled": True}}, "amp = .*not supported"),
            ({"gradient_clipping": "1"}, 'gradient_clipping = "1": not a number'),
            ({"fp16": {"enabled": True, "hysteresis": 0}}, "fp16.hysteresis = 0: not a whole number of 1 or more"),
            ({"fp16": {"enabled": True, "min_loss_scale": 1e9}}, "fp16.min_loss_scale = 1000000000.0: not above 0 and"),
            ({"fp16": {"enabled": True, "initial_scale_power": 200}}, "initial_scale_power = 200: not from 0 to 126"),
            ({"gradient_allreduce_op": "max"}, 'gradient_allreduce_op = "max": no such sum'),
            ({"data_types": {"buffer_dtype": "int8"}}, 'data_types.buffer_dtype = "int8": no such type'),
            ({"data_types": {"param_dtype": "bf16"}}, 'data_types.param_dtype = "bf16": the model has type fp32'),
            ({"torch_autocast": {"enabled": True, "dtype": "int8"}}, 'torch_autocast.dtype = "int8": no such type'),
        ):
            with self.subTest(keys), self.assertRaisesRegex(zerocpp.ConfigError, pattern):
                Reader(config(**keys), 2).read()

    def test_muon_has_two_rates(self):
        for params, expected in (
            ({}, (0.02, 3e-4)),
            ({"lr": 0.01}, (0.01, 0.01)),
            ({"lr": 0.01, "adam_lr": 1e-3}, (0.01, 1e-3)),
            ({"muon_lr": 0.03}, (0.03, 3e-4)),
        ):
            section = {"type": "Muon", "params": params}
            _, values = Reader(config(optimizer=section), 1).read().optimizer
            self.assertEqual((values["lr"], values["adamw_lr"], values["weight_decay"]), (*expected, 0.0))
        engine, *_ = start(optimizer={"type": "Muon", "params": {"lr": 0.01}})
        engine.backward(engine(torch.ones(3, 8)).mean())
        engine.step()
        self.assertIn("momentum_buffer", engine.core.state_names("0.weight"))
        engine.destroy()

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
