"""Guard tools without a framework: ``@loopguard.tool`` on a function, ``loopguard.call`` in a hand-written loop."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from otel_loopguard.engine import sentences
from otel_loopguard.engine.policy.policy import ToolContract
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.call import drive_async
from otel_loopguard.instrumentation.content import appended
from otel_loopguard.instrumentation.functions.arguments import Arguments
from otel_loopguard.instrumentation.functions.drivers import drive_function, driver_of
from otel_loopguard.instrumentation.functions.generators import async_driver, drive_async_generator, drive_generator
from otel_loopguard.instrumentation.functions.objects import GuardedObject, is_function
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import Reading, ToolAdapter
from otel_loopguard.instrumentation.wrappers import open_call
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator

    from typing_extensions import Unpack

    from otel_loopguard.engine.policy.typed import ToolSettings
    from otel_loopguard.instrumentation.call import GuardedCall

__tracebackhide__ = True  # pytest shows the lines of the program, not these

F = TypeVar("F", bound="Callable[..., Any]")
R = TypeVar("R")
Stream = TypeVar("Stream", bound="Iterator[Any] | AsyncIterator[Any]")


def _annotate(reading: Reading, result: Any, text: str) -> Any:  # noqa: ARG001 - the signature of ToolAdapter.annotate
    return appended(result, text) if isinstance(result, str) else None


FUNCTION = ToolAdapter(
    read=lambda instance, args, kwargs: instance,  # noqa: ARG005 - the instance is the reading
    answer=lambda reading, content, error: content,  # noqa: ARG005 - the signature of ToolAdapter
    annotate=_annotate,
)

MISSING = replace(FUNCTION, outcome=lambda reading, result: Outcome(result=result, is_error=True))  # noqa: ARG005 - the signature of ToolAdapter


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(*, name: str | None = None, **contract: Unpack[ToolSettings]) -> Callable[[F], F]: ...


def tool(function: Any = None, /, *, name: str | None = None, **contract: Any) -> Any:
    """Guard a function that a model calls: plain, async, a generator of either sort, a method, or a callable object.

    The keywords are those of ``ToolContract`` and describe the tool: ``@tool(kind="poll")``. A refused call returns
    the refusal, which is text for the model, instead of the function's own result. Outside of a turn calls are only
    observed.
    """

    def decorate(inner: Any) -> Any:
        if isinstance(
            inner, (staticmethod, classmethod)
        ):  # our wrapper goes inside, or the class would not see the descriptor
            return type(inner)(decorate(inner.__func__))
        tool_name = name or name_of(inner)
        if contract:
            active_runtime.declare(tool_name, ToolContract(**contract))
        guarded = _wrap(inner, tool_name)
        if is_function(inner):
            return guarded
        if not hasattr(inner, "__name__"):  # a partial, or an object
            guarded.__name__ = guarded.__qualname__ = tool_name
        return GuardedObject(inner, guarded, functools.partial(tool, name=tool_name))

    return decorate if function is None else decorate(function)


def name_of(function: Any) -> str:
    """Return the default name of a tool: a partial has its function's name, an object the name of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    found = getattr(function, "__name__", None)
    return found if isinstance(found, str) else type(function).__name__


def _wrap(function: Any, name: str) -> Any:
    reader = Arguments(function)

    def open_guarded(args: Any, kwargs: Any) -> GuardedCall | None:
        arguments = {"*": args, **kwargs}
        try:
            arguments = reader.read(wrapper, args, kwargs)
        except Exception as error:  # noqa: BLE001 - see Shield.take
            _shield().take("function.arguments", error)
        return _open(name, arguments, known=(name,))

    wrapper: Any
    driver = driver_of(function)
    if driver is drive_async_generator:
        wrapper = functools.wraps(function)(async_driver(open_guarded, function))

    elif driver is drive_generator:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            run = functools.partial(function, *args, **kwargs)
            return (yield from drive_generator(open_guarded(args, kwargs), run))

    elif driver is drive_async:

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await drive_async(open_guarded(args, kwargs), functools.partial(function, *args, **kwargs))

    else:

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return drive_function(open_guarded(args, kwargs), functools.partial(function, *args, **kwargs))

    if not isinstance(function, (FunctionType, MethodType)):  # it has no annotations, and those here are ours
        wrapper.__annotations__ = {}
    return wrapper


@overload
def call(
    name: str,
    arguments: Any,
    function: Callable[..., Coroutine[Any, Any, R]],
    *,
    call_id: str | None = None,
    known_tools: Collection[str] | None = None,
) -> Coroutine[Any, Any, R | str]: ...


@overload
def call(
    name: str,
    arguments: Any,
    function: Callable[..., Stream],
    *,
    call_id: str | None = None,
    known_tools: Collection[str] | None = None,
) -> Stream: ...


@overload
def call(
    name: str,
    arguments: Any,
    function: Callable[..., R] | None,
    *,
    call_id: str | None = None,
    known_tools: Collection[str] | None = None,
) -> R | str: ...


def call(
    name: str,
    arguments: Any,
    function: Callable[..., Any] | None,
    *,
    call_id: str | None = None,
    known_tools: Collection[str] | None = None,
) -> Any:
    """Run one tool call of a hand-written loop, guarded, and return the text or value for the model.

    ``arguments`` are as the model wrote them, JSON text or a mapping, and become the function's keywords. Await the
    result of an async function. ``function=None`` is a tool that does not exist: pass ``TOOLS.get(name)`` and
    ``known_tools=TOOLS``.
    """
    known = known_tools if known_tools is not None else (() if function is None else None)
    adapter = MISSING if function is None else FUNCTION
    guarded = _open(name, arguments, known=known, call_id=call_id, adapter=adapter)
    if function is None:
        return drive_function(guarded, functools.partial(sentences.no_such_tool, known))
    return driver_of(function)(guarded, functools.partial(_call_with, function, arguments))


def _call_with(function: Callable[..., Any], arguments: Any) -> Any:
    if isinstance(arguments, (str, bytes)):
        arguments = json.loads(arguments or "{}")
    if isinstance(arguments, (dict, Mapping)):  # a dict first: the check of an abstract class is slow
        return function(**arguments)
    return function() if arguments is None else function(arguments)


def _open(
    name: str,
    arguments: Any,
    *,
    known: Collection[str] | None,
    call_id: str | None = None,
    adapter: ToolAdapter = FUNCTION,
) -> GuardedCall | None:
    try:
        runtime = active_runtime.get()
        if runtime.off:
            return None
        return open_call(runtime, adapter, Reading(ToolCall(name, arguments, call_id, known)), (), {})
    except Exception as error:  # noqa: BLE001 - see Shield.take
        _shield().take("function.step", error)
    return None


def _shield() -> Shield:
    """Return the runtime's shield. Without a runtime it is one that logs faults, and does not count them."""
    runtime = active_runtime.instrumented
    return _UNCOUNTED if runtime is None else runtime.shield


_UNCOUNTED = Shield()
