#!/usr/bin/env python3
"""Trains a small GPT-2 over the bytes of Shakespeare with Hugging Face's Trainer and ZeRO stage 3.

    zero launch -n 2 -- python3 examples/python/hugging_face_trainer.py
    torchrun --standalone --nproc-per-node 2 examples/python/hugging_face_trainer.py

Two lines differ from a script for transformers.Trainer: the import, and zero=... . Needs the packages torch,
transformers and accelerate.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import transformers

from zerocpp.transformers import ZeroTrainer  # instead of: from transformers import Trainer

TEXT = Path(__file__).resolve().parents[1] / "shakespeare/input.txt"
CONTEXT = 64  # bytes


class Windows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Windows of the text; each token is one byte."""

    def __init__(self, text: bytes) -> None:
        self.tokens = torch.tensor(list(text))

    def __len__(self) -> int:
        return len(self.tokens) // CONTEXT

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        window = self.tokens[index * CONTEXT : (index + 1) * CONTEXT]
        return {"input_ids": window, "labels": window}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", default=100, type=int, help="number of updates")
    parser.add_argument("--stage", default=3, type=int, help="ZeRO stage")
    parser.add_argument("--output", default="hugging_face", type=Path, help="folder for checkpoints and the model")
    given = parser.parse_args()

    torch.manual_seed(1)
    size = transformers.GPT2Config(
        vocab_size=256, n_positions=CONTEXT, n_embd=96, n_layer=3, n_head=3, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(size)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    arguments = transformers.TrainingArguments(
        output_dir=str(given.output),
        max_steps=given.steps,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=3e-3,
        max_grad_norm=1.0,
        warmup_steps=10,
        logging_steps=max(given.steps // 4, 1),
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        ddp_backend="gloo" if several else None,
    )
    text = TEXT.read_bytes()[:200_000]
    trainer = ZeroTrainer(
        model=model, args=arguments, train_dataset=Windows(text), zero={"stage": given.stage, "device_memory": "min"}
    )
    trainer.train()
    trainer.save_model()  # on every rank: it writes whole weights, for from_pretrained()
    assert trainer.engine is not None
    bytes_of_rank = sum(trainer.engine.report().state_bytes.values())
    trainer.engine.close()
    if trainer.is_world_process_zero():
        losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
        print(f"losses {losses}; a rank's states have {bytes_of_rank / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
