"""Classify the result of a function, and remember each function's kind, because a refusal must have the same kind."""

from __future__ import annotations

import functools
import inspect
import weakref
from enum import Enum, auto
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.values.introspect import defines
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator


class ResultKind(Enum):
    """The ways in which callers use a function's result."""

    PLAIN = auto()
    """A finished value."""
    COROUTINE = auto()
    """A coroutine, or a generator that ``types.coroutine`` made."""
    FUTURE = auto()
    """An asyncio future or task."""
    GENERATOR = auto()
    ASYNC_GENERATOR = auto()
    OPAQUE = auto()
    """Awaitable, and possibly more, such as a query or a list of pages. It is never read."""
    MIXED = auto()
    """Several functions with the same code returned different kinds."""


_DATA: Final = frozenset({str, dict, list, tuple, int, float, bool, bytes, type(None)})
_FUTURE_MARK: Final = "_asyncio_future_blocking"
"""The attribute by which asyncio itself recognises a future."""


def kind_of(result: Any) -> ResultKind:
    """Classify a result by its type alone, so that no proxy object runs code."""
    kind = type(result)
    if kind in _DATA:
        return ResultKind.PLAIN
    if kind is CoroutineType:
        return ResultKind.COROUTINE
    if kind is GeneratorType:
        is_coroutine = result.gi_code.co_flags & inspect.CO_ITERABLE_COROUTINE
        return ResultKind.COROUTINE if is_coroutine else ResultKind.GENERATOR
    if kind is AsyncGeneratorType:
        return ResultKind.ASYNC_GENERATOR
    if defines(kind, "__await__"):
        return ResultKind.FUTURE if defines(kind, _FUTURE_MARK) else ResultKind.OPAQUE
    return ResultKind.PLAIN


def declared_kind(function: Any) -> ResultKind | None:
    """Return the kind that the function's type shows before it runs; None if it shows nothing."""
    method = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is needed
    for code in (function, method):
        if inspect.isasyncgenfunction(code):
            return ResultKind.ASYNC_GENERATOR
        if inspect.isgeneratorfunction(code):
            return ResultKind.GENERATOR
    return None


class ResultKinds:
    """The kind of result that each function returned last, for as long as the function exists.

    The key is the function and not its name: a model may make up names, and several functions may share one. Functions
    are compared by identity, because they may define their own equality. Lambdas, partials and methods are often made
    for a single call, so the kind is also kept for the function or code inside of them. That inner part may be shared
    by functions that return different kinds.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], ResultKind]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def remember(self, function: Any, kind: ResultKind) -> None:
        """Keep the kind of a function's result. Every call comes here, and nearly every function is known already."""
        found = self._known.get(id(function))
        if found is not None and found[1] is kind and found[0]() is function:
            return
        self._put(function, kind)
        for part in _inner_parts(function):
            known = self._known_kind(part)
            if known is not kind:
                self._put(part, kind if known is None else ResultKind.MIXED)

    def expected(self, function: Any) -> ResultKind | None:
        """Return the kind that the function is expected to return; None if it is unknown."""
        known = self._known_kind(function)
        return known or next(filter(None, map(self._known_kind, _inner_parts(function))), None)

    def _known_kind(self, function: Any) -> ResultKind | None:
        found = self._known.get(id(function))
        return None if found is None or found[0]() is not function else found[1]

    def _put(self, function: Any, kind: ResultKind) -> None:
        key = id(function)
        try:
            # The callback gets the dead reference, which ``pop`` takes as its default.
            kept = weakref.ref(function, functools.partial(self._known.pop, key))
        except TypeError as error:  # no weak references to it: a builtin object, or one with slots
            pass_interrupt(error)
            return
        self._known[key] = (kept, kind)


known_kinds: Final = ResultKinds()
"""The functions of this process."""


def _inner_parts(function: Any) -> Iterator[Any]:
    """Yield the inner functions and code that functions made for a single call have in common."""
    while type(function) in (functools.partial, MethodType):
        function = function.func if type(function) is functools.partial else function.__func__
        yield function
    if type(function) is FunctionType:
        yield function.__code__
