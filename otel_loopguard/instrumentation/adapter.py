"""The functions of a framework's ``ToolAdapter`` for one call, under the shield."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.model import Outcome
from otel_loopguard.core.values.walker import unique_bytes
from otel_loopguard.instrumentation.targets import no_place

if TYPE_CHECKING:
    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
    from otel_loopguard.shield import Shield

_UNKNOWN = Outcome()


class ShieldedAdapter:
    """Translate between one call and the guard. After a fault in the framework's function there is a plain default."""

    __slots__ = ("_adapter", "_reading", "_shield")

    def __init__(self, adapter: ToolAdapter, reading: Reading, shield: Shield) -> None:
        self._adapter = adapter
        self._reading = reading
        self._shield = shield

    def answer(self, content: Any, *, error: bool) -> Any:
        """Return the content as a result of the framework. May fail: the caller holds the shield."""
        return self._adapter.answer(self._reading, content, error)

    def annotate(self, result: Any, text: str) -> Any:
        """Return the result with the text added for the model; None if it has no place for it."""
        with self._shield("adapter.annotate"):
            return self._adapter.annotate(self._reading, result, text)
        return None

    def outcome(self, result: Any) -> Outcome:
        """Read a result as an outcome."""
        try:
            return self._adapter.outcome(self._reading, result)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._shield.take("adapter.outcome", error)
        return _UNKNOWN

    def failure(self, error: BaseException | None) -> Outcome:
        """Read an exception as an outcome; None is a call that was never run."""
        cancelled = not isinstance(error, Exception)
        if error is not None and not cancelled:
            with self._shield("adapter.signals"):
                cancelled = self._adapter.signals(error)
        return Outcome(error=error, cancelled=cancelled)

    def error_class(self) -> type[ToolLoopError] | None:
        """Return the class of the error that aborts a run, if the framework has one that it lets out."""
        with self._shield("adapter.error"):
            return None if self._adapter.error is None else self._adapter.error()
        return None

    def close_to_text(self) -> None:
        """Take the result for one without a place for text: the model has read it already, or the program reads it."""
        self._adapter = replace(self._adapter, annotate=no_place)

    def close_to_reading(self) -> None:
        """Take the result for one that cannot be read without using it up: no two are equal, and none takes text."""
        self._adapter = replace(self._adapter, annotate=no_place, outcome=_unread)


def _unread(reading: Reading, result: Any) -> Outcome:  # noqa: ARG001 - the signature of the table
    """Treat the value as the core treats one that it cannot read. If it is returned again, it is the object itself."""
    return Outcome(result=unique_bytes().decode(), keep=result)
