"""The providers' APIs, one a file: what each accepts, refuses and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

    from tests.models.conversation import Asked, RejectedError, Reply

Json = dict[str, Any]


class Api(Protocol):
    """One API of a provider. It holds what the provider keeps of its conversations."""

    paths: re.Pattern[str]

    def read(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Json) -> Asked:
        """Read a request, or reject it."""

    def answer(self, asked: Asked, reply: Reply, body: Json) -> Json:
        """Write the answer to a request, and keep what the provider would keep."""

    def events(self, answer: Json, body: Json) -> Iterator[bytes]:
        """Write the same answer as server-sent events."""

    def error(self, rejected: RejectedError) -> Json:
        """Write the body of a rejection."""
