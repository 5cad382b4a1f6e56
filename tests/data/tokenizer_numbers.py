#!/usr/bin/env python3
"""Writes hugging_face/: tokenizers learned by Hugging Face's tokenizers, and their token numbers for some texts.

    python3 tests/data/tokenizer_numbers.py        # with tokenizers 0.23 and transformers 5.24

byte_pair_tokenizer_test.cpp and vocabulary_test.cpp read the folder. It has three forms of byte pairs:
- GPT-2's (vocab.json and merges.txt, and tokenizer.json).
- Llama 3's, which splits texts by another pattern.
- Llama 2's, over characters, with a token for each byte. llama2 has no token with an inner space, like the published
  tokenizer; llama2_across has such tokens.

It also has BERT's WordPiece, cased and uncased: a vocab.txt, and the numbers of transformers' BertTokenizer, for whole
texts and for rows of six. For bytes that are not UTF-8, Python decodes a replacement character each, and the numbers
are those of that text.
"""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizer

FOLDER = Path(__file__).parent / "hugging_face"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
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
    '!!! ... --- ??? #$% @x_y __init__ a.b,c;d:e "quoted" (bracketed)',
    "naïve café résumé Ångström Łódź ǅ ß ﬁ",
]
BERT_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT_LEARNED_FROM = LEARNED_FROM + [
    "Der große Bär aß in Łódź, Ångström und Škoda; İstanbul, ISTANBUL, ılık. "
    "ΣΊΣΥΦΟΣ ὀδυσσεύς Ὀδυσσεύς Ёлка ёлка ЙОД йод.",
    "The café's naïve façade, a résumé; Café RÉSUMÉ. Tiếng Việt: phở, Phở. 한국어 한국 말 서울, 日本語 にほんご カタカナ 東京 漢字.",
    "“Quoted” ‘words’ – dashes — and… ellipses! «Guillemets» ‹ones›; "
    "1,000.50 € £5 $3 §7 ¿qué? ¡olé! 50% a+b=c <tag> ~x^2|y`z",
    "हिन्दी में नमस्ते, ภาษาไทย สวัสดี, עברית שלום, العربية مرحبا، أهلا؟ "  # Hindi, Thai, Hebrew, Arabic
    "👍 😀 ½ ² ™ ℝ 𝐀 A B C d e f supercalifragilistic",
]
BERT_TEXTS = TEXTS + [
    "Affable unaffable Unaffable UNAFFABLE",
    "Ångström ångström A\u030angstro\u0308m \u212bngstro\u0308m",
    "große GROSSE GROẞE Straße strasse ẞ ß",
    "İstanbul ISTANBUL ıstanbul i\u0307stanbul İ I ı",
    "ΣΊΣΥΦΟΣ Σίσυφος σ ς Σ ὈΔΥΣΣΕΎΣ ᾧ ᾯ ΐ",
    "Ёлка ЁЛКА Й й и\u0306 Ї ї Ђ",
    "phở Phở pho\u031b\u0309 Tiếng Việt TIẾNG VIỆT",
    "q\u0323\u0307 q\u0307\u0323 zalgo: H\u0336\u0316\u0353e\u0334\u030c\u0300 \u0301alone \u0301",
    "한국어 서울 \u1112\u1161\u11ab\u1100\u116e\u11a8 한국 말",
    "我爱北京天安门 abc漢字def 漢字とかな 東京,大阪",
    "にほんご カタカナ ｶﾞ が か\u3099 パ 日本語。「東京」、",
    "\uf900\ufa0e\ufa10 兀 \U0002f800 \U00020000\U0002a700\U0002b740\U0002b920\U0002ceb0 "
    "\u3400\u4dbf\u4dc0 \u9fff\ua000",
    "emoji 👍🏽 😀😀 👩\u200d👩\u200d👧 🇩🇪 ☺\ufe0f text🥰text",
    "zero\u200bwidth no\u200cjoin \u200djoin \ufeffbom soft\u00adhyphen word\u2060joiner",
    "left\u200eto\u200fright \u202abidi\u202c \u2066isolate\u2069",
    "bell\u0007 null\u0000null esc\u001b[0m del\u007f c1\u0085\u009f vt\u000bff\u000c tag\U000e0041",
    "private\ue000use \ufffdreplaced\ufffd un\u0378assigned non\ufffecharacter",
    "tab\tnew\nline\r\nno\u00a0break\u2002en\u2003em\u2009thin\u202fnarrow\u205fmath\u3000wide\u1680ogham",
    "line\u2028separator paragraph\u2029separator mongolian\u180evowel",
    "“typographic” ‘quotes’ ‚low‘ „German“ «French» ‹single› 'plain' \"double\"",
    "en–dash em—dash hy‐phen non‑breaking minus−sign figure‒dash bar―x",
    "wait… what‽ ¿qué? ¡olé! 50‰ §7 ¶ † ‡ • · ‖",
    "a+b=c a<b>c x^2 y|z `code` ~home $5 €5 £5 ¥5 ±1 ×2 ÷3 ¬p",
    "a\u2260b a\u226eb a\u037eb a\u1fefb a\u0387b \u2329x\u232a \u00b4 \u1ffd \u00a8",
    "@user #tag ##ing ## a##b __init__ C++ C# .NET don't o'clock 3.14 1,000.50",
    "。、「」『』【】〈〉《》！？：；（）［］｛｝～",
    "हिन्दी नमस्ते क्षत्रिय \u0958 \u0915\u093c",
    "עִבְרִית שָׁלוֹם \ufb2a العَرَبِيَّة مرحبا، أهلا؟ \u0640 \u06d4",
    "ภาษาไทย น้ำ สวัสดี ลาว ລາວ ខ្មែរ မြန်မာ བོད་ཡིག",
    "ﬁne ﬂow ǅ Ǆ ǆ ℝ ℂ № ™ ½ ² ³ ⅷ Ⅷ Ⓐ ⓐ 𝐀 𝒷 Å K Ω",
    "Ꭰ ꭰ Ა ა Ⴀ ⴀ Ա ա 𐐀 𐐨 Ḁ ḁ",
    "[CLS] a [SEP] b [MASK] c [PAD] d [UNK]",
    "a[SEP]b [sep] [Sep] [ SEP ] [[SEP]] [SEP][SEP] [SE P] [SEP\u200b] x[MASK]y",
    "[unused1] [SEP is open, ] is closed",
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
    "a" * 100 + " " + "a" * 101,
    "the" * 34 + " " + "the" * 33,
    "é" * 100 + " " + "e\u0301" * 60 + " " + "é" * 101,
    "ab\u200b" * 50 + " " + "ab\u200b" * 51,
    "漢" * 120,
    "!" * 120 + "a" * 99 + ".",
    "\u0301\u0302 \u200b \u0000 [SEP]\u200b",
    "\U0001d157\U0001d165 \u0344x \u0f71\u0f72\u0f73",
]
BERT_BYTES = [
    b"cut \xe2\x82 off \xe2\x82\xac whole \xe2",
    b"latin caf\xe9 na\xefve \xff\xfe\x80",
    b"over\xc0\x80long \xe0\x80\xaf \xf0\x80\x80\x80",
    b"sur\xed\xa0\x80rogate \xed\xbf\xbf be\xf4\x90\x80\x80yond \xf5x\xf8\x88\x80\x80\x80",
    b"\x80\x80[SEP]\xe2\x82[SEP] a\xe6\xbc\xa2b",
]


def learned(pre_tokenizer):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
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
        vocab_size=200,
        limit_alphabet=len(alphabet),
        initial_alphabet=alphabet,
        special_tokens=["<unk>", "<s>", "</s>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(LEARNED_FROM[:5], trainer)
    # Tokens of bytes follow the added tokens, as in Llama 2. They are not added tokens themselves, so no text matches
    # them.
    form = json.loads(tokenizer.to_str())
    vocab = form["model"]["vocab"]
    form["model"]["vocab"] = {name: i if i < 3 else i + 256 for name, i in vocab.items()} | {
        f"<0x{b:02X}>": 3 + b for b in range(256)
    }
    form["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(form))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
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


def write_bert(name, lower_case):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=900, special_tokens=BERT_SPECIALS, show_progress=False)
    tokenizer.train_from_iterator(BERT_LEARNED_FROM, trainer)
    vocab = tokenizer.get_vocab()
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in sorted(vocab, key=vocab.get)), encoding="utf-8")
    bert = BertTokenizer(vocab=vocab, do_lower_case=lower_case)
    assert len(bert) == len(vocab)

    def numbers(text):
        six = bert(text, truncation=True, max_length=6, padding="max_length")["input_ids"]
        return {"tokens": bert(text)["input_ids"], "six": six}

    cases = [{"text": text, **numbers(text)} for text in BERT_TEXTS]
    cases += [{"bytes": list(text), **numbers(text.decode("utf-8", "replace"))} for text in BERT_BYTES]
    lines = ",\n".join(json.dumps(case) for case in cases)
    (folder / "encoded.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


write_bert("bert_cased", lower_case=False)
write_bert("bert_uncased", lower_case=True)
