"""Functions that return work to be awaited or iterated later, and generators that receive values."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import semconv
from otel_loopguard.instrumentation.functions.deferred import _DeferredCall
from otel_loopguard.testing import guarded
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

PAGES = ["alpha", "beta", "gamma", "delta", "epsilon"]


async def same(q: str) -> str:
    """An async client that returns the same result each time."""
    await asyncio.sleep(0)
    return f"text of {q}"


def iter_of(text: str) -> Iterator[str]:
    """A generator."""
    yield text


class Client:
    """An object that is called."""

    def __init__(self) -> None:
        self._pages = iter(PAGES)

    async def __call__(self, q: str) -> str:
        """Another page each time."""
        await asyncio.sleep(0)
        return next(self._pages)


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A plain decorator, as programs have them."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


class Promise:
    """Can be awaited, and nothing else."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __await__(self) -> Iterator[Any]:
        yield from asyncio.sleep(0).__await__()
        return self._value


FORMS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "lambda": lambda client: lambda **kw: client(**kw),  # noqa: PLW0108
    "object": lambda client: client,
    "decorated": traced,
    "partial": lambda client: functools.partial(lambda c, **kw: c(**kw), client),
    "task": lambda client: lambda **kw: asyncio.ensure_future(client(**kw)),
}


@pytest.mark.parametrize("form", FORMS)
async def test_new_results_of_an_awaitable_are_never_withheld(form: str) -> None:
    """The awaited value is the result, and not the awaitable."""
    client = FORMS[form](Client())
    with guarded() as recording, loopguard.turn():
        read = [await loopguard.call("search", {"q": "x"}, client) for _ in range(5)]
    assert read == PAGES
    assert recording.outcomes == ["executed"] * 5


async def test_new_results_of_a_promise_that_is_no_coroutine_are_never_withheld() -> None:
    """The result of an awaitable that is no coroutine is unknown, so no call is refused."""
    pages = iter(PAGES)
    with guarded() as recording, loopguard.turn():
        assert [await loopguard.call("search", {}, lambda: Promise(next(pages))) for _ in range(5)] == PAGES
    assert recording.outcomes == ["executed"] * 5


@pytest.mark.parametrize("form", FORMS)
async def test_the_same_awaited_result_is_still_a_loop(form: str) -> None:
    """A refusal is awaited like a result. A task is passed on as it is, and has no place for a sentence."""
    client = FORMS[form](same)
    with guarded() as recording, loopguard.turn():
        read = [await loopguard.call("search", {"q": "x"}, client) for _ in range(3)]
        assert read[0] == "text of x"
        assert "tool_loop_detected" in read[2]
        assert recording.outcomes == ["executed", "executed" if form == "task" else "nudged", "blocked"]


async def test_a_decorated_lambda_is_judged_by_what_it_brings() -> None:
    """``@tool`` judges a lambda by the awaited value, as ``call`` does."""
    pages = iter(PAGES)

    @loopguard.tool
    @traced
    async def search(q: str) -> str:
        """Another page each time."""
        return next(pages)

    with guarded() as recording, loopguard.turn():
        assert [await search("x") for _ in range(5)] == PAGES
        assert recording.outcomes == ["executed"] * 5


async def test_the_span_lasts_until_the_work_is_done_and_holds_what_is_called_in_it() -> None:
    """The call's scope and span are current while its work is awaited, and not between call and ``await``."""
    seen: list[Any] = []

    async def work() -> str:
        seen.append(current_scope())
        await asyncio.sleep(0.02)
        return "done"

    with guarded() as recording, loopguard.turn():
        outside = current_scope()
        waiting = loopguard.call("work", {}, lambda: work())  # noqa: PLW0108 - the lambda is what is tested
        assert current_scope() is outside
        assert recording.spans == []
        assert inspect.iscoroutine(waiting)
        assert await waiting == "done"
        assert current_scope() is outside
        assert seen[0].call.tool == "work"
        (span,) = recording.spans
        assert (span.end_time or 0) - (span.start_time or 0) > 15e6


async def test_work_that_is_never_awaited_is_cancelled_and_leaves_nothing() -> None:
    """Python warns once that the work was never awaited; the call is closed with the turn."""
    with guarded() as recording:
        with loopguard.turn() as turn, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loopguard.call("search", {"q": "x"}, lambda q: same(q))  # noqa: PLW0108
            loopguard.call("search", {"q": "x"}, lambda q: iter_of(q))  # noqa: PLW0108
            assert [str(one.message) for one in caught] == ["coroutine 'same' was never awaited"]
            caught.clear()  # a warning holds what it is about
            gc.collect()
            assert turn._run is not None
            scope = turn._run.scope
        assert recording.outcomes == ["cancelled"] * 2
        assert scope.turn.running == {}
        assert recording.counted(semconv.METRIC_TOOL_CALLS, loopguard__outcome="cancelled") == 2


async def test_work_that_fails_or_is_cancelled_is_told_so() -> None:
    """The caller gets the work's exception; a cancelled task ends the call's span."""

    async def fail() -> str:
        raise ValueError("no")

    async def wait() -> None:
        await asyncio.sleep(9)

    with guarded() as recording, loopguard.turn():
        with pytest.raises(ValueError, match="no"):
            await loopguard.call("fail", {}, lambda: fail())  # noqa: PLW0108
        task = asyncio.ensure_future(loopguard.call("wait", {}, lambda: wait()))  # noqa: PLW0108
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert recording.outcomes == ["failed", "cancelled"]


async def test_a_refusal_before_anything_ran_can_be_read_and_awaited() -> None:
    """A refusal can be read and awaited if the function has not run yet and its kind of result is unknown."""
    with guarded(), loopguard.turn() as turn:
        turn.say("stop it", stop=True)
        read = loopguard.call("search", {"q": "x"}, lambda q: same(q))  # noqa: PLW0108
        assert "stop it" in read
        assert "stop it" in await read


def test_a_generator_that_comes_out_of_a_lambda_is_driven() -> None:
    """Calls of a lambda with new items run, and calls with equal items are refused."""
    pages = iter(PAGES)

    def stream(q: str) -> Iterator[str]:
        yield next(pages)

    with guarded() as recording, loopguard.turn():
        assert ["".join(loopguard.call("search", {"q": "x"}, stream)) for _ in range(5)] == PAGES
        assert recording.outcomes == ["executed"] * 5
        read = ["".join(loopguard.call("read_again", {"q": "x"}, lambda q: iter_of(q))) for _ in range(3)]  # noqa: PLW0108
        assert "tool_loop_detected" in read[2]


async def test_an_async_generator_that_comes_out_of_a_lambda_is_driven() -> None:
    """A lambda that returns an async generator is judged by its items."""
    pages = iter(PAGES)

    async def stream(q: str) -> AsyncIterator[str]:
        yield next(pages)

    with guarded() as recording, loopguard.turn():
        for page in PAGES:
            assert [item async for item in loopguard.call("search", {"q": "x"}, lambda q: stream(q))] == [page]  # noqa: PLW0108
        assert recording.outcomes == ["executed"] * 5


# --- generators that are talked to -----------------------------------------------------------------------------------


def talk(log: list[Any]) -> Iterator[Any]:
    """Yield each received value."""
    received: Any = "begun"
    try:
        while received != "enough":
            try:
                received = yield f"received {received}"
            except KeyError as error:  # noqa: PERF203
                received = f"error {error}"
        return "the end"
    finally:
        log.append("closed")


async def async_talk(log: list[Any]) -> AsyncIterator[Any]:
    """Yield each received value."""
    received: Any = "begun"
    try:
        while received != "enough":
            try:
                received = yield f"received {received}"
            except KeyError as error:  # noqa: PERF203
                received = f"error {error}"
    finally:
        await asyncio.sleep(0)
        log.append("closed")


def conversation(generator: Any) -> list[Any]:
    """Use every method of a generator."""
    items = [next(generator), generator.send("this"), generator.throw(KeyError(1)), next(generator)]
    try:
        generator.send("enough")
    except StopIteration as stop:
        items.append(stop.value)
    return items


async def async_conversation(generator: Any) -> list[Any]:
    """Use every method of an async generator."""
    items = [await generator.__anext__(), await generator.asend("this"), await generator.athrow(KeyError(1))]
    with pytest.raises(StopAsyncIteration):
        await generator.asend("enough")
    return items


@pytest.mark.parametrize("where", ["in a turn", "without a guard"])
def test_a_generator_can_be_talked_to(where: str) -> None:
    """Sent values, thrown exceptions and the returned value pass through, guarded or not."""
    tool, log = loopguard.tool(talk), []
    want = conversation(talk(log))
    if where == "without a guard":
        assert conversation(tool(log)) == want
        return
    with guarded() as recording, loopguard.turn():
        outside = current_scope()
        assert conversation(tool(log)) == want
        assert current_scope() is outside
        assert recording.outcomes == ["executed"]
    assert log == ["closed"] * 2


def test_a_generator_that_is_closed_is_closed() -> None:
    """``close`` reaches the generator at once, and the call is cancelled."""
    log: list[Any] = []
    with guarded() as recording, loopguard.turn():
        generator = loopguard.tool(talk)(log)
        next(generator)
        generator.close()
        assert log == ["closed"]
        assert recording.outcomes == ["cancelled"]


def test_what_a_generator_returns_is_part_of_its_result() -> None:
    """Two calls that differ only in the generator's returned value differ."""
    numbers = iter(range(5))

    @loopguard.tool
    def count(q: str) -> Iterator[str]:
        """Yield an equal item, and return another result."""
        yield "counting"
        return f"page {PAGES[next(numbers)]}"

    with guarded() as recording, loopguard.turn():
        for _ in PAGES:
            list(count("x"))
        assert "blocked" not in recording.outcomes


@pytest.mark.parametrize("where", ["in a turn", "without a guard"])
async def test_an_async_generator_can_be_talked_to(where: str) -> None:
    """``asend``, ``athrow`` and ``aclose`` pass through, guarded or not."""
    tool, log = loopguard.tool(async_talk), []
    assert inspect.isasyncgenfunction(tool)
    want = await async_conversation(async_talk(log))
    if where == "without a guard":
        assert await async_conversation(tool(log)) == want
        return
    with guarded() as recording, loopguard.turn():
        assert await async_conversation(tool(log)) == want
        generator = tool(log)
        await generator.__anext__()
        await generator.aclose()
        assert log == ["closed"] * 3
        assert recording.outcomes == ["executed", "cancelled"]


def test_a_sentence_for_the_model_is_not_lost_in_a_stream() -> None:
    """A stream takes no text after its end, so a user's message is added to the next text."""
    with guarded(), loopguard.turn() as turn:
        stream = loopguard.call("search", {}, lambda: iter_of("a"))
        turn.say("use the other file")
        list(stream)
        assert "use the other file" in loopguard.call("look", {}, lambda: "text")


# --- callables of every sort -----------------------------------------------------------------------------------------


class Desk:
    """A class with a static and a class method as tools."""

    @loopguard.tool
    @staticmethod
    def fixed(path: str) -> str:
        """A static method."""
        return f"text of {path}"

    @loopguard.tool
    @classmethod
    def named(cls, path: str) -> str:
        """A class method."""
        return f"{cls.__name__} {path}"


def test_static_and_class_methods_stay_what_they_are() -> None:
    """Static and class methods are guarded when called on the class and on an object."""
    with guarded() as recording, loopguard.turn():
        assert [Desk.fixed("a"), Desk().fixed("b"), Desk.named("a"), Desk().named("b")] == [
            "text of a",
            "text of b",
            "Desk a",
            "Desk b",
        ]
        assert [span.name for span in recording.spans] == ["execute_tool fixed"] * 2 + ["execute_tool named"] * 2


@pytest.mark.parametrize(
    ("function", "name", "arguments", "result"),
    [
        (functools.partial(Desk.fixed.__wrapped__, "a"), "fixed", (), "text of a"),
        (functools.partial(functools.partial(max, 1)), "max", (2,), 2),
        (max, "max", (1, 2), 2),
        (dict, "dict", ([("a", 1)],), {"a": 1}),
        (functools.lru_cache(lambda path: path), "<lambda>", ("a",), "a"),
    ],
)
def test_whatever_can_be_called_can_be_a_tool(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], result: Any
) -> None:
    """A partial is called as its function, and a builtin needs no signature."""
    tool = loopguard.tool(function)
    assert tool.__name__ == name
    with guarded() as recording, loopguard.turn():
        assert tool(*arguments) == result
        assert recording.outcomes == ["executed"]


async def test_an_object_that_is_called_is_named_after_its_class() -> None:
    """A callable object, sync or async, is named after its class."""
    tool = loopguard.tool(Client())
    assert tool.__name__ == "Client"
    with guarded() as recording, loopguard.turn():
        assert await tool("x") == "alpha"
        assert [span.name for span in recording.spans] == ["execute_tool Client"]


def test_a_call_that_was_never_made_is_collected_without_a_word() -> None:
    """An exception of a signal handler may strike in its ``__init__``: Python would print that ``__del__`` failed."""
    _DeferredCall.__new__(_DeferredCall).__del__()
