"""Read the MCP annotations of a tool, which frameworks pass on in several forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_loopguard.engine.words import Hints


def hints_of(annotations: Any) -> Hints | None:
    """Return the hints in a tool's annotations, an object or a mapping; None if there are none.

    The protocol's defaults are not applied: they would make every tool a destructive one.
    """
    hints = Hints(
        either_name(annotations, "read_only_hint", "readOnlyHint"),
        either_name(annotations, "destructive_hint", "destructiveHint"),
        either_name(annotations, "idempotent_hint", "idempotentHint"),
    )
    return None if hints == Hints() else hints


def either_name(model: Any, name: str, name_on_wire: str) -> Any:
    """Read an attribute by either of its names: versions of MCP before 2 use the one on the wire.

    The second name is read only without the first: version 2 and FastMCP warn of it.
    """
    if isinstance(model, Mapping):
        return model.get(name, model.get(name_on_wire))
    return getattr(model, name) if hasattr(model, name) else getattr(model, name_on_wire, None)
