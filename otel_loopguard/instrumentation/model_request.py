"""The functions that replace those of a client: they read each request before it is sent, and the reply as it comes.

The outermost of them owns a request: below ``litellm.completion`` the method of another client is the same request.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.turns.gc_safety import garbage_collector

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from typing_extensions import Self

    from otel_loopguard.errors import RunStopped
    from otel_loopguard.instrumentation.model_api import Sent
    from otel_loopguard.instrumentation.model_reader import Exchange
    from otel_loopguard.instrumentation.targets import Original

    Read = Callable[[Any, tuple[Any, ...], dict[str, Any]], Sent | None]
    """Read the instance, arguments and keywords of the client's method. Return None if it is no request to a model."""
    ErrorOf = Callable[[], type[RunStopped]]
    """Return the class of the error that ends a run here. Some programs retry all classes but a few."""


class _Sending:
    """A client's method that is sending a request which was read. A request that is made below it is the same one.

    Its wrapper holds it. An exception of a signal handler may keep the wrapper from resetting the context variable, and
    a task that the client began has a copy of it; neither is below the method once that has ended.
    """

    __slots__ = ("__weakref__", "exchange", "runs")

    def __init__(self, exchange: Exchange | None = None) -> None:
        self.exchange = exchange
        """The request; None if a gateway has read it."""
        self.runs = True


_owner: ContextVar[ref[_Sending] | None] = ContextVar("loopguard_request", default=None)
"""The client's method that is above the running code."""
_GATEWAY: Final = _Sending()
"""The owner of all requests that a gateway in this process passes on. It never ends."""


def own() -> None:
    """Leave the requests of the running task alone from now on: the gateway in this process has read their original."""
    _owner.set(ref(_GATEWAY))


def is_owned() -> bool:
    """Return True below a client's method whose request is read."""
    return _above() is not None


def _above() -> _Sending | None:
    known = _owner.get()
    sending = None if known is None else known()
    return sending if sending is not None and sending.runs else None


def request_wrapper(read: Read, error: ErrorOf) -> Callable[[Original], Callable[..., Any]]:
    """Return the ``wrapper`` of a ``CallTarget`` for a plain method that sends a request."""

    def wrapper(original: Original) -> Callable[..., Any]:
        def request(*given: Any, **kwargs: Any) -> Any:
            wrapped, instance, args = original.bind(given)
            opened = _open(read, instance, args, kwargs)
            if opened is None:
                args, kwargs = _passed_on(read, instance, args, kwargs)
                return wrapped(*args, **kwargs)
            with opened.shield("model.judge"):
                opened.judge_calls()
            args, kwargs = _prepared(opened, error, args, kwargs)
            sending, token = _Sending(opened), None
            try:
                token = _below(sending)
                reply = wrapped(*args, **kwargs)
            except BaseException:
                with opened.shield("model.failed"):
                    opened.failed()
                raise
            finally:
                sending.runs = False
                with opened.shield("model.end"):
                    _disown(token)
            return _heard(opened, reply)

        return request

    return wrapper


def async_request_wrapper(read: Read, error: ErrorOf) -> Callable[[Original], Callable[..., Any]]:
    """Return the ``wrapper`` of a ``CallTarget`` for a coroutine method that sends a request."""

    def wrapper(original: Original) -> Callable[..., Any]:
        async def request(*given: Any, **kwargs: Any) -> Any:
            wrapped, instance, args = original.bind(given)
            opened = _open(read, instance, args, kwargs)
            if opened is None:
                args, kwargs = _passed_on(read, instance, args, kwargs)
                return await wrapped(*args, **kwargs)
            with opened.shield("model.judge"):
                await opened.ajudge_calls()
            args, kwargs = _prepared(opened, error, args, kwargs)
            sending, token = _Sending(opened), None
            try:
                token = _below(sending)
                reply = await wrapped(*args, **kwargs)
            except BaseException:
                with opened.shield("model.failed"):
                    opened.failed()
                raise
            finally:
                sending.runs = False
                with opened.shield("model.end"):
                    _disown(token)
            return _heard(opened, reply)

        return request

    return wrapper


def generator_request_wrapper(read: Read, error: ErrorOf) -> Callable[[Original], Callable[..., Any]]:
    """Return the ``wrapper`` of a ``CallTarget`` for a generator function that sends a request and yields the reply."""

    def wrapper(original: Original) -> Callable[..., Any]:
        def request(*given: Any, **kwargs: Any) -> Any:
            wrapped, instance, args = original.bind(given)
            opened = _open(read, instance, args, kwargs)
            if opened is None:
                args, kwargs = _passed_on(read, instance, args, kwargs)
                yield from wrapped(*args, **kwargs)
                return
            with opened.shield("model.judge"):
                opened.judge_calls()
            args, kwargs = _prepared(opened, error, args, kwargs)
            yield from _heard(opened, _Steps(wrapped(*args, **kwargs), _Sending(opened)))

        return request

    return wrapper


def async_generator_request_wrapper(read: Read, error: ErrorOf) -> Callable[[Original], Callable[..., Any]]:
    """Return the ``wrapper`` of a target for an async generator function that sends a request and yields the reply."""

    def wrapper(original: Original) -> Callable[..., Any]:
        async def request(*given: Any, **kwargs: Any) -> Any:
            wrapped, instance, args = original.bind(given)
            opened = _open(read, instance, args, kwargs)
            if opened is None:
                args, kwargs = _passed_on(read, instance, args, kwargs)
                source = wrapped(*args, **kwargs)
            else:
                with opened.shield("model.judge"):
                    await opened.ajudge_calls()
                args, kwargs = _prepared(opened, error, args, kwargs)
                source = _heard(opened, _Steps(wrapped(*args, **kwargs), _Sending(opened)))
            try:
                async for chunk in source:
                    yield chunk
            finally:
                close = getattr(source, "aclose", None)
                if close is not None:
                    await close()

        return request

    return wrapper


def context_request_wrapper(read: Read, error: ErrorOf) -> Callable[[Original], Callable[..., Any]]:
    """Return the ``wrapper`` of a target for a function whose async context manager sends a request and gives a reply.

    ``Sent.listen`` is called while it is sent, for ``in_steps``.
    """

    def wrapper(original: Original) -> Callable[..., Any]:
        def request(*given: Any, **kwargs: Any) -> Any:
            wrapped, instance, args = original.bind(given)
            if active_runtime.instrumented is None:
                return wrapped(*args, **kwargs)
            return _RequestContext(read, error, wrapped, (instance, args, kwargs))

        return request

    return wrapper


class _RequestContext(AbstractAsyncContextManager[Any]):
    """Sends a request when it is entered. The reply is read as the block reads it."""

    def __init__(self, read: Read, error: ErrorOf, wrapped: Callable[..., Any], given: tuple[Any, Any, Any]) -> None:
        self._read = read
        self._error = error
        self._wrapped = wrapped
        self._given = given
        self._sending = _Sending()  # its request is not known yet
        self._manager: Any = None

    async def __aenter__(self) -> Any:
        instance, args, kwargs = self._given
        opened = _open(self._read, instance, args, kwargs)
        if opened is None:
            args, kwargs = _passed_on(self._read, instance, args, kwargs)
            self._manager = self._wrapped(*args, **kwargs)
            return await self._manager.__aenter__()
        with opened.shield("model.judge"):
            await opened.ajudge_calls()
        args, kwargs = _prepared(opened, self._error, args, kwargs)
        self._manager, token = self._wrapped(*args, **kwargs), None
        try:
            self._sending.exchange, token = opened, _below(self._sending)
            return _heard(opened, await self._manager.__aenter__())
        except BaseException:
            with opened.shield("model.failed"):
                opened.failed()
            raise
        finally:
            with opened.shield("model.end"):
                _disown(token)

    async def __aexit__(self, *error: object) -> Any:
        try:
            return await self._manager.__aexit__(*error)
        finally:
            self._sending.runs = False


class _Steps:
    """A plain or async iterator. A request made in one of its steps, but not between them, is the one it belongs to."""

    def __init__(self, source: Any, sending: _Sending) -> None:
        self._source = source
        self._sending = sending
        self._exchange: Any = sending.exchange  # of a request that is read

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __next__(self) -> Any:
        token, exchange = None, self._exchange
        try:
            with exchange.shield("model.step"):
                token = _below(self._sending)
            return next(self._source)
        finally:
            with exchange.shield("model.end"):
                _disown(token)

    async def __anext__(self) -> Any:
        token, exchange = None, self._exchange
        try:
            with exchange.shield("model.step"):
                token = _below(self._sending)
            return await self._source.__anext__()
        finally:
            with exchange.shield("model.end"):
                _disown(token)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def in_steps() -> Callable[[Any], Any]:
    """Return a function that makes the steps of an async iterator a part of the request that is being sent now."""
    known = _owner.get()
    sending = None if known is None else known()
    return lambda source: source if sending is None or sending.exchange is None else _Steps(source, sending)


def _below(sending: _Sending) -> Token[ref[_Sending] | None]:
    """Make the code that runs from now on a part of this request.

    A function, because ``cloudpickle`` copies the wrappers of a program's own classes, and no context variable.
    """
    return _owner.set(ref(sending))


def _disown(token: Token[ref[_Sending] | None] | None) -> None:
    """Undo ``_owner.set``. A request that was abandoned or passed on ends in another context, which is left alone."""
    if token is None or (garbage_collector.running and garbage_collector.runs_here()):
        return
    try:
        _owner.reset(token)
    except (ValueError, RuntimeError) as error:
        pass_interrupt(error)


def _open(read: Read, instance: Any, args: Any, kwargs: Any) -> Exchange | None:
    """Read a request. Return None if it is none to a model, if a method above has read it, and after a fault."""
    runtime = active_runtime.instrumented
    if runtime is None or (garbage_collector.running and garbage_collector.runs_here()):
        return None
    with runtime.shield("model.read"):
        if is_owned():
            return None
        sent = read(instance, args, kwargs)
        if sent is not None:
            return runtime.reader.open(sent)
    return None


def _passed_on(read: Read, instance: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments and keywords for a method below the one that has read the request; else the given ones."""
    runtime = active_runtime.instrumented
    if runtime is not None:
        with runtime.shield("model.pass"):
            sending = _above()
            exchange = None if sending is None else sending.exchange
            sent = None if exchange is None else read(instance, args, kwargs)
            if exchange is not None and sent is not None:
                return exchange.pass_on(sent, args, kwargs)
    return args, kwargs


def _prepared(opened: Exchange, error: ErrorOf, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments and keywords for the client's method; after a fault, those of the program."""
    with opened.shield("model.change"):
        return opened.prepare(error, args, kwargs)
    return args, kwargs


def _heard(opened: Exchange, reply: Any) -> Any:
    """Return the reply for the program. The exchange reads it now, or as the program reads a stream."""
    with opened.shield("model.reply"):
        return opened.listen(reply)
    return reply
