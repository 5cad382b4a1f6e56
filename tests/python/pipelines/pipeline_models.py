"""Models that pipeline_test.py cuts into sections, and their batches."""

from __future__ import annotations

from typing import Any


def model_of(kind: str) -> Any:
    import small_models
    import torch
    import transformers as t
    from torch import nn

    torch.manual_seed(1)
    if kind == "bert":  # small_models has another head
        sizes: dict[str, Any] = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
        no_dropout = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        return t.BertForMaskedLM(
            t.BertConfig(vocab_size=small_models.VOCABULARY, **sizes, **no_dropout, max_position_embeddings=64)
        )
    if kind == "dropout":
        sizes = dict(vocab_size=small_models.VOCABULARY, n_positions=32, n_embd=32, n_layer=2, n_head=4)
        return t.GPT2LMHeadModel(t.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2))
    if kind == "resnet":
        config = t.ResNetConfig(
            num_channels=2, embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2], layer_type="basic", num_labels=8
        )
        return t.ResNetForImageClassification(config)
    if kind in ("reentrant", "not reentrant"):
        model = small_models.make("llama")
        model.gradient_checkpointing_enable({"use_reentrant": kind == "reentrant"})  # type: ignore[operator]
        return model.train()
    if kind in ("reads", "function"):

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return (x * x).sin()

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
                (x,) = ctx.saved_tensors
                return gradient * 2 * x * (x * x).cos()

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(16, 16)

            def forward(self, x: Any) -> Any:
                import zerocpp as zero

                y = self.linear(x)
                if kind == "function":
                    return x + Double.apply(y)
                kept = zero.together(
                    lambda z: z[z > 0].mean().expand(z.shape[0]), [y], like=torch.empty(y.shape[0], requires_grad=True)
                )
                return x + y * kept[:, None]

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(4)])
                self.head = nn.Linear(16, 8)

            def forward(self, x: Any) -> Any:
                for block in self.blocks:
                    x = block(x)
                return self.head(x)

        return Net()
    return small_models.make(kind)


def batch_of(kind: str, number: int) -> dict[str, Any]:
    import small_models
    import torch

    if kind == "resnet":
        random = torch.Generator().manual_seed(number)
        return {
            "pixel_values": torch.randn(4, 2, 16, 16, generator=random),
            "labels": torch.randint(0, 8, (4,), generator=random),
        }
    if kind in ("reads", "function"):
        random = torch.Generator().manual_seed(number)
        return {
            "x": torch.randn(4, 16, generator=random),
            "labels": torch.randint(0, 8, (4,), generator=random),
        }
    found = small_models.batch("gpt2" if kind == "bert" else kind, number)
    if kind == "bert":
        found["attention_mask"] = (torch.arange(16) < 14).long().expand(4, -1)
    return found


def loss_of(kind: str, model: Any, batch: dict[str, Any]) -> Any:
    from torch import nn

    if kind in ("reads", "function"):
        return nn.functional.cross_entropy(model(batch["x"]), batch["labels"])
    return model(**batch).loss
