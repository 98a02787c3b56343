"""Tools that are generators. Between two items nothing of ours is current in the code that consumes them."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.canonical import plain_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from .dispatch import Step

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
        if isinstance(item, str):
            self._text.append(item[: max(0, MOST_TEXT - self._length)])
            over = item[max(0, MOST_TEXT - self._length) :]
            self._length += len(item)
            if over:
                self._hash(over.encode("utf-8", "surrogatepass"))
        elif len(self._items) < MOST_ITEMS:
            self._items.append(item)
        else:
            self._hash(plain_bytes(item))

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


def drive_generator(step: Step | None, source: Iterator[Any]) -> Iterator[Any]:
    """A generator function."""
    if step is None:
        yield from source
        return
    seen = _Seen()
    with step:
        if step.answered:
            yield step.answer
            return
        try:
            for item in source:
                seen.add(item)
                step.suspend()
                try:
                    yield item
                finally:
                    step.resume()
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()
        step.result(seen.value())


async def drive_async_generator(step: Step | None, source: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """An async generator function."""
    if step is None:
        async for item in source:
            yield item
        return
    if step.asks:
        await step.ask()
    seen = _Seen()
    with step:
        if step.answered:
            yield step.answer
            return
        try:
            async for item in source:
                seen.add(item)
                step.suspend()
                try:
                    yield item
                finally:
                    step.resume()
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()
        step.result(seen.value())
