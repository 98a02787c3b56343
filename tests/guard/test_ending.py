"""How a turn ended, as a program with its own executor is told."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.engine.ledger import Ledger
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.guard.ending import EndedTurn
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from otel_loopguard.guard.turn import Turn


def read(turn: Turn, path: str = "a") -> Action | None:
    """Make a call."""
    call = ToolCall("read_file", {"path": path})
    decision = turn.begin(call)
    return turn.end(call, Outcome("the same old text")).action if decision.runs else decision.action


def loop(turn: Turn) -> None:
    """Make one call until the guard ends the run."""
    while read(turn) is not Action.ABORT:
        pass


LOOP_ERROR = ToolLoopError("a loop", tool_name="read_file", mode="generic_repeat", repeats=3, limit=3, turn_id="1")


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, "answered"),
        (LOOP_ERROR, "aborted"),
        (ValueError("of the program"), "failed"),
        (asyncio.CancelledError(), "cancelled"),
        (KeyboardInterrupt(), "cancelled"),
        (GeneratorExit(), "cancelled"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_exception_that_leaves_a_turn_tells_its_end(error: BaseException | None, end: str) -> None:
    """Without one it is answered, and inside of the block it has no end."""
    turn = Guard().turn()
    with contextlib.suppress(BaseException), turn:
        assert turn.ended_as is None
        if error is not None:
            raise error
    assert turn.ended_as == end


def test_a_turn_that_the_guard_ended_is_aborted_though_its_program_returns() -> None:
    """A program that swallows the decision has no answer of the model."""
    with Guard().turn() as turn:
        loop(turn)
    assert turn.ended_as == "aborted"


@pytest.mark.parametrize("goes_on", ["a call", "an answer"])
def test_a_turn_that_goes_on_after_a_decision_to_end_it_is_answered(goes_on: str) -> None:
    """A call that runs after it, or an answer of the model, tells that the program went on."""
    with Guard().turn() as turn:
        loop(turn)
        if goes_on == "a call":
            assert read(turn, "b") is None
        else:
            turn.answered()
    assert turn.ended_as == "answered"


@pytest.mark.parametrize(("news", "end"), [(False, "concluded"), (True, "answered")])
def test_a_turn_whose_tools_were_withdrawn_is_concluded_unless_news_came_after_that(*, news: bool, end: str) -> None:
    """The model has answered because it had to; with news it went on working."""
    with Guard(Policy(conclude_after=2)).turn() as turn:
        while turn.conclude() is None:
            read(turn)
        if news:
            call = ToolCall("read_file", {"path": "b"})
            assert turn.begin(call).runs
            turn.end(call, Outcome("another text"))
    assert turn.ended_as == end


def test_on_end_is_called_once_for_a_turn_and_not_for_a_nested_one() -> None:
    """It gets the turn's id, its end and its calls, those of nested turns included."""
    ended: list[EndedTurn] = []
    with Guard(Policy(on_end=ended.append)).turn("t") as turn:
        around = ToolCall("ask_expert", {})
        assert turn.begin(around).runs
        with turn.child(around) as child:
            read(child)
        assert child.ended_as == "answered"
        assert ended == []
    turn.finish(ValueError())
    found = [end._replace(ledger=end.ledger.timeless) for end in ended]
    assert found == [EndedTurn("t", "answered", 2, ledger=Ledger(calls=2, children=1, depth=1))]


async def a_coroutine(_: Any) -> None:
    """Stand for an ``on_end`` that is async by mistake."""


def raises(_: Any) -> None:
    """Stand for an ``on_end`` with a fault."""
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("on_end", "words"), [(a_coroutine, "give a plain function"), (raises, "raised ZeroDivisionError")]
)
def test_a_fault_of_on_end_is_logged_and_the_program_goes_on(
    on_end: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """So is an async one, which is not awaited."""
    with Guard(Policy(on_end=on_end)).turn() as turn:
        read(turn)
    assert turn.ended_as == "answered"
    assert words in caplog.text
