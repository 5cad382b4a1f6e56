#!/usr/bin/env python3
"""Writes transformers/: small models as transformers saves them, and the logits that it computes with each.

    python3 tests/train/transformers_numbers.py                  # with torch 2.11 and transformers 5.24
    python3 tests/train/transformers_numbers.py --again FOLDER   # loads the existing models, and saves them into FOLDER

Each folder has config.json, the weights in fp32, and logits.safetensors: tokens [2, 11] int64, and the model's logits
for them. Shapes are odd on purpose. Weights are large, so attention, norms and positions have an effect. The bert has
WordPiece's vocab.txt, whose [PAD] is not token 0, and its second text ends in padding. llama_tied is saved in shards
with an index. transformers_numbers_test.cpp and export_test.cpp read the folders; numbers_of_torch_test.py calls
--again.
"""

import argparse
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

FOLDER = Path(__file__).parent / "transformers"
LENGTH, PAD = 11, 3
PIECES = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", *"all the world a stage and men women play ##er ##s .".split()]
PIECES += [f"word{i}" for i in range(41 - len(PIECES))]
SHARD_BYTES = {"llama_tied": 6000}


def llama(tied):
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=29,
            hidden_size=16,
            intermediate_size=19,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=LENGTH,
            rope_theta=500.0,
            rms_norm_eps=1e-6,
            tie_word_embeddings=tied,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=37, n_positions=LENGTH, n_embd=9, n_layer=2, n_head=3, bos_token_id=None, eos_token_id=None
    )
    return transformers.GPT2LMHeadModel(config)


def bert():
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=len(PIECES),
            hidden_size=10,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=23,
            max_position_embeddings=LENGTH,
            num_labels=3,
            pad_token_id=PAD,
        )
    )


MODELS = {"gpt2": gpt2, "llama": lambda: llama(False), "llama_tied": lambda: llama(True), "bert": bert}


def tokens_of(name, model):
    tokens = (torch.arange(2 * LENGTH) * 7 % model.config.vocab_size).view(2, LENGTH)
    if name == "bert":
        tokens[tokens == PAD] = 0
        tokens[:, 0] = PIECES.index("[CLS]")
        tokens[1, 7:] = PAD
    return tokens


def save(name, model, tokens, folder):
    model = model.eval()
    mask = (tokens != PAD).long() if name == "bert" else torch.ones_like(tokens)
    with torch.no_grad():
        logits = model(tokens, attention_mask=mask).logits
    model.save_pretrained(folder, max_shard_size=SHARD_BYTES.get(name, "5GB"))
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file({"tokens": tokens, "logits": logits.contiguous()}, folder / "logits.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--again", type=Path)
    again = parser.parse_args().again
    torch.set_num_threads(1)
    for number, (name, make) in enumerate(MODELS.items()):
        folder = FOLDER / name
        if again:
            auto = (
                transformers.AutoModelForSequenceClassification if name == "bert" else transformers.AutoModelForCausalLM
            )
            model, info = auto.from_pretrained(folder, output_loading_info=True)
            assert not info["missing_keys"] and not info["unexpected_keys"], info
            save(name, model, load_file(folder / "logits.safetensors")["tokens"], again / name)
            continue
        torch.manual_seed(number)
        model = make()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        save(name, model, tokens_of(name, model), folder)
        if name == "bert":
            (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))


if __name__ == "__main__":
    sys.exit(main())
