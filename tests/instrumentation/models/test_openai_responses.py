"""Responses: what no other API has."""

from __future__ import annotations

from typing import Any

import pytest

from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.turns.messages import NO_MESSAGE, Message, WrittenCall, WrittenResult
from tests.models.conversation import Call
from tests.models.wire import RESPONSES as WIRE

MCP = {"type": "mcp_call", "id": "mcp_1", "name": "look", "arguments": '{"path": "a"}', "server_label": "files"}
OF_MCP = WrittenCall("mcp_1", "look", {"path": "a"})
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}


def output(content: Any, kind: str, **more: Any) -> dict[str, Any]:
    """A result."""
    return {"type": kind, "call_id": "call_1", "output": content, **more}


@pytest.mark.parametrize(
    ("item", "message"),
    [
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
        ({"type": "message", "role": "user", "content": "Who?"}, Message(by_user=True, text="Who?")),
        ({"type": "message", "role": "assistant", "content": []}, Message(said=[])),
        (REASONING, NO_MESSAGE),
        ({"type": "item_reference", "id": "fc_1"}, NO_MESSAGE),
        ({"type": "compaction", "encrypted_content": "abc"}, NO_MESSAGE),
    ],
)  # fmt: skip
def test_other_items_are_read(item: Any, message: Message) -> None:
    """Tools of the API by their kind; a call that the provider ran has its result in itself."""
    assert RESPONSES.read(item) == message


def test_a_text_is_the_message_of_a_user() -> None:
    """``input`` may be a text instead of items, and there may be none."""
    read = [RESPONSES.read(item) for item in RESPONSES.messages({"input": "Who?"})]
    assert read == [Message(by_user=True, text="Who?")]
    assert list(RESPONSES.messages({"previous_response_id": "resp_1"})) == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_stream_ends_with_the_whole_reply_or_has_its_items(*, whole: bool) -> None:
    """Some servers leave the items out of the last event. The results of the provider are in the reply."""
    items = [REASONING, *WIRE.calls(Call("look", {}, "call_1")), {**MCP, "output": "ok"}]
    answer = {"id": "resp_1", "output": items, "usage": {"input_tokens": 3, "output_tokens": 4}}
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    last = {"type": "response.completed", "response": answer if whole else {**answer, "output": []}}
    collector = RESPONSES.collector()
    for event in ({"type": "response.created"}, *done, {"type": "response.output_text.delta", "delta": "x"}, last):
        collector.add(event)
    reply = collector.reply()
    assert reply == RESPONSES.reply(answer)
    assert ([call.id for call in reply.calls], [one.id for one in reply.results]) == (["call_1", "mcp_1"], ["mcp_1"])
