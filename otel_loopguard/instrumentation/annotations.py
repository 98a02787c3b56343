"""What an MCP server says of its tools, where a framework hands it on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_loopguard.core.model import Hints


def hints_of(annotations: Any) -> Hints | None:
    """The hints in a tool's annotations, an object or a mapping; None if it says nothing.

    Only what the server says itself: the protocol's defaults would make every tool a destructive one.
    """
    hints = Hints(
        _either(annotations, "read_only_hint", "readOnlyHint"),
        _either(annotations, "destructive_hint", "destructiveHint"),
        _either(annotations, "idempotent_hint", "idempotentHint"),
    )
    return None if hints == Hints() else hints


def _either(said: Any, name: str, on_the_wire: str) -> Any:
    """By the name it has in the protocol, too, which versions of MCP before 2 use."""
    if isinstance(said, Mapping):
        return said.get(name, said.get(on_the_wire))
    return getattr(said, name, getattr(said, on_the_wire, None))
