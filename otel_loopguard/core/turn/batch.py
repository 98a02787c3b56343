"""The calls that a model makes in one message: it had read the result of none of them when it made the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_loopguard.core.model import ToolCall

MOST_CALLS = 1_024


class Batch:
    """One message's calls, known by the turn's own time at which they were written.

    A run that is interrupted among them and resumed makes them anew, with the same ids: each is still one call.
    """

    __slots__ = ("_cut", "_now", "_resumed", "_started", "written")

    def __init__(self, written: int) -> None:
        self.written = written
        """What ended since then the model has not read."""
        self._now = written
        """The same of the calls that are made now: later, once they are made anew."""
        self._started: dict[str, int] = {}
        self._cut = self._resumed = False

    def of(self, call: ToolCall, written: int) -> Batch:
        """The message that this call is from: this one, or the next."""
        if written == self._now:
            return self
        if not self._cut or call.call_id not in self._started:
            return Batch(written)
        self._now, self._cut, self._resumed = written, False, True
        return self

    def index(self, call: ToolCall) -> int | None:
        """The index of a call that was started before the run was interrupted, and is made anew."""
        return self._started.get(call.call_id) if self._resumed and call.call_id is not None else None

    def started(self, call: ToolCall, index: int) -> None:
        """The call runs."""
        if call.call_id is not None and len(self._started) < MOST_CALLS:
            self._started[call.call_id] = index

    def cut(self, call: ToolCall) -> None:
        """The call was interrupted: those of the message that are made anew are the same calls, once."""
        if call.call_id in self._started:
            self._cut = True
