"""Saving: a checkpoint that is written while training continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerocpp import _C, _log
from zerocpp._errors import refuse

if TYPE_CHECKING:
    from zerocpp._attached import Attached

_running: set[Saving] = set()  # they keep their engines, which Python's collector would end on this rank only


class Saving:
    """The result of save(). With blocking=False the checkpoint is not there yet: its path has the older one, or none.

    Each step() of the engine asks whether all ranks have written, and then publishes it. So do poll() and wait(), the
    next save() or load(), close(), and the end of the program without an exception.
    """

    def __init__(self, engine: Attached | None, path: str) -> None:
        """`engine`: of a checkpoint that is running; None: it is published."""
        self._engine = engine
        self._core = None if engine is None else engine._core  # None: the checkpoint is published, or failed
        self._failed: _C.IoError | None = None
        self.path = path
        if engine is not None:
            _running.add(self)

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
            self.let_go()
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
            self.let_go()
            raise
        self._core = None
        self.let_go()
        return True

    def let_go(self) -> None:
        """Local. From here on Python's collector may end the engine."""
        self._engine = None
        _running.discard(self)
