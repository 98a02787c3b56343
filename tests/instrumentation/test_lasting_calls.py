"""Calls whose function returns a generator: they last until its last item."""

from __future__ import annotations

import asyncio
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import ToolLoopError, semconv
from otel_loopguard.engine.vocabulary import ToolCall
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    Items,
    Original,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.instrumentation.turn_api import turn
from otel_loopguard.instrumentation.wrappers import wrapper_of
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

GENERATORS = (GeneratorType, AsyncGeneratorType)


def find(result: Any) -> Any:
    return result["value"] if isinstance(result["value"], GENERATORS) else None


ADAPTER = ToolAdapter(
    read=lambda instance, args, kwargs: Reading(ToolCall("ask", args, known_tools=("ask",))),
    answer=lambda reading, content, error: {"value": content},
    annotate=lambda reading, result, text: {"value": f"{result['value']} {text}"},
)
ITEMS = Items(
    find=find,
    put=lambda instance, result, items: result.update(value=items),
    said=str,
    result_of=lambda text: {"value": text},
    text_in=lambda result: str(result["value"]),
)


class Tool:
    """A method of a framework that returns a generator in its result."""

    def __init__(self, *items: Any) -> None:
        self.items = items
        self.inside: list[Any] = []
        self.closed = 0

    def run(self, _: str) -> dict[str, Any]:
        """Return a generator."""
        return {"value": self._go()}

    async def arun(self, _: str) -> dict[str, Any]:
        """Return an async generator."""
        return {"value": self._ago()}

    def plain(self, _: str) -> dict[str, Any]:
        """Return a text."""
        return {"value": "no generator"}

    def _go(self) -> Iterator[Any]:
        try:
            for item in self.items:
                self.inside.append(current_scope())
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.closed += 1

    async def _ago(self) -> AsyncIterator[Any]:
        for item in self._go():
            await asyncio.sleep(0)
            yield item


def read_all(tool: Tool, style: str) -> Any:
    """Call the wrapped method, and read the items as a framework does."""
    way = CallStyle.ASYNC if style == "arun" else CallStyle.SYNC
    function = vars(Tool)[style]
    wrapped = wrapper_of(ToolTarget("", "", ADAPTER, way, items=ITEMS), Original(function, function.__get__))

    async def read() -> Any:
        result = wrapped(tool, "x")
        value = (await result if way is CallStyle.ASYNC else result)["value"]
        assert current_scope() is None or current_scope().call is None  # type: ignore[union-attr]
        if isinstance(value, AsyncGeneratorType):
            return "".join([item async for item in value])
        return value if isinstance(value, str) else "".join(value)

    return asyncio.run(read())


@pytest.mark.parametrize("style", ["run", "arun"])
def test_the_items_are_one_result(style: str) -> None:
    """A sentence is the last item, a refusal runs nothing, and each item is made inside of the call."""
    tool = Tool("one ", "two")
    with guarded() as recording, turn():
        read = [read_all(tool, style) for _ in range(3)]
        assert read[0] == "one two"
        assert read[1].startswith("one two ")
        assert "tool_loop_detected" in read[2]
        assert all(scope.call is not None for scope in tool.inside)
        assert tool.closed == 2
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_result_without_a_generator_ends_the_call() -> None:
    """The method may return any other result, too."""
    with guarded() as recording, turn():
        assert read_all(Tool(), "plain") == "no generator"
        assert recording.outcomes == ["executed"]


@pytest.mark.parametrize("style", ["run", "arun"])
def test_an_exception_between_items_is_a_failure(style: str) -> None:
    """It reaches the framework, and the call has failed."""
    with guarded() as recording, turn():
        with pytest.raises(LookupError):
            read_all(Tool("one", LookupError("no")), style)
        assert recording.outcomes == ["failed"]


@pytest.mark.parametrize("style", ["run", "arun"])
def test_the_abort_of_a_run_inside_is_read(style: str) -> None:
    """It does not end the run around the call, which has failed."""

    def go() -> str:
        inner = f"{current_scope().turn.id}/1"  # type: ignore[union-attr]
        error = ToolLoopError("stopped", tool_name="look", mode="m", repeats=1, limit=1, turn_id=inner)
        return str(read_all(Tool("one ", error), style))

    run = wrapper_of(RunTarget("", "", lambda *_: RunInfo()), Original(go, None))
    with guarded() as recording:
        assert run() == "one stopped"
        assert recording.outcomes == ["failed"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_items_that_are_left_cancel_the_call() -> None:
    """A generator that is closed early closes the tool's."""
    tool = Tool("one", "two")
    function = Tool.run
    wrapped = wrapper_of(ToolTarget("", "", ADAPTER, items=ITEMS), Original(function, function.__get__))
    with guarded() as recording, turn():
        items = wrapped(tool, "x")["value"]
        assert next(items) == "one"
        items.close()
        assert tool.closed == 1
        assert recording.outcomes == ["cancelled"]


def test_without_a_guard_nothing_is_wrapped() -> None:
    """The result is the method's own."""
    assert read_all(Tool("one ", "two"), "run") == "one two"
    assert read_all(Tool("one ", "two"), "arun") == "one two"


# --- an async generator whose last item is the result ------------------------------------------------------------

KEPT: list[str] = []
"""The place where the framework keeps its results."""


def note(reading: Reading, result: Any, text: str) -> Any:
    KEPT[-1] = f"{KEPT[-1]} {text}"
    return result


STREAM = ToolAdapter(
    read=lambda instance, args, kwargs: Reading(ToolCall("ask", args, known_tools=("ask",))),
    answer=lambda reading, content, error: content,
    annotate=note,
)


async def read_stream(*items: Any, most: int = 10) -> list[Any]:
    """Read the items of a wrapped stream, at most so many."""

    async def stream(_: str) -> AsyncIterator[Any]:
        for item in items:
            assert current_scope() is None or current_scope().call is not None  # type: ignore[union-attr]
            if isinstance(item, Exception):
                raise item
            yield item
        KEPT.append(items[-1])

    wrapped = wrapper_of(ToolTarget("", "", STREAM, CallStyle.ASYNC_GENERATOR), Original(stream, None))
    read: list[Any] = []
    source = wrapped("x")
    async for item in source:
        assert current_scope() is None or current_scope().call is None  # type: ignore[union-attr]
        read.append(item)
        if len(read) == most:
            await source.aclose()
    return read


async def test_the_last_item_of_a_stream_is_the_result() -> None:
    """All items pass, a sentence goes to where the result is kept, and a refusal is the only item."""
    KEPT.clear()
    with guarded() as recording, turn():
        read = [await read_stream("at work", "done") for _ in range(3)]
        assert read[:2] == [["at work", "done"]] * 2
        assert len(read[2]) == 1
        assert "tool_loop_detected" in read[2][0]
        assert KEPT[0] == "done"
        assert KEPT[1].startswith("done ")
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


async def test_a_stream_that_raises_has_failed() -> None:
    """The exception reaches the framework."""
    with guarded() as recording, turn():
        with pytest.raises(LookupError):
            await read_stream("at work", LookupError("no"))
        assert recording.outcomes == ["failed"]


async def test_a_stream_that_is_left_is_cancelled() -> None:
    """It is closed early."""
    with guarded() as recording, turn():
        assert await read_stream("at work", "done", most=1) == ["at work"]
        assert recording.outcomes == ["cancelled"]


async def test_a_stream_without_a_guard_is_passed_on() -> None:
    """Its items are its own."""
    assert await read_stream("at work", "done") == ["at work", "done"]
