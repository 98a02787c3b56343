"""Tools that are generators. Between two items nothing of ours is current in the code that consumes them.

The drivers can be talked to like the generators themselves: what is sent or thrown in, closing, and the value that is
returned all pass through.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.values.canonical import result_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from types import TracebackType

    from typing_extensions import Self

    from otel_loopguard.instrumentation.tool_call import GuardedCall

MOST_ITEMS = 64
MOST_TEXT = 8_192


class _Seen:
    """What went past, as one result: the beginning as it is, the rest as a hash.

    Pieces of text are one text, because a stream is not cut at the same places each time.
    """

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._text: list[str] = []
        self._length = 0
        self._rest: Any = None

    def add(self, item: Any) -> None:
        if type(item) is str:
            self._text.append(item[: max(0, MOST_TEXT - self._length)])
            over = item[max(0, MOST_TEXT - self._length) :]
            self._length += len(item)
            if over:
                self._hash(over.encode("utf-8", "surrogatepass"))
        elif len(self._items) < MOST_ITEMS:
            self._items.append(item)
        else:
            self._hash(result_bytes(item))

    def _hash(self, data: bytes) -> None:
        self._rest = self._rest or blake2b(digest_size=16)
        self._rest.update(data)

    def value(self) -> Any:
        text = "".join(self._text)
        if self._rest is None:
            return self._items or text if not (self._items and text) else [text, *self._items]
        # In letters: a word with digits in it would be taken for an id that changes each time.
        rest = self._rest.hexdigest().translate(_LETTERS)
        return [text, *self._items, rest]


_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")


class _Flow:
    """The call around a generator, item by item; without a step it does nothing."""

    def __init__(self, step: GuardedCall | None) -> None:
        self._step = step
        self._seen = _Seen()
        self.answered = False
        self.answer: Any = None

    def __enter__(self) -> Self:
        step = self._step
        if step is not None:
            step.__enter__()
            self.answered, self.answer = step.answered, step.answer
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._step is not None:
            self._step.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Self:
        step = self._step
        if step is not None:
            await step.__aenter__()
            self.answered, self.answer = step.answered, step.answer
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._step is not None:
            await self._step.__aexit__(kind, error, traceback)

    def gave(self, item: Any) -> None:
        """An item goes out: from here to ``goes_on`` it is the consumer's code that runs."""
        if self._step is not None:
            with self._step.runtime.shield("generator.item"):
                self._seen.add(item)
            with self._step.runtime.shield("generator.item"):
                self._step.suspend()

    def goes_on(self) -> None:
        """The consumer wants more, or no more."""
        if self._step is not None:
            with self._step.runtime.shield("generator.item"):
                self._step.resume()

    def ended(self, returned: Any = None) -> None:
        """The generator is exhausted; what it returned is part of the result."""
        if self._step is not None:
            with self._step.runtime.shield("generator.end"):
                if returned is not None:
                    self._seen.add(returned)
                self._step.result(self._step.streamed(self._seen.value))

    async def aended(self) -> None:
        """An async generator is exhausted."""
        if self._step is not None:
            with self._step.runtime.shield("generator.end"):
                await self._step.aresult(self._step.streamed(self._seen.value))


def drive_generator(step: GuardedCall | None, source: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """A generator. Written out, because ``yield from`` leaves no room between two items."""
    with _Flow(step) as flow:
        if flow.answered:
            yield flow.answer
            return None
        failure: BaseException | None = None
        sent: Any = None
        while True:
            try:
                item = source.send(sent) if failure is None else source.throw(failure)
            except StopIteration as stop:
                flow.ended(stop.value)
                return stop.value
            failure = sent = None
            flow.gave(item)
            try:
                sent = yield item
            except GeneratorExit:
                flow.goes_on()
                return source.close()
            except BaseException as error:  # noqa: BLE001 - the generator's to handle, whatever it is
                failure = error
            flow.goes_on()


def async_driver(
    open_call: Callable[[Any, Any], GuardedCall | None], function: Callable[..., AsyncGenerator[Any, Any]]
) -> Callable[..., AsyncGenerator[Any, Any]]:
    """An async generator function: itself one, and not a function that returns one, because frameworks ask."""

    async def driver(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        step = open_call(args, kwargs)
        source = function(*args, **kwargs)
        async with _Flow(step) as flow:
            if flow.answered:
                yield flow.answer
                return
            failure: BaseException | None = None
            sent: Any = None
            while True:
                try:
                    item = await (source.asend(sent) if failure is None else source.athrow(failure))
                except StopAsyncIteration:
                    await flow.aended()
                    return
                failure = sent = None
                flow.gave(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    flow.goes_on()
                    await source.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - the generator's to handle, whatever it is
                    failure = error
                flow.goes_on()

    return driver
