"""Tools that are generators. Between two items nothing of ours is current in the code that consumes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from .dispatch import Step

MOST_KEPT = 64
"""Items of a streamed result that are compared with the last run's; a longer one counts as new."""


class _Seen:
    """What went past: the items up to a bound, and the number of the rest."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._more = 0

    def add(self, item: Any) -> None:
        if len(self._items) < MOST_KEPT:
            self._items.append(item)
        else:
            self._more += 1

    def value(self) -> Any:
        return {"items": self._items, "more": self._more} if self._more else self._items


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
