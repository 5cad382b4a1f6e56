#!/usr/bin/env python3
"""examples/python/finetune_chat.py trains the adapters of a tiny chat model, under zero launch and under torchrun."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ranks
import transformers_test

SCRIPT = ranks.ROOT / "examples/python/finetune_chat.py"
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} end {% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)


def writes_model(folder: str) -> list[Any]:
    """Writes a random llama with a tokenizer of whole words, without a token for padding. Returns a sample."""
    from small_models import make

    make("llama").save_pretrained(folder)
    tokenizer = transformers_test.tokenizer(["user", "assistant", "end", "ask", "say", "more"])
    tokenizer.chat_template = TEMPLATE
    tokenizer.pad_token, tokenizer.eos_token = None, "end"
    tokenizer.save_pretrained(folder)
    spec = importlib.util.spec_from_file_location("finetune_chat", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    sample = script.sample_of(tokenizer, messages("ask ask", "say") + messages("more", "say say"))
    return [tokenizer.convert_ids_to_tokens(t) if t >= 0 else "-" for t in sample["labels"]]


def messages(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def reads_adapters(folder: str) -> dict[str, Any]:
    import peft
    import safetensors.torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    model = peft.PeftModel.from_pretrained(model, f"{folder}/adapters")
    values = safetensors.torch.load_file(f"{folder}/adapters/adapter_model.safetensors")
    changed = [name for name, value in model.named_parameters() if "lora_B" in name and value.abs().max() > 0]
    return {"names": len(values), "only": all("lora" in name for name in values), "changed": len(changed)}


@ranks.needs("transformers", "peft")
class FinetuneChat(ranks.FolderTest):
    def run_script(self, folder: str, *launcher: str) -> list[str]:
        Path(folder, "chats.jsonl").write_text(
            "".join(json.dumps({"messages": messages("ask " * n, "say " * n)}) + "\n" for n in range(1, 7))
        )
        arguments = [f"--model={folder}", f"--data={folder}/chats.jsonl", "--steps=6", "--rate=0.02", "--ask=ask more"]
        done = subprocess.run(
            [*launcher, str(SCRIPT), *arguments, f"--output={folder}/adapters", "--device-memory=min"],
            check=False,
            env=ranks.environment(),
            text=True,
            capture_output=True,
            timeout=600,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return re.findall(r"(?:before|after|step .*  loss|adapters in).*", done.stdout)

    def setUp(self) -> None:
        super().setUp()
        self.labels = ranks.run(writes_model, ranks=1, folder=self.folder)[0]
        self.own = self.run_script(self.folder, str(ranks.COMMAND), "launch", "-n", "2", "--", sys.executable)

    def test_adapters_are_trained_and_saved(self) -> None:
        self.assertEqual(self.labels, [*"-----", "say", "end", *"----", "say", "say", "end"])
        losses = [float(line.split()[3]) for line in self.own if line.startswith("step")]
        self.assertEqual(len(losses), 6)
        self.assertLess(losses[-1], losses[0] - 0.2)
        read = ranks.run(reads_adapters, ranks=1, folder=self.folder)[0]
        self.assertEqual(read, {"names": 28, "only": True, "changed": 14})

    def test_file_without_conversations_is_refused(self) -> None:
        Path(self.folder, "none.jsonl").write_text("\n")
        arguments = [f"--model={self.folder}", f"--data={self.folder}/none.jsonl"]
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *arguments],
            check=False,
            env=ranks.environment(),
            text=True,
            capture_output=True,
            timeout=600,
        )
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("the file has no conversation", done.stderr)

    @ranks.whole
    def test_torchrun_prints_the_same(self) -> None:
        torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        self.assertEqual(self.run_script(self.folder, *torchrun), self.own)


if __name__ == "__main__":
    unittest.main()
