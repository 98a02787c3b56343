"""Guard tools that are generators. Between two items, in the consumer's code, the call's span and turn are not current.

The drivers behave as the generators do: ``send``, ``throw``, ``close`` and the returned value all pass through.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.values.canonical import result_bytes
from otel_loopguard.engine.values.hashing import feed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from types import TracebackType

    from otel_loopguard.instrumentation.call import GuardedCall

__tracebackhide__ = True  # pytest shows the lines of the program, not these

MOST_ITEMS = 64
"""Items that are kept as they are. Further ones are hashed."""
MOST_TEXT = 8_192
"""Characters that are kept as they are. Further ones are hashed."""


class _StreamedResult:
    """The items of a stream as one result: the first ones as they are, the rest as a hash.

    Pieces of text are joined, because a stream is not cut at the same places each time.
    """

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._text: list[str] = []
        self._length = 0
        self._rest: Any = None

    def add(self, item: Any) -> None:
        if type(item) is str:
            self._text.append(item[: max(0, MOST_TEXT - self._length)])
            rest = item[max(0, MOST_TEXT - self._length) :]
            self._length += len(item)
            if rest:
                self._hash(rest.encode("utf-8", "surrogatepass"))
        elif len(self._items) < MOST_ITEMS:
            self._items.append(item)
        else:
            self._hash(result_bytes(item))

    def _hash(self, data: bytes) -> None:
        self._rest = self._rest or blake2b(digest_size=16)
        feed(self._rest, data)

    def value(self) -> Any:
        text = "".join(self._text)
        if self._rest is None:
            return self._items or text if not (self._items and text) else [text, *self._items]
        # Letters only: a token with digits would be masked as an id, and all long streams would be equal.
        rest = self._rest.hexdigest().translate(_LETTERS)
        return [text, *self._items, rest]


_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")


class _GuardedStream:
    """Follow a generator item by item in its guarded call. Without a guarded call it does nothing."""

    def __init__(self, guarded: GuardedCall | None) -> None:
        self._guarded = guarded
        self._result = _StreamedResult()

    def __enter__(self) -> None:
        if self._guarded is not None:
            self._guarded.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._guarded is not None:
            self._guarded.__exit__(kind, error, traceback)

    def cut_short(self) -> None:
        """End the call after an exception; see ``GuardedCall.cut_short``."""
        if self._guarded is not None:
            self._guarded.cut_short()

    async def __aenter__(self) -> None:
        if self._guarded is not None:
            await self._guarded.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._guarded is not None:
            await self._guarded.__aexit__(kind, error, traceback)

    def yielded(self, item: Any) -> None:
        """Note an item. From here to ``resumed`` the consumer's code runs."""
        if self._guarded is not None:
            with self._guarded.runtime.shield("generator.item"):
                self._result.add(item)
            with self._guarded.runtime.shield("generator.item"):
                self._guarded.suspend()

    def resumed(self) -> None:
        """Note that the consumer's code has ended: it asks for the next item, or closes the generator."""
        if self._guarded is not None:
            with self._guarded.runtime.shield("generator.item"):
                self._guarded.resume()

    def ended(self, returned: Any = None) -> None:
        """End the call of an exhausted generator. Its returned value is part of the result."""
        if self._guarded is not None:
            with self._guarded.runtime.shield("generator.end"):
                if returned is not None:
                    self._result.add(returned)
                self._guarded.result(self._guarded.streamed(self._result.value))

    async def aended(self) -> None:
        """End the call of an exhausted async generator."""
        if self._guarded is not None:
            with self._guarded.runtime.shield("generator.end"):
                await self._guarded.aresult(self._guarded.streamed(self._result.value))


def drive_generator(
    guarded: GuardedCall | None, run: Callable[[], Generator[Any, Any, Any]]
) -> Generator[Any, Any, Any]:
    """Run a generator function as this call. The loop is written out: ``yield from`` runs no code between two items."""
    stream = _GuardedStream(guarded)
    try:
        with stream:
            if guarded is not None and guarded.answered:
                yield guarded.answer
                return None
            source = run()
            failure: BaseException | None = None
            sent: Any = None
            while True:
                try:
                    item = source.send(sent) if failure is None else source.throw(failure)
                except StopIteration as stop:
                    stream.ended(stop.value)
                    return stop.value
                failure = sent = None
                stream.yielded(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    stream.resumed()
                    return source.close()
                except BaseException as error:  # noqa: BLE001 - the generator handles it, whatever it is
                    failure = error
                stream.resumed()
    except BaseException:
        stream.cut_short()
        raise


def async_driver(
    open_call: Callable[[Any, Any], GuardedCall | None], function: Callable[..., AsyncGenerator[Any, Any]]
) -> Callable[..., AsyncGenerator[Any, Any]]:
    """Return an async generator function that runs ``function`` as a guarded call. Frameworks check for that type.

    ``open_call`` takes the arguments and keywords, and returns the call; None: it runs unguarded.
    """

    async def driver(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        guarded = open_call(args, kwargs)
        stream = _GuardedStream(guarded)
        try:
            async with stream:
                if guarded is not None and guarded.answered:
                    yield guarded.answer
                    return
                source = function(*args, **kwargs)
                failure: BaseException | None = None
                sent: Any = None
                while True:
                    try:
                        item = await (source.asend(sent) if failure is None else source.athrow(failure))
                    except StopAsyncIteration:
                        await stream.aended()
                        return
                    failure = sent = None
                    stream.yielded(item)
                    try:
                        sent = yield item
                    except GeneratorExit:
                        stream.resumed()
                        await source.aclose()
                        raise
                    except BaseException as error:  # noqa: BLE001 - the generator handles it, whatever it is
                        failure = error
                    stream.resumed()
        except BaseException:
            stream.cut_short()
            raise

    return driver


def drive_async_generator(
    guarded: GuardedCall | None, run: Callable[[], AsyncGenerator[Any, Any]]
) -> AsyncGenerator[Any, Any]:
    """Run an async generator function as this call."""
    return async_driver(lambda *_: guarded, run)()
