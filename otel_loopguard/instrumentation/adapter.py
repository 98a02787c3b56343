"""A framework's ``ToolAdapter`` bound to one call, under the shield."""

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
    """Call the adapter's functions for one call. A fault in one has a plain default, except in ``answer``."""

    __slots__ = ("_adapter", "_reading", "_shield")

    def __init__(self, adapter: ToolAdapter, reading: Reading, shield: Shield) -> None:
        self._adapter = adapter
        self._reading = reading
        self._shield = shield

    def answer(self, content: Any, *, error: bool) -> Any:
        """Return the content as a result of the framework. May fail: the caller holds the shield."""
        return self._adapter.answer(self._reading, content, error)

    def annotate(self, result: Any, text: str) -> Any:
        """Return the result with the text added for the model. Return None if it has no place for text."""
        with self._shield("adapter.annotate"):
            return self._adapter.annotate(self._reading, result, text)
        return None

    def mark(self, answer: Any, mark: str) -> Any:
        """Return the refusal with the mark, where the framework has a place for it."""
        with self._shield("adapter.mark"):
            return self._adapter.mark(self._reading, answer, mark)
        return answer

    def outcome(self, result: Any) -> Outcome:
        """Read a result as an outcome."""
        try:
            return self._adapter.outcome(self._reading, result)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            self._shield.take("adapter.outcome", error)
        return _UNKNOWN

    def failure(self, error: BaseException | None) -> Outcome:
        """Read an exception as an outcome. None is a call that never ran."""
        cancelled = not isinstance(error, Exception)
        if error is not None and not cancelled:
            with self._shield("adapter.signals"):
                cancelled = self._adapter.signals(error)
        return Outcome(error=error, cancelled=cancelled)

    def error_class(self) -> type[ToolLoopError] | None:
        """Return the class of the error that aborts a run, if the framework passes one on to its caller."""
        with self._shield("adapter.error"):
            return None if self._adapter.error is None else self._adapter.error()
        return None

    def close_to_text(self) -> None:
        """Add no text to the result: the model has read it already, or the program reads it."""
        self._adapter = replace(self._adapter, annotate=no_place)

    def close_to_reading(self) -> None:
        """Do not read the result, which reading would use up, and add no text. It is equal to no other result."""
        self._adapter = replace(self._adapter, annotate=no_place, outcome=_unread)


def _unread(reading: Reading, result: Any) -> Outcome:  # noqa: ARG001 - the signature of ToolAdapter.outcome
    """Return an outcome that equals no other, as for any unreadable value. REUSE returns the object itself."""
    return Outcome(result=unique_bytes().decode(), keep=result)
