#!/usr/bin/env python3
"""Tokens that Hugging Face's tokenizers find in texts by name, for special_tokens_test.cpp.

    python3 tests/data/special_tokens.py                      # writes hugging_face/specials.json; tokenizers 0.23
    python3 tests/data/special_tokens.py SEED COUNT FILE      # the same with COUNT random texts for each tokenizer

Each tokenizer of hugging_face/ gets tokens of all kinds: special and not, normalized and not, single words only, and
with white space on either side.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

FOLDER = Path(__file__).parent / "hugging_face"
ADDED = [
    AddedToken("<|endoftext|>", special=True, normalized=False),
    AddedToken("<|end|>", special=True, normalized=False),
    AddedToken("<|endof", special=True, normalized=False),
    AddedToken("<mask>", special=True, normalized=False, lstrip=True),
    AddedToken("<sep>", special=True, normalized=False, rstrip=True),
    AddedToken("<both>", special=True, normalized=False, lstrip=True, rstrip=True),
    AddedToken("king", normalized=False, single_word=True),
    AddedToken("zero cpp", normalized=True),
    AddedToken("zero", normalized=True),
    AddedToken("Bär", normalized=True, single_word=True),
    AddedToken("[x\ny]", normalized=False),
]
TEXTS = [
    "",
    "<|endoftext|>",
    "one<|endoftext|>two",
    "one <|endoftext|> two",
    "<|endoftext|><|endoftext|>\n<|endoftext|>",
    "<|endoftext| ><|ENDOFTEXT|> <|endof text|><|end|>",
    "the <mask> king <mask>\n <sep>  the <sep>\n\n\tking",
    " \u00a0\u3000<both>\u2003\n <both> <mask>   <sep>   <mask>",
    "king kings the king, a-king_ kingdom king\u0301 \u00e9king 1king king",
    "zero cpp zerocpp azero zero  cpp",
    "Bär B\u00e4ren der Bär.Bär",
    "[x\ny] [x y] [x\n[x\ny]]",
    "</s> <s>a</s>b <unk>",
]
PARTS = [
    "<|endoftext|>",
    "<|end|>",
    "<|endof",
    "<mask>",
    "<sep>",
    "<both>",
    "king",
    "zero",
    " cpp",
    "Bär",
    "[x\ny]",
    "</s>",
    "<s>",
    "<unk>",
    " ",
    "  ",
    "\n",
    "\t",
    "\u00a0",
    "\u3000",
    "\u0301",
    "_",
    "-",
    "a",
    "the",
    "é",
    "漢",
    "1",
    "'s",
    ",",
    "<",
    "|>",
    "<|",
    "٣",
    "\u200d",
    "Ⓐ",
    "👍",
    ">",
]


def cases_of(name, texts):
    tokenizer = Tokenizer.from_file(str(FOLDER / name / "tokenizer.json"))
    tokenizer.add_tokens([token for token in ADDED if not token.special])
    tokenizer.add_special_tokens([token for token in ADDED if token.special])
    added = json.loads(tokenizer.to_str())["added_tokens"]
    cases = [{"text": text, "tokens": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]
    return {"added_tokens": added, "cases": cases}


def random_texts(seed, count):
    draw = random.Random(seed)
    return ["".join(draw.choices(PARTS, k=draw.randint(1, 14))) for _ in range(count)]


def main():
    seed, count = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 1 else (48, 60)
    texts = TEXTS + random_texts(seed, count)
    all_cases = {name: cases_of(name, texts) for name in ("gpt2", "llama3", "llama2", "llama2_across")}
    lines = []
    for name, found in all_cases.items():
        cases = ",\n".join(json.dumps(case) for case in found["cases"])
        lines.append(f'"{name}": {{"added_tokens": {json.dumps(found["added_tokens"])},\n"cases": [\n{cases}\n]}}')
    path = Path(sys.argv[3]) if len(sys.argv) > 1 else FOLDER / "specials.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


main()
