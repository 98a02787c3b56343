"""Google's client: each way of asking is read, and is the same for the program."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

pytest.importorskip("google.genai", reason="google-genai is tested in environments of its own")

from google import genai
from google.genai import _api_client, types

from otel_loopguard import ToolLoopError
from otel_loopguard.instrumentation.models.google_genai import GENERATE_CONTENT
from otel_loopguard.turns.messages import Message, WrittenCall, WrittenResult
from tests.instrumentation.models import ways
from tests.instrumentation.models.recording import recorded
from tests.models.loops import loops_of
from tests.models.scripts import Working, call
from tests.models.server import Server

LOOPS = loops_of("google_genai")
pytestmark = pytest.mark.filterwarnings("ignore")
of_each_way = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)


@of_each_way
def test_each_way_is_read_and_sends_the_same_bytes(loop):
    """Requests and replies are read, also each round of automatic function calling; nothing is changed."""
    ways.assert_replies_read(ways.assert_read_and_untouched(loop))


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
    with Server(Working(call("look", path="a")), gemini_ids=True).running() as server:
        yield server


@pytest.fixture
def client(server):
    return genai.Client(api_key="local", http_options=types.HttpOptions(base_url=server.url))


LOOK = {"name": "look", "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}}
REQUEST: dict[str, Any] = {
    "model": "gemini-2.5-pro",
    "contents": "task-1",
    "config": {"tools": [{"function_declarations": [LOOK]}]},
}


def test_ids_that_the_server_gives_are_not_used(client):
    """The client does not send them back, so calls and results are in order."""
    with recorded() as exchanges:
        reply = client.models.generate_content(**REQUEST)
    assert reply.function_calls[0].name == "look"
    assert exchanges[0].reply.calls == (WrittenCall(None, "look", {"path": "a"}),)
    assert (exchanges[0].sent.model, exchanges[0].tools) == ("gemini-2.5-pro", {"look"})


def test_a_stream_that_is_left_is_no_complete_reply(client):
    """The program may stop to read, and the client closes the connection as without the guard."""
    with recorded() as exchanges:
        stream = client.models.generate_content_stream(**REQUEST)
        assert inspect.isgenerator(stream)
        next(iter(stream))
        stream.close()
    assert (exchanges[0].chunks, exchanges[0].reply) == (1, None)


def test_a_stream_sends_its_request_when_it_is_read(client, server):
    """So it does without the guard."""
    with recorded() as exchanges:
        client.models.generate_content_stream(**REQUEST)
        assert (server.exchanges, exchanges) == ([], [])


def test_other_requests_are_not_read(client):
    """Counting tokens, embeddings and files ask no model for calls."""
    with recorded() as exchanges, pytest.raises(genai.errors.ClientError):
        client.models.count_tokens(model="gemini-2.5-pro", contents="task-1")
    assert exchanges == []


@pytest.mark.parametrize("streamed", [False, True])
def test_the_error_that_ends_a_run_comes_out_as_it_is(client, server, streamed):
    """No request is sent, and the client does not retry."""
    ask = client.models.generate_content_stream if streamed else client.models.generate_content
    with recorded(ends=True), pytest.raises(ToolLoopError) as ended:
        list(ask(**REQUEST))
    assert type(ended.value) is ToolLoopError
    assert server.exchanges == []


def test_the_methods_are_of_the_same_sort_while_they_are_patched():
    """A generator function stays one."""
    owner = getattr(_api_client, "BaseApiClient", None) or _api_client.ApiClient
    names = ("request", "request_streamed", "async_request", "async_request_streamed")

    def sorts() -> list[Any]:
        methods = [getattr(owner, name) for name in names]
        return [(inspect.iscoroutinefunction(one), inspect.isgeneratorfunction(one)) for one in methods]

    plain = sorts()
    with recorded():
        assert sorts() == plain


# --- entries -----------------------------------------------------------------------------------------------------


def mark(entry: Any) -> int:
    return GENERATE_CONTENT.marks([entry])[0]


def result(response: Any, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "look", "response": response, **more}}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


CALL = {"functionCall": {"name": "look", "args": {"path": "a"}}, "thoughtSignature": "abc"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"role": "model", "parts": [{"text": "I look."}, CALL]}, Message((WrittenCall(None, "look", {"path": "a"}),))),
        ({"role": "model", "parts": [{"functionCall": {"name": "list"}}]}, Message((WrittenCall(None, "list", {}),))),
        (
            user(result({"result": "ok"}, id="7")),
            Message(results=(WrittenResult("7", {"result": "ok"}, name="look"),)),
        ),
        (
            user(result({"error": "down"})),
            Message(results=(WrittenResult(None, {"error": "down"}, is_error=True, name="look"),)),
        ),
        ({"role": "function", "parts": [result({})]}, Message(results=(WrittenResult(None, {}, name="look"),))),
        (user({"inlineData": {"data": "x"}}), Message()),
        ({"role": "user"}, Message()),
        ({"parts": [{"text": "Who?"}]}, Message(by_user=True, text=[{"text": "Who?"}])),
    ],
)  # fmt: skip
def test_contents_are_read(content, message):
    """Calls and results by their order and names; a response with nothing but an error is one."""
    assert GENERATE_CONTENT.read(content)._replace(text=None) == message._replace(text=None)


def test_contents_have_marks_of_their_own():
    """Calls without ids are known by their arguments."""
    contents = [
        {"role": "model", "parts": [CALL]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"path": "b"}}}]},
        user(result({"result": "ok"})), user(result({"result": "[cleared]"})), user({"text": "ok"}),
        {"role": "model", "parts": [{"text": "ok"}]}, user(result({"result": {"rows": [1]}})),
    ]  # fmt: skip
    assert len({mark(one) for one in contents}) == len(contents)


def test_a_sentence_is_a_field_of_the_response():
    """There is no place for text. The other parts and the program's content stay."""
    content = user(result({"result": "ok"}), result({}), {"text": "Go on."})
    changed = GENERATE_CONTENT.annotate(content, {1: "Stop."})
    assert changed == user(result({"result": "ok"}), result({"loopguard": "Stop."}), {"text": "Go on."})
    assert content == user(result({"result": "ok"}), result({}), {"text": "Go on."})


def test_withdrawn_tools_stay_declared():
    """The names that a call was restricted to are not allowed with the mode NONE."""
    tools = [{"functionDeclarations": [LOOK]}, {"googleSearch": {}}]
    calling = {"mode": "ANY", "allowedFunctionNames": ["look"]}
    body = {"tools": tools, "toolConfig": {"functionCallingConfig": calling, "retrievalConfig": {}}}
    assert GENERATE_CONTENT.withdraw(body) == {
        "tools": tools, "toolConfig": {"functionCallingConfig": {"mode": "NONE"}, "retrievalConfig": {}},
    }  # fmt: skip
    assert GENERATE_CONTENT.tools(body) == {"look", "googleSearch"}
    assert GENERATE_CONTENT.withdraw({"contents": []}) == {"contents": []}
