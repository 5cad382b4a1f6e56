"""Models with few parameters, and their batches. Models of transformers have random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

VOCABULARY = 97


class Mixed(nn.Module):
    """Most kinds of layers of torch.nn; the head is tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.gru = nn.GRU(16, 16, batch_first=True)
        self.conv = nn.Conv1d(16, 16, 3, padding=1)
        self.norm = nn.BatchNorm1d(16)
        self.weighted = torch.nn.utils.parametrizations.weight_norm(nn.Linear(16, 16))
        self.head = nn.Linear(16, VOCABULARY, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.gru(self.blocks(self.table(tokens)))[0]
        x = self.norm(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return self.head(torch.relu(self.weighted(x)))


class QuantizedLinear(nn.Module):
    """A frozen int8 weight with a scale for each row, as in QLoRA, beside trained adapters."""

    def __init__(self, linear: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        values = linear.weight.detach()
        scale = values.abs().amax(1, keepdim=True) / 127
        self.weight = nn.Parameter((values / scale).round().to(torch.int8), requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight * self.scale) + self.up(self.down(x))


def quantized() -> nn.Module:
    """A llama whose attention is quantized. Everything except the adapters is frozen."""
    model = of_transformers("llama").requires_grad_(False)
    for layer in model.model.layers:  # type: ignore[union-attr]
        for name in ("q_proj", "v_proj"):
            setattr(layer.self_attn, name, QuantizedLinear(getattr(layer.self_attn, name)))  # type: ignore[union-attr]
    return model


def with_adapters(model: nn.Module | None = None) -> nn.Module:
    """A llama with LoRA of peft."""
    import peft

    adapters = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return peft.get_peft_model(model or of_transformers("llama"), adapters)  # type: ignore[arg-type]


def in_four_bits() -> nn.Module:
    """QLoRA: a llama whose linear layers are those of bitsandbytes, with LoRA of peft."""
    import bitsandbytes

    model = of_transformers("llama")
    for name, linear in list(model.named_modules()):
        if isinstance(linear, nn.Linear) and name.endswith("_proj"):
            small = bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, bias=False)
            small.weight = bitsandbytes.nn.Params4bit(linear.weight.data.clone(), requires_grad=False, quant_type="nf4")
            path, _, key = name.rpartition(".")
            setattr(model.get_submodule(path), key, small.to("cpu"))
    model.is_loaded_in_4bit = True  # type: ignore[assignment]
    return with_adapters(model)


def of_transformers(kind: str) -> nn.Module:
    import transformers as t

    sizes: dict[str, Any] = dict(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    no_dropout = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    if kind == "gpt2":
        return t.GPT2LMHeadModel(
            t.GPT2Config(
                vocab_size=VOCABULARY,
                n_positions=32,
                n_embd=32,
                n_layer=2,
                n_head=4,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                bos_token_id=1,
                eos_token_id=2,
            )
        )
    if kind == "llama":
        return t.LlamaForCausalLM(t.LlamaConfig(**sizes, num_key_value_heads=2, max_position_embeddings=64))
    if kind == "bert":
        return t.BertForSequenceClassification(
            t.BertConfig(**sizes, **no_dropout, max_position_embeddings=64, num_labels=3)
        )
    if kind == "t5":
        return t.T5ForConditionalGeneration(
            t.T5Config(
                vocab_size=VOCABULARY,
                d_model=32,
                d_kv=8,
                d_ff=64,
                num_layers=2,
                num_heads=4,
                dropout_rate=0.0,
                decoder_start_token_id=0,
            )
        )
    if kind == "qwen3":
        return t.Qwen3ForCausalLM(t.Qwen3Config(**sizes, num_key_value_heads=2, head_dim=8, max_position_embeddings=64))
    if kind == "mamba":
        return t.MambaForCausalLM(
            t.MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4, time_step_rank=4)
        )
    if kind == "resnet":
        return t.ResNetForImageClassification(
            t.ResNetConfig(
                embedding_size=8,
                hidden_sizes=[8, 16],
                depths=[1, 2],
                layer_type="basic",
                num_labels=3,
            )
        )
    if kind == "mixtral":
        return t.MixtralForCausalLM(
            t.MixtralConfig(**sizes, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2)
        )
    if kind == "vit":
        sizes.pop("vocab_size")
        return t.ViTForImageClassification(
            t.ViTConfig(**sizes, **no_dropout, image_size=16, patch_size=4, num_labels=3)
        )
    if kind == "whisper":
        return t.WhisperForConditionalGeneration(
            t.WhisperConfig(
                vocab_size=VOCABULARY,
                num_mel_bins=8,
                d_model=32,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=64,
                decoder_ffn_dim=64,
                max_source_positions=20,
                dropout=0.0,
                max_target_positions=24,
                decoder_start_token_id=1,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
            )
        )
    raise ValueError(kind)


FAMILIES = ["gpt2", "llama", "bert", "t5", "mixtral", "vit", "whisper"]
MORE_FAMILIES = ["qwen3", "mamba", "resnet"]  # in the full tier only


def make(kind: str) -> nn.Module:
    torch.manual_seed(1)
    own = {"mixed": Mixed, "quantized": quantized, "adapters": with_adapters, "four bits": in_four_bits}
    return own[kind]() if kind in own else of_transformers(kind)


def batch(kind: str, number: int) -> dict[str, torch.Tensor]:
    """Four samples, which ranks divide: rank r of n takes every n-th."""
    random = torch.Generator().manual_seed(100 + number)
    if kind in ("vit", "resnet"):
        width = 16 if kind == "vit" else 32
        return {
            "pixel_values": torch.randn(4, 3, width, width, generator=random),
            "labels": torch.randint(0, 3, (4,), generator=random),
        }
    if kind == "whisper":
        return {
            "input_features": torch.randn(4, 8, 40, generator=random),
            "labels": torch.randint(3, VOCABULARY, (4, 12), generator=random),
        }
    tokens = torch.randint(3, VOCABULARY, (4, 16), generator=random)
    labels = torch.randint(0, 3, (4,), generator=random) if kind == "bert" else tokens
    return {"input_ids": tokens, "labels": labels}


def sentences(count: int, first: int = 0, classes: int = 0) -> torch.utils.data.Dataset[dict[str, torch.Tensor]]:
    """Random tokens, which are their own labels. With `classes` the label is a class, which follows from the first
    token."""

    class Sentences(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
        def __len__(self) -> int:
            return count

        def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
            tokens = torch.randint(3, 97, (12,), generator=torch.Generator().manual_seed(first + index))
            return {"input_ids": tokens, "labels": tokens[0] % classes if classes else tokens}

    return Sentences()


def images(count: int) -> torch.utils.data.Dataset[dict[str, torch.Tensor]]:
    """Random images of 32 x 32, in three classes."""

    class Images(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
        def __len__(self) -> int:
            return count

        def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
            pixels = torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(index))
            return {"pixel_values": pixels, "labels": torch.tensor(index % 3)}

    return Images()


def part_of(samples: dict[str, torch.Tensor], rank: int, world: int) -> dict[str, torch.Tensor]:
    return {name: values[rank::world].contiguous() for name, values in samples.items()}


def loss_of(kind: str, model: nn.Module, samples: dict[str, torch.Tensor]) -> torch.Tensor:
    if kind == "mixed":
        logits = model(samples["input_ids"])
        return nn.functional.cross_entropy(logits.flatten(0, 1), samples["labels"].flatten())
    return model(**samples).loss
