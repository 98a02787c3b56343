"""Read the MCP annotations of a tool, which frameworks pass on in several forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_loopguard.core.model import Hints


def hints_of(annotations: Any) -> Hints | None:
    """Return the hints in a tool's annotations, an object or a mapping; None if there are none.

    The protocol's defaults are not applied: they would make every tool a destructive one.
    """
    hints = Hints(
        _either(annotations, "read_only_hint", "readOnlyHint"),
        _either(annotations, "destructive_hint", "destructiveHint"),
        _either(annotations, "idempotent_hint", "idempotentHint"),
    )
    return None if hints == Hints() else hints


def _either(annotations: Any, name: str, name_on_wire: str) -> Any:
    """Read a hint by either name: versions of MCP before 2 use the one on the wire."""
    if isinstance(annotations, Mapping):
        return annotations.get(name, annotations.get(name_on_wire))
    return getattr(annotations, name, getattr(annotations, name_on_wire, None))
