"""The frameworks, one a file. A file names modules and paths as text; it imports its framework only in functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.instrumentation.frameworks import langchain, mcp, openai_agents, pydantic_ai, threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.instrumentation.targets import Target

FRAMEWORKS = tuple(module.FRAMEWORK for module in (langchain, mcp, openai_agents, pydantic_ai, threads))


def all_targets() -> Iterator[Target]:
    """The rows of every framework's table."""
    for framework in FRAMEWORKS:
        yield from framework.targets
