"""Read the MCP annotations of a tool, which frameworks pass on in several forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_loopguard.engine.vocabulary import Hints


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
    """Return the attribute or item ``name``, else ``name_on_wire``; None if there is neither.

    MCP before version 2 has the name on the wire only. Version 2 and FastMCP warn when it is read.
    """
    if isinstance(model, Mapping):
        return model.get(name, model.get(name_on_wire))
    return getattr(model, name) if hasattr(model, name) else getattr(model, name_on_wire, None)
