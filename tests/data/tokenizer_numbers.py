#!/usr/bin/env python3
"""Writes hugging_face/: byte-level tokenizers learned by Hugging Face's tokenizers, and the numbers that it makes of texts.

    python3 tests/data/tokenizer_numbers.py        # with tokenizers 0.23; byte_pair_tokenizer_test.cpp reads the folder

Three forms: GPT-2's (vocab.json and merges.txt, and tokenizer.json); Llama 3's, whose pieces have another pattern; and Llama 2's,
over characters with a token for each byte. Of the last one llama2 has no token with a space in its middle, as the published
one; llama2_across has.
"""
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

FOLDER = Path(__file__).parent / "hugging_face"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LEARNED_FROM = [
    "First Citizen: Before we proceed any further, hear me speak. All: Speak, speak.",
    "They'll say it's the king's; I'm sure we've heard that they're here, and you'd think he can't.",
    "In the year 1623 there were 36 plays in 1 folio; 1000 copies, 750 more, and 3.14 or 2,718 of others.",
    "Der Bär läuft über die Straße; l'été déjà fini, où est le garçon? Ünïcödé naïve café über über café.",
    "the the the there then them they this that those these; to be, or not to be, that is the question.",
    "    for (int i = 0; i < 10; ++i) {\n        total += values[i];\n    }\n\n\treturn total;\n",
    "Привет, мир! Как дела? Привет, привет. 漢字とかな、漢字とかな。",
]
TEXTS = [
    "",
    " ",
    "the king",
    " the king  and   the    queen ",
    "They'll say it's the king's; I'm sure we've heard they're here, you'd think he can't.",
    "THEY'LL SAY IT'S THE KING'S; I'M SURE WE'VE HEARD THEY'RE HERE, YOU'D THINK HE CAN'T.",
    "rock 'n' roll's 'tis 'twas y'all'd've",
    "1 12 123 1234 12345 1,234.56 0x1F 2nd v2.0.1 ½ ² ٣٤",
    "Der Bär läuft über die Straße; l'été déjà fini.",
    "Привет, мир! 漢字とかな、한국어 ไทย עברית العربية हिन्दी",
    "e\u0301 is not \u00e9; \u00a0no\u00a0break\u00a0 \u2003em\u3000wide",
    "👍🏽 👩‍👩‍👧 🇩🇪 text\ufe0f",
    "a\nb\n\nc\r\nd\te\t\tf \n g  \n",
    "trailing spaces   ",
    "\n\n  leading",
    "    for (int i = 0; i < 10; ++i) {\n        total += values[i];\n    }\n",
    "!!! ... --- ??? #$% @x_y __init__ a.b,c;d:e \"quoted\" (bracketed)",
    "naïve café résumé Ångström Łódź ǅ ß ﬁ",
]


def learned(pre_tokenizer):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"], show_progress=False
    )
    tokenizer.train_from_iterator(LEARNED_FROM, trainer)
    return tokenizer


def learned_over_characters(pre_tokenizer):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    alphabet = sorted({c for text in LEARNED_FROM[:5] for c in text if c not in " \n"} | {"▁"})
    trainer = trainers.BpeTrainer(
        vocab_size=200, limit_alphabet=len(alphabet), initial_alphabet=alphabet, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator(LEARNED_FROM[:5], trainer)
    # The tokens of bytes stand behind the added ones, as in Llama 2's; they are no added tokens, so that no text is one.
    form = json.loads(tokenizer.to_str())
    vocab = form["model"]["vocab"]
    form["model"]["vocab"] = {name: i if i < 3 else i + 256 for name, i in vocab.items()} | {f"<0x{b:02X}>": 3 + b for b in range(256)}
    form["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(form))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)]
    )
    return tokenizer


def write(name, tokenizer):
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    cases = [{"text": text, "tokens": tokenizer.encode(text, add_special_tokens=False).ids} for text in TEXTS]
    for case in cases:
        assert tokenizer.decode(case["tokens"]) == case["text"]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (folder / "encoded.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return tokenizer, folder


gpt2, gpt2_folder = write("gpt2", learned(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)))
files = gpt2_folder / "files"
files.mkdir(exist_ok=True)
gpt2.model.save(str(files))
write(
    "llama3",
    learned(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    ),
)
write("llama2", learned_over_characters(pre_tokenizers.Split("▁", behavior="merged_with_next")))
write("llama2_across", learned_over_characters(None))
