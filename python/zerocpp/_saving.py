"""Saving: a checkpoint that is written while training continues."""

from __future__ import annotations

from zerocpp import _C, _log
from zerocpp._errors import refuse


class Saving:
    """The result of save(). With blocking=False the checkpoint is not there yet: its path has the older one, or none.

    Each step() of the engine asks whether all ranks have written, and then publishes it. So do poll() and wait(), the
    next save() or load(), close(), and the end of the program without an exception.
    """

    def __init__(self, core: _C.Engine | _C.Pipeline | None, path: str) -> None:
        self._core = core  # None: the checkpoint is published
        self._failed: _C.IoError | None = None
        self.path = path

    @property
    def done(self) -> bool:
        """Local. Whether the checkpoint was published."""
        return not self.running and self._failed is None

    @property
    def running(self) -> bool:
        """Local. Whether the checkpoint is neither published nor failed."""
        return self._core is not None

    @_log.drains
    def poll(self) -> bool:
        """Collective. Returns whether the checkpoint is published. Raises IoError if it cannot be."""
        return self._advance(waits=False)

    @_log.drains
    def wait(self) -> None:
        """Collective. Returns when the checkpoint is durable.

        Raises IoError if it cannot be, and ConfigError if its engine was abandoned before.
        """
        self._advance(waits=True)

    def _advance(self, waits: bool) -> bool:
        if self._failed is not None:
            raise self._failed
        if self._core is None:
            return True
        if self._core.closed:
            raise refuse(
                "save", self.path, "its engine ended before the checkpoint was complete", "load an earlier checkpoint"
            )
        try:
            if waits:
                self._core.wait_for_save()
            elif not self._core.poll_save():
                return False
        except _C.IoError as error:
            self._core, self._failed = None, error
            raise
        self._core = None
        return True
