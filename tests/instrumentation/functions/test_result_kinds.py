"""Results that are more than awaitable are returned unchanged, and a refusal has the kind of the function's result."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import logging
import threading
import types
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard.instrumentation.functions.result_kinds import ResultKind, ResultKinds, known_kinds
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


class Pages:
    """Can be awaited for the first page and iterated for all of them, as clients' lists are."""

    def __init__(self, texts: list[str]) -> None:
        self.path = "/models"
        self._texts = iter(texts)

    def __await__(self) -> Iterator[Any]:
        yield from asyncio.sleep(0).__await__()
        return next(self._texts)

    async def __aiter__(self) -> AsyncIterator[str]:
        for text in self._texts:
            yield text


class Request(Pages):
    """Can be entered, too."""

    async def __aenter__(self) -> str:
        return next(self._texts)

    async def __aexit__(self, *_: object) -> None:
        pass


async def same(q: str) -> str:
    """An async client that returns the same result each time."""
    await asyncio.sleep(0)
    return f"text of {q}"


@pytest.mark.parametrize("kind", [Pages, Request])
@pytest.mark.parametrize("where", ["in a turn", "outside"])
async def test_what_is_more_than_awaitable_is_returned_as_it_is(kind: type[Pages], where: str) -> None:
    """Calls whose result is awaitable and more are never refused, because the result cannot be read."""
    numbers = iter(range(12))
    made: list[Pages] = []

    @loopguard.tool
    def pages(q: str) -> Pages:
        """Pages."""
        made.append(kind([f"page {next(numbers)}", "last"]))
        return made[-1]

    async def read() -> None:
        for number in range(12):
            found = pages("x")
            assert found is made[-1]
            assert [text async for text in found] == [f"page {number}", "last"]

    with guarded() as recording:
        if where == "in a turn":
            with loopguard.turn():
                await read()
        else:
            await read()
        assert recording.outcomes[:5] == ["executed"] * 5
        assert set(recording.outcomes[5:]) <= {"executed", "nudged"}


async def test_a_future_is_returned_as_it_is_and_ends_its_call_when_it_is_done() -> None:
    """A future is returned unchanged, and its call ends before the code that awaits it continues."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()
    done.set_result("there")
    task = asyncio.create_task(same("x"), name="mine")
    with guarded() as recording, loopguard.turn():
        outside = current_scope()
        assert loopguard.call("done", {}, lambda: done) is done
        assert done.result() == "there"
        assert recording.outcomes == ["executed"]
        assert loopguard.call("task", {}, lambda: task) is task
        assert current_scope() is outside
        assert recording.outcomes == ["executed"]
        assert await task == "text of x"
        assert task.get_name() == "mine"
        assert recording.outcomes == ["executed"] * 2


async def test_a_future_that_fails_or_is_cancelled_is_told_so() -> None:
    """The exception of a future reaches the program without our lines in its traceback."""

    async def fail() -> str:
        raise ValueError("no")

    failed = asyncio.get_running_loop().create_future()
    failed.set_exception(ValueError("no"))
    failing, waiting = asyncio.ensure_future(fail()), asyncio.ensure_future(asyncio.sleep(9))
    with guarded() as recording, loopguard.turn():
        outside = current_scope()
        for one in (failed, failing, waiting):
            assert loopguard.call("f", {"q": id(one)}, lambda q, one=one: one) is one
        assert current_scope() is outside
        waiting.cancel()
        for one in (failed, failing):
            with pytest.raises(ValueError, match="no") as caught:
                await one
            assert not [entry for entry in caught.traceback if "instrumentation/later" in str(entry.path)]
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)  # it was done before it was awaited
        assert recording.outcomes == ["failed", "failed", "cancelled"]


async def test_asyncio_still_says_that_an_exception_was_never_read(caplog: pytest.LogCaptureFixture) -> None:
    """Reading a future does not mark its exception as retrieved."""

    async def fail() -> None:
        raise ValueError("no")

    with guarded(), loopguard.turn():
        loopguard.call("fail", {}, lambda: asyncio.ensure_future(fail()))
        await asyncio.sleep(0.01)
        with caplog.at_level(logging.ERROR, "asyncio"):
            gc.collect()
    assert "Task exception was never retrieved" in caplog.text


async def test_a_future_that_is_thrown_away_leaves_nothing() -> None:
    """The call of a future that is thrown away is closed with the turn."""
    with guarded() as recording:
        with loopguard.turn():
            loopguard.call("f", {}, lambda: asyncio.get_running_loop().create_future())
            gc.collect()
        assert recording.outcomes == ["cancelled"]


def test_a_future_of_another_threads_loop_is_told_there() -> None:
    """The callback of another thread's future is added in the thread of its loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    release = threading.Event()
    try:

        async def start() -> asyncio.Task[str]:
            async def work() -> str:
                await loop.run_in_executor(None, release.wait)
                return "done"

            return loop.create_task(work())

        with guarded() as recording, loopguard.turn():
            task = asyncio.run_coroutine_threadsafe(start(), loop).result(9)
            assert loopguard.call("far", {}, lambda: task) is task
            release.set()

            async def wait() -> str:
                return await task

            assert asyncio.run_coroutine_threadsafe(wait(), loop).result(9) == "done"
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), loop).result(9)
            assert recording.outcomes == ["executed"]
    finally:
        release.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def test_a_sentence_for_the_model_is_not_lost_in_a_future() -> None:
    """A future takes no text, so a user's message is added to the next text."""
    with guarded(), loopguard.turn() as turn:
        task = loopguard.call("search", {}, lambda: asyncio.ensure_future(same("x")))
        turn.say("use the other file")
        assert await task == "text of x"
        assert "use the other file" in loopguard.call("look", {}, lambda: "text")


async def test_a_generator_that_is_a_coroutine_is_still_both() -> None:
    """The result of ``types.coroutine`` can be awaited, and delegated to."""

    @types.coroutine
    def old() -> Iterator[Any]:
        yield from asyncio.sleep(0).__await__()
        return "old"

    @types.coroutine
    def delegates(work: Any) -> Iterator[Any]:
        return (yield from work)

    with guarded() as recording, loopguard.turn():
        assert await loopguard.call("a", {}, lambda: old()) == "old"  # noqa: PLW0108 - the kind is known only from its result
        work = loopguard.call("b", {}, lambda: old())  # noqa: PLW0108
        assert inspect.isgenerator(work)
        assert await delegates(work) == "old"
        assert recording.outcomes == ["executed"] * 2


# --- the kinds of refusals -------------------------------------------------------------------------------------------


async def test_a_refusal_is_of_the_function_that_is_called_and_not_of_its_name() -> None:
    """A sync and an async function with the same tool name get refusals of their own kinds."""
    with guarded(), loopguard.turn():
        for _ in range(2):
            loopguard.call("search", {"q": 1}, lambda q: f"text of {q}")

        def plain(q: int) -> str:
            return f"text of {q}"

        await loopguard.call("search", {"q": 2}, lambda q: same(q))  # noqa: PLW0108
        loopguard.call("search", {"q": 3}, plain)
        for _ in range(3):
            read = loopguard.call("search", {"q": 3}, plain)
        assert type(read) is str
        assert "tool_loop_detected" in read


async def test_functions_of_the_same_code_may_differ() -> None:
    """If functions with the same code return different kinds, a refusal can be read and awaited."""

    def made(client: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **kw: client(**kw)  # noqa: PLW0108

    with guarded(), loopguard.turn() as turn:
        plain, later = made(lambda q: q), made(same)
        assert loopguard.call("plain", {"q": "x"}, plain) == "x"
        assert await loopguard.call("later", {"q": "x"}, later) == "text of x"
        turn.say("stop it", stop=True)
        assert type(loopguard.call("plain", {"q": "x"}, plain)) is str
        assert inspect.iscoroutine(waiting := loopguard.call("later", {"q": "x"}, later))
        assert "stop it" in await waiting
        new = loopguard.call("new", {"q": "x"}, made(same))
        assert "stop it" in new
        assert "stop it" in await new


async def test_a_future_and_what_cannot_be_read_are_refused_as_they_are_used() -> None:
    """The refusal of a future can be read at once, that of anything else can be awaited and iterated."""

    def task() -> Any:
        return asyncio.ensure_future(same("x"))

    def pages() -> Any:
        return Pages(["a"])

    with guarded(), loopguard.turn() as turn:
        await loopguard.call("task", {}, task)
        await loopguard.call("pages", {}, pages)
        turn.say("stop it", stop=True)
        refused = loopguard.call("task", {}, task)
        assert asyncio.isfuture(refused)
        assert "stop it" in refused.result()
        assert "stop it" in await loopguard.call("pages", {}, pages)
        assert "stop it" in await anext(aiter(loopguard.call("pages", {}, pages)))


def test_nothing_is_remembered_of_what_is_gone_or_never_was() -> None:
    """The memory of kinds holds no unknown tool names and no functions that are gone."""

    class Tool:
        def __init__(self, number: int) -> None:
            self.number = number

        def run(self) -> str:
            return f"{self.number}"

    with guarded(), loopguard.turn():
        gc.collect()
        before = len(known_kinds)
        for number in range(50):
            loopguard.call(f"made_up_{number}", {}, None, known_tools=["a"])
            loopguard.call(f"anew_{number}", {}, lambda number=number: number)
            loopguard.call(f"partial_{number}", {}, functools.partial(str, number))
            loopguard.call(f"method_{number}", {}, Tool(number).run)
        gc.collect()
        assert len(known_kinds) < before + 10


def test_the_kind_is_unknown_without_a_weak_reference() -> None:
    """A function without weak references can be called, and its kind is not remembered."""

    class Slotted:
        __slots__ = ()

        def __call__(self) -> str:
            return "text"

    kinds, slotted = ResultKinds(), Slotted()
    kinds.remember(slotted, ResultKind.PLAIN)
    assert kinds.expected(slotted) is None
    kinds.remember(None, ResultKind.COROUTINE)
    assert len(kinds) == 0
