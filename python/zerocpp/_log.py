"""The library's log lines, in Python's logging: the logger "zerocpp".

The library's threads write their lines into a queue. The package empties it at its calls. Errors are also written to
standard error at once, because a rank that ends may make no further call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from zerocpp import _C

logger = logging.getLogger("zerocpp")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

P = ParamSpec("P")
R = TypeVar("R")


def start() -> None:
    """Local. Takes over the library's lines. ZERO_LOG_LEVEL sets the level of the logger, if the program set none."""
    wanted = os.environ.get("ZERO_LOG_LEVEL", "")
    if wanted in _LEVELS and logger.level == logging.NOTSET:
        logger.setLevel(_LEVELS[wanted])
        if _LEVELS[wanted] < logging.WARNING and not logger.hasHandlers():  # Python's last resort shows only warnings
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("zero: %(levelname)s: %(message)s"))
            logger.addHandler(handler)
    _C.log_to_python(logger.getEffectiveLevel())


def drain() -> None:
    """Local. Logs the lines since the last call. Follows a change of the logger's level."""
    lines = _C.take_log()
    if lines:
        rank = os.environ.get("RANK")
        prefix = "" if rank is None else f"rank {rank}: "
        handled = logger.hasHandlers()
        for level, line in lines:
            if handled or level < logging.ERROR:  # without a handler standard error would get the error twice
                logger.log(level, "%s%s", prefix, line)
    _C.log_to_python(logger.getEffectiveLevel())


def drains(function: Callable[P, R]) -> Callable[P, R]:
    """Local. Returns a function that empties the queue at its end, also after an exception."""

    @wraps(function)
    def draining(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        finally:
            drain()

    return draining
