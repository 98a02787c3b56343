"""``Policy.on_trip`` in async code: an awaitable answer is awaited, before a call and after it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Action, Policy, Trip, semconv
from otel_loopguard.guard.turn import Turn
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@loopguard.tool
async def read_later(path: str) -> str:
    """An async function."""
    return f"text of {path}"


@loopguard.tool
async def failing(path: str) -> str:
    """An async function that fails."""
    raise LookupError("no such thing")


@loopguard.tool
async def read_pieces(path: str) -> AsyncIterator[str]:
    """An async generator."""
    yield path


class Human:
    """An ``on_trip`` object with an async ``__call__``."""

    def __init__(self, answer: Action | None = None) -> None:
        self.verdicts: list[Action] = []
        self.answer = answer

    async def __call__(self, trip: Trip) -> Action | None:
        """Return the answer after a pause."""
        await asyncio.sleep(0.001)
        self.verdicts.append(trip.verdict)
        return self.answer


async def call_later() -> None:
    """A call that succeeds."""
    await read_later("a")


async def call_failing() -> None:
    """A call that fails."""
    with pytest.raises(LookupError):
        await failing("a")


async def call_pieces() -> None:
    """A call whose result is streamed."""
    assert [item async for item in read_pieces("a")] == ["a"]


@pytest.mark.parametrize("call", [call_later, call_failing, call_pieces])
@pytest.mark.parametrize("function", ["method", "object"])
async def test_it_is_awaited_for_a_nudge(call: object, function: str, caplog: pytest.LogCaptureFixture) -> None:
    """An async ``on_trip`` is awaited for a nudge, without the warning about sync code."""
    human = Human(Action.OBSERVE)
    on_trip = human if function == "object" else human.__call__
    with guarded(Policy(on_trip=on_trip)) as recording, loopguard.turn():
        with caplog.at_level(logging.WARNING, "otel_loopguard"):
            await call()  # type: ignore[operator]
            await call()  # type: ignore[operator]
        assert human.verdicts == [Action.NUDGE]
        assert not caplog.records
        assert recording.outcomes in (["executed"] * 2, ["failed"] * 2)


async def test_an_object_with_an_async_call_is_awaited_for_a_refusal() -> None:
    """The awaitable answer of ``on_trip`` is awaited, even if ``on_trip`` is no coroutine function."""
    human = Human(Action.OBSERVE)
    with guarded(Policy(on_trip=human)) as recording, loopguard.turn():
        for _ in range(3):
            assert await read_later("a") == "text of a"
        assert human.verdicts == [Action.NUDGE, Action.BLOCK]
        assert recording.outcomes == ["executed"] * 3


async def test_a_plain_function_is_asked_from_async_code_as_well() -> None:
    """A plain ``on_trip`` works in async code."""
    with guarded(Policy(on_trip=lambda trip: Action.OBSERVE)) as recording, loopguard.turn():
        for _ in range(3):
            assert await read_later("a") == "text of a"
        assert recording.outcomes == ["executed"] * 3


async def test_a_call_that_is_cancelled_while_somebody_is_asked_loses_no_word() -> None:
    """If a call is cancelled in ``on_trip``, its span ends, and the user's message is added to the next result."""

    async def never(trip: Trip) -> None:
        await asyncio.sleep(3600)

    with guarded(Policy(on_trip=never)) as recording, loopguard.turn(conversation_id="c") as turn:
        await read_later("a")
        loopguard.say("look at b", conversation_id="c")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(read_later("a"), 0.05)
        assert recording.outcomes == ["executed", "executed"]
        assert "look at b" in await read_later("b")
    assert turn.undelivered == []


async def test_a_fault_of_it_lets_the_call_run_and_is_counted() -> None:
    """If an awaited ``on_trip`` raises, before or after the call, the call runs and the fault is counted."""

    async def broken(trip: Trip) -> None:
        await asyncio.sleep(0)
        raise ValueError("secret")

    with guarded(Policy(on_trip=broken)) as recording, loopguard.turn():
        for _ in range(4):
            assert await read_later("a") == "text of a"
        assert recording.counted("loopguard.internal_errors", loopguard__site="on_trip") >= 2


async def test_an_async_tool_runs_where_its_policy_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The question if its decisions may have to be awaited is under the shield, too."""

    def broken(_: Turn) -> Policy:
        raise ArithmeticError

    async def look(at: int) -> str:
        return f"seen {at}"

    with guarded() as recording, loopguard.turn():
        monkeypatch.setattr(Turn, "policy", property(broken))
        assert [await loopguard.call("look", {"at": at}, look) for at in range(2)] == ["seen 0", "seen 1"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) > 0
