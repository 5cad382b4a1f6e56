#!/usr/bin/env python3
"""Fine-tunes a chat model with LoRA, trl's SFTTrainer and ZeRO stage 3.

    zero launch -n 2 -- python3 examples/python/sft_trainer.py --model FOLDER
    torchrun --standalone --nproc-per-node 2 examples/python/sft_trainer.py --model FOLDER

Two lines differ from a script for trl.SFTTrainer: its class, and zero=... . FOLDER is a chat model of transformers. A
line of the file --data is {"messages": [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}]}; the
last message is learned. The script needs the packages torch, transformers, peft and trl. The adapters are written into
--output.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import datasets
import peft
import torch
import transformers
import trl

from zerocpp.transformers import ZeroMixin


class ZeroSFTTrainer(ZeroMixin, trl.SFTTrainer):
    """trl.SFTTrainer on an engine."""


def read_chats(path: Path) -> datasets.Dataset:
    """Conversations of a JSONL file. SFTTrainer learns the tokens of a completion, and no others."""
    lines = path.read_text(encoding="utf-8").splitlines()
    chats = [json.loads(line)["messages"] for line in lines if line.strip()]
    if not chats:
        raise SystemExit(f"--data {path}: the file has no conversation\n  write one on each line")
    return datasets.Dataset.from_list([{"prompt": chat[:-1], "completion": chat[-1:]} for chat in chats])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, type=Path, help="folder of a chat model")
    parser.add_argument("--data", default=Path(__file__).with_name("chats.jsonl"), type=Path, help="JSONL file")
    parser.add_argument("--output", default="adapters", type=Path, help="folder for the adapters")
    parser.add_argument("--steps", default=24, type=int, help="number of updates")
    parser.add_argument("--rate", default=2e-3, type=float, help="learning rate of the first step")
    parser.add_argument("--stage", default=3, type=int, help="ZeRO stage")
    given = parser.parse_args()

    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    arguments = trl.SFTConfig(
        output_dir=str(given.output),
        max_steps=given.steps,
        per_device_train_batch_size=2,
        learning_rate=given.rate,
        lr_scheduler_type="cosine",
        max_grad_norm=1.0,
        max_length=512,
        gradient_checkpointing=False,
        bf16=False,
        logging_steps=max(given.steps // 4, 1),
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        ddp_backend="gloo" if several else None,
    )
    trainer = ZeroSFTTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32),
        args=arguments,
        train_dataset=read_chats(given.data),
        processing_class=transformers.AutoTokenizer.from_pretrained(given.model),
        peft_config=peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"),
        zero={"stage": given.stage},
    )
    trainer.train()
    trainer.save_model()  # on every rank: it writes only the adapters, and the tokenizer
    assert trainer.engine is not None
    bytes_of_rank = sum(trainer.engine.report().state_bytes.values())
    trainer.engine.close()
    if trainer.is_world_process_zero():
        losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
        print(f"losses {losses}; adapters in {given.output}; a rank's states have {bytes_of_rank / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
