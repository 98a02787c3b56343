"""``@loopguard.tool`` with LangChain's own decorator, above it and below it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.tools import BaseTool, tool

import otel_loopguard as loopguard
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable


def search(query: str, most: int = 3) -> str:
    """Search for a text."""
    return f"nothing for {query} among {most}"


class Search:
    """Search for a text."""

    def __call__(self, query: str, most: int = 3) -> str:
        """Search now."""
        return search(query, most)


MADE: dict[str, Callable[[], Any]] = {
    "above": lambda: tool(loopguard.tool(search)),
    "below": lambda: loopguard.tool(tool(search)),
    "above an object": lambda: tool("search")(loopguard.tool(Search())),
    "above a partial": lambda: tool(loopguard.tool(functools.partial(search))),
    "above a cached function": lambda: tool(loopguard.tool(functools.lru_cache(search))),
}


@pytest.mark.parametrize("name", MADE)
def test_the_tool_has_its_schema_and_its_calls_count_once(name: str) -> None:
    """The model sees the parameters, and the third equal call is refused."""
    made = MADE[name]()
    assert isinstance(made, BaseTool)
    assert made.name == "search"
    assert {name: schema["type"] for name, schema in made.args.items()} == {"query": "string", "most": "integer"}
    with guarded() as recording, loopguard.turn():
        for number in range(3):
            made.invoke({"name": "search", "args": {"query": "x"}, "id": str(number), "type": "tool_call"})
        assert recording.outcomes == ["executed", "nudged", "blocked"]
