"""The supported frameworks, one a file, with every fact of each. A framework is imported only inside of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.instrumentation.frameworks import langchain, mcp, openai_agents, pydantic_ai, threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.instrumentation.targets import Target

FRAMEWORKS = tuple(module.FRAMEWORK for module in (langchain, mcp, openai_agents, pydantic_ai, threads))


def all_targets() -> Iterator[Target]:
    """Yield the targets of all frameworks."""
    for framework in FRAMEWORKS:
        yield from framework.targets
