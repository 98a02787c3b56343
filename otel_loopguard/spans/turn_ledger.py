"""Write the ledger of a turn to the attributes of the turn's span, and read it from them, by one table."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard import semconv
from otel_loopguard.engine.ledger import NOTHING_SPENT, Ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

_ATTRIBUTES: Final = {
    "requests": semconv.TURN_REQUESTS,
    "input_tokens": semconv.TURN_INPUT_TOKENS,
    "cached_tokens": semconv.TURN_CACHED_TOKENS,
    "output_tokens": semconv.TURN_OUTPUT_TOKENS,
    "cost": semconv.TURN_COST,
    "unmetered": semconv.TURN_UNMETERED,
    "children": semconv.TURN_CHILDREN,
    "depth": semconv.TURN_DEPTH,
    "compactions": semconv.TURN_COMPACTIONS,
    "loop_calls": semconv.TURN_LOOP_CALLS,
    "loop_tokens": semconv.TURN_LOOP_TOKENS,
    "seconds": semconv.TURN_SECONDS,
    "model_seconds": semconv.TURN_MODEL_SECONDS,
    "tool_seconds": semconv.TURN_TOOL_SECONDS,
}
"""By field. The span has no calls: each has a span of its own."""
_FRACTIONS: Final = frozenset({"cost", "seconds", "model_seconds", "tool_seconds"})
_MOST: Final = 1 << 53


def attributes_of(ledger: Ledger) -> dict[str, int | float]:
    """Return the attributes of what a turn spent. Without a number there is no attribute, but of the requests."""
    found = {name: getattr(ledger, field) for field, name in _ATTRIBUTES.items()}
    return {name: number for name, number in found.items() if number or name == semconv.TURN_REQUESTS}


def ledger_of(attributes: Mapping[str, Any]) -> Ledger | None:
    """Return the ledger in the attributes of a turn's span, without its calls; None if it has none.

    The requests without a price are known only as far as none has one, or their tokens are not known.
    """
    if _number("requests", attributes.get(semconv.TURN_REQUESTS)) is None:
        return None
    numbers = {field: _number(field, attributes.get(name)) for field, name in _ATTRIBUTES.items()}
    found = NOTHING_SPENT._replace(**{field: number for field, number in numbers.items() if number is not None})
    return found._replace(unpriced=found.unmetered if found.cost else found.requests)


def _number(field: str, value: Any) -> Any:
    """Return the number of a field; None if the value cannot be one."""
    is_number = type(value) is int or (field in _FRACTIONS and type(value) is float and isfinite(value))
    return value if is_number and 0 <= value <= _MOST else None
