"""Each loopguard function that runs at a call raises, one at a time, and the program is not affected."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph")

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.testing import Ask, Toolbox, guarded
from otel_loopguard.turns.scope import bind, current_scope
from tests.scripted.langchain import DRIVERS

from .fault_injection import EXCUSED, NOT_COUNTED, PACKAGE, broken, called, ours

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore")


async def later(x: int) -> str:
    """Async."""
    await asyncio.sleep(0)
    return f"later {x}"


def pieces(x: int) -> Iterator[str]:
    """A generator."""
    yield "piece"
    yield str(x)


async def async_pieces(x: int) -> AsyncIterator[str]:
    """An async generator."""
    yield "piece"
    yield str(x)


def fail(x: int) -> str:
    """A tool that fails."""
    raise KeyError(x)


plain_tool = loopguard.tool(lambda x: f"plain {x}")
PLAIN = [loopguard.tool(later), loopguard.tool(pieces), loopguard.tool(async_pieces)]


async def value_of(result: Any) -> Any:
    """Await or iterate the result of a call, whatever its kind."""
    if inspect.isasyncgen(result):
        return [item async for item in result]
    if inspect.isawaitable(result):
        return await result
    return list(result) if inspect.isgenerator(result) else result


async def functions() -> list[Any]:
    """Call each kind of function once, decorated and by hand; then a tool that fails."""
    read: list[Any] = []
    with loopguard.turn("conversation"):
        read.extend(plain_tool(number) for number in range(2))
        read += [await value_of(tool(1)) for tool in PLAIN]
        for name, function in (("a", later), ("b", pieces), ("c", async_pieces)):
            read.append(await value_of(loopguard.call(name, {"x": 1}, function)))
        with pytest.raises(KeyError):
            loopguard.call("fail", '{"x": 1}', fail)
        loopguard.say("hello", conversation_id="conversation")
        assert loopguard.call("look", {"x": 1}, lambda x: "text").startswith("text")
    return read


async def loops() -> None:
    """Run loops that are nudged, refused and aborted; each result is the tool's or a refusal."""
    with loopguard.turn():
        try:
            for _ in range(9):
                read = loopguard.call("stuck", {"x": 1}, lambda x: "text", known_tools=["stuck"])
                assert read.startswith("text") or "tool_loop_detected" in read
        except loopguard.ToolLoopError:
            pass


def agent() -> list[str]:
    """Run a LangGraph agent that reads one file repeatedly, and then lists a folder."""
    toolbox = Toolbox()
    steps = [[Ask("read_file", {"path": "a.txt"})]] * 3 + [[Ask("list_folder", {"path": "b"})]]
    transcript = DRIVERS["agent-invoke"](toolbox.functions(), steps)
    assert transcript.error is None
    texts = ["the text of a.txt"] * 3 + ["one.txt and two.txt are in b"]
    assert len(transcript.read) == len(texts)
    return [
        text if read.startswith(text) or "tool_loop_detected" in read else read
        for read, text in zip(transcript.read, texts, strict=True)
    ]


def conversation() -> list[Any]:
    """Run hand-written loops over OpenAI's client, plain, streamed and async: all answers, and all bodies sent."""
    openai = pytest.importorskip("openai")
    from tests.models.loops.openai import chat, chat_async, chat_stream
    from tests.models.scripts import Working, call
    from tests.models.server import Server
    from tests.models.toolbox import Toolbox

    assert openai
    read: list[Any] = []
    for loop in (chat, chat_stream, chat_async):
        with Server(Working(call("read_file", path="a.txt"), call("read_file", path="b.txt"))).running() as server:
            ended = loop(server.url, "task-1: who owns the files?", Toolbox())
            read += [asyncio.run(ended) if inspect.iscoroutine(ended) else ended, server.bodies()]
    return read


def looping_conversation() -> None:
    """Run a loop to its end: it ends with an answer, or with the error."""
    from tests.models.loops.openai import chat
    from tests.models.scripts import Looping, call
    from tests.models.server import Server
    from tests.models.toolbox import Toolbox

    looping = Looping(call("read_file", path="a.txt"), rounds=12)
    with Server(looping).running() as server, contextlib.suppress(loopguard.ToolLoopError):
        assert chat(server.url, "task-1: who owns the files?", Toolbox()) == "I looked."
    assert server.rejected == []


def by_hand() -> list[Any]:
    """Run everything that needs no framework."""

    async def both() -> list[Any]:
        read = await functions()
        await loops()
        return read

    return asyncio.run(both())


def trial(label: str, scenario: Callable[[], Any], want: Any) -> str | None:
    """Return the problem that a fault in this function causes; None if there is none."""
    with guarded() as recording:
        with broken(ours()[label]):
            try:
                read = scenario()
            except BaseException as error:
                read = f"{type(error).__name__}: {error}"
        counted = recording.counted(semconv.METRIC_INTERNAL_ERRORS)
    left = current_scope()
    bind(None)
    if read != want:
        return f"{label}: {read!r:.200}"
    if left is not None or current_scope() is not None:
        return f"{label}: left a scope behind"
    return None if counted or label in NOT_COUNTED else f"{label}: the fault was not counted"


def test_a_fault_in_any_function_changes_nothing_for_the_program(caplog: pytest.LogCaptureFixture) -> None:
    """Each function's fault changes no result, is counted, and shows no value in the log."""
    caplog.set_level(logging.DEBUG, PACKAGE)
    failures, tried = [], set()
    for scenario in (by_hand, agent, conversation, looping_conversation):
        with guarded():
            want = scenario()
        for label in sorted(called(scenario) - tried - set(EXCUSED)):
            tried.add(label)
            failures.append(copy_context().run(trial, label, scenario, want))  # a fault may leave a variable set
    assert len(tried) > 120
    assert [one for one in failures if one] == []
    assert "SECRET" not in caplog.text
