"""What holds for each client: a program gets what it would get without the guard, which has read it in passing."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import RunStopped, ToolLoopError
from otel_loopguard.guard.turn import Turn
from otel_loopguard.testing import guarded
from tests.instrumentation.models.clients import CLIENTS, Client, Google, LiteLLM, Stainless
from tests.instrumentation.models.recording import Exchange, recorded
from tests.models.scripts import Failing, Slow, Working, call
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be fetched at import
pytestmark = pytest.mark.filterwarnings("ignore")


def of_each(*kinds: type[Client]) -> pytest.MarkDecorator:
    """Run a test with each client of these kinds."""
    return pytest.mark.parametrize(
        "client", [one for one in CLIENTS if issubclass(one, kinds)], ids=lambda one: one.package, indirect=True
    )


EACH, STAINLESS = of_each(Client), of_each(Stainless)


@pytest.fixture
def model() -> Slow:
    """A model that looks once, and thinks for 40 seconds."""
    return Slow(Working(call("look", path="a")))


@pytest.fixture
def server(model: Slow) -> Iterator[Server]:
    """Its service."""
    with Server(model, gemini_ids=True).running() as server:
        yield server


@pytest.fixture
def told(model: Slow, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Guard a test. The list gets the seconds that a turn is told."""
    seconds: list[float] = []
    monkeypatch.setattr(Turn, "thought", lambda _, one: seconds.append(one))
    with guarded(clock=model.clock):
        yield seconds


@pytest.fixture
async def client(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[Any]:
    """The client of a test."""
    made = request.param(server.url)
    yield made
    await made.aclose()


def calls_of(exchange: Exchange) -> list[tuple[str, Any]]:
    """The calls of a reply."""
    assert exchange.reply is not None
    return [(one.name, one.arguments) for one in exchange.reply.calls]


LOOK = [("look", {"path": "a"})]


@EACH
def test_a_stream_keeps_its_type_and_is_read_in_passing(client: Any) -> None:
    """Each chunk is counted as the program reads it, and the last one ends the reply."""
    with recorded() as exchanges:
        stream = client.stream()
        assert type(stream) is client.streams()[0]
        chunks = list(stream)
    assert exchanges[0].chunks == len(chunks) > 0
    assert calls_of(exchanges[0]) == LOOK


@EACH
async def test_an_async_stream_keeps_its_type_and_is_read_in_passing(client: Any) -> None:
    """Each chunk is counted as the program reads it, and the last one ends the reply."""
    with recorded() as exchanges:
        stream = await client.astream()
        assert type(stream) is client.streams()[1]
        chunks = [chunk async for chunk in stream]
    assert exchanges[0].chunks == len(chunks) > 0
    assert calls_of(exchanges[0]) == LOOK


@of_each(Stainless, Google)
def test_a_stream_that_is_closed_before_its_end_is_no_reply(client: Any) -> None:
    """The client closes its connection as without the guard."""
    with recorded() as exchanges:
        stream = client.stream()
        next(stream)
        stream.close()
    assert (exchanges[0].chunks, exchanges[0].reply) == (1, None)
    assert getattr(stream, "response", None) is None or stream.response.is_closed


@STAINLESS
def test_a_raw_response_is_parsed_once_for_the_program(client: Any) -> None:
    """The program gets the object that it would get, and may parse it as it likes."""
    with recorded() as exchanges:
        raw = client.raw()
        assert raw.parse() is raw.parse()
    assert type(raw) is type(client.raw())
    assert calls_of(exchanges[0]) == LOOK


@STAINLESS
def test_a_raw_stream_is_the_stream_that_the_program_parses(client: Any) -> None:
    """Nothing is read before the program reads it."""
    with recorded() as exchanges:
        raw = client.raw(stream=True)
        assert exchanges[0].chunks == 0
        chunks = list(raw.parse())
    assert exchanges[0].chunks == len(chunks) > 0
    assert calls_of(exchanges[0]) == LOOK


@STAINLESS
def test_the_body_of_a_streamed_response_is_left_to_the_program(client: Any) -> None:
    """``with_streaming_response`` does not read the body, and neither does the guard."""
    with recorded() as exchanges, client.streamed_body() as response:
        assert not response.http_response.is_closed
        assert b"look" in b"".join(response.iter_bytes())
    assert exchanges[0].reply is None


@pytest.mark.parametrize(
    ("client", "name"), [(one, name) for one in CLIENTS for name in one.others], indirect=["client"]
)
def test_other_requests_are_not_read(client: Any, name: str) -> None:
    """They are let through, and fail or not as they would."""
    with recorded() as exchanges:
        assert not isinstance(client.other(name), ToolLoopError)
    assert exchanges == []


@EACH
@pytest.mark.parametrize("streamed", [False, True])
def test_the_error_that_ends_a_run_comes_out_as_it_is(client: Any, server: Server, *, streamed: bool) -> None:
    """No request is sent. LiteLLM's is also of a class that LiteLLM does not retry."""
    with recorded(ends=True), pytest.raises(RunStopped, match="The loop is over") as ended:
        list(client.stream() if streamed else client.ask())
    assert (type(ended.value) is RunStopped) is not isinstance(client, LiteLLM)
    assert server.exchanges == []


@EACH
def test_the_functions_are_of_the_same_sort_while_they_are_patched(client: Any) -> None:
    """Programs ask whether one is a coroutine function, and for its signature."""

    def sorts() -> list[Any]:
        return [
            one and (inspect.iscoroutinefunction(one), inspect.isgeneratorfunction(one), inspect.signature(one))
            for one in client.patched()
        ]

    functions, plain = client.patched(), sorts()
    assert any(functions)
    with recorded():
        assert not any(now is was for now, was in zip(client.patched(), functions, strict=True) if was)
        assert sorts() == plain
    assert client.patched() == functions


# --- the time of a request ---------------------------------------------------------------------------------------


@EACH
def test_a_request_takes_until_its_reply_has_come(told: list[float], client: Any) -> None:
    """The turn is told once."""
    client.ask()
    assert told == [40.0]


@EACH
def test_a_stream_takes_until_its_last_piece(told: list[float], client: Any, model: Slow) -> None:
    """The turn is told once, and not before."""
    pieces = 0
    for _ in client.stream():
        assert told == []
        model.now += 1.0
        pieces += 1
    assert told == [40.0 + pieces]


@EACH
async def test_an_async_stream_takes_until_its_last_piece(told: list[float], client: Any, model: Slow) -> None:
    """The turn is told once, and not before."""
    pieces = 0
    async for _ in await client.astream():
        assert told == []
        model.now += 1.0
        pieces += 1
    assert told == [40.0 + pieces]


@EACH
@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_that_fails_has_taken_its_time(
    told: list[float], client: Any, model: Slow, *, streamed: bool
) -> None:
    """The exception is the client's, and the turn is told once."""
    model.script = Failing(model.script, status=400)
    with pytest.raises(Exception, match="overloaded"):
        list(client.stream() if streamed else client.ask())
    assert told == [40.0]


@EACH
async def test_an_async_request_that_fails_has_taken_its_time(told: list[float], client: Any, model: Slow) -> None:
    """The exception is the client's, and the turn is told once."""
    model.script = Failing(model.script, status=400)
    with pytest.raises(Exception, match="overloaded"):
        [piece async for piece in await client.astream()]
    assert told == [40.0]
