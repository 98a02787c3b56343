"""Responses: items of a request and of a reply, changes, and events."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.turns.messages import NO_MESSAGE, Message, WrittenCall, WrittenResult

CALL = {"type": "function_call", "call_id": "call_1", "id": "fc_1", "name": "look", "arguments": '{"path": "a"}'}
WRITTEN = WrittenCall("call_1", "look", {"path": "a"})
MCP = {"type": "mcp_call", "id": "mcp_1", "name": "look", "arguments": '{"path": "a"}', "server_label": "files"}
OF_MCP = WrittenCall("mcp_1", "look", {"path": "a"})
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}


TEXT = {"type": "input_text", "text": "ok"}


def mark(entry: Any) -> int:
    return RESPONSES.marks([entry])[0]


def output(content: Any, kind: str = "function_call_output", **more: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": "call_1", "output": content, **more}


# --- items -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (CALL, Message((WRITTEN,))),
        (
            {"type": "custom_tool_call", "call_id": "call_1", "name": "run", "input": "ls -l"},
            Message((WrittenCall("call_1", "run", "ls -l"),)),
        ),
        (
            {"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}},
            Message((WrittenCall("call_1", "shell", {"commands": ["ls"]}),)),
        ),
        (
            {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {"command": ["ls"]}},
            Message((WrittenCall("call_1", "local_shell", {"command": ["ls"]}),)),
        ),
        (output("ok"), Message(results=(WrittenResult("call_1", "ok"),))),
        (output("ok", "custom_tool_call_output"), Message(results=(WrittenResult("call_1", "ok"),))),
        (
            output("no such file", "apply_patch_call_output", status="failed"),
            Message(results=(WrittenResult("call_1", "no such file", is_error=True),)),
        ),
        (
            {"type": "local_shell_call_output", "id": "call_1", "output": "{}"},
            Message(results=(WrittenResult("call_1", "{}"),)),
        ),
        ({**MCP, "output": "ok"}, Message((OF_MCP,), (WrittenResult("mcp_1", "ok", is_error=False),))),
        ({**MCP, "error": "down"}, Message((OF_MCP,), (WrittenResult("mcp_1", "down", is_error=True),))),
        (MCP, Message((OF_MCP,))),
        ({"role": "user", "content": "Who?"}, Message(by_user=True, text="Who?")),
        ({"type": "message", "role": "user", "content": "Who?"}, Message(by_user=True, text="Who?")),
        ({"type": "message", "role": "assistant", "content": []}, NO_MESSAGE),
        (REASONING, NO_MESSAGE),
        ({"type": "item_reference", "id": "fc_1"}, NO_MESSAGE),
        ({"type": "compaction", "encrypted_content": "abc"}, NO_MESSAGE),
    ],
)  # fmt: skip
def test_items_are_read(item, message):
    """Calls by ``call_id``; a call that the provider ran has its result in itself."""
    assert RESPONSES.read(item) == message


def test_a_text_is_the_message_of_a_user():
    """``input`` may be a text instead of items."""
    assert [RESPONSES.read(item) for item in RESPONSES.messages({"input": "Who?"})] == [
        Message(by_user=True, text="Who?")
    ]
    assert list(RESPONSES.messages({"previous_response_id": "resp_1"})) == []


def test_an_iterator_of_the_program_is_not_consumed():
    """LiteLLM gets what the program passes."""
    items = iter([CALL])
    assert list(RESPONSES.messages({"input": items})) == []
    assert list(items) == [CALL]


def test_items_have_marks_of_their_own():
    """An item that comes back with the fields of the service is the same one."""
    items = [
        CALL, {**CALL, "arguments": "{}"}, output("ok"), output("[cleared]"), output("ok", call_id="call_2"), REASONING,
        {**REASONING, "id": "rs_2"}, {"role": "user", "content": "ok"}, output([{"type": "input_text", "text": "ok"}]),
        {"type": "custom_tool_call", "call_id": "call_1", "name": "run", "input": "ls"},
    ]  # fmt: skip
    assert len({mark(item) for item in items}) == len(items)
    assert mark({**CALL, "status": "completed", "id": None}) == mark(CALL)


# --- changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "longer"),
    [
        ("ok", "ok\n\nStop."),
        ("", "Stop."),
        ([TEXT], [TEXT, {"type": "input_text", "text": "Stop."}]),
        ([], [{"type": "input_text", "text": "Stop."}]),
    ],
)  # fmt: skip
def test_a_sentence_is_added_to_text_and_to_parts(content, longer):
    """The program's item stays as it is."""
    item = output(content)
    assert RESPONSES.annotate(item, {0: "Stop."}) == output(longer)
    assert item == output(content)


@pytest.mark.parametrize(
    "item",
    [output([{"stdout": "", "stderr": "", "outcome": {}}], "shell_call_output"), {**MCP, "output": "ok"},
     output({"type": "computer_screenshot"}, "computer_call_output"), output("{}", "local_shell_call_output")],
)  # fmt: skip
def test_an_item_that_takes_no_text_stays(item):
    """Its output has fields of its own, or was made by the service."""
    assert RESPONSES.annotate(item, {0: "Stop."}) is item


def test_the_conversation_that_a_request_continues():
    """By the reply before, or by the conversation."""
    assert RESPONSES.previous({"previous_response_id": "resp_1"}) == "resp_1"
    assert RESPONSES.previous({"conversation": "conv_1"}) == "conv_1"
    assert RESPONSES.previous({"conversation": {"id": "conv_1"}}) == "conv_1"
    assert RESPONSES.previous({"conversation": None}) is None


def test_the_names_of_the_tools():
    """Tools that the API defines are named by their kind; those of an MCP server are not in the request."""
    tools = [{"type": "function", "name": "look"}, {"type": "shell"}]
    assert RESPONSES.tools({"tools": tools}) == {"look", "shell"}
    assert RESPONSES.tools({"tools": [*tools, {"type": "mcp", "server_label": "files"}]}) is None
    assert RESPONSES.tools({}) == frozenset()


def test_tools_are_withdrawn_where_some_are_declared():
    """They stay declared."""
    tools = [{"type": "function", "name": "look"}]
    assert RESPONSES.withdraw({"tools": tools, "tool_choice": "auto"}) == {"tools": tools, "tool_choice": "none"}
    assert RESPONSES.withdraw({"input": "Who?"}) == {"input": "Who?"}


# --- replies -----------------------------------------------------------------------------------------------------

REPLY = {
    "id": "resp_1", "output": [REASONING, CALL, {**MCP, "output": "ok"}],
    "usage": {"input_tokens": 3, "output_tokens": 4},
}  # fmt: skip


def test_a_reply_has_calls_and_the_results_of_the_provider():
    """And the id that the next request may continue from."""
    reply = RESPONSES.reply(REPLY)
    assert reply is not None
    assert ([call.id for call in reply.calls], [one.id for one in reply.results]) == (["call_1", "mcp_1"], ["mcp_1"])
    assert (reply.id, reply.input_tokens, reply.output_tokens) == ("resp_1", 3, 4)


@pytest.mark.parametrize("whole", [True, False])
def test_a_stream_ends_with_the_whole_reply_or_has_its_items(whole):
    """Some servers leave the items out of the last event."""
    done = [{"type": "response.output_item.done", "item": item} for item in REPLY["output"]]
    last = {"type": "response.completed", "response": REPLY if whole else {**REPLY, "output": []}}
    collector = RESPONSES.collector()
    for event in ({"type": "response.created"}, *done, {"type": "response.output_text.delta", "delta": "x"}, last):
        collector.add(event)
    assert collector.reply() == RESPONSES.reply(REPLY)


@pytest.mark.parametrize("other", ["text", None, {"output": "text"}, object()])
def test_another_type_is_no_reply(other):
    """``cast_to`` may be anything."""
    assert RESPONSES.reply(other) is None
