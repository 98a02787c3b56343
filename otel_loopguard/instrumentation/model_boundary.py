"""The model's boundary of a framework: requests through clients that are not read are counted there.

A request that a client below the boundary is read for is the client's: nothing happens here then. Else the ledger of
the turn gets it, with the tokens that its reply tells. Nothing is changed, and no span or metric has it: for them, as
for ``replay``, a guard that has read a request can also change it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from otel_loopguard.engine.ledger import REQUEST_SENT, of_reply
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.turns.gc_safety import garbage_collector
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from otel_loopguard.engine.vocabulary import Usage
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Original


Hear: TypeAlias = "Callable[[Any, Any], Usage]"
"""Return the tokens of a reply, given the model's object and what its method has returned."""


class _Request:
    """A request at the boundary. Its methods may fail: the caller holds the shield."""

    __slots__ = ("_prices", "_token", "_turn", "is_read", "shield")

    def __init__(self, runtime: Runtime, turn: Turn) -> None:
        self.shield = runtime.shield
        self.is_read = False
        """True if a client below has read it."""
        self._prices = runtime.guard.compiled.prices
        self._turn = turn
        self._token: Token[_Request | None] = _around.set(self)

    @classmethod
    def begin(cls) -> _Request | None:
        """Begin a request. Return None outside of a turn, below another boundary, and after a fault."""
        runtime = active_runtime.instrumented
        if runtime is None or (garbage_collector.running and garbage_collector.runs_here()):
            return None
        with runtime.shield("model.boundary"):
            scope = current_scope()
            if scope is not None and scope.strong and _around.get() is None:
                return cls(runtime, scope.turn)
        return None

    def sent(self) -> None:
        """Note that the request is over, with a reply or without."""
        if garbage_collector.running and garbage_collector.runs_here():
            return
        _around.reset(self._token)
        if not self.is_read:
            self._turn.spend(REQUEST_SENT)

    def heard(self, usage: Usage) -> None:
        """Take the tokens of the reply."""
        self._turn.spend(of_reply(usage, self._prices.cost(usage)))


_around: ContextVar[_Request | None] = ContextVar("loopguard_boundary", default=None)
"""The request at the boundary above the running code."""


def note_read() -> None:
    """Note that a client has read the request that is made here."""
    request = _around.get()
    if request is not None:
        request.is_read = True


def boundary(hear: Hear) -> Callable[[Original], Callable[..., Any]]:
    """Return the ``wrapper`` of a ``CallTarget`` for a plain method that asks a model and returns its reply."""

    def wrapper(original: Original) -> Callable[..., Any]:
        def ask(*given: Any, **kwargs: Any) -> Any:
            wrapped, model, args = original.bind(given)
            request = _Request.begin()
            if request is None:
                return wrapped(*args, **kwargs)
            try:
                reply = wrapped(*args, **kwargs)
            finally:
                with request.shield("model.boundary"):
                    request.sent()
            if not request.is_read:
                with request.shield("model.boundary"):
                    request.heard(hear(model, reply))
            return reply

        return ask

    return wrapper


def async_boundary(hear: Hear) -> Callable[[Original], Callable[..., Any]]:
    """Return the ``wrapper`` of a ``CallTarget`` for a coroutine method that asks a model and returns its reply."""

    def wrapper(original: Original) -> Callable[..., Any]:
        async def ask(*given: Any, **kwargs: Any) -> Any:
            wrapped, model, args = original.bind(given)
            request = _Request.begin()
            if request is None:
                return await wrapped(*args, **kwargs)
            try:
                reply = await wrapped(*args, **kwargs)
            finally:
                with request.shield("model.boundary"):
                    request.sent()
            if not request.is_read:
                with request.shield("model.boundary"):
                    request.heard(hear(model, reply))
            return reply

        return ask

    return wrapper
