"""The calls of one model message: when the model wrote them, it had read the result of none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_loopguard.engine.words import ToolCall

MOST_CALLS = 1_024


class Batch:
    """The calls of one model message, identified by the turn's tick when the message was written.

    A run that is interrupted among them and resumed makes them again, with the same ids: each is still one call.
    """

    __slots__ = ("_started", "interrupted", "latest", "resumed", "written")

    def __init__(self, written: int) -> None:
        self.written = written
        """The model has read nothing that ended after this tick."""
        self.latest = written
        """The tick that the calls of the batch have now: after a resume they are written once more, later."""
        self.resumed = False
        """The calls of the batch are being made again, after an interrupt."""
        self._started: dict[str, int] = {}
        """The index of each call that was started, by its id."""
        self.interrupted = False
        """A call was interrupted, and the calls are not yet being made again."""

    def following(self, call: ToolCall) -> Batch:
        """Return the batch of a call that was written later: this one if it is resumed, else a new one."""
        written = call.written or 0
        if not self.interrupted or call.call_id not in self._started:
            return Batch(written)
        self.latest, self.interrupted, self.resumed = written, False, True
        return self

    def resumed_index(self, call: ToolCall) -> int | None:
        """Return the index of a call that was started before an interrupt and is made again; None for the others."""
        return self._started.get(call.call_id) if self.resumed and call.call_id is not None else None

    def add(self, call: ToolCall, index: int) -> None:
        """Remember a call that starts."""
        if call.call_id is not None and len(self._started) < MOST_CALLS:
            self._started[call.call_id] = index

    def interrupt(self, call: ToolCall) -> None:
        """Note that a call was interrupted: calls of the batch that are made again are the same calls."""
        if call.call_id in self._started:
            self.interrupted = True
