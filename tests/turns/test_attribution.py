"""The turn of a call, from every source, strong and weak."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolCall, semconv
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import ScriptedAgent, assert_trips, guarded
from otel_loopguard.turns import attribution
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from otel_loopguard.testing import Recording


@loopguard.tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def seen(recording: Recording) -> set[tuple[str, str]]:
    """Source and id of each turn that has a span."""
    return {
        (str(span.attributes[semconv.TURN_SOURCE]), str(span.attributes[semconv.TURN_ID]))
        for span in recording.spans
        if span.attributes is not None
    }


def turns(recording: Recording) -> int:
    """The number of turns that have spans."""
    return len(seen(recording))


def test_an_explicit_turn_is_guarded_and_over_at_its_end() -> None:
    """Calls in one block are judged together; the next block is a new turn, and no turn is kept."""
    with guarded() as recording:
        for _ in range(2):
            with loopguard.turn("c1") as turn:
                read = [look("a") for _ in range(3)]
                assert turn.calls == 2
            assert "tool_loop_detected" in read[2]
        assert {source for source, _ in seen(recording)} == {"explicit"}
        assert turns(recording) == 2
        assert recording.runtime is not None
        assert recording.runtime.guard.live == 0
        assert recording.counted(semconv.METRIC_TURN_TOOL_CALLS) == 2


def test_a_turn_within_a_turn_is_its_own_unless_it_has_the_same_id() -> None:
    """A turn opened in a turn is a new message, unless both have the same id."""
    with guarded() as recording:
        with loopguard.turn(turn_id="one"):
            look("a")
            with loopguard.turn(turn_id="one"):
                look("a")
            with loopguard.turn(turn_id="two"):
                look("a")
            assert "tool_loop_detected" in look("a")
        assert recording.outcomes == ["executed", "nudged", "executed", "blocked"]


def test_a_turn_knows_its_conversation_by_its_id_alone() -> None:
    """That of a thread or of an open block, also for a block within it; a run without one has none."""
    with guarded(Policy(scope="conversation")) as recording:
        assert recording.runtime is not None
        of_call, call = recording.runtime.attribution.of_call, ToolCall("look")
        found = [
            of_call(call, "c1", None, None),
            of_call(call, "c1", None, "a run"),
            of_call(call, None, None, "another"),
        ]
        with loopguard.turn("c1"):
            found.append(current_scope())
            with loopguard.turn():
                found.append(current_scope())
    places = [None if scope is None else scope.turn.current.place for scope in found]
    assert [None if place is None else place.name for place in places] == ["c1", "c1", None, "c1", "c1"]
    assert len({place.turn for place in places if place is not None}) == 4


def test_a_live_agent_span_is_a_turn() -> None:
    """Calls anywhere below a recorded ``invoke_agent`` span belong together, and are guarded."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("app")
        for _ in range(2):
            with (
                tracer.start_as_current_span("agent", attributes={"gen_ai.operation.name": "invoke_agent"}),
                tracer.start_as_current_span("step"),
            ):
                read = [look("a") for _ in range(3)]
            assert "tool_loop_detected" in read[2]
        assert {source for source, _ in seen(recording)} == {"agent_span"}
        assert turns(recording) == 2


def test_an_agent_span_within_another_is_the_same_turn() -> None:
    """The outermost agent span is the user's message; the spans of sub-agents are part of it."""
    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("app")
        agent: Any = {"gen_ai.operation.name": "invoke_agent"}
        with tracer.start_as_current_span("outer", attributes=agent):
            look("a")
            with tracer.start_as_current_span("inner", attributes=agent):
                look("a")
        assert turns(recording) == 1
        assert recording.runtime is not None
        assert recording.runtime.open_spans.agent() is None


def test_a_trace_is_a_weak_turn() -> None:
    """Calls of one trace belong together, but a trace is no agent: they are only observed."""
    with guarded() as recording:
        with recording.tracer_provider.get_tracer("app").start_as_current_span("request"):
            assert {look("a") for _ in range(5)} == {"there is a"}
        assert {source for source, _ in seen(recording)} == {"trace"}
        assert_trips(recording, "generic_repeat", action="observe")


def test_a_thread_is_a_weak_turn_for_ten_idle_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a trace, the thread's calls belong together until nothing was called for a while."""
    now = [0.0]
    with guarded() as recording:
        assert recording.runtime is not None
        runners = recording.runtime.attribution._runners
        monkeypatch.setattr(runners, "_clock", lambda: now[0])
        assert {look("a") for _ in range(3)} == {"there is a"}
        now[0] += attribution.TASK_IDLE_SECONDS + 1
        look("a")
        assert {source for source, _ in seen(recording)} == {"task"}
        assert turns(recording) == 2


async def test_a_task_is_a_weak_turn() -> None:
    """Each asyncio task's calls belong together."""

    async def work() -> None:
        for _ in range(3):
            look("a")
            await asyncio.sleep(0)

    with guarded() as recording:
        await asyncio.gather(work(), work())
        assert turns(recording) == 2


def test_weak_turns_are_enforced_where_the_environment_wants_it() -> None:
    """``ENFORCE_WITHOUT_TURN=true`` refuses in weak turns, too."""
    with guarded(settings=Settings(enforce_without_turn=True)):
        assert "tool_loop_detected" in [look("a") for _ in range(3)][2]


def test_how_to_have_calls_guarded_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log names once the ways to have calls of a weak turn guarded."""
    with caplog.at_level("INFO", "otel_loopguard"), guarded():
        for _ in range(3):
            look("a")
    assert caplog.text.count("otel_loopguard.turn():") == 1


def test_work_in_a_thread_pool_belongs_to_the_turn_that_submitted_it() -> None:
    """Work in a thread pool belongs to the turn that submitted it, although the thread has no context."""
    with guarded() as recording, ThreadPoolExecutor(2) as pool:
        with loopguard.turn():
            read = [pool.submit(look, "a").result(timeout=10) for _ in range(3)]
            assert list(pool.map(look, ["b", "c"])) == ["there is b", "there is c"]
        assert "tool_loop_detected" in read[2]
        assert pool.submit(current_scope).result(timeout=10) is None
        assert turns(recording) == 1


async def test_work_in_to_thread_belongs_to_the_turn() -> None:
    """``asyncio.to_thread`` and tasks take the context along."""
    with guarded() as recording:
        async with loopguard.turn():
            await asyncio.to_thread(look, "a")
            await asyncio.create_task(asyncio.to_thread(look, "a"))
            assert "tool_loop_detected" in await asyncio.to_thread(look, "a")
        assert turns(recording) == 1


def test_many_threads_at_once_do_not_mix_their_turns() -> None:
    """Twenty agents in twenty threads are each refused their third equal call, and no earlier one."""
    with guarded() as recording:
        agents = [ScriptedAgent({"look": lambda path: "x"}, [("look", {"path": "a"})] * 3) for _ in range(20)]
        refused: list[list[int]] = []
        threads = [threading.Thread(target=lambda agent=agent: refused.append(agent.run().refused)) for agent in agents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert refused == [[2]] * 20
        assert turns(recording) == 20


def test_a_hundred_thousand_turns_leave_nothing_behind() -> None:
    """Closed turns are not kept, and the number of open turns is bounded."""
    with guarded() as recording:
        runtime = recording.runtime
        assert runtime is not None
        for number in range(100_000):
            run = runtime.runs.open(sources_info(f"conversation-{number % 20_000}"), source="explicit")
            runtime.runs.close(run, unfinished=number % 2 == 0)
        assert runtime.guard.live <= 10_000
        assert len(runtime.conversations) <= 10_000


def sources_info(conversation_id: str) -> Any:
    """A run as a framework would describe it."""
    from otel_loopguard.turns.runs import RunInfo

    return RunInfo(conversation_id)


def test_a_call_inside_of_a_call_is_a_layer_of_it() -> None:
    """An executor that calls another one makes one call, not two."""

    @loopguard.tool
    def outer(path: str) -> str:
        """Look through another tool."""
        return look(path)

    with guarded() as recording:
        with loopguard.turn():
            outer("a")
        assert [span.name for span in recording.spans] == ["execute_tool outer"]


def test_a_context_that_is_copied_keeps_its_turn() -> None:
    """A context from ``contextvars.copy_context`` has the turn."""
    with guarded(), loopguard.turn() as turn:
        context = contextvars.copy_context()
        thread_turn: list[str] = []
        thread = threading.Thread(target=lambda: thread_turn.append(context.run(_turn_id)))
        thread.start()
        thread.join(timeout=10)
        assert thread_turn == [turn.id]


def _turn_id() -> str:
    scope = current_scope()
    assert scope is not None
    return scope.turn.id


@pytest.mark.parametrize(
    ("ids", "nested"), [({}, True), ({"conversation_id": "own"}, False), ({"turn_id": "t"}, False)]
)
def test_a_turn_that_is_opened_inside_a_call_is_a_child_unless_it_says_whose(ids: dict[str, str], nested: bool) -> None:
    """The calls of a turn opened inside a call, as by a hand-written sub-agent, count in the outer turn, too."""
    with guarded() as recording, loopguard.turn("c") as outer:

        def research() -> str:
            with loopguard.turn(**ids) as inner:
                loopguard.call("look", {"at": "a"}, lambda at: at)
                assert str(inner.id).startswith(f"{outer.id}/") is nested
            return "done"

        loopguard.call("research", {}, research)
        assert outer.calls == (2 if nested else 1)
        assert recording.outcomes == ["executed", "executed"]


def test_a_turn_that_is_opened_inside_a_turn_is_one_of_its_own() -> None:
    """A turn opened in a turn, outside of any call, is the next message and not a child."""
    with guarded(), loopguard.turn() as outer, loopguard.turn() as inner:
        loopguard.call("look", {"at": "a"}, lambda at: at)
        assert (outer.calls, inner.calls) == (0, 1)
