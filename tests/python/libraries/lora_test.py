#!/usr/bin/env python3
"""Adapters beside frozen weights train as in plain torch, are saved without these weights, and can be merged into
them."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
import training_test
import transformers_test


def merges(stage: int) -> dict[str, Any]:
    """Trains two steps, merges the adapters within gathered(), and compares with a merge without an engine."""
    import torch
    import zerocpp as zero
    from small_models import batch, make, part_of

    world = zero.world()
    model = make("adapters")
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=0.1)
    samples = {"input_ids": batch("llama", 9)["input_ids"]}
    with zero.attach(model, optimizer, stage=stage, device_memory="min") as engine:
        for step in range(2):
            model(**part_of(batch("llama", step), world.rank, world.size)).loss.backward()
            engine.step()
        with torch.no_grad():
            wanted = model(**samples).logits
        values = engine.state_dict()
        with engine.gathered():
            merged = model.merge_and_unload()
        with torch.no_grad():
            sharded = merged(**samples).logits
    plain = make("adapters")
    plain.load_state_dict(values)
    plain = plain.merge_and_unload()
    same = {name: torch.equal(value, merged.state_dict()[name]) for name, value in plain.state_dict().items()}
    with torch.no_grad():
        after = merged(**samples).logits
    return {
        "same": all(same.values()),
        "names": any("lora" in name for name in merged.state_dict()),
        "equal": [torch.equal(sharded, after), bool((after - wanted).abs().max() < 1e-5)],
    }


def merges_at_all_stages() -> list[dict[str, Any]]:
    return [merges(stage) for stage in range(4)]


def restores_integers(folder: str) -> dict[str, Any]:
    """Rank 1 begins with other integer weights. A second model reads the saved weights from a checkpoint."""
    import torch
    import zerocpp as zero
    from small_models import batch, make

    world = zero.world()
    found: dict[str, Any] = {}
    model = make("quantized")
    weight = model.model.layers[0].self_attn.q_proj.weight
    wanted = weight.clone()
    if world.rank == 1:
        weight.data.zero_()
    with zero.attach(model, stage=3, device_memory="min") as engine:
        found["broadcast"] = torch.equal(weight, wanted)
        model(**batch("llama", world.rank)).loss.backward()
        engine.step()
        engine.save(folder)
        values = engine.state_dict()
    other = make("quantized")
    for parameter in other.parameters():
        parameter.data.zero_()
    with zero.attach(other, stage=1) as engine:
        engine.load(folder)
        found["equal"] = all(torch.equal(value, values[name]) for name, value in engine.state_dict().items())
        with engine.gathered():
            found["gathered"] = other.model.layers[0].self_attn.q_proj.weight.data_ptr() != 0
    found["type"] = str(values["model.layers.0.self_attn.q_proj.weight"].dtype)
    return found


def saves_adapters(folder: str) -> dict[str, Any]:
    import peft
    import safetensors.torch
    import torch
    from small_models import make

    trainer = transformers_test.trainer_of(
        "zero",
        folder,
        model="adapters",
        zero={"stage": 3},
        save_strategy="steps",
        save_steps=3,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=True,
    )
    trainer.train()
    losses = [line["eval_loss"] for line in trainer.state.log_history if "eval_loss" in line]
    best = trainer.evaluate()["eval_loss"]
    trainer.save_model(f"{folder}/adapters")
    trainer.accelerator.wait_for_everyone()
    values = safetensors.torch.load_file(f"{folder}/adapters/adapter_model.safetensors")
    read = peft.PeftModel.from_pretrained(make("llama"), f"{folder}/adapters").state_dict()
    trainer.engine.close()
    own = trainer.model.state_dict()
    return {
        "only": all("lora_" in name for name in values),
        "number": len(values),
        "same": all(torch.equal(read[name], own[name]) for name in read),
        "best": [round(best, 5), round(losses[0], 5), losses[1] < losses[0]],
        "files": sorted(path.name for path in Path(folder, "checkpoint-3").glob("*.safetensors")),
    }


def saves_prompts(folder: str) -> dict[str, Any]:
    """Saves of prompt learning, during and after training; the saved values are those of the trained model."""
    import peft
    import torch
    from small_models import make

    sizes = dict(task_type="CAUSAL_LM", num_virtual_tokens=4)
    configs = {
        "prompt": peft.PromptTuningConfig(**sizes),
        "p": peft.PromptEncoderConfig(**sizes, encoder_hidden_size=16),
        "prefix": peft.PrefixTuningConfig(**sizes, encoder_hidden_size=16, prefix_projection=True),
    }
    found = {}
    for kind, config in configs.items():
        own = f"{folder}/{kind}"
        torch.manual_seed(3)
        model = peft.get_peft_model(make("llama"), config)
        trainer = transformers_test.trainer_of(
            "zero",
            own,
            model=model,
            zero={"stage": 3},
            max_steps=2,
            save_strategy="steps",
            save_steps=1,
            eval_strategy="no",
        )
        trainer.train()
        trainer.accelerator.wait_for_everyone()
        trainer.engine.close()
        wanted = peft.get_peft_model_state_dict(trainer.model)["prompt_embeddings"]
        files = [f"{own}/checkpoint-{number}/adapter_model.safetensors" for number in (1, 2)]
        first, last = (peft.utils.load_peft_weights(str(Path(file).parent), "cpu") for file in files)
        found[kind] = {
            "names": sorted(last),
            "same": torch.equal(last["prompt_embeddings"], wanted),
            "trained": not torch.equal(first["prompt_embeddings"], wanted),
        }
    return found


def trains_chat(kind: str, folder: str, adapters: bool) -> list[float]:
    """trl's SFTTrainer over two ranks; the losses that it logs."""
    import datasets
    import peft
    import torch
    import trl
    from small_models import make

    from zerocpp.transformers import ZeroMixin

    class ZeroSFTTrainer(ZeroMixin, trl.SFTTrainer):  # type: ignore[misc]
        pass

    tokens = [torch.randint(3, 97, (12,), generator=torch.Generator().manual_seed(i)).tolist() for i in range(40)]
    arguments = trl.SFTConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        gradient_checkpointing=False,
        max_steps=3,
        logging_steps=1,
        learning_rate=1e-2,
        lr_scheduler_type="linear",
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        max_length=16,
        ddp_backend="gloo",
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM") if adapters else None
    named: dict[str, Any] = dict(
        model=make("llama"),
        args=arguments,
        train_dataset=datasets.Dataset.from_dict({"input_ids": tokens}),
        processing_class=transformers_test.tokenizer(),
        peft_config=lora,
    )
    torch.manual_seed(5)
    trainer = trl.SFTTrainer(**named) if kind == "torch" else ZeroSFTTrainer(**named, zero={"stage": 3})
    trainer.train()
    if kind == "zero":
        trainer.save_model()
        trainer.engine.close()
    return [round(line[key], 4) for line in trainer.state.log_history for key in ("loss", "grad_norm") if key in line]


def trains_all_chats(folder: str) -> dict[str, Any]:
    return {
        f"{kind} {adapters}": trains_chat(kind, f"{folder}/{kind}-{adapters}", adapters)
        for adapters in (False, True)
        for kind in ("torch", "zero")
    }


@ranks.needs("transformers", "peft")
class Adapters(ranks.FolderTest):
    # Adapters of peft, also beside frozen weights of int8, as in QLoRA.
    def test_losses_equal_torch_at_all_stages(self) -> None:
        results = ranks.run(
            training_test.train,
            kinds=["adapters", "quantized"],
            stages=[0, 1, 2, 3],
            tiers=["min", "host", "disk"],
            compares=True,
            pairwise=True,
        )
        training_test.check(self, results, 2e-6)

    @ranks.whole
    @ranks.needs("bitsandbytes")
    def test_four_bits_equal_torch(self) -> None:
        training_test.check(
            self,
            ranks.run(training_test.train, kinds=["four bits"], stages=[0, 3], tiers=["min"], compares=True),
            2e-6,
        )

    @ranks.whole
    def test_integer_weights_are_broadcast_and_saved(self) -> None:
        for found in ranks.run(restores_integers, folder=self.folder):
            self.assertEqual(found, {"broadcast": True, "equal": True, "gathered": True, "type": "torch.int8"})

    def test_merge_equals_merge_without_engine(self) -> None:
        for found in ranks.run(merges_at_all_stages)[0]:
            self.assertEqual(found, {"same": True, "names": False, "equal": [True, True]})

    @ranks.needs("accelerate")
    def test_trainer_saves_adapters_only(self) -> None:
        found = ranks.run(saves_adapters, folder=self.folder)[0]
        self.assertEqual((found["only"], found["number"], found["same"]), (True, 8, True))
        self.assertEqual(found["files"], ["adapter_model.safetensors"])
        self.assertEqual((found["best"][0], found["best"][2]), (found["best"][1], True))

    @ranks.needs("accelerate")
    def test_trainer_saves_prompts(self) -> None:
        for found in ranks.run(saves_prompts, folder=self.folder):
            for kind in ("prompt", "p", "prefix"):
                with self.subTest(kind):
                    self.assertEqual(found[kind], {"names": ["prompt_embeddings"], "same": True, "trained": True})

    @ranks.needs("trl")
    @ranks.whole
    def test_trainer_of_trl_equals_ddp(self) -> None:
        found = ranks.run(trains_all_chats, folder=self.folder)[0]
        for adapters in (False, True):
            self.assertEqual(found[f"zero {adapters}"], found[f"torch {adapters}"])
            self.assertEqual(len(found[f"zero {adapters}"]), 6)
        names = {path.name for path in Path(self.folder, "zero-True").iterdir()}
        self.assertIn("adapter_model.safetensors", names)
        self.assertNotIn("model.safetensors", names)


if __name__ == "__main__":
    unittest.main()
