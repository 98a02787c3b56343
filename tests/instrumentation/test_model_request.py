"""The function in the place of a client's: who owns a request, however the method ends."""

from __future__ import annotations

import asyncio
import gc
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from otel_loopguard import ToolLoopError
from otel_loopguard.guard.turn import Turn
from otel_loopguard.instrumentation import model_request
from otel_loopguard.instrumentation.model_api import Sent
from otel_loopguard.instrumentation.models.openai_chat import CHAT as DIALECT
from otel_loopguard.testing import guarded
from tests.models.wire import CHAT
from tests.strikes import handled, places, struck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTION: dict[str, Any] = CHAT.body([CHAT.user("What is in it?")], [CHAT.tool()], model="gpt-4.1")
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


# --- the time of a request ---------------------------------------------------------------------------------------


class Timed:
    """The guard on a clock that is moved by hand, and what a turn is told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[float] = []
        self.faults: set[str] = set()

    def ask(self, answer: Callable[[httpx.Request], httpx.Response], *, retries: int = 0) -> Any:
        """Make a request of which each attempt takes ten seconds."""

        def answer_late(request: httpx.Request) -> httpx.Response:
            self.now += 10.0
            return answer(request)

        with httpx.Client(transport=httpx.MockTransport(answer_late)) as http:
            client = openai.OpenAI(base_url="http://local/v1", api_key="local", http_client=http, max_retries=retries)
            return client.chat.completions.create(**QUESTION)

    async def hang(self) -> Any:
        """Make a request of which the task is cancelled after ten seconds."""

        async def silent(_: httpx.Request) -> httpx.Response:
            self.now += 10.0
            task.cancel()
            await asyncio.Event().wait()
            return httpx.Response(500)

        task: Any = asyncio.current_task()
        async with httpx.AsyncClient(transport=httpx.MockTransport(silent)) as http:
            client = openai.AsyncOpenAI(base_url="http://local/v1", api_key="local", http_client=http)
            return await client.chat.completions.create(**QUESTION)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Timed]:
    """Guard a test."""
    timed = Timed()
    monkeypatch.setattr(Turn, "thought", lambda _, seconds: timed.told.append(seconds))
    with guarded(clock=lambda: timed.now) as recording:
        assert recording.runtime is not None
        timed.faults = recording.runtime.shield.seen
        yield timed


def test_the_retries_of_a_client_are_a_part_of_its_request(timed: Timed) -> None:
    """The turn is told once, of all of them."""
    with pytest.raises(openai.InternalServerError):
        timed.ask(lambda _: httpx.Response(503, headers={"retry-after-ms": "1"}), retries=2)
    assert timed.told == [30.0]


def test_a_request_that_the_user_cuts_off_has_taken_its_time(timed: Timed) -> None:
    """The exception passes."""

    def cut_off(_: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        timed.ask(cut_off)
    assert timed.told == [10.0]


async def test_a_request_that_is_cancelled_has_taken_its_time(timed: Timed) -> None:
    """As by a time limit of the program."""
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(timed.hang())
    assert timed.told == [10.0]


async def test_a_request_that_the_garbage_collector_closes_tells_nothing(timed: Timed) -> None:
    """The code that it interrupts may be that of the turn."""

    class Original:
        def bind(self, given: Any) -> Any:
            return self.hang, None, given

        async def hang(self, body: Any) -> None:
            await asyncio.Event().wait()

    def read(instance: Any, args: Any, kwargs: Any) -> Sent:
        return Sent(DIALECT, args[0], "m", lambda changed: ((changed,), {}), lambda reply, _: reply)

    original: Any = Original()
    request = model_request.async_request_wrapper(read, lambda: ToolLoopError)(original)
    for thrown_away in (False, True):
        asked: list[Any] = [request(QUESTION)]
        asked[0].send(None)
        timed.now += 10.0
        if thrown_away:
            asked.append(asked)
        else:
            asked[0].close()
        del asked
        gc.collect()
    assert (timed.told, timed.faults) == ([10.0], set())


def test_a_fault_of_the_guard_with_the_time_is_counted(timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has its reply."""

    def fail(*_: Any) -> None:
        raise RuntimeError("fault")

    monkeypatch.setattr(Turn, "thought", fail)
    assert timed.ask(answer).id == "1"
    assert timed.faults == {"model.thought"}
