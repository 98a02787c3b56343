"""Places that are not what a table says: another version of a framework, or a program's own module of that name."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.core.model import ToolCall
from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.instrumentation.agent_run import AgentRun, run_background
from otel_loopguard.instrumentation.fitting import fits, tell_missing
from otel_loopguard.instrumentation.patching import Patches
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.instrumentation.targets import CallStyle, Reading, RunTarget, ToolAdapter, ToolTarget
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope as scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_loopguard.core.model import Trip

DIALECT = ToolAdapter(
    read=lambda instance, args, kwargs: Reading(ToolCall(kwargs["names"][0], known_tools=())),
    answer=lambda reading, content, error: [content],
)


def plain() -> None: ...


async def coroutine() -> None: ...


def generator() -> Any:
    yield


async def async_generator() -> Any:
    yield


@functools.wraps(coroutine)
def wrapped_by_somebody() -> Any:
    return coroutine()


@pytest.mark.parametrize(
    ("style", "fitting"),
    [
        (CallStyle.SYNC, {plain}),
        (CallStyle.BACKGROUND, {plain}),
        (CallStyle.ASYNC, {coroutine, wrapped_by_somebody}),
        (CallStyle.GENERATOR, {plain, generator}),
        (CallStyle.ASYNC_GENERATOR, {plain, async_generator}),
    ],
)
def test_only_a_function_of_the_rows_sort_is_wrapped(style: CallStyle, fitting: set[Any]) -> None:
    """A plain function that got an async wrapper would return a coroutine to callers that do not await it."""
    point = ToolTarget("m", "f", DIALECT, style)
    functions = {plain, coroutine, generator, async_generator, wrapped_by_somebody}
    assert {function for function in functions if fits(function, point)} == fitting


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """A module that is imported, and has nothing in it yet."""
    made = ModuleType("loopguard_test_places")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_a_programs_own_module_of_that_name_works_as_before(module: Any, caplog: Any) -> None:
    """It is not the framework's: nothing is wrapped, and nothing is said."""
    module.run = plain
    patches = Patches(
        [ToolTarget(module.__name__, "run", DIALECT, CallStyle.ASYNC), ToolTarget(module.__name__, "gone", DIALECT)]
    )
    with guarded(), caplog.at_level(logging.INFO):
        caplog.clear()
        patches.install()
        assert module.run is plain
    assert caplog.messages == []


def test_a_version_without_any_known_place_is_told(caplog: Any) -> None:
    """One warning that names the package, its version and what is not guarded; none while one place is left."""
    old, new = ToolTarget("pytest.m", "old", DIALECT), ToolTarget("pytest.m", "new", DIALECT)
    rest = (ToolTarget("pytest.m", "late", DIALECT, optional=True), RunTarget("pytest.m", "run", lambda *_: RunInfo()))
    tell_missing("pytest.m", [old, new, *rest], [old, rest[0]])
    assert caplog.messages == []
    tell_missing("pytest.m", [old, new, *rest], [old, new, rest[0]])
    (said,) = caplog.messages
    assert f"pytest {pytest.__version__}" in said
    assert "tool calls are not guarded" in said


def test_each_call_of_a_batch_is_a_call(module: Any) -> None:
    """A function that handles several calls at once is called for one after the other, and its results joined."""

    async def answer_all(*, names: list[str]) -> list[str]:
        return [f"no {name}" for name in names]

    def each(kwargs: Mapping[str, Any]) -> list[Any]:
        return [{"names": [name]} for name in kwargs["names"]]

    module.answer_all = answer_all
    patches = Patches([ToolTarget(module.__name__, "answer_all", DIALECT, CallStyle.ASYNC, each=each)])
    with guarded() as recording:
        patches.install()
        assert asyncio.run(module.answer_all(names=["a", "b"])) == ["no a", "no b"]
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"] * 2
        patches.restore()
        assert module.answer_all is answer_all


def test_a_call_that_is_only_seen_when_it_fails(module: Any) -> None:
    """What succeeds there is no call; what fails is one that failed, and the framework's error stays as it is."""

    def resolve(*, names: list[str]) -> str:
        if names == ["fine"]:
            return "fine"
        raise LookupError(names)

    module.resolve = resolve
    patches = Patches([ToolTarget(module.__name__, "resolve", DIALECT, fatal=True)])
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
    """From async code an async ``on_trip`` is heard there as well."""
    asked: list[str] = []

    async def on_trip(trip: Trip) -> None:
        await asyncio.sleep(0)
        asked.append(trip.mode)

    async def resolve(*, names: list[str]) -> str:
        raise LookupError(names)

    module.resolve = resolve
    patches = Patches([ToolTarget(module.__name__, "resolve", DIALECT, CallStyle.ASYNC, fatal=True)])
    with guarded(Policy(on_trip=on_trip)) as recording, loopguard.turn():
        patches.install()
        for _ in range(2):
            with pytest.raises(LookupError):
                asyncio.run(module.resolve(names=["a"]))
        assert asked == ["unknown_tool_repeat"]
        assert recording.outcomes == ["failed", "failed"]
        patches.restore()


def test_a_check_that_turns_a_call_down_is_where_that_call_is_seen(module: Any) -> None:
    """What passes the check is counted where its tool runs; what does not has the check's answer for its result."""

    async def check(*, names: list[str]) -> str | None:
        return None if names == ["fine"] else "not that one"

    def down(result: Any) -> bool:
        return result is not None

    module.check = check
    patches = Patches([ToolTarget(module.__name__, "check", DIALECT, CallStyle.ASYNC, turned_down=down)])
    with guarded() as recording:
        patches.install()
        assert asyncio.run(module.check(names=["fine"])) is None
        assert asyncio.run(module.check(names=["a"])) == "not that one"
        assert recording.outcomes == ["executed"]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
        patches.restore()


class Started:
    """What a framework returns of a run that goes on."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []


def test_a_run_in_the_background_is_a_turn_until_it_is_over() -> None:
    """The starter's code is outside of the run again, while the turn lives on until the framework says so."""
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
    """Its turn is closed at once, whatever was to tell its end."""
    runtime = Runtime()
    point = RunTarget("m", "f", lambda *_: RunInfo(), over=over)
    run_background(AgentRun(runtime, point, None, (), {}), Started)
    assert runtime.guard.live == 0
