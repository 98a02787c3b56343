"""A guarded object is the object in all but its calls."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import typing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cloudpickle
import pytest

import otel_loopguard as loopguard
from otel_loopguard.testing import guarded


class Search:
    """Search for a text."""

    limit = 3

    def __init__(self, name: str = "index") -> None:
        self.name = name

    def __call__(self, query: str, most: Any = 3) -> str:
        """Search now."""
        return f"{self.name}: nothing for {query} among {self.limit}"

    def __len__(self) -> int:
        return 7


class SearchLater(Search):
    """Search for a text, asynchronously."""

    async def __call__(self, query: str, most: int = 3) -> str:  # type: ignore[override]
        """Search later."""
        await asyncio.sleep(0)
        return f"nothing for {query}"


class Page:
    """A page of a document."""

    size = "A4"

    def __init__(self, number: int) -> None:
        self.number = number


def find(name: str, query: str) -> str:
    """Find a text."""
    return f"{name}: nothing for {query}"


search = loopguard.tool(Search())
Sheet = loopguard.tool(Page)


@loopguard.tool
@functools.lru_cache
def search_cached(query: str) -> str:
    """A cached function."""
    return f"nothing for {query}"


class Library:
    """A class with a search_cached method."""

    def __init__(self) -> None:
        self.read = 0

    @loopguard.tool
    @functools.lru_cache  # noqa: B019 - the test is over soon
    def look(self, query: str) -> str:
        """A cached method."""
        self.read += 1
        return f"nothing for {query}"


def test_calls_are_guarded() -> None:
    """The third equal call of an object, a partial and a cached function is refused; of a class it makes no object."""
    tools = (loopguard.tool(Search("a")), loopguard.tool(functools.partial(find, "b")), search_cached)
    with guarded() as recording, loopguard.turn():
        for each in tools:
            assert ["tool_loop_detected" in each(query="x") for _ in range(3)] == [False, False, True]
        assert type(Sheet(1)) is Page
        assert {span.name for span in recording.spans} == {
            f"execute_tool {name}" for name in ("Search", "find", "search_cached", "Page")
        }


async def test_an_async_object_is_a_coroutine_function() -> None:
    """Frameworks await an object whose call is a coroutine function."""
    later = loopguard.tool(SearchLater())
    assert inspect.iscoroutinefunction(later)
    assert not inspect.iscoroutinefunction(search)
    with guarded(), loopguard.turn():
        assert ["tool_loop_detected" in await later("x") for _ in range(3)] == [False, False, True]


def test_attributes_are_those_of_the_object() -> None:
    """Attributes are read, written and deleted on the object itself."""
    inner = Search()
    made: Any = loopguard.tool(inner)
    assert made.limit == 3
    made.limit = 4
    assert inner.limit == 4
    del made.limit
    assert made.limit == 3
    assert "limit" in dir(made)
    assert repr(made) == repr(inner)
    with pytest.raises(AttributeError, match="missing"):
        _ = made.missing


def test_a_cache_and_a_partial_keep_their_attributes() -> None:
    """``cache_clear`` clears the cache, also of a method, and a partial shows its function."""
    with guarded(), loopguard.turn():
        search_cached.cache_clear()
        search_cached("x")
        assert search_cached.cache_info().currsize == 1
        search_cached.cache_clear()
        assert search_cached.cache_info().currsize == 0
        library = Library()
        assert library.look("a") == library.look("a").partition("\n")[0] == Library.look(library, "b")[:-1] + "a"
        assert library.read == 2
        Library.look.cache_clear()
    partial: Any = loopguard.tool(functools.partial(find, "b"))
    assert partial.func is find
    assert partial.args == ("b",)


def test_a_class_stays_of_use_as_a_class() -> None:
    """``isinstance``, ``issubclass``, subclasses and attributes work as with the class."""

    class Cover(Sheet):  # type: ignore[misc, valid-type]
        """A subclass."""

    assert isinstance(Page(1), Sheet)
    assert isinstance(Cover(2), Sheet)
    assert not isinstance(1, Sheet)
    assert issubclass(Cover, Sheet)
    assert Cover.__mro__[1] is Page
    assert Sheet.size == "A4"
    with pytest.raises(TypeError):
        isinstance(1, search)


HINTS = {"query": str, "most": Any, "return": str}


@pytest.mark.parametrize(
    ("function", "name", "parameters", "hints"),
    [
        (Search(), "Search", ["query", "most"], HINTS),
        (SearchLater(), "SearchLater", ["query", "most"], {**HINTS, "most": int}),
        (functools.partial(find, "a"), "find", ["query"], {"query": str, "return": str}),
        (functools.lru_cache(find), "find", ["name", "query"], {"name": str, "query": str, "return": str}),
        (Page, "Page", ["number"], {}),
        (find, "find", ["name", "query"], {"name": str, "query": str, "return": str}),
        (Search().__call__, "__call__", ["query", "most"], HINTS),
        (len, "len", ["obj"], {}),
    ],
)
def test_schemas_can_be_made(function: Any, name: str, parameters: list[str], hints: dict[str, Any]) -> None:
    """Name, signature and type hints are those of the call, although the annotations are text."""
    made = loopguard.tool(function)
    assert made.__name__ == name
    assert inspect.getdoc(made) == inspect.getdoc(function)
    assert list(inspect.signature(made).parameters) == parameters
    assert typing.get_type_hints(made) == hints


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_it_can_be_pickled(dumps: Any) -> None:
    """An object of a module is pickled by its content, a decorated function by its name, and both are guarded."""
    with guarded() as recording:
        assert pickle.loads(dumps(search))("x") == search("x")
        assert pickle.loads(dumps(search_cached)) is search_cached
        assert recording.outcomes == ["executed", "executed"]


def test_it_can_be_copied() -> None:
    """A copy has its own object, and is guarded, too."""
    made: Any = loopguard.tool(Search("a"))
    for other in (copy.copy(made), copy.deepcopy([made])[0]):
        other.name = "b"
        assert made.name == "a"
        with guarded() as recording:
            assert other("x").startswith("b: ")
            assert recording.outcomes == ["executed"]


def test_threads_share_an_object() -> None:
    """An object that is called by many threads is called as often as without the guard."""
    counted: list[int] = []

    class Counter:
        def __call__(self, number: int) -> str:
            counted.append(number)
            return f"number {number}"

    counter = loopguard.tool(Counter())
    with guarded() as recording, loopguard.turn(), ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(counter, range(200)))) == 200
        assert recording.outcomes == ["executed"] * 200
    assert sorted(counted) == list(range(200))
