"""The server is as strict as the real services: it rejects malformed conversations, and obeys the request's choices."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.models.scripts import Failing, Looping, Obedient, Working, call
from tests.models.server import Server

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-flash:generateContent",
}
HEADERS = {
    "authorization": "Bearer local",
    "x-api-key": "local",
    "anthropic-version": "2023-06-01",
    "x-goog-api-key": "k",
}
CLIENT = httpx.Client(limits=httpx.Limits(max_connections=None))
READ = call("read_file", path="a.txt")
SEARCH = call("search", query="Ada")


def send(server: Server, api: str, body: dict[str, Any], **headers: str) -> Any:
    """Post a request; the model is named where the API wants it."""
    model = {} if api == "gemini" else {"model": "local"}
    limit = {"max_tokens": 100} if api == "messages" else {}
    return CLIENT.post(server.url + PATHS[api], json={**model, **limit, **body}, headers={**HEADERS, **headers})


def tool(api: str, name: str = "read_file") -> dict[str, Any]:
    """The declaration of a tool."""
    schema = {"type": "object", "properties": {}}
    return {
        "chat": {"type": "function", "function": {"name": name, "parameters": schema}},
        "responses": {"type": "function", "name": name, "parameters": schema},
        "messages": {"name": name, "input_schema": schema},
        "gemini": {"functionDeclarations": [{"name": name}]},
    }[api]


def user(text: str = "Who owns it?") -> dict[str, Any]:
    return {"role": "user", "content": text}


def wrote(*ids: str, **more: Any) -> dict[str, Any]:
    """A message of chat completions with calls."""
    calls = [{"id": one, "type": "function", "function": {"name": "read_file", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def got(one: str, text: str = "Ada") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": one, "content": text}


def item(one: str) -> dict[str, Any]:
    """A call of responses."""
    return {"type": "function_call", "call_id": one, "name": "read_file", "arguments": "{}"}


def output(one: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": one, "output": "Ada"}


def used(*ids: str) -> dict[str, Any]:
    """A message of Anthropic with calls."""
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": one, "name": "read_file", "input": {}} for one in ids],
    }


def results(*ids: str, before: str = "", after: str = "") -> dict[str, Any]:
    """A message of Anthropic with results."""
    text = [[{"type": "text", "text": one}] if one else [] for one in (before, after)]
    blocks = [{"type": "tool_result", "tool_use_id": one, "content": "Ada"} for one in ids]
    return {"role": "user", "content": [*text[0], *blocks, *text[1]]}


def asked(text: str = "Who owns it?") -> dict[str, Any]:
    """A content of Gemini."""
    return {"role": "user", "parts": [{"text": text}]}


def functions(count: int, kind: str = "functionCall", name: str = "read_file", **more: Any) -> dict[str, Any]:
    """A content of Gemini with calls or responses."""
    given = {"args": {}} if kind == "functionCall" else {"response": {"result": "Ada"}}
    role = "model" if kind == "functionCall" else "user"
    return {"role": role, "parts": [{kind: {"name": name, **given, **more}} for _ in range(count)]}


WELL_FORMED = {
    "chat": {"messages": [user(), wrote("1", "2"), got("2"), got("1"), user("And now?")], "tools": [tool("chat")]},
    "responses": {"input": [user(), item("1"), item("2"), output("2"), output("1")], "tools": [tool("responses")]},
    "messages": {
        "messages": [user(), used("1", "2"), results("2", "1", after="And now?")],
        "tools": [tool("messages")],
    },
    "gemini": {"contents": [asked(), functions(2), functions(2, "functionResponse")], "tools": [tool("gemini")]},
}

TOOLS = {"tools": [tool("messages")]}
MALFORMED = [
    ("chat", {"messages": []}, "too short"),
    ("chat", {"messages": [user(), wrote("1")]}, "did not have response messages: 1"),
    ("chat", {"messages": [user(), wrote("1", "2"), got("1"), user()]}, "did not have response messages: 2"),
    ("chat", {"messages": [user(), wrote("1"), user(), got("1")]}, "did not have response messages: 1"),
    ("chat", {"messages": [user(), got("1")]}, "must be a response to a preceeding message"),
    ("chat", {"messages": [user(), wrote("1"), got("1"), got("1")]}, "Duplicate value"),
    ("chat", {"messages": [user(), wrote("1"), {"role": "tool", "content": "Ada"}]}, "tool_call_id"),
    ("chat", {"messages": [user(), {"role": "assistant", "content": None}]}, "expected a string, got null"),
    ("chat", {"messages": [{**user(), "note": "x"}]}, "'note' was unexpected"),
    ("chat", {"messages": [user()], "tool_choice": "none"}, "only allowed when 'tools' are specified"),
    ("chat", {"messages": [user()], "parallel_tool_calls": True}, "only allowed when 'tools' are specified"),
    ("chat", {"messages": [user()], "tools": []}, "empty array"),
    ("chat", {"messages": [user()], "tools": [tool("chat")], "tool_choice": "never"}, "Invalid value"),
    ("chat", {"messages": [user()], "stream_options": {"include_usage": True}}, "when 'stream' is enabled"),
    ("chat", {"messages": [user()], "loopguard": 1}, "Unrecognized request argument supplied: loopguard"),
    ("responses", {"input": [user(), item("1")]}, "No tool output found for function call 1"),
    ("responses", {"input": [user(), output("1")]}, "No tool call found"),
    ("responses", {"input": [user(), item("1"), output("1"), output("1")]}, "Duplicate output"),
    ("responses", {"input": [user(), {"type": "reasoning", "id": "r", "summary": []}, user()]}, "following item"),
    ("responses", {"input": [user()], "previous_response_id": "resp_x"}, "not found"),
    ("responses", {"input": [user()], "tool_choice": "none"}, "only allowed when 'tools' are specified"),
    ("messages", {"messages": [used("1"), results("1")], **TOOLS}, "first message"),
    ("messages", {"messages": [user(), used("1")], **TOOLS}, "without `tool_result` blocks"),
    ("messages", {"messages": [user(), used("1"), user()], **TOOLS}, "without `tool_result` blocks"),
    ("messages", {"messages": [user(), used("1", "2"), results("1")], **TOOLS}, "after: 2"),
    ("messages", {"messages": [user(), used("1"), results("1", before="Look:")], **TOOLS}, "immediately after"),
    ("messages", {"messages": [user(), used("1"), results("1", "1")], **TOOLS}, "a single result"),
    ("messages", {"messages": [user(), results("1")], **TOOLS}, "unexpected `tool_use_id`"),
    ("messages", {"messages": [user(), used("1"), results("1")]}, "must define tools"),
    ("messages", {"messages": [user()], "tool_choice": {"type": "none"}}, "only be specified while providing tools"),
    ("messages", {"messages": [user("")]}, "non-empty"),
    ("messages", {"messages": [user()], "thread": {"type": "create"}}, "Extra inputs are not permitted"),
    ("gemini", {"contents": [asked(), functions(2), functions(1, "functionResponse")]}, "equal to the number"),
    ("gemini", {"contents": [asked(), functions(1)]}, "equal to the number"),
    ("gemini", {"contents": [asked(), functions(1), asked()]}, "equal to the number"),
    ("gemini", {"contents": [asked(), functions(1, "functionResponse")]}, "immediately after a function call"),
    ("gemini", {"contents": [asked(), functions(1), functions(1, "functionResponse", "other")]}, "match the function"),
    ("gemini", {"contents": [asked()], "toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, "without function"),
    ("gemini", {"contents": [{**asked(), "note": 1}]}, 'Unknown name "note"'),
]  # fmt: skip

NO_CALLS = {
    "chat": {"tool_choice": "none"},
    "responses": {"tool_choice": "none"},
    "messages": {"tool_choice": {"type": "none"}},
    "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
}


@pytest.mark.parametrize(("api", "body"), WELL_FORMED.items(), ids=WELL_FORMED)
def test_a_well_formed_conversation_is_answered(api: str, body: dict[str, Any]) -> None:
    """Calls that are answered once, in any order, are a conversation."""
    with Server(Working(answer="Ada does.")).running() as server:
        assert "Ada does." in send(server, api, body).text
    assert server.rejected == []


@pytest.mark.parametrize(("api", "body", "words"), MALFORMED)
def test_a_malformed_conversation_is_rejected(api: str, body: dict[str, Any], words: str) -> None:
    """Status 400, with the words of the real service, and no answer counts."""
    with Server(Working()).running() as server:
        response = send(server, api, body)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]
    assert len(server.rejected) == 1
    assert server.bodies() == []


@pytest.mark.parametrize("api", PATHS)
def test_without_a_key_nothing_is_answered(api: str) -> None:
    """A client that loses its key is noticed."""
    with Server(Working()).running() as server:
        response = httpx.post(server.url + PATHS[api], json={**WELL_FORMED[api], "model": "local", "max_tokens": 9})
    assert response.status_code in (401, 403)


@pytest.mark.parametrize(("api", "choice"), NO_CALLS.items(), ids=NO_CALLS)
@pytest.mark.parametrize("stubborn", [False, True], ids=["obeys", "stubborn"])
def test_a_model_that_may_not_call_answers(api: str, choice: dict[str, Any], stubborn: bool) -> None:
    """With the tools withdrawn a looping model answers; a stubborn one calls all the same."""
    with Server(Looping(READ, answer="Ada does.", stubborn=stubborn)).running() as server:
        for more in ({}, choice):
            send(server, api, {**WELL_FORMED[api], **more})
    assert [bool(one.reply and one.reply.calls) for one in server.exchanges] == [True, stubborn]
    assert [bool(one.reply and one.reply.text) for one in server.exchanges] == [False, not stubborn]


def test_a_response_is_continued_by_its_id_alone() -> None:
    """The service keeps calls and results: the next request carries the output alone, and is checked against them."""
    with Server(Looping(READ)).running() as server:
        first = send(server, "responses", {"input": "task-1: go", "tools": [tool("responses")]}).json()
        (written,) = first["output"]
        kept = {"previous_response_id": first["id"], "tools": [tool("responses")]}
        assert send(server, "responses", {**kept, "input": [output("call_other")]}).status_code == 400
        assert send(server, "responses", {**kept, "input": [output(written["call_id"])]}).status_code == 200
    assert [one.name for one in server.exchanges[-1].asked.messages[1].calls] == ["read_file"]
    assert server.exchanges[-1].asked.number == 2


def test_a_thread_is_continued_by_the_message_alone() -> None:
    """System and tools are those of the thread, and the next request carries the results alone."""
    beta = {"anthropic-beta": "message-threads-2026-08-12"}
    with Server(Looping(READ)).running() as server:
        begun = {"messages": [user("task-1")], "tools": [tool("messages")], "thread": {"type": "create"}}
        first = send(server, "messages", begun, **beta).json()
        thread = {"type": "continue", "previous_message_id": first["id"]}
        given = {"messages": [results(first["content"][0]["id"])], "thread": thread}
        assert send(server, "messages", {**given, "tools": [tool("messages")]}, **beta).status_code == 400
        assert send(server, "messages", {"messages": [user()], "thread": thread}, **beta).status_code == 400
        assert send(server, "messages", given, **beta).json()["stop_reason"] == "tool_use"
        lost = {**given, "thread": {**thread, "previous_message_id": "msg_lost"}}
        details = send(server, "messages", lost, **beta).json()["error"]["details"]
    assert details == {"error_code": "thread_not_found"}


def test_gemini_gives_ids_only_if_it_is_asked_to() -> None:
    """With ids a response has to name the call that it answers, or none."""
    body = {"contents": [asked("task-1")], "tools": [tool("gemini")]}
    for ids in (False, True):
        with Server(Looping(READ), gemini_ids=ids).running() as server:
            part = send(server, "gemini", body).json()["candidates"][0]["content"]["parts"][0]
            assert ("id" in part["functionCall"]) is ids
            model = {"role": "model", "parts": [part]}
            for name in ("fc_task-1_1_0", "fc_other") if ids else ():
                given = [asked("task-1"), model, functions(1, "functionResponse", id=name)]
                answer = send(server, "gemini", {**body, "contents": given})
                assert answer.status_code == (200 if name == "fc_task-1_1_0" else 400)


def test_lost_thoughts_are_rejected() -> None:
    """Reasoning models want their signed thoughts back with the calls that follow from them."""
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "tools": [tool("messages")]}
    with Server(Looping(READ), thoughts=True).running() as server:
        first = send(server, "messages", {"messages": [user("task-1")], **thinking}).json()
        for content, status in ((first["content"], 200), (first["content"][1:], 400)):
            given = [user("task-1"), {"role": "assistant", "content": content}, results(first["content"][1]["id"])]
            assert send(server, "messages", {"messages": given, **thinking}).status_code == status
        body = {"contents": [asked("task-2")], "tools": [tool("gemini")]}
        model = send(server, "gemini", body).json()["candidates"][0]["content"]
        unsigned = {**model, "parts": [{"functionCall": model["parts"][0]["functionCall"]}]}
        for content, status in ((model, 200), (unsigned, 400)):
            given = [asked("task-2"), content, functions(1, "functionResponse")]
            assert send(server, "gemini", {**body, "contents": given}).status_code == status


def test_streams_carry_what_the_answer_has() -> None:
    """Put together, the pieces of a stream are the text and the calls of the plain answer."""
    step = (READ, SEARCH)
    asking = {"chat": {"messages": [user()]}, "responses": {"input": "x"}, "messages": {"messages": [user()]}}
    for api, body in asking.items():
        with Server(Working(step)).running() as server:
            lines = send(server, api, {**body, "tools": [tool(api)], "stream": True}).text.splitlines()
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        keys = {"chat": "arguments", "responses": "delta", "messages": "partial_json"}
        pieces = [value for event in events for value in values(event, keys[api]) if isinstance(value, str)]
        assert "".join(pieces) == '{"path": "a.txt"}{"query": "Ada"}'


def values(given: Any, key: str) -> list[Any]:
    """All values of a key in JSON."""
    if isinstance(given, list):
        return [found for one in given for found in values(one, key)]
    if not isinstance(given, dict):
        return []
    own = [given[key]] if key in given else []
    return own + [found for one in given.values() for found in values(one, key)]


def test_usage_is_streamed_only_if_it_is_asked_for() -> None:
    """The chunk with the usage has no choices, and comes last."""
    for options in ({}, {"stream_options": {"include_usage": True}}):
        with Server(Working()).running() as server:
            lines = send(server, "chat", {"messages": [user()], "stream": True, **options}).text.strip().splitlines()
        events = [json.loads(line[6:]) for line in lines[:-1] if line]
        assert lines[-1] == "data: [DONE]"
        assert [not event["choices"] for event in events].count(True) == len(options)
        assert (events[-1].get("usage") is not None) == bool(options)


def test_an_obedient_model_answers_once_the_guard_speaks() -> None:
    """It reads the words in a result, not only in a message of the user."""
    body = {"messages": [user(), wrote("1"), got("1")], "tools": [tool("chat")]}
    nudged = {**body, "messages": [user(), wrote("1"), got("1", "Ada\n\n[loopguard] Enough.")]}
    with Server(Obedient(Looping(READ))).running() as server:
        assert "tool_calls" in send(server, "chat", body).json()["choices"][0]["message"]
        assert send(server, "chat", nudged).json()["choices"][0]["message"]["content"] == "I stop here."


def test_a_failing_service_answers_the_second_time() -> None:
    """Clients that try again get the same answer as from a service that works."""
    with Server(Failing(Working(READ), status=503)).running() as server:
        answers = [send(server, "chat", {"messages": [user()], "tools": [tool("chat")]}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [503, 200, 503, 200]
    assert answers[3].json()["choices"][0]["message"]["content"] == "Done."


def test_many_conversations_at_once_keep_their_scripts() -> None:
    """Two hundred threads ask at once; each conversation is answered by its own script."""
    scripts = {f"task-{number}": Working(READ, answer=f"answer {number}") for number in range(200)}

    def converse(key: str) -> str:
        messages = [user(f"{key}: who owns it?")]
        body = {"messages": messages, "tools": [tool("chat")]}
        first = send(server, "chat", body).json()["choices"][0]["message"]
        (written,) = first["tool_calls"]
        messages += [first, got(written["id"])]
        return str(send(server, "chat", body).json()["choices"][0]["message"]["content"])

    with Server(scripts).running() as server, ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(converse, scripts))
    assert answers == [f"answer {number}" for number in range(200)]
    assert len(server.bodies("task-17")) == 2


def test_azure_wants_the_version_of_its_api() -> None:
    """The deployment is in the path, and the version in the query."""
    path = "/openai/deployments/gpt-4.1/chat/completions"
    body = {"model": "gpt-4.1", "messages": [user()]}
    with Server(Working()).running() as server:
        asked = [
            httpx.post(f"{server.url}{path}{query}", json=body, headers={"api-key": "k"})
            for query in ("", "?api-version=1")
        ]
    assert [one.status_code for one in asked] == [404, 200]


def test_a_fault_of_a_script_ends_its_test() -> None:
    """A mistake in a script is no answer of the service."""

    def broken(asked: Any) -> Any:
        raise RuntimeError("a mistake in the script")

    serving = pytest.raises(RuntimeError, match="a mistake in the script")
    with serving, Server(broken).running() as server, pytest.raises(httpx.RemoteProtocolError):
        send(server, "chat", {"messages": [user()]})
