"""A loop by hand, as around a chat API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.cli.demo.world import failing_as
from otel_loopguard.instrumentation.functions.decorator import call
from otel_loopguard.instrumentation.turn_api import turn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.cli.demo.model import Model


def run(tools: Mapping[str, Callable[..., str]], model: Model) -> None:
    """One message of a user."""
    told = {name: failing_as(tool, lambda text: f"Error: {text}") for name, tool in tools.items()}
    read: list[str] = []
    with turn(agent_name="demo"):
        while (ask := model.next(read)) is not None:
            read.append(str(call(ask.tool, ask.arguments, told.get(ask.tool), known_tools=told)))
