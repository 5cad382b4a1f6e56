"""deepspeed.runtime.zero: the names that scripts import from it."""

from zerocpp.deepspeed.runtime.zero import offload_config

__all__ = ["offload_config"]
