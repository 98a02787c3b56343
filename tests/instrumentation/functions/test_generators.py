"""Generator tools behave as the generators do, and their calls are judged by all that they yield and return."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

PAGES = ["alpha", "beta", "gamma", "delta", "epsilon"]


def talk(log: list[Any]) -> Iterator[Any]:
    """Yield each received value."""
    received: Any = "begun"
    try:
        while received != "enough":
            try:
                received = yield f"received {received}"
            except KeyError as error:  # noqa: PERF203
                received = f"error {error}"
        return "the end"
    finally:
        log.append("closed")


async def async_talk(log: list[Any]) -> AsyncIterator[Any]:
    """Yield each received value."""
    received: Any = "begun"
    try:
        while received != "enough":
            try:
                received = yield f"received {received}"
            except KeyError as error:  # noqa: PERF203
                received = f"error {error}"
    finally:
        await asyncio.sleep(0)
        log.append("closed")


def conversation(generator: Any) -> list[Any]:
    """Use every method of a generator."""
    items = [next(generator), generator.send("this"), generator.throw(KeyError(1)), next(generator)]
    try:
        generator.send("enough")
    except StopIteration as stop:
        items.append(stop.value)
    return items


async def async_conversation(generator: Any) -> list[Any]:
    """Use every method of an async generator."""
    items = [await generator.__anext__(), await generator.asend("this"), await generator.athrow(KeyError(1))]
    with pytest.raises(StopAsyncIteration):
        await generator.asend("enough")
    return items


@pytest.mark.parametrize("where", ["in a turn", "without a guard"])
def test_a_generator_can_be_talked_to(where: str) -> None:
    """Sent values, thrown exceptions and the returned value pass through, guarded or not."""
    tool, log = loopguard.tool(talk), []
    want = conversation(talk(log))
    if where == "without a guard":
        assert conversation(tool(log)) == want
        return
    with guarded() as recording, loopguard.turn():
        outside = current_scope()
        assert conversation(tool(log)) == want
        assert current_scope() is outside
        assert recording.outcomes == ["executed"]
    assert log == ["closed"] * 2


def test_a_generator_that_is_closed_is_closed() -> None:
    """``close`` reaches the generator at once, and the call is cancelled."""
    log: list[Any] = []
    with guarded() as recording, loopguard.turn():
        generator = loopguard.tool(talk)(log)
        next(generator)
        generator.close()
        assert log == ["closed"]
        assert recording.outcomes == ["cancelled"]


def test_what_a_generator_returns_is_part_of_its_result() -> None:
    """Two calls that differ only in the generator's returned value differ."""
    numbers = iter(range(5))

    @loopguard.tool
    def count(q: str) -> Iterator[str]:
        """Yield an equal item, and return another result."""
        yield "counting"
        return f"page {PAGES[next(numbers)]}"

    with guarded() as recording, loopguard.turn():
        for _ in PAGES:
            list(count("x"))
        assert "blocked" not in recording.outcomes


@pytest.mark.parametrize("where", ["in a turn", "without a guard"])
async def test_an_async_generator_can_be_talked_to(where: str) -> None:
    """``asend``, ``athrow`` and ``aclose`` pass through, guarded or not."""
    tool, log = loopguard.tool(async_talk), []
    assert inspect.isasyncgenfunction(tool)
    want = await async_conversation(async_talk(log))
    if where == "without a guard":
        assert await async_conversation(tool(log)) == want
        return
    with guarded() as recording, loopguard.turn():
        assert await async_conversation(tool(log)) == want
        generator = tool(log)
        await generator.__anext__()
        await generator.aclose()
        assert log == ["closed"] * 3
        assert recording.outcomes == ["executed", "cancelled"]


def stream_of(text: str) -> Iterator[str]:
    """Yield an equal item each time."""
    yield text


async def async_stream_of(text: str) -> AsyncIterator[str]:
    """Yield an equal item each time."""
    yield text


class Reader:
    """An object that is called as a generator function is."""

    def __call__(self, text: str) -> Iterator[str]:
        """Yield an equal item each time."""
        yield text


@pytest.mark.parametrize("function", [stream_of, Reader()])
def test_a_generator_function_in_a_loop_by_hand(function: Callable[..., Iterator[str]]) -> None:
    """``call`` judges it by its items. A stream takes no text after its end: a sentence goes with the next text."""
    with guarded() as recording, loopguard.turn() as turn:
        assert [list(loopguard.call("read", {"text": "a"}, function)) for _ in range(2)] == [["a"]] * 2
        (refusal,) = loopguard.call("read", {"text": "a"}, function)
        assert "tool_loop_detected" in refusal
        assert recording.outcomes == ["executed", "executed", "blocked"]
        stream = loopguard.call("read", {"text": "b"}, function)
        turn.say("use the other file")
        assert list(stream) == ["b"]
        assert "use the other file" in loopguard.call("look", {}, lambda: "text")


async def test_an_async_generator_function_in_a_loop_by_hand() -> None:
    """``call`` judges it by its items."""
    with guarded() as recording, loopguard.turn():
        for _ in range(2):
            assert [item async for item in loopguard.call("read", {"text": "a"}, async_stream_of)] == ["a"]
        (refusal,) = [item async for item in loopguard.call("read", {"text": "a"}, async_stream_of)]
        assert "tool_loop_detected" in refusal
        assert recording.outcomes == ["executed", "executed", "blocked"]
