#!/usr/bin/env python3
"""Fine-tunes a chat model with LoRA and ZeRO stage 3 from conversations in a JSONL file.

    zero launch -n 2 -- python3 examples/python/finetune_chat.py --model FOLDER --data examples/python/chats.jsonl
    torchrun --standalone --nproc-per-node 2 examples/python/finetune_chat.py --model FOLDER --data ...

A line of the file is {"messages": [{"role": "user", "content": ...}, {"role": "assistant", "content": ...}]}. Only the
assistant's words are learned. The model is a folder of transformers, or a .gguf file (needs the package gguf). The
script needs the packages torch, transformers and peft. The adapters are written into --output.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import peft
import torch
import transformers

import zerocpp as zero

IGNORED = -100  # label of tokens that are not learned


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, type=Path, help="folder of a model, or a .gguf file")
    parser.add_argument("--data", required=True, type=Path, help="JSONL file of conversations")
    parser.add_argument("--output", default=Path("adapters"), type=Path, help="folder for the adapters")
    parser.add_argument("--steps", default=20, type=int, help="number of updates")
    parser.add_argument("--batch", default=2, type=int, help="conversations of a rank in a step")
    parser.add_argument("--rate", default=2e-3, type=float, help="learning rate of the first step")
    parser.add_argument("--rank", default=8, type=int, help="rank of the adapters")
    parser.add_argument("--stage", default=3, type=int, help="ZeRO stage")
    parser.add_argument("--device-memory", default="auto", help='"auto", "min", or a size such as "2GiB"')
    parser.add_argument("--ask", default="", help="question that is answered before and after training")
    return parser.parse_args()


def read_model(path: Path) -> tuple[Any, Any]:
    """Returns the model in fp32, and its tokenizer."""
    place = {"pretrained_model_name_or_path": path.parent if path.is_file() else path}
    if path.is_file():
        place["gguf_file"] = path.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
    if tokenizer.pad_token_id is None:  # as in Llama 3; labels and mask leave these tokens out
        tokenizer.pad_token = tokenizer.eos_token
    return transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32), tokenizer


def tokens_of(tokenizer: Any, messages: list[dict[str, str]], asks: bool = False) -> list[int]:
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=asks)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def sample_of(tokenizer: Any, messages: list[dict[str, str]]) -> dict[str, list[int]]:
    """Tokens of a conversation, and labels for the assistant's tokens."""
    tokens = tokens_of(tokenizer, messages)
    labels = [IGNORED] * len(tokens)
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            begin = len(tokens_of(tokenizer, messages[:number], asks=True))
            end = len(tokens_of(tokenizer, messages[: number + 1]))
            labels[begin:end] = tokens[begin:end]
    return {"input_ids": tokens, "labels": labels}


def batch_of(samples: list[dict[str, list[int]]], padding: int) -> dict[str, torch.Tensor]:
    longest = max(len(sample["input_ids"]) for sample in samples)

    def padded(key: str, value: int) -> torch.Tensor:
        return torch.tensor([sample[key] + [value] * (longest - len(sample[key])) for sample in samples])

    mask = torch.tensor([[1] * len(s["input_ids"]) + [0] * (longest - len(s["input_ids"])) for s in samples])
    return {"input_ids": padded("input_ids", padding), "labels": padded("labels", IGNORED), "attention_mask": mask}


def answer(engine: zero.Engine, model: Any, tokenizer: Any, question: str) -> str:
    """Collective: all ranks generate the same words."""
    asked = torch.tensor([tokens_of(tokenizer, [{"role": "user", "content": question}], asks=True)])
    model.eval()
    with torch.no_grad(), engine.frozen():  # not part of a step
        found = model.generate(
            input_ids=asked,
            attention_mask=torch.ones_like(asked),
            max_new_tokens=40,
            do_sample=False,
            pad_token_id=tokenizer.pad_token_id,
        )
    model.train()
    return tokenizer.decode(found[0, asked.shape[1] :], skip_special_tokens=True).strip()


def main() -> None:
    arguments = read_arguments()
    world = zero.world()
    model, tokenizer = read_model(arguments.model)
    lines = arguments.data.read_text(encoding="utf-8").splitlines()
    samples = [sample_of(tokenizer, json.loads(line)["messages"]) for line in lines if line.strip()]
    if not samples:
        raise SystemExit(f"--data {arguments.data}: the file has no conversation\n  write one on each line")

    torch.manual_seed(1)  # the same seed on all ranks: adapters begin with equal values
    adapters = peft.LoraConfig(r=arguments.rank, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, adapters)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=arguments.rate, weight_decay=0.0)

    def say(text: str) -> None:
        if world.rank == 0:
            print(text, flush=True)

    with zero.attach(
        model, optimizer, stage=arguments.stage, clip=1.0, device_memory=arguments.device_memory
    ) as engine:
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(engine.optimizer, arguments.steps)
        say(f"{len(samples)} conversations, {sum(map(torch.Tensor.numel, trained)):,} trained parameters")
        if arguments.ask:
            say(f"before: {answer(engine, model, tokenizer, arguments.ask)}")
        model.train()
        begin = time.monotonic()
        for step in range(arguments.steps):
            first = (step * world.size + world.rank) * arguments.batch
            chosen = [samples[(first + number) % len(samples)] for number in range(arguments.batch)]
            loss = model(**batch_of(chosen, tokenizer.pad_token_id)).loss
            loss.backward()
            report = engine.step(loss=loss)
            schedule.step()
            say(f"step {step + 1:3d}  loss {report.loss:.4f}  norm {report.grad_norm:.3f}")
        say(f"{(time.monotonic() - begin) / arguments.steps:.2f} s a step")
        if arguments.ask:
            say(f"after: {answer(engine, model, tokenizer, arguments.ask)}")
        names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        values = engine.state_dict(to="rank0", names=names)  # only the adapters
        if world.rank == 0:
            model.save_pretrained(arguments.output, state_dict=values, save_embedding_layers=False)
            tokenizer.save_pretrained(arguments.output)
        bytes_of_rank = sum(engine.report().state_bytes.values())
    say(f"adapters in {arguments.output}; a rank's states have {bytes_of_rank / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
