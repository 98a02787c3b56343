"""A framework's ``ToolAdapter`` bound to one call. A fault of it is counted and logged, and gets no further."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Outcome
from otel_loopguard.instrumentation.targets import no_place

if TYPE_CHECKING:
    from otel_loopguard.errors import RunStopped
    from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
    from otel_loopguard.shield import Shield


class ShieldedAdapter:
    """Call the functions of an adapter that few calls need. If one has a fault, a plain default is returned."""

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
        """Return the refusal with the policy's mark; unchanged if the framework has no place for one."""
        with self._shield("adapter.mark"):
            return self._adapter.mark(self._reading, answer, mark)
        return answer

    def failure(self, error: BaseException | None) -> Outcome:
        """Return the outcome of a call that raised. ``error`` is None for a call that was cut short or never ran."""
        cancelled = not isinstance(error, Exception)
        if error is not None and not cancelled:
            with self._shield("adapter.signals"):
                cancelled = self._adapter.signals(error)
        return Outcome(error=error, cancelled=cancelled)

    def error_class(self) -> type[RunStopped] | None:
        """Return the class of error that the framework passes on to its caller; None if it passes none on."""
        with self._shield("adapter.error"):
            return None if self._adapter.error is None else self._adapter.error()
        return None


def without_text(adapter: ToolAdapter) -> ToolAdapter:
    """Return an adapter that adds no text to results, for a result that the model may have read already."""
    return replace(adapter, annotate=no_place)
