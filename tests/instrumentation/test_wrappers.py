"""The wrappers of functions with several calls, of checks, of failures, and of runs in the background."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.agent_run import AgentRun, run_background
from otel_loopguard.instrumentation.patching import Patches
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.instrumentation.targets import IN_PLACE, CallStyle, Reading, RunTarget, ToolAdapter, ToolTarget
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope as scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_loopguard.engine.vocabulary import Trip

ADAPTER = ToolAdapter(
    read=lambda instance, args, kwargs: Reading(ToolCall(kwargs["names"][0], known_tools=())),
    answer=lambda reading, content, error: [content],
)


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """An imported module without functions."""
    made = ModuleType("loopguard_test_places")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_each_call_of_a_batch_is_a_call(module: Any) -> None:
    """A function that handles several calls is called once for each call, and the results are joined."""

    async def answer_all(*, names: list[str]) -> list[str]:
        return [f"no {name}" for name in names]

    def each(kwargs: Mapping[str, Any]) -> list[Any]:
        return [{"names": [name]} for name in kwargs["names"]]

    module.answer_all = answer_all
    patches = Patches([ToolTarget(module.__name__, "answer_all", ADAPTER, CallStyle.ASYNC, each=each)])
    with guarded() as recording:
        patches.install()
        assert asyncio.run(module.answer_all(names=["a", "b"])) == ["no a", "no b"]
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"] * 2
        patches.restore()
        assert module.answer_all is answer_all


def test_a_function_around_a_call_gets_the_exceptions_that_leave_it(module: Any) -> None:
    """An ``around`` function is called in place of ours, and calls it: it sees results and exceptions."""
    seen: list[Any] = []

    def around(ours: Any) -> Any:
        def noted(*given: Any, **kwargs: Any) -> Any:
            try:
                seen.append(ours(*given, **kwargs))
            except LookupError as error:
                seen.append(type(error))
                raise
            return seen[-1]

        return noted

    def look(*, names: list[str]) -> str:
        if names == ["fine"]:
            return "fine"
        raise LookupError(names)

    module.look = look
    patches = Patches([ToolTarget(module.__name__, "look", ADAPTER, around=around)])
    with guarded() as recording:
        patches.install()
        assert module.look(names=["fine"]) == "fine"
        with pytest.raises(LookupError):
            module.look(names=["gone"])
        assert seen == ["fine", LookupError]
        assert recording.outcomes == ["executed", "failed"]
        patches.restore()
        assert module.look is look


def test_a_sentence_may_be_added_where_the_function_has_put_its_result(module: Any) -> None:
    """With ``IN_PLACE`` the call is nudged, and the function's own result stays, here None."""
    history: list[str] = []

    def look(*, names: list[str]) -> None:
        history.append(f"there is {names[0]}")

    def annotate(reading: Reading, result: Any, text: str) -> Any:
        history[-1] += f" ({text})"
        return IN_PLACE

    adapter = ToolAdapter(
        read=lambda instance, args, kwargs: Reading(ToolCall("look", kwargs)),
        answer=lambda reading, content, error: history.append(content),
        outcome=lambda reading, result: Outcome(result=history[-1]),
        annotate=annotate,
    )
    module.look = look
    patches = Patches([ToolTarget(module.__name__, "look", adapter)])
    with guarded() as recording, loopguard.turn():
        patches.install()
        assert [module.look(names=["a"]) for _ in range(3)] == [None] * 3
        patches.restore()
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert history[1].startswith("there is a (")
        assert "tool_loop_detected" in history[2]


def test_a_call_that_is_only_seen_when_it_fails(module: Any) -> None:
    """A ``fatal`` target counts a failed call only, and passes the framework's error on."""

    def resolve(*, names: list[str]) -> str:
        if names == ["fine"]:
            return "fine"
        raise LookupError(names)

    module.resolve = resolve
    patches = Patches([ToolTarget(module.__name__, "resolve", ADAPTER, fatal=True)])
    with guarded() as recording:
        patches.install()
        assert module.resolve(names=["fine"]) == "fine"
        assert recording.spans == []
        for _ in range(2):
            with pytest.raises(LookupError):
                module.resolve(names=["a"])
        assert recording.outcomes == ["failed", "failed"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
        patches.restore()


def test_a_call_that_is_only_seen_when_it_fails_has_its_verdict_awaited(module: Any) -> None:
    """An async ``on_trip`` is awaited for a ``fatal`` target, too."""
    modes: list[str] = []

    async def on_trip(trip: Trip) -> None:
        await asyncio.sleep(0)
        modes.append(trip.mode)

    async def resolve(*, names: list[str]) -> str:
        raise LookupError(names)

    module.resolve = resolve
    patches = Patches([ToolTarget(module.__name__, "resolve", ADAPTER, CallStyle.ASYNC, fatal=True)])
    with guarded(Policy(on_trip=on_trip)) as recording, loopguard.turn():
        patches.install()
        for _ in range(2):
            with pytest.raises(LookupError):
                asyncio.run(module.resolve(names=["a"]))
        assert modes == ["unknown_tool_repeat"]
        assert recording.outcomes == ["failed", "failed"]
        patches.restore()


def test_a_check_that_turns_a_call_down_is_where_that_call_is_seen(module: Any) -> None:
    """A call that passes a check is counted where its tool runs; a rejected call has the check's result."""

    async def check(*, names: list[str]) -> str | None:
        return None if names == ["fine"] else "not that one"

    def down(result: Any) -> bool:
        return result is not None

    module.check = check
    patches = Patches([ToolTarget(module.__name__, "check", ADAPTER, CallStyle.ASYNC, turned_down=down)])
    with guarded() as recording:
        patches.install()
        assert asyncio.run(module.check(names=["fine"])) is None
        assert asyncio.run(module.check(names=["a"])) == "not that one"
        assert recording.outcomes == ["executed"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
        patches.restore()


class Started:
    """The object that a framework returns for a run in the background."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []


def test_a_run_in_the_background_is_a_turn_until_it_is_over() -> None:
    """A background run's turn lasts until its end, and the code that started it is outside of the turn."""
    runtime = Runtime()
    inside: list[Any] = []

    def start() -> Started:
        inside.append(scope())
        return Started()

    point = RunTarget("m", "f", lambda *_: RunInfo(), over=lambda result, over: result.waiting.append(over))
    started = run_background(AgentRun(runtime, point, None, (), {}), start)
    assert inside[0].turn.source == "run"
    assert scope() is None
    assert runtime.guard.live == 1
    started.waiting[0]()
    assert runtime.guard.live == 0


@pytest.mark.parametrize("over", [None, lambda result, over: result.nothing_like_that])
def test_a_run_of_which_nobody_tells_the_end_leaves_nothing_behind(over: Any) -> None:
    """If the end of a background run cannot be observed, its turn is closed at once."""
    runtime = Runtime()
    point = RunTarget("m", "f", lambda *_: RunInfo(), over=over)
    run_background(AgentRun(runtime, point, None, (), {}), Started)
    assert runtime.guard.live == 0
