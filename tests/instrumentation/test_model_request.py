"""The function in the place of a client's: who owns a request, however the method ends."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from otel_loopguard.instrumentation import model_request
from otel_loopguard.testing import guarded
from tests.strikes import handled, places, struck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTION: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "What is in it?"}]}
ANSWER = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4.1", "choices": []}


def answer(_: httpx.Request) -> httpx.Response:
    """Answer as a provider."""
    return httpx.Response(200, json=ANSWER)


@pytest.fixture
def ask() -> Iterator[Callable[[], Any]]:
    """A plain request."""
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        client = openai.OpenAI(base_url="http://local/v1", api_key="local", http_client=http, max_retries=0)
        yield lambda: client.chat.completions.create(**QUESTION)


class TimeLimitError(Exception):
    """The exception of a signal handler."""


@contextmanager
def read_requests() -> Iterator[list[Any]]:
    """Guard a block. The list gets each request that is read."""
    read: list[Any] = []
    with guarded() as recording, pytest.MonkeyPatch.context() as patch:
        open_one = recording.runtime.reader.open
        patch.setattr(recording.runtime.reader, "open", lambda sent: (read.append(sent), open_one(sent))[1])
        yield read


def test_a_signal_at_any_instruction_leaves_the_next_request_read(ask: Callable[[], Any]) -> None:
    """The program keeps each exception, and so the frames that it came through."""
    raised: list[BaseException] = []
    unread: list[str] = []

    def handler(*_: object) -> None:
        raised.append(TimeLimitError())
        raise raised[-1]

    with read_requests() as read, handled(handler):
        ask()
        for place in places(ask):
            if place.code.co_filename != model_request.__file__:
                continue
            with suppress(TimeLimitError):
                struck(place, ask)
            before = len(read)
            ask()
            if len(read) == before:
                unread.append(str(place))
    assert len(raised) > 20
    assert unread == []


async def ask_async() -> None:
    """Make an async request."""
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        client = openai.AsyncOpenAI(base_url="http://local/v1", api_key="local", http_client=http, max_retries=0)
        await client.chat.completions.create(**QUESTION)


def test_a_fault_at_the_end_of_a_request_leaves_the_next_one_read(
    ask: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The context variable is not reset then."""

    def fail(*_: Any) -> None:
        raise RuntimeError("fault")

    async def main() -> None:
        ask()
        ask()
        await ask_async()
        await ask_async()

    monkeypatch.setattr(model_request, "_disown", fail)
    with read_requests() as read:
        asyncio.run(main())
    assert len(read) == 4


def test_a_task_that_outlives_a_request_has_its_own_requests_read() -> None:
    """A client may begin one that goes on: a pool that it warms, a callback with a model of its own."""
    later: list[Any] = []

    async def answer_later(request: httpx.Request) -> httpx.Response:
        if not later:
            later.append(asyncio.get_running_loop().create_task(ask_when(over)))
        return answer(request)

    async def ask_when(event: asyncio.Event) -> None:
        await event.wait()
        await ask_async()

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer_later)) as http:
            client = openai.AsyncOpenAI(base_url="http://local/v1", api_key="local", http_client=http, max_retries=0)
            await client.chat.completions.create(**QUESTION)
        over.set()
        await later[0]

    over = asyncio.Event()
    with read_requests() as read:
        asyncio.run(main())
    assert len(read) == 2
