"""refuse(): the ConfigError that all Python files of the package raise."""

from __future__ import annotations

from zerocpp import _C


def refuse(key: str, value: object, reason: str, remedy: str) -> _C.ConfigError:
    """Local. Returns the error with the text "KEY = VALUE: REASON", and the remedy in a second line."""
    return _C.ConfigError(f"{key} = {value}: {reason}\n  {remedy}")
