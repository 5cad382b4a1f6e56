"""The GPT that zero.cpp and its peers train: model for PyTorch, text, first weights, samples and learning rates.

    prepare(zero, folder, evaluated=480)                    # train.txt, validation.txt and first/model.safetensors
    run([zero, "train", *train_flags(folder, 12, keys)])    # zero.cpp's run: 12 samples a step of all ranks
    model = make_gpt(); load(model, first_weights(folder))  # the same in PyTorch, with windows_of() and lr_of()

The model is that of examples/shakespeare on that example's text, or one of another Shape. A peer begins with the
weights of a run of `zero train`, and draws the same samples. Window g of a run depends only on the seed and g
(app/data/sample/sample_order.h). The remaining difference between the losses of DDP and of a synchronous run is
rounding.
"""

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.training_run import ROOT

CONFIG = "examples/shakespeare/shakespeare.toml"
CONTEXT = 64  # tokens of a sample
SEED = 1337
TEXT = ROOT / "examples/shakespeare/input.txt"
VALIDATION = 0.1  # share of the text, at its end
LR = 1e-3
ALL_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Shape:
    """Shape of a GPT, as in [model]; `context` is the length of the longest sample."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    context: int = CONTEXT
    vocab: int = 256

    def keys(self):
        return {f"model.{name}": getattr(self, name) for name in ("layers", "width", "heads", "context", "vocab")}


EXAMPLE = Shape()


# ---- samples and learning rates --------------------------------------------------------------------------------------


def mixed(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL_BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & ALL_BITS
    return x ^ (x >> 31)


def shuffled_offset(seed, g, count):
    """The place of window g of a run, among `count` places: app/data/sample/sample_order.cpp."""
    golden = 0x9E3779B97F4A7C15
    return mixed((mixed((seed + golden) & ALL_BITS) + (g + 1) * golden) & ALL_BITS) * count >> 64


def windows_of(step, rank, ranks, samples, size, context=CONTEXT):
    """First tokens of the windows of a rank's step, in a text of `size` tokens; `samples` counts those of all ranks in
    a step."""
    own = samples // ranks
    first = step * samples + rank * own
    return [shuffled_offset(SEED, first + row, size - context) for row in range(own)]


def lr_of(step, warm_up):
    """Learning rate of a step, from 0: it grows to LR and then stays constant (zero/optim/lr_schedule.cpp)."""
    return LR * min(1, (step + 1) / (warm_up + 1))


def texts(evaluated):
    """Bytes for training, and the first `evaluated` windows of the bytes for validation."""
    text = TEXT.read_bytes()
    begin = len(text) - math.ceil(len(text) * VALIDATION)
    return text[:begin], text[begin : begin + evaluated * CONTEXT + 1]


# ---- zero.cpp's side -------------------------------------------------------------------------------------------------


def train_flags(folder, samples, keys, warm_up=0):
    """Flags of `zero train` after the command: the file, and keys that make it train as peers do."""
    always = {
        "train.global_batch": samples,
        "train.seed": SEED,
        "train.sample": 0,
        "train.eval_every": 0,
        "train.eval_batches": 0,
        "data.path": folder / "train.txt",
        "data.validation": 0,
        "optimizer.lr": LR,
        "schedule.name": "constant",
        "schedule.warmup": warm_up,
        "run.threads": 1,
        "checkpoint.every": 0,
    }
    return [CONFIG, *(f"--{key}={value}" for key, value in {**always, **keys}.items())]


def first_weights(folder):
    return folder / "first/model.safetensors"


def prepare(zero, folder, evaluated, shape=EXAMPLE):
    """Writes the two texts, and the first weights of every run: those after a step that changes nothing."""
    for name, text in zip(["train.txt", "validation.txt"], texts(evaluated)):
        (folder / name).write_bytes(text)
    keys = {
        "train.steps": 1,
        "optimizer.lr": 0,
        "run.dir": first_weights(folder).parent,
        "data.context": CONTEXT,
        **shape.keys(),
    }
    done = subprocess.run(
        [zero, "train", *train_flags(folder, 1, keys), "-n", "1"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)


# ---- a peer's side ---------------------------------------------------------------------------------------------------


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def make_gpt(shape=EXAMPLE):
    """A GPT in PyTorch: model.blocks has its blocks, model(tokens, targets) is the mean loss."""
    import torch
    from torch import nn

    width, heads, vocab = shape.width, shape.heads, shape.vocab

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = (
                y.view(b, t, heads, width // heads).transpose(1, 2) for y in self.attention(self.ln_1(x)).chunk(3, -1)
            )
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
            return x + self.down(nn.functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(shape.context, width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(shape.layers))), nn.LayerNorm(width)

        def forward(self, x, targets):
            x = self.norm(self.blocks(self.tokens(x) + self.places(torch.arange(x.size(1)))))
            return nn.functional.cross_entropy((x @ self.tokens.weight.T).view(-1, vocab), targets.reshape(-1))

    return Gpt()


def name_in_file(name):
    """The name that a parameter of make_gpt() has in a GPT-2's file."""
    for here, there in [
        ("tokens.", "wte."),
        ("places.", "wpe."),
        ("norm.", "ln_f."),
        ("blocks.", "h."),
        (".attention.", ".attn.c_attn."),
        (".out.", ".attn.c_proj."),
        (".up.", ".mlp.c_fc."),
        (".down.", ".mlp.c_proj."),
    ]:
        name = name.replace(here, there)
    return f"transformer.{name}"


def load(model, file):
    """Loads fp32 weights from a safetensors file; a GPT-2's matrices are transposed there."""
    import torch

    data = Path(file).read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    with torch.no_grad():
        for name, p in model.named_parameters():
            entry = header.pop(name_in_file(name))
            first, last = entry["data_offsets"]
            values = torch.frombuffer(bytearray(data[begin + first : begin + last]), dtype=torch.float32).view(
                entry["shape"]
            )
            p.copy_(values.T if name.startswith("blocks.") and p.dim() == 2 else values)
    if set(header) - {"__metadata__"}:
        raise ValueError(f"{file} has weights that the peer's model lacks: {', '.join(header)}")


ADAMW = {"lr": LR, "betas": (0.9, 0.99), "eps": 1e-8}


def decayed(model):
    """Parameter groups of a model, with the weight decay of `zero train` for a GPT: only matrices decay."""
    return [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]


def adamw_of(model):
    import torch

    return torch.optim.AdamW(decayed(model), **ADAMW, fused=True)
