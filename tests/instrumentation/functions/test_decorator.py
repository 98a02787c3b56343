"""Tools without a framework: functions of every kind, and loops by hand over chat APIs."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Action, Policy, ToolLoopError, Trip, semconv
from otel_loopguard.engine.modes import Mode
from otel_loopguard.testing import ScriptedAgent, assert_no_trip, assert_trips, guarded
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


@loopguard.tool
def read_text(path: str, depth: int = 1) -> str:
    """A plain function."""
    return f"text of {path}"


@loopguard.tool
async def read_later(path: str) -> str:
    """An async function."""
    await asyncio.sleep(0)
    return f"text of {path}"


@loopguard.tool
def read_pieces(path: str) -> Iterator[str]:
    """A generator."""
    yield "one "
    yield path


@loopguard.tool
async def read_pieces_later(path: str) -> AsyncIterator[str]:
    """An async generator."""
    yield "one "
    yield path


class Desk:
    """A class with a tool as a method."""

    @loopguard.tool
    def look(self, path: str) -> str:
        """A method."""
        return f"text of {path}"


async def collected(items: AsyncIterator[str]) -> list[str]:
    """All items."""
    return [item async for item in items]


def test_a_plain_function() -> None:
    """The third equal call returns the refusal; positional and keyword arguments are the same call."""
    with guarded() as recording, loopguard.turn():
        assert read_text("a") == "text of a"
        assert read_text(path="a").startswith("text of a\n\n")
        refusal = json.loads(read_text("a"))
        assert refusal["error"] == "tool_loop_detected"
        assert read_text("a", depth=2) == "text of a"
        assert recording.outcomes == ["executed", "nudged", "blocked", "executed"]


# Python 3.14 deprecates asyncio.iscoroutinefunction, by which frameworks still decide whether to await.
@pytest.mark.filterwarnings("ignore:'asyncio.iscoroutinefunction':DeprecationWarning")
async def test_an_async_function() -> None:
    """The third equal call of a coroutine function returns the refusal, and the wrapper is a coroutine function."""
    assert asyncio.iscoroutinefunction(read_later)
    with guarded() as recording, loopguard.turn():
        read = [await read_later("a") for _ in range(3)]
        assert "tool_loop_detected" in read[2]
        assert recording.outcomes == ["executed", "nudged", "blocked"]


def test_a_generator() -> None:
    """Items pass unchanged; a refused call yields the refusal. The call is not current between items."""
    with guarded() as recording:
        with loopguard.turn():
            outside = current_scope()
            for _ in read_pieces("a"):
                assert current_scope() is outside
            assert list(read_pieces("a")) == ["one ", "a"]
            (refusal,) = read_pieces("a")
            assert "tool_loop_detected" in refusal
        assert recording.outcomes[0] == "executed"
        assert recording.outcomes[2] == "blocked"


def test_a_generator_that_is_left_early_ends_its_span() -> None:
    """A stream that is left early has no result: the call is cancelled, and not counted."""
    with guarded() as recording:
        with loopguard.turn():
            for _ in range(4):
                for _ in read_pieces("a"):
                    break
        assert recording.outcomes == ["cancelled"] * 4
        assert_no_trip(recording)


async def test_an_async_generator() -> None:
    """An async generator passes its items, and a refused call yields the refusal."""
    with guarded() as recording, loopguard.turn():
        assert await collected(read_pieces_later("a")) == ["one ", "a"]
        await collected(read_pieces_later("a"))
        assert "tool_loop_detected" in (await collected(read_pieces_later("a")))[0]
        assert recording.outcomes[2] == "blocked"


def test_long_streams_that_differ_at_their_end_differ() -> None:
    """A stream is compared to its last item, however long it is."""
    ends = iter(range(10))

    @loopguard.tool
    def long_stream(path: str) -> Iterator[str]:
        """Many items, the last one new each time."""
        yield from (f"line {number}" for number in range(500))
        yield f"end {next(ends) * 7919}"

    with guarded() as recording, loopguard.turn():
        for _ in range(3):
            assert len(list(long_stream("a"))) == 501
        assert "blocked" not in recording.outcomes


def test_a_method() -> None:
    """The third equal call of a method of one object returns the refusal."""
    desk = Desk()
    with guarded(), loopguard.turn():
        read = [desk.look("a") for _ in range(3)]
        assert "tool_loop_detected" in read[2]


def test_a_function_keeps_its_face() -> None:
    """Name, docstring and signature are kept, because frameworks make schemas of them."""
    import inspect

    assert read_text.__name__ == "read_text"
    assert read_text.__doc__ == "A plain function."
    assert list(inspect.signature(read_text).parameters) == ["path", "depth"]


def test_what_a_tool_is_can_be_said() -> None:
    """A contract declared in code applies, also in a turn that began before the first call."""
    with guarded() as recording:

        @loopguard.tool(name="press", kind="step")
        def press_key(key: str) -> str:
            """Press a key: to do it again is the work."""
            return "ok"

        @loopguard.tool(once=True)
        def order(what: str) -> str:
            """Order something."""
            return "ordered"

        with loopguard.turn():
            assert {press_key("down") for _ in range(30)} == {"ok"}
            order("a table")
            assert "tool_loop_detected" in order("a table")
        assert {span.name for span in recording.spans} == {"execute_tool press", "execute_tool order"}
        assert_trips(recording, "repeated_effect", action="block", tool="order")


def test_a_wrong_contract_is_refused_where_it_stands() -> None:
    """A misspelt keyword or kind fails at the decorator, and not at the first call."""
    with pytest.raises(TypeError):
        loopguard.tool(knd="poll")(lambda: None)
    with pytest.raises(ValueError, match="pol"):
        loopguard.tool(kind="pol")(lambda: None)


def test_a_tools_own_exception_is_its_own() -> None:
    """The exception of a tool reaches its caller as the same object, also for wrong arguments."""
    error = ValueError("no")

    @loopguard.tool
    def fail(path: str) -> str:
        """Fail."""
        raise error

    with guarded() as recording, loopguard.turn():
        with pytest.raises(ValueError, match="no") as caught:
            fail("a")
        assert caught.value is error
        with pytest.raises(TypeError, match="unexpected"):
            fail("a", unexpected=1)  # type: ignore[call-arg]
        assert recording.outcomes == ["failed", "failed"]


def test_a_loop_by_hand() -> None:
    """``call`` takes the arguments as the model wrote them; the same JSON in other order is the same call."""
    with guarded() as recording, loopguard.turn():
        read = [
            loopguard.call("read_text", '{"path": "a", "depth": 2}', lambda path, depth: "text", call_id="1"),
            loopguard.call("read_text", '{"depth": 2, "path": "a"}', lambda path, depth: "text", call_id="2"),
            loopguard.call("read_text", {"path": "a", "depth": 2}, lambda path, depth: "text", call_id="3"),
        ]
        assert read[0] == "text"
        assert "tool_loop_detected" in read[2]
        assert [(span.attributes or {})[semconv.TOOL_CALL_ID] for span in recording.spans] == ["1", "2", "3"]


async def test_an_async_tool_in_a_loop_by_hand() -> None:
    """For an async function the result is awaited."""
    agent = ScriptedAgent({"read_later": read_later}, [("read_later", {"path": "a"})] * 3)
    with guarded():
        assert (await agent.arun()).refused == [2]


def test_a_tool_that_does_not_exist() -> None:
    """The model reads the names of the known tools; repeated unknown names are refused."""
    agent = ScriptedAgent({"look": read_text}, [("made up", {"number": number}) for number in range(4)])
    with guarded() as recording:
        transcript = agent.run()
        assert "look" in transcript.read[0]
        assert transcript.refused == [2, 3]
        assert_trips(recording, "unknown_tool_repeat", tool="_unknown")


def test_an_abort_without_a_boundary_is_the_error_itself() -> None:
    """In a turn that the program opened, ``ToolLoopError`` is raised at the call."""
    agent = ScriptedAgent({"read_text": read_text}, [("read_text", {"path": "a"})] * 9)
    with guarded(Policy(abort_after=3)) as recording:
        transcript = agent.run()
        assert isinstance(transcript.error, ToolLoopError)
        assert transcript.error.mode == "generic_repeat"
        assert recording.outcomes == ["executed", "nudged", *["blocked"] * 3, "aborted"]


def test_a_verdict_can_be_changed_by_the_program() -> None:
    """``on_trip`` is called with the trip and may let the call run."""
    trips: list[Trip] = []

    def on_trip(trip: Trip) -> Action | None:
        trips.append(trip)
        return Action.OBSERVE if trip.action is Action.BLOCK else None

    agent = ScriptedAgent({"read_text": read_text}, [("read_text", {"path": "a"})] * 4)
    with guarded(Policy(on_trip=on_trip)) as recording:
        assert agent.run().refused == []
        assert [trip.mode for trip in trips][:2] == [Mode.GENERIC_REPEAT] * 2
        assert recording.outcomes == ["executed", "nudged", "executed", "executed"]
        assert_trips(recording, "generic_repeat", action="observe")


async def test_an_async_verdict_is_awaited() -> None:
    """The call awaits an async ``on_trip``, and is judged once."""
    trips: list[Trip] = []

    async def on_trip(trip: Trip) -> Action | None:
        await asyncio.sleep(0.01)
        trips.append(trip)
        return Action.ABORT if trip.action is Action.BLOCK else None

    agent = ScriptedAgent({"read_later": read_later}, [("read_later", {"path": "a"})] * 4)
    with guarded(Policy(on_trip=on_trip)) as recording:
        transcript = await agent.arun()
        assert isinstance(transcript.error, ToolLoopError)
        assert len([trip for trip in trips if trip.action is Action.BLOCK]) == 1
        assert recording.outcomes == ["executed", "nudged", "aborted"]


def test_outside_of_a_turn_a_function_only_counts() -> None:
    """A decorated function outside of a turn is never refused."""
    with guarded() as recording:
        assert {read_text("a") for _ in range(9)} == {"text of a"}
        assert_trips(recording, "generic_repeat", action="observe")


def test_it_works_without_any_set_up() -> None:
    """``@tool`` in a turn is guarded without ``instrument()``."""
    with loopguard.turn():
        read: list[Any] = [read_text("without set-up") for _ in range(3)]
    assert "tool_loop_detected" in read[2]


FRAMES = 400
"""The recursion limit under test."""


def deepest(call: Callable[[], Any]) -> list[int]:
    """Return the depths of the stack at which the call works. The guard leaves no scope behind at any."""

    def at(depth: int) -> Any:
        return call() if depth == 0 else at(depth - 1)

    before, limit, worked = current_scope(), sys.getrecursionlimit(), []
    sys.setrecursionlimit(FRAMES)
    try:
        for depth in range(FRAMES):
            with suppress(RecursionError):
                at(depth)
                worked.append(depth)
            assert current_scope() is before
    finally:
        sys.setrecursionlimit(limit)
    return worked


@pytest.mark.parametrize("way", ["tool", "call"])
def test_a_call_near_the_recursion_limit_runs_unguarded(way: str) -> None:
    """Where the guard finds no room, the function still runs; a guarded call needs 10 free frames instead of 2."""
    numbers = itertools.count()

    def look(at: int) -> str:
        return f"seen {at}"

    tool = loopguard.tool(look)
    with guarded(), loopguard.turn():
        calls = {
            "plain": lambda: look(next(numbers)),
            "tool": lambda: tool(next(numbers)),
            "call": lambda: loopguard.call("look", {"at": next(numbers)}, look),
        }
        calls[way]()
        plain, ours = deepest(calls["plain"]), deepest(calls[way])
    assert ours == list(range(len(ours)))
    assert len(plain) - 12 <= len(ours) <= len(plain)


@pytest.mark.parametrize(("way", "frames"), [("tool", 3), ("call", 4)])
def test_a_tool_that_calls_itself_takes_few_frames_a_level(way: str, frames: int) -> None:
    """The function's own frame, and those around it; Python allows 1,000 in all."""
    levels = []

    def dig(level: int) -> Any:
        levels.append(level)
        return tool(level + 1) if way == "tool" else loopguard.call("dig", {"level": level + 1}, dig)

    tool, free = loopguard.tool(dig), sys.getrecursionlimit() - len(inspect.stack(0))
    with guarded(), loopguard.turn(), pytest.raises(RecursionError):
        dig(0)
    assert max(levels) > free / frames - 10
