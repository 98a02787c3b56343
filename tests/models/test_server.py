"""The server is as strict as the real services: it rejects malformed conversations, and obeys the request's choices."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.models.scripts import Failing, Looping, Obedient, Working, call
from tests.models.server import Server
from tests.models.wire import CHAT, GEMINI, MESSAGES, RESPONSES, WIRES, events_of

if TYPE_CHECKING:
    from tests.models.conversation import Call

HEADERS = {
    "authorization": "Bearer local", "x-api-key": "local", "anthropic-version": "2023-06-01", "x-goog-api-key": "k",
}  # fmt: skip
CLIENT = httpx.Client(limits=httpx.Limits(max_connections=None))
READ = call("read_file", path="a.txt")
SEARCH = call("search", query="Ada")
ONE, TWO = READ._replace(id="1"), READ._replace(id="2")


def send(server: Server, api: str, body: dict[str, Any], headers: dict[str, str] = HEADERS, **more: str) -> Any:
    """Post a request; the model is named where the API wants it."""
    wire = WIRES[api]
    model = {} if api == "gemini" else {"model": "local"}
    return CLIENT.post(server.url + wire.path, json={**model, **wire.required, **body}, headers={**headers, **more})


def tools(api: str) -> dict[str, Any]:
    """The declaration of the tools."""
    return {"tools": [WIRES[api].tool()]}


def got(*calls: Call) -> list[Any]:
    """Results of chat completions."""
    return CHAT.results(*((one, "Ada") for one in calls))


def outputs(*calls: Call) -> list[Any]:
    """Results of responses."""
    return RESPONSES.results(*((one, "Ada") for one in calls))


def used(*calls: Call) -> dict[str, Any]:
    """A message of Anthropic with calls."""
    return MESSAGES.calls(*calls)[0]


def results(*calls: Call, before: str = "", after: str = "") -> dict[str, Any]:
    """A message of Anthropic with results, and a text on either side."""
    (message,) = MESSAGES.results(*((one, "Ada") for one in calls))
    around = [[{"type": "text", "text": one}] if one else [] for one in (before, after)]
    return {**message, "content": [*around[0], *message["content"], *around[1]]}


def functions(*calls: Call) -> dict[str, Any]:
    """A content of Gemini with calls."""
    return GEMINI.calls(*calls)[0]


def responded(*calls: Call) -> dict[str, Any]:
    """A content of Gemini with responses."""
    return GEMINI.results(*((one, "Ada") for one in calls))[0]


USER, ASKED = CHAT.user("Who owns it?"), GEMINI.user("Who owns it?")
"""The user's message, on Gemini and on the others."""
WELL_FORMED = {
    "chat": {"messages": [USER, *CHAT.calls(ONE, TWO), *got(TWO, ONE), CHAT.user("And now?")], **tools("chat")},
    "responses": {"input": [USER, *RESPONSES.calls(ONE, TWO), *outputs(TWO, ONE)], **tools("responses")},
    "messages": {"messages": [USER, used(ONE, TWO), results(TWO, ONE, after="And now?")], **tools("messages")},
    "gemini": {"contents": [ASKED, functions(READ, READ), responded(READ, READ)], **tools("gemini")},
}
TOOLS = tools("messages")
MALFORMED = [
    ("chat", {"messages": []}, "too short"),
    ("chat", {"messages": [USER, *CHAT.calls(ONE)]}, "did not have response messages: 1"),
    ("chat", {"messages": [USER, *CHAT.calls(ONE, TWO), *got(ONE), USER]}, "did not have response messages: 2"),
    ("chat", {"messages": [USER, *CHAT.calls(ONE), USER, *got(ONE)]}, "did not have response messages: 1"),
    ("chat", {"messages": [USER, *got(ONE)]}, "must be a response to a preceeding message"),
    ("chat", {"messages": [USER, *CHAT.calls(ONE), *got(ONE, ONE)]}, "Duplicate value"),
    ("chat", {"messages": [USER, *CHAT.calls(ONE), {"role": "tool", "content": "Ada"}]}, "tool_call_id"),
    ("chat", {"messages": [USER, {"role": "assistant", "content": None}]}, "expected a string, got null"),
    ("chat", {"messages": [{**USER, "note": "x"}]}, "'note' was unexpected"),
    ("chat", {"messages": [USER], "tool_choice": "none"}, "only allowed when 'tools' are specified"),
    ("chat", {"messages": [USER], "parallel_tool_calls": True}, "only allowed when 'tools' are specified"),
    ("chat", {"messages": [USER], "tools": []}, "empty array"),
    ("chat", {"messages": [USER], **tools("chat"), "tool_choice": "never"}, "Invalid value"),
    ("chat", {"messages": [USER], "stream_options": {"include_usage": True}}, "when 'stream' is enabled"),
    ("chat", {"messages": [USER], "loopguard": 1}, "Unrecognized request argument supplied: loopguard"),
    ("responses", {"input": [USER, *RESPONSES.calls(ONE)]}, "No tool output found for function call 1"),
    ("responses", {"input": [USER, *outputs(ONE)]}, "No tool call found"),
    ("responses", {"input": [USER, *RESPONSES.calls(ONE), *outputs(ONE, ONE)]}, "Duplicate output"),
    ("responses", {"input": [USER, {"type": "reasoning", "id": "r", "summary": []}, USER]}, "following item"),
    ("responses", {"input": [USER], "previous_response_id": "resp_x"}, "not found"),
    ("responses", {"input": [USER], "tool_choice": "none"}, "only allowed when 'tools' are specified"),
    ("messages", {"messages": [used(ONE), results(ONE)], **TOOLS}, "first message"),
    ("messages", {"messages": [USER, used(ONE)], **TOOLS}, "without `tool_result` blocks"),
    ("messages", {"messages": [USER, used(ONE), USER], **TOOLS}, "without `tool_result` blocks"),
    ("messages", {"messages": [USER, used(ONE, TWO), results(ONE)], **TOOLS}, "after: 2"),
    ("messages", {"messages": [USER, used(ONE), results(ONE, before="Look:")], **TOOLS}, "immediately after"),
    ("messages", {"messages": [USER, used(ONE), results(ONE, ONE)], **TOOLS}, "a single result"),
    ("messages", {"messages": [USER, results(ONE)], **TOOLS}, "unexpected `tool_use_id`"),
    ("messages", {"messages": [USER, used(ONE), results(ONE)]}, "must define tools"),
    ("messages", {"messages": [USER], "tool_choice": {"type": "none"}}, "only be specified while providing tools"),
    ("messages", {"messages": [MESSAGES.user("")]}, "non-empty"),
    ("messages", {"messages": [USER], "thread": {"type": "create"}}, "Extra inputs are not permitted"),
    ("gemini", {"contents": [ASKED, functions(READ, READ), responded(READ)]}, "equal to the number"),
    ("gemini", {"contents": [ASKED, functions(READ)]}, "equal to the number"),
    ("gemini", {"contents": [ASKED, functions(READ), ASKED]}, "equal to the number"),
    ("gemini", {"contents": [ASKED, responded(READ)]}, "immediately after a function call"),
    ("gemini", {"contents": [ASKED, functions(READ), responded(SEARCH)]}, "match the function"),
    ("gemini", {"contents": [ASKED], **GEMINI.no_calls}, "without function"),
    ("gemini", {"contents": [{**ASKED, "note": 1}]}, 'Unknown name "note"'),
]


def test_tools_of_a_namespace_are_called_by_both_names() -> None:
    """Codex declares the tools of an MCP server so, beside tools that the service runs."""
    declared = [{"type": "namespace", "name": "mcp__echo", "tools": [RESPONSES.tool()]}, {"type": "web_search"}]
    with Server(Working(call("mcp__echo.read_file", path="a.txt"))).running() as server:
        output = send(server, "responses", {"input": [USER], "tools": declared}).json()["output"]
    assert [(one["namespace"], one["name"]) for one in output] == [("mcp__echo", "read_file")]
    assert [one.asked.tools for one in server.exchanges if one.asked] == [{"mcp__echo.read_file"}]


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


@pytest.mark.parametrize("api", WIRES)
def test_without_a_key_nothing_is_answered(api: str) -> None:
    """A client that loses its key is noticed."""
    with Server(Working()).running() as server:
        assert send(server, api, WELL_FORMED[api], {}).status_code in (401, 403)


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize("stubborn", [False, True], ids=["obeys", "stubborn"])
def test_a_model_that_may_not_call_answers(api: str, stubborn: bool) -> None:
    """With the tools withdrawn a looping model answers; a stubborn one calls all the same."""
    with Server(Looping(READ, answer="Ada does.", stubborn=stubborn)).running() as server:
        for more in ({}, WIRES[api].no_calls):
            send(server, api, {**WELL_FORMED[api], **more})
    assert [bool(one.reply and one.reply.calls) for one in server.exchanges] == [True, stubborn]
    assert [bool(one.reply and one.reply.text) for one in server.exchanges] == [False, not stubborn]


def test_a_response_is_continued_by_its_id_alone() -> None:
    """The service keeps calls and results: the next request carries the output alone, and is checked against them."""
    with Server(Looping(READ)).running() as server:
        first = send(server, "responses", {"input": "task-1: go", **tools("responses")}).json()
        (written,) = first["output"]
        kept = {"previous_response_id": first["id"], **tools("responses")}
        assert send(server, "responses", {**kept, "input": outputs(READ._replace(id="call_other"))}).status_code == 400
        assert (
            send(server, "responses", {**kept, "input": outputs(READ._replace(id=written["call_id"]))}).status_code
            == 200
        )
    assert [one.name for one in server.exchanges[-1].asked.messages[1].calls] == ["read_file"]
    assert server.exchanges[-1].asked.number == 2


def test_a_thread_is_continued_by_the_message_alone() -> None:
    """System and tools are those of the thread, and the next request carries the results alone."""
    beta = {"anthropic-beta": "message-threads-2026-08-12"}
    with Server(Looping(READ)).running() as server:
        begun = {"messages": [MESSAGES.user("task-1")], **tools("messages"), "thread": {"type": "create"}}
        first = send(server, "messages", begun, **beta).json()
        thread = {"type": "continue", "previous_message_id": first["id"]}
        given = {"messages": [results(READ._replace(id=first["content"][0]["id"]))], "thread": thread}
        assert send(server, "messages", {**given, **tools("messages")}, **beta).status_code == 400
        assert send(server, "messages", {"messages": [USER], "thread": thread}, **beta).status_code == 400
        assert send(server, "messages", given, **beta).json()["stop_reason"] == "tool_use"
        lost = {**given, "thread": {**thread, "previous_message_id": "msg_lost"}}
        details = send(server, "messages", lost, **beta).json()["error"]["details"]
    assert details == {"error_code": "thread_not_found"}


def test_gemini_gives_ids_only_if_it_is_asked_to() -> None:
    """With ids a response has to name the call that it answers, or none."""
    body = {"contents": [GEMINI.user("task-1")], **tools("gemini")}
    for ids in (False, True):
        with Server(Looping(READ), gemini_ids=ids).running() as server:
            part = send(server, "gemini", body).json()["candidates"][0]["content"]["parts"][0]
            assert ("id" in part["functionCall"]) is ids
            model = {"role": "model", "parts": [part]}
            for name in ("fc_task-1_1_0", "fc_other") if ids else ():
                given = [GEMINI.user("task-1"), model, responded(READ._replace(id=name))]
                answer = send(server, "gemini", {**body, "contents": given})
                assert answer.status_code == (200 if name == "fc_task-1_1_0" else 400)


def test_lost_thoughts_are_rejected() -> None:
    """Reasoning models want their signed thoughts back with the calls that follow from them."""
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}, **tools("messages")}
    with Server(Looping(READ), thoughts=True).running() as server:
        first = send(server, "messages", {"messages": [MESSAGES.user("task-1")], **thinking}).json()
        for content, status in ((first["content"], 200), (first["content"][1:], 400)):
            written = {"role": "assistant", "content": content}
            given = [USER, written, results(READ._replace(id=first["content"][1]["id"]))]
            assert send(server, "messages", {"messages": given, **thinking}).status_code == status
        body = {"contents": [GEMINI.user("task-2")], **tools("gemini")}
        model = send(server, "gemini", body).json()["candidates"][0]["content"]
        unsigned = {**model, "parts": [{"functionCall": model["parts"][0]["functionCall"]}]}
        for content, status in ((model, 200), (unsigned, 400)):
            given = [GEMINI.user("task-2"), content, responded(READ)]
            assert send(server, "gemini", {**body, "contents": given}).status_code == status


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_a_stream_carries_what_the_answer_has(api: str) -> None:
    """Put together, its pieces are the text and the calls of the plain answer."""
    wire, steps = WIRES[api], []
    for stream in (False, True):
        with Server(Working((READ, SEARCH))).running() as server:
            answer = send(server, api, wire.body([wire.user()], [wire.tool()], stream=stream))
        steps.append(wire.read_events(events_of(answer.text)) if stream else wire.read(answer.json()))
    assert steps[0][1:] == steps[1][1:]
    assert [one.name for one in steps[0].calls] == ["read_file", "search"]


def test_usage_is_streamed_only_if_it_is_asked_for() -> None:
    """The chunk with the usage has no choices, and comes last."""
    for options in ({}, {"stream_options": {"include_usage": True}}):
        with Server(Working()).running() as server:
            lines = send(server, "chat", {"messages": [USER], "stream": True, **options}).text.strip().splitlines()
        events = [json.loads(line[6:]) for line in lines[:-1] if line]
        assert lines[-1] == "data: [DONE]"
        assert [not event["choices"] for event in events].count(True) == len(options)
        assert (events[-1].get("usage") is not None) == bool(options)


def test_an_obedient_model_answers_once_the_guard_speaks() -> None:
    """It reads the words in a result, not only in a message of the user."""
    body = {"messages": [USER, *CHAT.calls(ONE), *got(ONE)], **tools("chat")}
    nudged = {**body, "messages": [USER, *CHAT.calls(ONE), *CHAT.results((ONE, "Ada\n\n[loopguard] Enough."))]}
    with Server(Obedient(Looping(READ))).running() as server:
        assert "tool_calls" in send(server, "chat", body).json()["choices"][0]["message"]
        assert send(server, "chat", nudged).json()["choices"][0]["message"]["content"] == "I stop here."


def test_a_failing_service_answers_the_second_time() -> None:
    """Clients that try again get the same answer as from a service that works."""
    with Server(Failing(Working(READ), status=503)).running() as server:
        answers = [send(server, "chat", {"messages": [USER], **tools("chat")}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [503, 200, 503, 200]
    assert answers[3].json()["choices"][0]["message"]["content"] == "Done."


def test_many_conversations_at_once_keep_their_scripts() -> None:
    """Many threads ask at once; each conversation is answered by its own script."""
    scripts = {f"task-{number}": Working(READ, answer=f"answer {number}") for number in range(40)}

    def converse(key: str) -> str:
        messages = [CHAT.user(f"{key}: who owns it?")]
        body = {"messages": messages, **tools("chat")}
        first = send(server, "chat", body).json()["choices"][0]["message"]
        (written,) = first["tool_calls"]
        messages += [first, *got(READ._replace(id=written["id"]))]
        return str(send(server, "chat", body).json()["choices"][0]["message"]["content"])

    with Server(scripts).running() as server, ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(converse, scripts))
    assert answers == [f"answer {number}" for number in range(40)]
    assert len(server.bodies("task-17")) == 2


def test_azure_wants_the_version_of_its_api() -> None:
    """The deployment is in the path, and the version in the query."""
    path = "/openai/deployments/gpt-4.1/chat/completions"
    body = {"model": "gpt-4.1", "messages": [USER]}
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
        send(server, "chat", {"messages": [USER]})
