"""What sort of work a function's result is, and what sort each function gave: refused, it has to give such a one."""

from __future__ import annotations

import functools
import inspect
import weakref
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.core.values.introspect import defines

if TYPE_CHECKING:
    from collections.abc import Iterator

AWAITED, FUTURE, GENERATOR, ASYNC_GENERATOR = "awaited", "future", "generator", "async generator"
PLAIN = "plain"
UNREAD = "unread"
"""Awaitable, and who knows what else: a list of pages, a reference into a cluster, a query."""
EITHER = "either"
_DATA: Final = frozenset({str, dict, list, tuple, int, float, bool, bytes, type(None)})
_PRIVATE_MARK = "_asyncio_future_blocking"
_CALL = "__call__"


def shape_of(result: Any) -> str:
    """What sort of work a result is, if it is none itself; told by its type alone, so that no proxy is woken."""
    kind = type(result)
    if kind in _DATA:
        return PLAIN
    if kind is CoroutineType:
        return AWAITED
    if kind is GeneratorType:
        return AWAITED if result.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE else GENERATOR
    if kind is AsyncGeneratorType:
        return ASYNC_GENERATOR
    if defines(kind, "__await__"):
        return FUTURE if defines(kind, _PRIVATE_MARK) else UNREAD
    return PLAIN


def declared(function: Any) -> str | None:
    """What a function says of itself, also if it never ran; None where it says nothing."""
    for one in (function, getattr(type(function), _CALL, None)):
        if inspect.isasyncgenfunction(one):
            return ASYNC_GENERATOR
        if inspect.isgeneratorfunction(one):
            return GENERATOR
    return None


class Shapes:
    """What sort of result each function gave last, for as long as there is that function.

    Of the function and not of its name, under which anything may be called, and which a model may make up. By
    identity, because functions compare as they like. Lambdas, partials and methods are made anew for each call: of
    those what they are made of is remembered, too. That may be shared by functions that give different things.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def note(self, function: Any, shape: str) -> None:
        """A function gave this. Every call passes here, and nearly every one is known."""
        if self._of(function) == shape:
            return
        self._put(function, shape)
        for one in _made_of(function):
            known = self._of(one)
            if known != shape:
                self._put(one, shape if known is None else EITHER)

    def of(self, function: Any) -> str | None:
        """What it is expected to give; None where nobody knows."""
        known = self._of(function)
        return known or next(filter(None, map(self._of, _made_of(function))), None)

    def _of(self, function: Any) -> str | None:
        found = self._known.get(id(function))
        return None if found is None or found[0]() is not function else found[1]

    def _put(self, function: Any, shape: str) -> None:
        key = id(function)
        try:
            # Called with the dead reference, ``pop`` takes that for what to return if there is nothing.
            kept = weakref.ref(function, functools.partial(self._known.pop, key))
        except TypeError:  # it cannot be weakly referenced: a builtin object, or one with slots
            return
        self._known[key] = (kept, shape)


def _made_of(function: Any) -> Iterator[Any]:
    """What functions that are made anew for each call have in common."""
    while type(function) in (functools.partial, MethodType):
        function = function.func if type(function) is functools.partial else function.__func__
        yield function
    if type(function) is FunctionType:
        yield function.__code__
