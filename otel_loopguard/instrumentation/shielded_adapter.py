"""A framework's ``ToolAdapter`` bound to one call, under the shield."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.words import Outcome
from otel_loopguard.instrumentation.targets import no_place

if TYPE_CHECKING:
    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
    from otel_loopguard.shield import Shield


class ShieldedAdapter:
    """Call the functions of an adapter that few calls need. A fault in one has a plain default."""

    __slots__ = ("_adapter", "_reading", "_shield")

    def __init__(self, adapter: ToolAdapter, reading: Reading, shield: Shield) -> None:
        self._adapter = adapter
        self._reading = reading
        self._shield = shield

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


def closed_to_text(adapter: ToolAdapter) -> ToolAdapter:
    """Return an adapter that adds no text to the result: the model has read it already, or the program reads it."""
    return replace(adapter, annotate=no_place)
