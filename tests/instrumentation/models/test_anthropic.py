"""Anthropic's client: each way of asking is read, and is the same for the program."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("anthropic", reason="anthropic is tested in environments of its own")

import anthropic

from otel_loopguard.instrumentation.models.anthropic import MESSAGES
from otel_loopguard.turns.messages import WrittenCall, WrittenResult
from tests.instrumentation.models import ways
from tests.instrumentation.models.recording import recorded
from tests.models.loops import loops_of
from tests.models.scripts import Working, call
from tests.models.server import Server

LOOPS = loops_of("anthropic")
pytestmark = pytest.mark.filterwarnings("ignore")
of_each_way = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
HELPER_MAKES_A_STREAM = anthropic.__version__.startswith("0.")
"""The first versions' ``messages.stream`` reads the response through a second stream, which has no place to watch."""


@of_each_way
def test_each_way_is_read_and_sends_the_same_bytes(loop):
    """Requests and replies are read, and nothing is changed."""
    exchanges = ways.assert_read_and_untouched(loop)
    if HELPER_MAKES_A_STREAM and loop.__name__ in ("messages_stream", "messages_stream_async"):
        assert [one.reply for one in exchanges] == [None] * len(exchanges)
    else:
        ways.assert_replies_read(exchanges)


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
    with anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0) as client:
        yield client


TOOLS = [{"name": "look", "input_schema": {"type": "object"}}]
REQUEST: dict[str, Any] = {
    "model": "claude-sonnet-4-5", "max_tokens": 99, "messages": [{"role": "user", "content": "task-1"}], "tools": TOOLS,
}  # fmt: skip


def test_a_stream_keeps_its_type_and_can_be_closed(client):
    """A stream that is closed before its end is no complete reply."""
    with recorded() as exchanges:
        stream = client.messages.create(**REQUEST, stream=True)
        assert type(stream) is anthropic.Stream
        next(stream)
        stream.close()
    assert (exchanges[0].chunks, exchanges[0].reply) == (1, None)


def test_a_raw_response_is_parsed_once_for_the_program(client):
    """The program gets the object that it would get."""
    with recorded() as exchanges:
        raw = client.messages.with_raw_response.create(**REQUEST)
        assert raw.parse() is raw.parse()
    assert [call.name for call in exchanges[0].reply.calls] == ["look"]


def test_the_body_of_a_streamed_response_is_left_to_the_program(client):
    """``with_streaming_response`` does not read the body, and neither does the guard."""
    with recorded() as exchanges, client.messages.with_streaming_response.create(**REQUEST) as response:
        assert not response.http_response.is_closed
        assert b"look" in b"".join(response.iter_bytes())
    assert exchanges[0].reply is None


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/messages/batches", "/v1/complete"])
def test_other_requests_are_not_read(client, path):
    """They are let through, and fail or not as they would."""
    with recorded() as exchanges, pytest.raises(anthropic.NotFoundError):
        client.post(path, cast_to=object, body=REQUEST)
    assert exchanges == []


# --- entries -----------------------------------------------------------------------------------------------------


def mark(entry: Any) -> int:
    return MESSAGES.marks([entry])[0]


def result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def test_marks_of_prompt_caches_do_not_count():
    """The mark moves to the last entry with each request; a text is written as a block to carry it."""
    cached = {"cache_control": {"type": "ephemeral"}}
    text = {"type": "text", "text": "Who?"}
    assert len({mark(one) for one in ({"role": "user", "content": "Who?"}, user(text), user({**text, **cached}))}) == 1
    results = user(result("ok")), user(result("ok", **cached)), user(result([{"type": "text", "text": "ok", **cached}]))
    assert len({mark(one) for one in results}) == 1


@pytest.mark.parametrize(
    "other",
    [user(result("other")), user(result("ok"), {"type": "text", "text": "Go on."}), {"role": "user", "content": "ok"},
     user(result([{"type": "text", "text": "ok"}, {"type": "image", "source": {"data": "x"}}]))],
)  # fmt: skip
def test_another_content_has_another_mark(other):
    """A result that was cleared is seen by its mark."""
    assert mark(user(result("ok"))) != mark(other)


def test_results_are_in_the_role_of_the_user_but_not_by_the_user():
    """Text beside them is by the user, if there is any."""
    read = MESSAGES.read(user(result("ok", is_error=True), {"type": "text", "text": ""}))
    assert (read.results, read.by_user) == ((WrittenResult("toolu_1", "ok", is_error=True),), False)
    assert MESSAGES.read(user(result("ok"), {"type": "text", "text": "Go on."})).by_user
    assert MESSAGES.read({"role": "user", "content": "Go on."}).text == "Go on."


def test_calls_that_the_provider_runs_have_their_results_in_the_same_entry():
    """Their blocks stay as they came."""
    entry = {
        "role": "assistant",
        "content": [
            {"type": "mcp_tool_use", "id": "m1", "name": "look", "input": {"path": "a"}, "server_name": "files"},
            {
                "type": "mcp_tool_result",
                "tool_use_id": "m1",
                "is_error": False,
                "content": [{"type": "text", "text": "x"}],
            },
        ],
    }
    read = MESSAGES.read(entry)
    assert read.calls == (WrittenCall("m1", "look", {"path": "a"}),)
    assert [one.id for one in read.results] == ["m1"]
    assert MESSAGES.annotate(entry, {0: "Stop."}) is entry


@pytest.mark.parametrize("content", ["ok", [{"type": "text", "text": "ok"}], None, "", []])
def test_a_sentence_is_added_to_any_content_of_a_result(content):
    """The other fields of the block stay, and so do the blocks around it."""
    block, text = (
        result(content, is_error=True, cache_control={"type": "ephemeral"}),
        {"type": "text", "text": "Go on."},
    )
    changed = MESSAGES.annotate(user({**block, "tool_use_id": "toolu_0"}, block, text), {1: "Stop."})
    assert changed["content"][0] == {**block, "tool_use_id": "toolu_0"}
    assert changed["content"][2] == text
    longer = changed["content"][1]
    assert {**longer, "content": content} == block
    written = longer["content"]
    assert written == "ok\n\nStop." if content == "ok" else written[-1] == {"type": "text", "text": "Stop."}


def test_a_thread_continues_with_the_tools_that_the_provider_keeps():
    """Its requests declare no tools, so their names are not known; they can be withdrawn all the same."""
    body = {"messages": [user(result("ok"))], "thread": {"type": "continue", "previous_message_id": "msg_1"}}
    assert (MESSAGES.previous(body), MESSAGES.tools(body)) == ("msg_1", None)
    assert MESSAGES.withdraw(body)["tool_choice"] == {"type": "none"}


def test_without_tools_nothing_is_withdrawn():
    """The service rejects a choice among no tools."""
    body = {"messages": [], "system": "x"}
    assert MESSAGES.withdraw(body) == body
    assert MESSAGES.tools(body) == frozenset()


def test_toolsets_have_no_names():
    """A tool whose name is not in the request may be any."""
    assert MESSAGES.tools({"tools": [*TOOLS, {"type": "computer_toolset_20260801"}]}) is None
    assert MESSAGES.tools({"tools": TOOLS, "mcp_servers": [{"type": "url"}]}) is None
    assert MESSAGES.tools({"tools": TOOLS}) == {"look"}


def test_a_streamed_call_counts_when_its_block_has_ended():
    """Pieces of its input are put together; the tokens of the cache were read, too."""
    usage = {"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": None, "output_tokens": 1}
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    events = [
        {"type": "message_start", "message": {"id": "msg_1", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_start", "index": 1, "content_block": block},
        *(
            {"type": "content_block_delta", "index": 1, "delta": {"partial_json": one}}
            for one in ("", '{"pa', 'th": "a"}')
        ),
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": {**block, "id": "toolu_2"}},
        {"type": "message_delta", "usage": {"output_tokens": 7}},
    ]
    collector = MESSAGES.collector()
    for event in events:
        collector.add(event)
    reply = collector.reply()
    assert reply.calls == (WrittenCall("toolu_1", "look", {"path": "a"}),)
    assert (reply.id, reply.input_tokens, reply.output_tokens) == ("msg_1", 95, 7)
