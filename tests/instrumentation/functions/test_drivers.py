"""Functions of every sort can be tools, and plain ones that return work for later pass it on untouched."""

from __future__ import annotations

import asyncio
import functools
import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard.engine.policy.policy import ToolContract
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


async def client(q: str) -> str:
    """An async client that returns the same result each time."""
    await asyncio.sleep(0)
    return f"text of {q}"


def items(q: str) -> Iterator[str]:
    """A generator."""
    yield f"text of {q}"


async def async_items(q: str) -> AsyncIterator[str]:
    """An async generator."""
    yield f"text of {q}"


class Pages:
    """Can be awaited for the first page and iterated for all of them, as clients' lists are."""

    def __init__(self, q: str) -> None:
        self.path = f"/models/{q}"

    def __await__(self) -> Iterator[Any]:
        yield from asyncio.sleep(0).__await__()
        return "text of x"


async def text_of(work: Any) -> str:
    """Use the work, as the program does that knows its kind."""
    if inspect.isgenerator(work):
        return next(work)
    return await (anext(work) if inspect.isasyncgen(work) else work)


WORK: dict[str, Callable[[str], Any]] = {
    "coroutine": lambda q: client(q),  # noqa: PLW0108 - a plain function is what is tested
    "task": lambda q: asyncio.ensure_future(client(q)),
    "generator": lambda q: items(q),  # noqa: PLW0108
    "async generator": lambda q: async_items(q),  # noqa: PLW0108
    "awaitable object": lambda q: Pages(q),  # noqa: PLW0108
}


@pytest.mark.parametrize("make", WORK.values(), ids=WORK)
async def test_work_that_a_plain_function_returns_passes_on_untouched(make: Callable[[str], Any]) -> None:
    """Nobody knows its result when the call ends, so that no call is refused as a repeat."""
    made: list[Any] = []

    def search(q: str) -> Any:
        made.append(make(q))
        return made[-1]

    with guarded() as recording, loopguard.turn():
        for number in range(12):
            work = loopguard.call("search", {"q": "x"}, search)
            assert work is made[-1]
            assert len(recording.spans) == number + 1
            assert await text_of(work) == "text of x"
        assert set(recording.outcomes) == {"executed"}


@pytest.mark.parametrize("make", [client, *WORK.values()], ids=["async function", *WORK])
async def test_a_refusal_can_be_used_as_the_result_of_the_function(make: Callable[[str], Any]) -> None:
    """In an event loop it can be read, awaited and iterated."""
    with guarded(), loopguard.turn() as turn:
        turn.say("stop it", stop=True)
        refusal = loopguard.call("search", {"q": "x"}, make)
        if inspect.iscoroutine(refusal):
            assert "stop it" in await refusal
            return
        assert "stop it" in refusal
        assert type(await refusal) is str
        assert "stop it" in "".join([part async for part in refusal])
        assert "stop it" in "".join(refusal)


def test_a_refusal_outside_of_an_event_loop_is_a_plain_string() -> None:
    """There is nobody who may await it."""
    with guarded(), loopguard.turn() as turn:
        turn.say("stop it", stop=True)
        assert type(loopguard.call("search", {"q": "x"}, lambda q: q)) is str


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator"])
async def test_work_that_is_used_up_is_not_given_again(kind: str) -> None:
    """Under a policy that counts calls, a tool with ``reuse`` is refused, and not answered by a spent coroutine."""
    policy = replace(load_preset("chat_turn").policy, tools={"search": ToolContract(reuse=True)})
    with guarded(policy) as recording, loopguard.turn():
        assert await text_of(loopguard.call("search", {"q": "x"}, WORK[kind])) == "text of x"
        assert isinstance(loopguard.call("search", {"q": "x"}, WORK[kind]), str)
        assert recording.outcomes == ["executed", "blocked"]


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


class Client:
    """An object that is called as a coroutine function is."""

    async def __call__(self, q: str) -> str:
        """Return a text."""
        return f"text of {q}"


async def test_an_object_that_is_called_is_named_after_its_class() -> None:
    """A callable object, sync or async, is named after its class."""
    tool = loopguard.tool(Client())
    assert tool.__name__ == "Client"
    with guarded() as recording, loopguard.turn():
        assert await tool("x") == "text of x"
        assert [span.name for span in recording.spans] == ["execute_tool Client"]
