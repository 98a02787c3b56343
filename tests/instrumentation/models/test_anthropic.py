"""Messages of Anthropic: what no other API has."""

from __future__ import annotations

from typing import Any

from otel_loopguard.instrumentation.models.anthropic import MESSAGES
from otel_loopguard.turns.messages import WrittenCall, WrittenResult


def result(content: Any, **more: Any) -> dict[str, Any]:
    """A block with a result."""
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **more}


def user(*blocks: Any) -> dict[str, Any]:
    """A message in the role of the user."""
    return {"role": "user", "content": list(blocks)}


def test_results_are_in_the_role_of_the_user_but_not_by_the_user() -> None:
    """Text beside them is by the user, if there is any."""
    read = MESSAGES.read(user(result("ok", is_error=True), {"type": "text", "text": ""}))
    assert (read.results, read.by_user) == ((WrittenResult("toolu_1", "ok", is_error=True),), False)
    assert MESSAGES.read(user(result("ok"), {"type": "text", "text": "Go on."})).by_user
    assert MESSAGES.read({"role": "user", "content": "Go on."}).text == "Go on."


def test_calls_that_the_provider_runs_have_their_results_in_the_same_entry() -> None:
    """Their blocks stay as they came."""
    content = [{"type": "text", "text": "x"}]
    entry = {
        "role": "assistant",
        "content": [
            {"type": "mcp_tool_use", "id": "m1", "name": "look", "input": {"path": "a"}, "server_name": "files"},
            {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": content},
        ],
    }
    read = MESSAGES.read(entry)
    assert read.calls == (WrittenCall("m1", "look", {"path": "a"}),)
    assert [one.id for one in read.results] == ["m1"]
    assert MESSAGES.annotate(entry, {0: "Stop."}) is entry


def test_a_sentence_is_added_to_its_own_result() -> None:
    """The blocks around it stay."""
    first, second, text = result("a"), result("b", tool_use_id="toolu_2"), {"type": "text", "text": "Go on."}
    changed = MESSAGES.annotate(user(first, text, second), {1: "Stop."})
    assert changed == user(first, text, {**second, "content": "b\n\nStop."})


def test_the_tools_of_a_thread_can_be_withdrawn() -> None:
    """Its requests declare none: the provider keeps them."""
    body = {"messages": [user(result("ok"))], "thread": {"type": "continue", "previous_message_id": "msg_1"}}
    assert MESSAGES.withdraw(body) == {**body, "tool_choice": {"type": "none"}}


def test_a_streamed_call_counts_when_its_block_has_ended() -> None:
    """A call whose pieces have not all come was not made. Without pieces the call is in the block's beginning."""
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    pieces = ["", '{"pa', 'th": "a"}']
    collector = MESSAGES.collector()
    for event in (
        {"type": "content_block_start", "index": 1, "content_block": block},
        *({"type": "content_block_delta", "index": 1, "delta": {"partial_json": one}} for one in pieces),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {**block, "id": "toolu_2", "input": {"path": "b"}},
        },
        {"type": "content_block_stop", "index": 2},
        {"type": "content_block_start", "index": 3, "content_block": {**block, "id": "toolu_3"}},
    ):
        collector.add(event)
    assert collector.reply().calls == (
        WrittenCall("toolu_1", "look", {"path": "a"}), WrittenCall("toolu_2", "look", {"path": "b"}),
    )  # fmt: skip
