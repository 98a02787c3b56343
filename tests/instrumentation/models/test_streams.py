"""Streams that are read in passing."""

from __future__ import annotations

import asyncio

import pytest

from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.models.streams import Tapped
from otel_loopguard.shield import Shield


class Listener:
    """Notes what it gets."""

    def __init__(self) -> None:
        self.shield = Shield()
        self.heard: list[object] = []
        self.whole = self.chunk = self.heard.append

    def over(self) -> None:
        """Note the end."""
        self.heard.append("over")

    def failed(self) -> None:
        """Note the failure."""
        self.heard.append("failed")


def test_chunks_are_passed_on_and_counted_one_by_one():
    """None is read before the program asks for it."""
    listener = Listener()
    stream = Tapped(iter("ab"), listener)
    assert iter(stream) is stream
    assert (next(stream), listener.heard) == ("a", ["a"])
    assert (list(stream), listener.heard) == (["b"], ["a", "b", "over"])


async def test_async_chunks_are_passed_on():
    """In the same way."""

    async def chunks():
        yield "a"
        yield "b"

    listener = Listener()
    stream = Tapped(chunks(), listener)
    assert aiter(stream) is stream
    assert [chunk async for chunk in stream] == ["a", "b"]
    assert listener.heard == ["a", "b", "over"]


@pytest.mark.parametrize("error", [ConnectionError, KeyboardInterrupt])
def test_an_error_of_the_stream_passes_and_is_no_end(error):
    """The reply is not complete."""

    def chunks():
        yield "a"
        raise error

    listener = Listener()
    with pytest.raises(error):
        list(Tapped(chunks(), listener))
    assert listener.heard == ["a", "failed"]


@pytest.mark.parametrize("error", [ConnectionError, asyncio.CancelledError])
async def test_an_error_of_an_async_stream_passes_and_is_no_end(error):
    """In the same way."""

    async def chunks():
        yield "a"
        raise error

    listener = Listener()
    with pytest.raises(error):
        [chunk async for chunk in Tapped(chunks(), listener)]
    assert listener.heard == ["a", "failed"]


def test_a_stream_can_be_closed():
    """The other methods are those of the original."""
    closed = []

    def chunks():
        try:
            yield "a"
        finally:
            closed.append(True)

    stream = Tapped(chunks(), Listener())
    next(stream)
    stream.close()
    assert closed == [True]


class BothWays:
    """A stream that is read with ``for`` and with ``async for``, and closed as it was read."""

    def __init__(self) -> None:
        self.closed_by: list[str] = []

    def __next__(self) -> str:
        return "a"

    async def __anext__(self) -> str:
        return "a"

    def close(self) -> None:
        """Close it outside of an event loop."""
        self.closed_by.append("close")

    async def aclose(self) -> None:
        """Close it on an event loop."""
        self.closed_by.append("aclose")


def ends(chunk: object) -> None:
    """A listener that ends the run at the first chunk."""
    raise ToolLoopError(str(chunk), tool_name="", mode="text_run", repeats=8, limit=8)


async def test_a_stream_that_is_cut_is_closed_as_it_is_read():
    """LiteLLM's streams can be read in both ways."""
    plain, asynchronous = BothWays(), BothWays()
    listener = Listener()
    listener.chunk = ends
    with pytest.raises(ToolLoopError):
        next(Tapped(plain, listener))
    with pytest.raises(ToolLoopError):
        await anext(Tapped(asynchronous, listener))
    assert (plain.closed_by, asynchronous.closed_by) == (["close"], ["aclose"])
