"""Chat completions: what no other API has."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.turns.messages import Message, WrittenCall, WrittenResult
from tests.instrumentation.models.dialects import objects

FUNCTION = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"path": "a"}'}}
CUSTOM = {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls -l"}}
CALL = WrittenCall("call_1", "look", {"path": "a"})
BROKEN = {"id": "call_1", "function": {"name": "look", "arguments": '{"path": '}}
FORMS = pytest.mark.parametrize("form", [dict, objects])


@FORMS
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"role": "assistant", "tool_calls": [CUSTOM]}, Message((WrittenCall("call_2", "run", "ls -l"),))),
        ({"role": "assistant", "tool_calls": [BROKEN]}, Message((WrittenCall("call_1", "look", '{"path": '),))),
        ({"role": "assistant", "content": "Hello", "tool_calls": None}, Message(said="Hello")),
        (
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
            Message((WrittenCall(None, "look", {}),)),
        ),
        (
            {"role": "function", "name": "look", "content": "ok"},
            Message(results=(WrittenResult(None, "ok", name="look"),)),
        ),
        ({"role": "developer", "content": "Be brief."}, Message(text="Be brief.")),
    ],
)
def test_other_sorts_of_entries_are_read(entry: Any, message: Message, form: Any) -> None:
    """Custom tools, arguments that are no JSON, the old functions, and instructions."""
    assert CHAT.read(form(entry)) == message


def test_an_iterator_in_a_message_is_not_consumed() -> None:
    """LiteLLM gets what the program passes."""
    content = iter(["Who?"])
    CHAT.marks([{"role": "user", "content": content}])
    assert len(list(content)) == 1


def test_the_old_functions_are_withdrawn_by_their_own_field() -> None:
    """They stay declared."""
    body = {"functions": [{"name": "look"}]}
    assert CHAT.withdraw(body) == {**body, "function_call": "none"}


def test_a_tool_that_makes_its_items_when_they_are_asked_for_stays_as_it_is() -> None:
    """The request of the program is not changed by reading it."""
    custom = defaultdict(dict, CUSTOM)
    assert CHAT.tools({"tools": [custom]}) == {"run"}
    assert custom == CUSTOM


@FORMS
def test_a_reply_has_the_calls_of_all_choices(form: Any) -> None:
    """Only one of them becomes the next message; which one is the program's choice."""
    choices = [{"message": {"tool_calls": [{**FUNCTION, "id": one}]}} for one in ("call_1", "call_3")]
    assert [call.id for call in CHAT.reply(form({"choices": choices})).calls] == ["call_1", "call_3"]


def collected(*pieces: Any) -> Any:
    """Put the pieces of a streamed reply together."""
    collector = CHAT.collector()
    for one in pieces:
        collector.add({"choices": [{"index": 0, "delta": one}]})
    return collector.reply()


def piece(index: int | None, arguments: str, **more: Any) -> dict[str, Any]:
    """A piece of a call."""
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"tool_calls": [{"index": index, "function": {**name, "arguments": arguments}, **more}]}


def test_pieces_of_streamed_calls_may_be_mixed() -> None:
    """They are put together by their index."""
    reply = collected(
        piece(0, "", id="call_1", name="look"), piece(0, '{"path": '),
        piece(1, '{"query": "x"}', id="call_2", name="find"), piece(0, '"a"}'), {"content": "text"},
        {"tool_calls": None},
    )  # fmt: skip
    assert reply.calls == (CALL, WrittenCall("call_2", "find", {"query": "x"}))


@pytest.mark.parametrize("index", [0, None])
def test_calls_with_one_index_are_told_apart_by_their_ids(index: int | None) -> None:
    """Some providers give each call of a reply the index 0, or none; some repeat the id in each piece."""
    reply = collected(
        piece(index, '{"path": "a"}', id="call_1", name="look"), piece(index, '{"path": ', id="call_2", name="look"),
        piece(index, '"b"}', id="call_2"),
    )  # fmt: skip
    assert reply.calls == (CALL, WrittenCall("call_2", "look", {"path": "b"}))


def test_a_streamed_call_of_the_old_sort_has_no_id() -> None:
    """``function_call`` comes in pieces, too."""
    pieces = {"name": "look", "arguments": '{"pa'}, {"arguments": 'th": "a"}'}
    assert collected(*({"function_call": one} for one in pieces)).calls == (WrittenCall(None, "look", {"path": "a"}),)


def test_the_usage_of_a_stream_stays_if_a_chunk_without_one_comes_last() -> None:
    """The chunk with the usage has no choices."""
    collector = CHAT.collector()
    for chunk in ({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, {"choices": None}):
        collector.add(chunk)
    assert (collector.reply().input_tokens, collector.reply().output_tokens) == (3, 4)
