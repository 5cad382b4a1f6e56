"""deepspeed.runtime: the names that scripts import from it."""

from zerocpp.deepspeed.runtime import zero

__all__ = ["zero"]
