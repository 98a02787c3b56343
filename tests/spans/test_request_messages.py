"""The messages of a model request are read alike in each dialect, as hashes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_loopguard.spans.request_messages import RecordedMessage, messages_of

CALL = {"name": "read_file", "arguments": '{"path": "a"}'}
CONVENTIONS = [
    {"role": "system", "parts": [{"type": "text", "content": "Be good."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Do it."}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "I look."}, {"type": "tool_call", "id": "1", **CALL}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "text"}]},
]
OPENINFERENCE = {
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be good.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Do it.",
    "llm.input_messages.2.message.role": "assistant",
    "llm.input_messages.2.message.content": "I look.",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "read_file",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"path": "a"}',
    "llm.input_messages.3.message.role": "tool",
    "llm.input_messages.3.message.content": "text",
}
OPENLLMETRY = {
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be good.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": json.dumps([{"type": "text", "text": "Do it."}]),
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.content": "I look.",
    "gen_ai.prompt.2.tool_calls.0.name": "read_file",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"path": "a"}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.content": "text",
}
EVENTS: list[Any] = [
    ("gen_ai.system.message", {"content": "Be good."}),
    ("gen_ai.user.message", {"content": "Do it."}),
    ("gen_ai.assistant.message", {"content": "I look.", "tool_calls": json.dumps([{"function": CALL}])}),
    ("gen_ai.tool.message", {"content": "text"}),
]
DETAILS: list[Any] = [("gen_ai.client.inference.operation.details", {"gen_ai.input.messages": CONVENTIONS})]


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        ({"gen_ai.input.messages": json.dumps(CONVENTIONS)}, ()),
        ({"gen_ai.input.messages": CONVENTIONS}, ()),
        (OPENINFERENCE, ()),
        (OPENLLMETRY, ()),
        ({}, EVENTS),
        ({}, DETAILS),
    ],
    ids=["a text", "a list", "OpenInference", "OpenLLMetry", "events", "an event"],
)
def test_each_dialect_has_the_same_messages(attributes: dict[str, Any], events: Any) -> None:
    """Of an instruction, a user, the model with a call, and a tool."""
    known = messages_of({"gen_ai.input.messages": CONVENTIONS})
    found = messages_of(attributes, events)
    assert [shape(one) for one in found] == [shape(one) for one in known]
    assert [one.is_silent for one in found] == [True, False, False, False]
    assert (found[1].heard.user, found[2].heard.said) == (known[1].heard.user, known[2].heard.said)
    assert found[2].heard.calls == known[2].heard.calls


def shape(one: RecordedMessage) -> tuple[bool, int, int, bool]:
    """What a message has."""
    return one.heard.said is not None, len(one.heard.calls), len(one.heard.results), one.heard.user is not None


def test_equal_messages_have_equal_marks() -> None:
    """Of a message that grows the mark is another one, and a user's text is compared without its digits."""
    first, second = messages_of({"gen_ai.input.messages": [CONVENTIONS[1]] * 2})
    assert first == second
    texts = [{"role": "user", "content": f"Round {number}: go on."} for number in (1, 2)]
    one, other = messages_of({"gen_ai.input.messages": texts})
    assert one.mark != other.mark
    assert one.heard.user is not None
    assert other.heard.user is not None
    assert one.heard.user.key == other.heard.user.key


def test_a_span_without_messages_has_none() -> None:
    """Most instrumentations write them only if they are told to."""
    assert messages_of({"gen_ai.operation.name": "chat"}) == ()


def test_what_json_cannot_have_equals_nothing() -> None:
    """OTLP has numbers of any size; the line with them is read all the same."""
    parts = [{"type": "tool_call_response", "response": 10**30}]
    one, other = messages_of({"gen_ai.input.messages": [{"role": "tool", "parts": parts}] * 2})
    assert one.mark != other.mark
    assert one.heard.results != other.heard.results
