"""A signal strikes at any instruction of the package: its handler's exception arrives, its handler's calls run.

Each run strikes a third of the places; over many runs all are struck.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import context as otel_context

import otel_loopguard as loopguard
from otel_loopguard.testing import guarded
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import bind, current_scope
from tests.engine.judges.seed import HINT
from tests.strikes import drawn_places, handled, struck

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from otel_loopguard.instrumentation.runtime import Runtime

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture(autouse=True)
def coroutines_of_this_test() -> Iterator[None]:
    """Collect the coroutines that a strike left unawaited: elsewhere their warnings would be errors.

    What an earlier test left to the garbage collector is collected before, and no span is current then.
    """
    gc.collect()
    otel_context.attach(otel_context.Context())
    yield
    gc.collect()


UNPROTECTED = ("turn.__exit__ before", "turn.__aexit__ before")
"""The first instruction of the exit of the program's own ``with turn():``: there the turn stays bound."""


class TimeLimitError(ValueError, TypeError, KeyError, RuntimeError):  # type: ignore[misc]  # one of each that may be caught
    """The exception of a handler, of every class that the package expects somewhere."""


@loopguard.tool
def look(at: int) -> str:
    """A plain tool, with a result that has to be normalised."""
    return f"text {at} of 1.0"


@loopguard.tool
async def later(at: int) -> str:
    """An async tool."""
    await asyncio.sleep(0)
    return f"later {at}"


@loopguard.tool
def pieces(at: int) -> Iterator[Any]:
    """A generator."""
    yield "piece"
    yield at


@loopguard.tool
async def async_pieces(at: int) -> AsyncIterator[Any]:
    """An async generator."""
    yield "piece"
    yield at


def failing(at: int) -> Any:
    """A tool that fails."""
    raise ZeroDivisionError(at)


async def failing_later(at: int) -> Any:
    """An async tool that fails."""
    raise ZeroDivisionError(at)


def read_file(path: Any, part: Any = None) -> str:
    """A tool that brings nothing new."""
    return "the same text"


def functions() -> list[Any]:
    """Make calls of every sort: repeated until one is refused, with odd arguments, failing, in pieces."""
    with loopguard.turn("conversation"):
        read = [loopguard.call("read_file", {"path": "a", "part": (1, {2})}, read_file) for _ in range(6)]
        look(1)
        loopguard.call("look", '{"at": "{broken"}', lambda at: {"found": at})
        with pytest.raises(ZeroDivisionError):
            loopguard.call("failing", {"at": 1}, failing)
        list(pieces(1))
    return read


async def async_functions() -> list[Any]:
    """Do the same in async code."""
    async with loopguard.turn("conversation"):
        read = [await loopguard.call("read_file", {"path": "a"}, async_read_file) for _ in range(6)]
        await later(1)
        [item async for item in async_pieces(1)]
        with pytest.raises(ZeroDivisionError):
            await loopguard.call("failing", {"at": 1}, failing_later)
    return read


async def async_read_file(path: Any) -> str:
    """An async tool that brings nothing new."""
    await asyncio.sleep(0)
    return read_file(path)


left: list[Any] = []
"""The scopes that were left bound."""


async def _and_look() -> list[Any]:
    try:
        return await async_functions()
    finally:
        left.append(current_scope())


def in_a_loop() -> list[Any]:
    """Run the async program, and look in its task what it left bound."""
    return asyncio.run(_and_look())


def langgraph_agent() -> list[Any]:
    """Run an agent whose model repeats one call."""
    return [message.content for message in graph().invoke({"messages": [("user", "read")]})["messages"]][2::2]


def graph() -> Any:
    """Build the agent once."""
    if not graphs:
        pytest.importorskip("langgraph")
        from langchain_core.messages import AIMessage
        from langchain_core.tools import StructuredTool
        from langgraph.graph import END, START, MessagesState, StateGraph
        from langgraph.prebuilt import ToolNode

        def model(state: MessagesState) -> Any:
            asked = sum(isinstance(message, AIMessage) for message in state["messages"])
            calls = [{"name": "read_file", "args": {"path": "a"}, "id": str(asked)}] if asked < 4 else []
            return {"messages": [AIMessage("", tool_calls=calls)]}

        built = StateGraph(MessagesState)
        built.add_node("model", model)
        built.add_node(
            "tools", ToolNode([StructuredTool.from_function(read_file, name="read_file", description="Read.")])
        )
        built.add_edge(START, "model")
        built.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
        built.add_edge("tools", "model")
        graphs.append(built.compile())
    return graphs[0]


graphs: list[Any] = []
PROGRAMS = {"functions": functions, "async": in_a_loop, "langgraph": langgraph_agent}


def stops_a_loop() -> bool:
    """True if the guard still stops a loop."""
    with loopguard.turn():
        return "tool_loop_detected" in [loopguard.call("read_file", {"path": "b"}, read_file) for _ in range(3)][-1]


def in_another_thread(work: Callable[[], Any]) -> bool:
    """True if the work ends in another thread, so that no lock is held here."""
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(20)
    return bool(done and done[0])


def locks_are_free(runtime: Runtime) -> bool:
    """True if every live turn can be read, and a loop is stopped."""
    for turn in list(runtime.guard._turns._latest.values()):
        turn.state()
    return stops_a_loop()


def problem_after(outcome: Any, raised: list[Any], dropped: list[Any], runtime: Runtime) -> str | None:
    """Return what is wrong after a strike; None if all is well."""
    if not raised:
        return "not reached"
    if outcome is not raised[0] and raised[0] not in dropped:
        return f"swallowed: {outcome!r:.100}"
    left.append(current_scope())
    bind(None)
    if any(scope is not None for scope in left):
        return f"left bound: {left}"
    if otel_context.get_current():
        otel_context.attach(otel_context.Context())
        return "a span is still the current one"
    if garbage_collector.running:
        return "the guard is off in this thread"
    return None if in_another_thread(lambda: locks_are_free(runtime)) else "a lock is held, or the guard is off"


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_exception_of_a_signal_handler_reaches_the_program(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it strikes: no scope stays bound, no lock is held, and the guard works on.

    Python itself drops it in a finaliser, and one place nothing can protect; see ``UNPROTECTED``.
    """
    run, raised, dropped, problems, reached = PROGRAMS[program], [], [], [], 0  # type: ignore[var-annotated]  # lists
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: dropped.append(unraisable.exc_value))

    def handler(*_: object) -> None:
        raised.append(TimeLimitError("over"))
        raise raised[-1]

    with guarded() as recording, handled(handler):
        run()
        for place in drawn_places(run):
            for seen in (raised, dropped, left):
                seen.clear()
            try:
                outcome = struck(place, run)
            except Exception as error:
                outcome = error
            problem = problem_after(outcome, raised, dropped, recording.runtime)
            reached += problem != "not reached"  # a branch that depends on the time
            if problem and problem != "not reached" and not (str(place).endswith(UNPROTECTED) and "bound" in problem):
                problems.append(f"{place}: {problem}")
    assert reached > 30
    assert problems == [], HINT


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_signal_handler_may_call_guarded_functions_anywhere(program: str) -> None:
    """Its calls run, in the interrupted turn and in a turn of its own, and the interrupted loop is stopped."""
    run, ran, problems = PROGRAMS[program], [], []  # type: ignore[var-annotated]  # lists

    def handler(*_: object) -> None:
        ran.append(look(len(ran)))
        with loopguard.turn("of the handler"):
            ran.append(look(len(ran)))
        loopguard.say("hello", conversation_id="of the handler")

    with guarded() as recording, handled(handler):
        run()
        for place in drawn_places(run):
            ran.clear()
            read = struck(place, run)
            assert len(ran) in (0, 2), place
            assert all("text" in one for one in ran), place
            if not any("tool_loop_detected" in str(one) for one in read):
                problems.append(str(place))
            assert current_scope() is None, place
        assert locks_are_free(recording.runtime)
    assert problems == [], HINT
