"""The arguments of a guarded function: its parameters by name, and the objects that it belongs to."""

from __future__ import annotations

import contextvars
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A plain decorator, as programs have them."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


class Server:
    """An object whose methods are tools. Each call changes the object."""

    region = "eu"

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []

    @loopguard.tool
    def is_healthy(self) -> bool:
        """A method."""
        self.asked.append(self.name)
        return self.name != "db3"

    @logged
    @loopguard.tool
    def is_up(self) -> bool:
        """A method below another decorator."""
        self.asked.append(self.name)
        return self.name != "db3"

    @property
    @loopguard.tool
    def load(self) -> str:
        """A property."""
        self.asked.append(self.name)
        return "low"

    @loopguard.tool
    @classmethod
    def where(cls) -> str:
        """A class method, the guard outside."""
        return "here"

    @classmethod
    @loopguard.tool
    def whence(cls) -> str:
        """A class method, the guard inside."""
        return "here"

    def __call__(self) -> str:
        """The object is a tool itself."""
        return "low"


class Replica(Server):
    """A subclass that overrides a tool and calls it."""

    def is_healthy(self) -> bool:
        """The tool of the base class."""
        return super().is_healthy()


@pytest.fixture(autouse=True)
def _turn() -> Iterator[None]:
    with guarded(), loopguard.turn():
        yield


def is_refused(result: Any) -> bool:
    """True if the result is a refusal."""
    return "tool_loop_detected" in str(result)


ENOUGH = 20
"""Equal runs of which the last is refused, whatever the name of the tool is."""


CALLS: dict[str, Callable[[Any], Any]] = {
    "method": lambda server: server.is_healthy(),
    "method of the class": lambda server: type(server).is_healthy(server),
    "below another decorator": lambda server: server.is_up(),
    "property": lambda server: server.load,
}


@pytest.mark.parametrize("kind", [Server, Replica])
@pytest.mark.parametrize("name", CALLS)
def test_a_method_of_three_objects_is_three_calls(name: str, kind: type[Server]) -> None:
    """Each object is asked, also if it is made for the call and dies after it."""
    assert not any(is_refused(CALLS[name](kind(f"db{number}"))) for number in range(ENOUGH))
    assert not any(is_refused(CALLS[name](server)) for server in [kind("db") for _ in range(ENOUGH)])


@pytest.mark.parametrize("kind", [Server, Replica])
@pytest.mark.parametrize("name", CALLS)
def test_a_method_of_one_object_is_one_call(name: str, kind: type[Server]) -> None:
    """Repeated calls on the same object are refused, though each call changes it."""
    server = kind("db1")
    assert any(is_refused(CALLS[name](server)) for _ in range(ENOUGH))


@pytest.mark.parametrize("method", ["where", "whence"])
def test_a_class_method_of_two_classes_is_two_calls(method: str) -> None:
    """The class counts."""
    kinds = [type(f"Server{number}", (Server,), {}) for number in range(ENOUGH)]
    assert not any(is_refused(getattr(kind, method)()) for kind in kinds)
    assert any(is_refused(getattr(Server, method)()) for _ in range(ENOUGH))


def test_a_parameter_may_be_called_self_or_cls() -> None:
    """The first parameter of a plain function is an argument, whatever its name is."""

    @loopguard.tool
    def students_of(cls: str) -> list[str]:
        return []

    @loopguard.tool
    def length_of(self: list[str]) -> int:
        return 1

    names = [f"{number}A" for number in range(ENOUGH)]
    assert [students_of(name) for name in names] == [[]] * ENOUGH
    assert [length_of([name]) for name in names] == [1] * ENOUGH
    assert any(is_refused(students_of("2B")) for _ in range(ENOUGH))


def test_a_plain_function_of_an_object_gets_its_content() -> None:
    """An object that is no ``self`` was changed if its content was, and the call is another one."""

    @loopguard.tool
    def name_of(self: Server) -> str:
        return "a name"

    server = Server("db1")
    for number in range(ENOUGH):
        server.name = f"db{number}"
        assert not is_refused(name_of(server))


def status(name: str = "") -> str:
    """A function that gets its argument in another way."""
    return "up"


def made(name: str) -> Callable[[], str]:
    """A function with a variable of its own."""

    def status() -> str:
        return f"up{name[:0]}"

    return status


BRINGING: dict[str, Callable[[str], Any]] = {
    "bound method": lambda name: Server(name).is_up.__func__.__wrapped__.__wrapped__.__get__(Server(name)),
    "partial": lambda name: functools.partial(status, name),
    "partial with a keyword": lambda name: functools.partial(functools.partial(status), name=name),
    "closure": made,
    "lambda": lambda name: lambda: f"up{name[:0]}",
    "object": Server,
    "cached": lambda name: functools.lru_cache(made(name)),
}


@pytest.mark.parametrize("sort", BRINGING)
def test_tools_of_one_name_that_bring_other_state_are_other_calls(sort: str) -> None:
    """The tools have one name and no arguments, and each is called."""
    assert not any(is_refused(loopguard.tool(BRINGING[sort](f"db{number}"))()) for number in range(5))


@pytest.mark.parametrize("sort", BRINGING)
def test_one_tool_that_brings_state_is_one_tool(sort: str) -> None:
    """Repeated calls are refused, also if the tool is decorated for each call."""
    brought = BRINGING[sort]("db1")
    assert any(is_refused(loopguard.tool(brought)()) for _ in range(ENOUGH))


def test_arguments_without_a_signature_do_not_hide_each_other() -> None:
    """A keyword may have any name. A builtin without a signature gets its arguments by place and by name."""

    class Odd:
        __signature__ = "none"

        def __call__(self, *args: Any, **kwargs: Any) -> str:
            return "x"

    odd = loopguard.tool(Odd())
    assert not any(is_refused(odd(number, args=1)) for number in range(ENOUGH))


def test_objects_are_told_apart_in_threads() -> None:
    """Threads that ask one object each are never refused, and threads that ask the same one are."""
    servers = [Server(f"db{number}") for number in range(16)]

    def ask(server: Server) -> Any:
        return server.is_healthy()

    with ThreadPoolExecutor(8) as pool:
        for server in servers:
            found = pool.submit(contextvars.copy_context().run, ask, server).result()
            assert not is_refused(found)
        same = [pool.submit(contextvars.copy_context().run, ask, servers[0]) for _ in range(ENOUGH)]
    # The run of a thread that is late may be ended.
    assert any(isinstance(found.exception(), loopguard.ToolLoopError) or is_refused(found.result()) for found in same)
