"""An agent that repeats one call, and its spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry import trace

import otel_loopguard as loopguard
from otel_loopguard.testing import ScriptedAgent

if TYPE_CHECKING:
    from collections.abc import Mapping


@loopguard.tool
def look(path: str) -> str:
    """Look at something."""
    with trace.get_tracer("app").start_as_current_span("inside the tool"):
        return f"there is {path}"


def stuck(tool: str = "look", *, known: bool = True) -> list[int]:
    """Make three equal calls. Return the positions of the refused ones."""
    return ScriptedAgent({"look": look} if known else {}, [(tool, {"path": "a"})] * 3).run().refused


def attributes(span: Any) -> Mapping[str, Any]:
    """The attributes of a span."""
    return span.attributes or {}
