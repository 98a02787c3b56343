"""Read a streamed reply on its way to the program: each chunk is passed on untouched, and nothing is held back."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.errors import RunStopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from otel_loopguard.instrumentation.model_api import Listener
    from otel_loopguard.instrumentation.targets import Original

# --- streams that keep their iterator in a field -----------------------------------------------------------------


class Tapped:
    """A plain or async iterator whose chunks a listener gets, too. Its other attributes are the original's."""

    def __init__(self, iterator: Any, listener: Listener) -> None:
        self._iterator = iterator
        self._listener = listener

    def __iter__(self) -> Self:
        return self

    __aiter__ = __iter__

    def __next__(self) -> Any:
        return _next(self._iterator.__next__, self._iterator, self._listener)

    async def __anext__(self) -> Any:
        return await _anext(self._iterator.__anext__, self._iterator, self._listener)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def tapped(reply: Any, listener: Listener) -> Any:
    """Return the reply for the program, an iterator as a ``Tapped`` one. The listener gets a whole reply at once."""
    if hasattr(reply, "__next__") or hasattr(reply, "__anext__"):
        return Tapped(reply, listener)
    listener.whole(reply)
    return reply


def _next(read: Callable[[], Any], stream: Any, listener: Listener) -> Any:
    try:
        chunk = read()
    except StopIteration:
        with listener.shield("model.reply"):
            listener.over()
        raise
    except BaseException:
        with listener.shield("model.failed"):
            listener.failed()
        raise
    try:
        with listener.shield("model.chunk"):
            listener.chunk(chunk)
    except RunStopped:
        with listener.shield("model.failed"):
            _cut(stream, listener, "close")
        raise
    return chunk


async def _anext(read: Callable[[], Any], stream: Any, listener: Listener) -> Any:
    try:
        chunk = await read()
    except StopAsyncIteration:
        with listener.shield("model.reply"):
            listener.over()
        raise
    except BaseException:
        with listener.shield("model.failed"):
            listener.failed()
        raise
    try:
        with listener.shield("model.chunk"):
            listener.chunk(chunk)
    except RunStopped:
        with listener.shield("model.failed"):
            closing = _cut(stream, listener, "aclose", "close")
            if inspect.isawaitable(closing):
                await closing
        raise
    return chunk


def _cut(stream: Any, listener: Listener, *names: str) -> Any:
    """Close a stream whose run has ended: nothing more is to be written. Return what is to be awaited, if anything.

    ``names``: of the methods that close a stream which is read so. LiteLLM's has those of both.
    """
    listener.failed()
    close = next(filter(None, (getattr(stream, name, None) for name in names)), None)
    return None if close is None else close()


# --- streams whose own method makes the chunks -------------------------------------------------------------------

_LISTENER: Final = "_loopguard_listener"


def listen_at_next(stream: Any, listener: Listener) -> None:
    """Give each chunk of a stream to the listener. Its class must be patched with the wrappers below."""
    setattr(stream, _LISTENER, listener)


def next_wrapper(original: Original) -> Callable[..., Any]:
    """Return a replacement for the ``__next__`` of a class of streams, for ``listen_at_next``."""

    def __next__(*given: Any) -> Any:  # noqa: N807 - its name in a traceback
        read, stream, _ = original.bind(given)
        listener = getattr(stream, _LISTENER, None)
        return read() if listener is None else _next(read, stream, listener)

    return __next__


def anext_wrapper(original: Original) -> Callable[..., Any]:
    """Return a replacement for the ``__anext__`` of a class of streams, for ``listen_at_next``."""

    async def __anext__(*given: Any) -> Any:  # noqa: N807 - its name in a traceback
        read, stream, _ = original.bind(given)
        listener = getattr(stream, _LISTENER, None)
        return await (read() if listener is None else _anext(read, stream, listener))

    return __anext__
