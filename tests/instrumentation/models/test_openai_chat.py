"""Chat completions: entries, changes, replies and chunks, as dicts or as the objects of a client."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.turns.messages import Message, WrittenCall, WrittenResult

FUNCTION = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"path": "a"}'}}
CUSTOM = {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "ls -l"}}
CALL = WrittenCall("call_1", "look", {"path": "a"})


def objects(value: Any) -> Any:
    """The same as the objects of a client."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: objects(part) for key, part in value.items()})
    return [objects(part) for part in value] if isinstance(value, list) else value


def mark(entry: Any) -> int:
    return CHAT.marks([entry])[0]


def tool(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_1", "content": content, **more}


# --- entries -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [dict, objects])
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"role": "assistant", "content": None, "tool_calls": [FUNCTION]}, Message((CALL,))),
        ({"role": "assistant", "tool_calls": [CUSTOM]}, Message((WrittenCall("call_2", "run", "ls -l"),))),
        ({"role": "assistant", "content": "Hello", "tool_calls": None}, Message()),
        (
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
            Message((WrittenCall(None, "look", {}),)),
        ),
        (tool("ok"), Message(results=(WrittenResult("call_1", "ok"),))),
        (
            {"role": "function", "name": "look", "content": "ok"},
            Message(results=(WrittenResult(None, "ok", name="look"),)),
        ),
        ({"role": "user", "content": "Who?"}, Message(by_user=True, text="Who?")),
        ({"role": "developer", "content": "Be brief."}, Message(text="Be brief.")),
    ],
)
def test_entries_are_read(entry, message, form):
    """Calls, results and the user's text, with ids where there are some."""
    assert CHAT.read(form(entry)) == message


def test_arguments_that_are_no_json_are_text():
    """A model may write anything."""
    broken = {**FUNCTION, "function": {"name": "look", "arguments": '{"path": '}}
    assert CHAT.read({"role": "assistant", "tool_calls": [broken]}).calls == (
        WrittenCall("call_1", "look", '{"path": '),
    )


def test_marks_of_prompt_caches_do_not_count():
    """The mark moves to the last entry with each request; a text is written as a part to carry it."""
    part = {"type": "text", "text": "ok"}
    cached = {**part, "cache_control": {"type": "ephemeral"}}
    same = (
        tool("ok"),
        tool([part]),
        tool([cached]),
        tool("ok", cache_control={"type": "ephemeral"}),
        objects(tool("ok")),
    )
    assert len({mark(one) for one in same}) == 1
    assert mark(tool([part, cached])) == mark(tool([part, part])) != mark(tool("ok"))


def test_other_entries_have_other_marks():
    """Results are told apart by their ids and content, texts by their role."""
    entries = [
        tool("ok"),
        tool("[cleared]"),
        tool("ok", tool_call_id="call_2"),
        tool([{"type": "text", "text": "ok"}, {"type": "text", "text": "ok"}]),
        {"role": "user", "content": "ok"},
        {"role": "assistant", "content": "ok"},
        {"role": "assistant", "content": None, "tool_calls": [FUNCTION]},
    ]
    assert len({mark(one) for one in entries}) == len(entries)


@pytest.mark.parametrize(("kind", "given"), [("function", "arguments"), ("custom", "input")])
def test_calls_with_one_id_are_told_apart(kind, given):
    """By their names and what they are given: a server may number the calls of each conversation."""
    calls = [("look", "a"), ("look", "b"), ("search", "a")]
    entries = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", kind: {"name": name, given: text}}]}
        for name, text in calls
    ]
    assert len({mark(one) for one in [*entries, *map(objects, entries)]}) == len(calls)


def test_an_iterator_of_the_program_is_not_consumed():
    """LiteLLM gets what the program passes."""
    messages = iter([{"role": "user", "content": "Who?"}])
    assert list(CHAT.messages({"messages": messages})) == []
    content = iter(["Who?"])
    mark({"role": "user", "content": content})
    assert (len(list(messages)), len(list(content))) == (1, 1)


# --- changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "longer"),
    [
        ("ok", "ok\n\nStop."),
        ('{"rows": []}', '{"rows": []}\n\nStop.'),
        ("", "Stop."),
        (None, "Stop."),
        ([{"type": "text", "text": "ok"}], [{"type": "text", "text": "ok"}, {"type": "text", "text": "Stop."}]),
        ([], [{"type": "text", "text": "Stop."}]),
    ],
)
def test_a_sentence_is_added_to_any_content(content, longer):
    """The entry of the program stays as it is."""
    entry = tool(content)
    assert CHAT.annotate(entry, {0: "Stop."}) == tool(longer)
    assert entry == tool(content)


def test_an_entry_that_takes_no_text_stays():
    """Objects and odd content are left alone."""
    for entry in (objects(tool("ok")), tool(7)):
        assert CHAT.annotate(entry, {0: "Stop."}) is entry


def test_tools_are_withdrawn_where_some_are_declared():
    """They stay declared; services reject the choice without tools."""
    look = {"name": "look"}
    assert CHAT.withdraw({"tools": [{"function": look}], "tool_choice": "required"})["tool_choice"] == "none"
    assert CHAT.withdraw({"functions": [look]}) == {"functions": [look], "function_call": "none"}
    assert CHAT.withdraw({"tools": []}) == {"tools": []}


def test_a_tool_that_makes_its_items_when_they_are_asked_for_stays_as_it_is():
    """The request of the program is not changed by reading it."""
    custom = defaultdict(dict, CUSTOM)
    assert CHAT.tools({"tools": [custom]}) == {"run"}
    assert custom == CUSTOM


def test_the_names_of_the_tools():
    """Functions, custom tools and the old functions have names; a tool of the service has none."""
    named = [{"type": "function", "function": {"name": "look"}}, {"type": "custom", "custom": {"name": "run"}}]
    assert CHAT.tools({"tools": named, "functions": [{"name": "old"}]}) == {"look", "run", "old"}
    assert CHAT.tools({"tools": [*named, {"type": "builtin"}]}) is None
    assert CHAT.tools({"tools": None}) == frozenset()


# --- replies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [dict, objects])
def test_a_reply_has_the_calls_of_all_choices(form):
    """Only one of them becomes the next message; which one is the program's choice."""
    other = {**FUNCTION, "id": "call_3"}
    choices = [{"message": {"tool_calls": [FUNCTION]}}, {"message": {"tool_calls": [other]}}]
    reply = CHAT.reply(form({"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 4}}))
    assert reply is not None
    assert [call.id for call in reply.calls] == ["call_1", "call_3"]
    assert (reply.input_tokens, reply.output_tokens) == (3, 4)


@pytest.mark.parametrize("other", ["text", 7, None, {"data": []}, object()])
def test_another_type_is_no_reply(other):
    """``cast_to`` may be anything."""
    assert CHAT.reply(other) is None


def collected(*pieces: Any, form: Any = dict) -> Any:
    collector = CHAT.collector()
    for piece in pieces:
        collector.add(form({"choices": [{"index": 0, "delta": piece}]}))
    return collector.reply()


def piece(index: int | None, arguments: str, **more: Any) -> dict[str, Any]:
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"tool_calls": [{"index": index, "function": {**name, "arguments": arguments}, **more}]}


@pytest.mark.parametrize("form", [dict, objects])
def test_pieces_of_streamed_calls_are_put_together(form):
    """By their index; id and name are in the first piece only."""
    reply = collected(
        piece(0, "", id="call_1", name="look"), piece(0, '{"path": '),
        piece(1, '{"query": "x"}', id="call_2", name="find"), piece(0, '"a"}'), {"content": "text"},
        {"tool_calls": None}, form=form,
    )  # fmt: skip
    assert reply.calls == (CALL, WrittenCall("call_2", "find", {"query": "x"}))
    assert (reply.input_tokens, reply.output_tokens) == (None, None)


@pytest.mark.parametrize("index", [0, None])
def test_calls_with_one_index_are_told_apart_by_their_ids(index):
    """Some providers give each call of a reply the index 0, or none; some repeat the id in each piece."""
    reply = collected(
        piece(index, '{"path": "a"}', id="call_1", name="look"), piece(index, '{"path": ', id="call_2", name="look"),
        piece(index, '"b"}', id="call_2"),
    )  # fmt: skip
    assert reply.calls == (CALL, WrittenCall("call_2", "look", {"path": "b"}))


def test_a_streamed_call_of_the_old_sort_has_no_id():
    """``function_call`` comes in pieces, too."""
    reply = collected(
        *({"function_call": one} for one in ({"name": "look", "arguments": '{"pa'}, {"arguments": 'th": "a"}'}))
    )
    assert reply.calls == (WrittenCall(None, "look", {"path": "a"}),)


def test_the_usage_of_a_stream_is_in_its_last_chunk():
    """That chunk has no choices."""
    collector = CHAT.collector()
    for chunk in ({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, {"choices": None}):
        collector.add(chunk)
    assert (collector.reply().input_tokens, collector.reply().output_tokens) == (3, 4)
