"""OpenAI's client: each way of asking is read, and is the same for the program."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is tested in environments of its own")

import openai
from openai import _base_client as base

from otel_loopguard import ToolLoopError
from tests.instrumentation.models import ways
from tests.instrumentation.models.recording import recorded
from tests.models.loops import loops_of
from tests.models.scripts import Working, call
from tests.models.server import Server

LOOPS = loops_of("openai")
pytestmark = pytest.mark.filterwarnings("ignore")
of_each_way = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
WITHOUT_USAGE = ("chat_stream", "chat_stream_helper")
"""The loops that do not ask for the usage of a stream."""


@of_each_way
def test_each_way_is_read_and_sends_the_same_bytes(loop):
    """Requests and replies are read, and nothing is changed."""
    exchanges = ways.assert_read_and_untouched(loop)
    ways.assert_replies_read(exchanges, usage=loop.__name__ not in WITHOUT_USAGE)


@of_each_way
def test_a_changed_request_is_sent_changed(loop):
    """The sentence and the withdrawn tools reach the model."""
    ways.assert_changes_reach_the_model(loop)


@of_each_way
def test_a_loop_is_ended(loop):
    """With an answer, or with ToolLoopError if the model does not obey."""
    ways.assert_a_loop_is_ended(loop)


@of_each_way
def test_results_can_be_annotated(loop):
    """Each result takes a sentence, in a copy."""
    ways.assert_results_can_be_annotated(loop)


@pytest.fixture
def server():
    with Server(Working(call("look", path="a"))).running() as server:
        yield server


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
        yield client


TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
REQUEST: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "task-1"}], "tools": TOOLS}


def test_tools_of_extra_body_are_read_and_stay(client, server):
    """``extra_body`` is merged as the client merges it, also in a changed request."""
    request = {name: value for name, value in REQUEST.items() if name != "tools"}
    with recorded(ways.nudge) as exchanges:
        client.chat.completions.create(**request, extra_body={"tools": TOOLS, "seed": 7})
    assert exchanges[0].tools == {"look"}
    sent = server.exchanges[0].json
    assert (sent["tools"], sent["seed"], sent["tool_choice"]) == (TOOLS, 7, "none")


def test_the_programs_own_messages_are_never_touched(client):
    """A change is made in a copy."""
    messages = [{"role": "user", "content": "task-1"}]
    with recorded(ways.nudge):
        client.chat.completions.create(**{**REQUEST, "messages": messages})
    assert messages == [{"role": "user", "content": "task-1"}]


def test_a_raw_response_is_parsed_once_for_the_program(client):
    """The program gets the object that it would get, and may parse it as it likes."""
    with recorded() as exchanges:
        raw = client.chat.completions.with_raw_response.create(**REQUEST)
        assert type(raw).__name__ == "LegacyAPIResponse"
        assert raw.parse() is raw.parse()
    assert [call.name for call in exchanges[0].reply.calls] == ["look"]


def test_a_raw_stream_is_the_stream_that_the_program_parses(client):
    """Chunks are counted as the program reads them."""
    with recorded() as exchanges:
        raw = client.chat.completions.with_raw_response.create(**REQUEST, stream=True)
        assert exchanges[0].chunks == 0
        chunks = list(raw.parse())
    assert exchanges[0].chunks == len(chunks)
    assert [call.name for call in exchanges[0].reply.calls] == ["look"]


def test_the_body_of_a_streamed_response_is_left_to_the_program(client):
    """``with_streaming_response`` does not read the body, and neither does the guard."""
    with recorded() as exchanges, client.chat.completions.with_streaming_response.create(**REQUEST) as response:
        assert not response.http_response.is_closed
        assert b"look" in b"".join(response.iter_bytes())
    assert exchanges[0].reply is None


def test_a_stream_keeps_its_type_and_can_be_closed(client):
    """A stream that is closed before its end is no complete reply."""
    with recorded() as exchanges:
        stream = client.chat.completions.create(**REQUEST, stream=True)
        assert type(stream) is openai.Stream
        next(stream)
        stream.close()
        assert stream.response.is_closed
    assert (exchanges[0].chunks, exchanges[0].reply) == (1, None)


async def test_an_async_stream_keeps_its_type(server):
    """So it is in async code."""
    with recorded() as exchanges:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="local") as client:
            stream = await client.chat.completions.create(**REQUEST, stream=True)
            assert type(stream) is openai.AsyncStream
            chunks = [chunk async for chunk in stream]
    assert exchanges[0].chunks == len(chunks)
    assert [call.name for call in exchanges[0].reply.calls] == ["look"]


def test_clones_and_plain_posts_are_read(client):
    """``with_options`` makes another client, and ``post`` passes no resource."""
    with recorded() as exchanges:
        client.with_options(timeout=9).chat.completions.create(**REQUEST)
        answer = client.post("/chat/completions", cast_to=object, body=REQUEST)
    assert isinstance(answer, dict)
    assert [len(one.reply.calls) for one in exchanges] == [1, 0]


@pytest.mark.parametrize(
    "path", ["/responses/compact", "/responses/input_tokens", "/embeddings", "/chat/completions/7"]
)
def test_other_requests_are_not_read(client, path):
    """They are let through, and fail or not as they would."""
    with recorded() as exchanges, pytest.raises(openai.NotFoundError):
        client.post(path, cast_to=object, body={"model": "gpt-4.1", "input": "task-1"})
    assert exchanges == []


@pytest.mark.parametrize("body", [None, [], {}, {"messages": None}, {"messages": "text"}, {"messages": [None, 1, "x"]}])
def test_odd_bodies_are_sent_as_they_are(client, body):
    """The service says what is wrong with them; the guard has no fault."""
    with recorded(), pytest.raises(openai.APIStatusError):
        client.post("/chat/completions", cast_to=object, body=body)


def test_the_error_that_ends_a_run_comes_out_as_it_is(client, server):
    """No request is sent, and the client does not retry."""
    with recorded(ends=True), pytest.raises(ToolLoopError) as ended:
        client.chat.completions.create(**REQUEST)
    assert type(ended.value) is ToolLoopError
    assert server.exchanges == []


def test_the_methods_are_of_the_same_sort_while_they_are_patched():
    """Programs ask whether a method is a coroutine function, and for its signature."""
    methods = base.SyncAPIClient.request, base.AsyncAPIClient.request
    plain = [(inspect.iscoroutinefunction(one), inspect.signature(one)) for one in methods]
    with recorded():
        patched = base.SyncAPIClient.request, base.AsyncAPIClient.request
        assert patched != methods
        assert [(inspect.iscoroutinefunction(one), inspect.signature(one)) for one in patched] == plain
    assert (base.SyncAPIClient.request, base.AsyncAPIClient.request) == methods
