"""deepspeed.ops: the optimizers."""

from zerocpp.deepspeed.ops import adam

__all__ = ["adam"]
