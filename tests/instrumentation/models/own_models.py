"""A model of the program's own, without a client, as it is tried in each framework whose models are read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, RunBudgetError, ToolLoopError, semconv
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

PRICED = Policy(cost_per_million_tokens={"gpt-*": {"input": 2.0, "output": 8.0}})
OF_FOUR = Ledger(4, 3, 40, 20, 12, cost=pytest.approx((2 * 40 + 8 * 20) / 1e6))
"""That of a run in which the model works: each request reads ten tokens, three of them cached, and writes five."""


def working(number: int, may_call: bool) -> str:
    """Look at three things, then answer."""
    return "abc"[number - 1] if number <= 3 and may_call else "Done."


def stuck(_: int, may_call: bool) -> str:
    """Look at the same thing as long as there are tools."""
    return "a" if may_call else "I looked."


def looked(path: str) -> str:
    """The result of a look at this path."""
    return f"there is {path}. " * 30


each_way = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


class OwnModels:
    """The tests. A framework's class says how its models are made, and run."""

    own: ClassVar[Callable[..., Any]]
    """Make a model by a function that gets the number of a request, and if tools may be called. ``seen``: requests.

    The function returns a text that ends in a full stop, or the path of a call. Another is called before each reply.
    """
    go: ClassVar[Callable[..., Any]]
    """Run an agent over a model, and return its answer."""
    hook: ClassVar[Callable[..., Any]]
    """Send a text 12 times, each time with the history of the runs before."""
    leave: ClassVar[Callable[..., Any]]
    """Begin a streamed run, and leave it at the first piece."""
    reads: ClassVar[tuple[Any, str]]
    """The module and the name of a function by which each request is read."""

    @each_way
    def test_a_stuck_agent_is_told_and_answers_without_tools(self, *, streams: bool) -> None:
        """Its last request has a sentence at the last result, and tells the model to call nothing."""
        model = self.own(stuck)
        with guarded() as recording:
            assert asyncio.run(self.go(model, streams=streams)) == "I looked."
        assert recording.outcomes == ["executed", "nudged", *["blocked"] * 7]
        assert "No tool can be called for this answer" in str(model.seen[-1][-1])
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0

    @each_way
    def test_a_model_that_calls_without_tools_is_ended(self, *, streams: bool) -> None:
        """``ToolLoopError`` leaves the run, and no request is sent after it."""
        model = self.own(lambda *_: "a")
        with guarded(), pytest.raises(ToolLoopError):
            asyncio.run(self.go(model, streams=streams))
        assert len(model.seen) == 10

    @each_way
    def test_a_budget_holds_without_a_client(self, *, streams: bool) -> None:
        """The model reads ever new things: told, concluded, and ended if it goes on."""
        budget = Policy(budget={"tree": {"requests": 8}})
        obedient = self.own(lambda number, may_call: f"p{number}" if may_call else "So far.")
        stubborn = self.own(lambda number, _: f"p{number}")
        with guarded(budget):
            assert asyncio.run(self.go(obedient, streams=streams)) == "So far."
        with guarded(budget), pytest.raises(RunBudgetError):
            asyncio.run(self.go(stubborn, streams=streams))
        assert len(obedient.seen) == len(stubborn.seen) == 9

    @each_way
    def test_a_budget_that_a_request_finds_spent_is_on_the_span_of_the_run(self, *, streams: bool) -> None:
        """In a program without other spans: no call is refused that could show it."""
        model = self.own(lambda number, may_call: f"p{number}" if may_call else "So far.")
        with guarded(Policy(budget={"tree": {"calls": 4}})) as recording:
            assert asyncio.run(self.go(model, streams=streams)) == "So far."
        assert [str(trip.action) for trip in recording.trips] == ["nudge", "conclude"]

    def test_what_a_run_spends_is_measured_by_agent(self) -> None:
        """The span of its run has the agent's name, too."""
        with guarded() as recording:
            asyncio.run(self.go(self.own(working)))
            (tokens,) = recording.points(semconv.METRIC_TURN_TOKENS)
        assert (tokens.sum, tokens.attributes[semconv.AGENT_NAME]) == (60, "helper")
        assert "invoke_agent helper" in [span.name for span in recording._spans.get_finished_spans()]

    @each_way
    def test_the_time_of_a_request_is_the_models(self, *, streams: bool) -> None:
        """A model that thinks for a minute does not wait."""
        now = [0.0]

        def think() -> None:
            now[0] += 60.0

        with guarded(clock=lambda: now[0]), loopguard.turn() as turn:
            asyncio.run(self.go(self.own(working, think), streams=streams))
        assert (turn.ledger.seconds, turn.ledger.model_seconds) == (240.0, 240.0)

    def test_a_hook_and_a_model_that_answer_each_other_are_ended(self) -> None:
        """A program sends the same text after each answer."""
        model = self.own(lambda *_: "All is done, and nothing is left to do.")
        with guarded() as recording, pytest.raises(ToolLoopError) as raised:
            asyncio.run(self.hook(model, "The tests do not pass. Go on."))
        assert raised.value.mode == "text_repeat"
        assert recording.counted(semconv.METRIC_TRIPS, loopguard__mode="text_repeat") == 2
        assert len(model.seen) <= 6

    def test_a_stream_that_is_left_early_leaves_nothing_behind(self) -> None:
        """The next run is read as any."""

        async def main() -> None:
            await self.leave(self.own(lambda *_: "All is done. That is all."))
            with loopguard.turn() as turn:
                await self.go(self.own(working), streams=True)
            assert turn.ledger.requests == 4

        with guarded() as recording:
            asyncio.run(main())
            assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0

    @each_way
    def test_an_exception_of_a_model_comes_out(self, *, streams: bool) -> None:
        """The request was sent, and its usage is unknown."""
        with guarded(), loopguard.turn() as turn:
            with pytest.raises(ZeroDivisionError):
                asyncio.run(self.go(self.own(lambda *_: str(1 / 0)), streams=streams))
            assert turn.ledger.timeless == Ledger(1, unmetered=1, unpriced=1)

    @each_way
    def test_a_run_that_fails_is_no_answer(self, *, streams: bool) -> None:
        """Also where its exception comes out of a task that the stream began."""
        ended: list[Any] = []
        with guarded(Policy(on_end=ended.append)), pytest.raises(ZeroDivisionError):
            asyncio.run(self.go(self.own(lambda *_: str(1 / 0)), streams=streams))
        assert [turn.ended_as for turn in ended] == ["failed"]

    @each_way
    def test_a_fault_of_ours_stops_no_run(self, monkeypatch: pytest.MonkeyPatch, *, streams: bool) -> None:
        """The request goes out as it is, and the fault is counted."""

        def broken(*_: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(*self.reads, broken)
        with guarded() as recording:
            assert asyncio.run(self.go(self.own(working), streams=streams)) == "Done."
            assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 4
