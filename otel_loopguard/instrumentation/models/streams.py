"""Read a streamed reply on its way to the program: each chunk is passed on untouched, and nothing is held back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from typing_extensions import Self

    from otel_loopguard.instrumentation.model_api import Listener


class TappedIterator:
    """An iterator whose chunks a listener gets, too. Its other attributes are those of the original."""

    def __init__(self, iterator: Iterator[Any], listener: Listener) -> None:
        self._iterator = iterator
        self._listener = listener

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            chunk = next(self._iterator)
        except StopIteration:
            self._listener.over()
            raise
        self._listener.chunk(chunk)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


class TappedAsyncIterator:
    """The same for an async iterator."""

    def __init__(self, iterator: AsyncIterator[Any], listener: Listener) -> None:
        self._iterator = iterator
        self._listener = listener

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await self._iterator.__anext__()
        except StopAsyncIteration:
            self._listener.over()
            raise
        self._listener.chunk(chunk)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)
