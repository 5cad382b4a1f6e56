"""ZeRO for any PyTorch module: parameters, gradients and optimizer state are partitioned over ranks and memory tiers.

    import torch, zerocpp as zero                       # started by: zero launch -n 4 -- python train.py, or torchrun

    model = Net()                                       # any torch.nn.Module, unmodified
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    with zero.attach(model, optimizer, stage=3, clip=1.0) as engine:
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            engine.step()

A function is Collective if every rank must call it in the same order, else Local.
"""

from zerocpp import _torch_check  # imports torch, before the extension is loaded

_torch_check.require_torch()

from zerocpp import _log  # noqa: E402

_log.start()

from zerocpp._C import (  # noqa: E402
    CommError,
    ConfigError,
    DeviceError,
    Error,
    InternalError,
    IoError,
    Report,
    StepReport,
    World,
    keep_memory,
)
from zerocpp._checkpoints import checkpoint  # noqa: E402
from zerocpp._engine import Engine, Loaded, Saving, attach, engine_of  # noqa: E402
from zerocpp._deferred import deferred, is_deferred  # noqa: E402
from zerocpp._pipeline import PipelineEngine, attach_pipeline, together  # noqa: E402
from zerocpp._optimizer import LAMB, SGD, Adafactor, Adam, AdamW, AdamW8bit, EngineOptimizer, Lion, Muon  # noqa: E402
from zerocpp._plan import Plan, plan  # noqa: E402
from zerocpp._run_log import RunLog  # noqa: E402
from zerocpp._world import mean, world  # noqa: E402

__version__ = _torch_check.version()

__all__ = [
    "LAMB",
    "SGD",
    "Adafactor",
    "Adam",
    "AdamW",
    "AdamW8bit",
    "CommError",
    "ConfigError",
    "DeviceError",
    "Engine",
    "EngineOptimizer",
    "Error",
    "InternalError",
    "IoError",
    "Lion",
    "Loaded",
    "Muon",
    "PipelineEngine",
    "Plan",
    "Report",
    "RunLog",
    "Saving",
    "StepReport",
    "World",
    "attach",
    "attach_pipeline",
    "checkpoint",
    "deferred",
    "engine_of",
    "is_deferred",
    "keep_memory",
    "mean",
    "plan",
    "together",
    "world",
]
