"""What holds for each API: how entries and replies are read, and how a request is changed. No client is needed.

What one API alone has is in ``test_openai_chat.py``, ``test_openai_responses.py``, ``test_anthropic.py`` and
``test_google_genai.py``.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from otel_loopguard.turns.messages import WrittenCall, keys_of_user, plain_text
from tests.instrumentation.models.dialects import EACH, Api, each, objects
from tests.models.conversation import Asked, Call, Message, Reply, price
from tests.models.wire import CHAT, GEMINI, MESSAGES, RESPONSES, events_of

LOOK, FIND = Call("look", {"path": "a"}, "call_1"), Call("find", {"query": "x"}, "call_2")
CACHED = {"cache_control": {"type": "ephemeral"}}


def text(words: str, kind: str = "text") -> dict[str, Any]:
    """A part of a content."""
    return {"type": kind, "text": words}


def chat(content: Any, **more: Any) -> dict[str, Any]:
    """A result of chat completions."""
    return {"role": "tool", "tool_call_id": "call_1", "content": content, **more}


def output(content: Any, kind: str = "function_call_output", **more: Any) -> dict[str, Any]:
    """A result of responses."""
    return {"type": kind, "call_id": "call_1", "output": content, **more}


def user(*blocks: Any) -> dict[str, Any]:
    """A message of Anthropic in the role of the user."""
    return {"role": "user", "content": list(blocks)}


def result(content: Any, **more: Any) -> dict[str, Any]:
    """A block with a result."""
    return {"type": "tool_result", "tool_use_id": "call_1", "content": content, **more}


def response(given: Any, *others: Any) -> dict[str, Any]:
    """A content of Gemini with a response and other parts."""
    return {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": given}}, *others]}


# --- entries -----------------------------------------------------------------------------------------------------


WORDS = {
    "chat": ({"role": "assistant", "content": "I did it."}, {"role": "assistant", "content": [text("I did it.")]}),
    "responses": (
        {"type": "message", "role": "assistant", "content": [text("I did it.", "output_text")]},
        {"role": "assistant", "content": "I did it."},
    ),
    "messages": (
        {"role": "assistant", "content": "I did it."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, text("I did it.")]},
    ),
    "gemini": (
        {"role": "model", "parts": [{"text": "I did it."}]},
        {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "I did it."}]},
    ),
}
"""For each API, messages of the model with the same visible text."""


@EACH
@pytest.mark.parametrize("form", [dict, objects])
def test_the_visible_text_of_the_model_is_read(api: Api, form: Any) -> None:
    """Thoughts are none of it, and a user's text is none either."""
    assert [plain_text(api.dialect.read(form(entry)).said) for entry in WORDS[api.name]] == ["I did it."] * 2
    assert plain_text(api.dialect.read(form(api.wire.user("Who?"))).said) == ""


@EACH
def test_messages_of_the_user_are_equal_without_their_digits(api: Api) -> None:
    """A hook counts its rounds. A text is not equal to another one."""
    keys = [
        keys_of_user(api.dialect.read(api.wire.user(words)).text).key for words in ("Round 1", "round  22", "Rounds")
    ]
    assert keys[0] == keys[1] != keys[2]


def test_pictures_make_messages_of_the_user_unequal() -> None:
    """The same words about another picture are another message."""
    picture = {"type": "image_url", "image_url": {"url": "data:a"}}
    other = {"type": "image_url", "image_url": {"url": "data:b"}}
    assert keys_of_user([text("What is it?"), picture]) == keys_of_user([text("What is it?"), dict(picture)])
    assert keys_of_user([text("What is it?"), picture]) != keys_of_user([text("What is it?"), other])


@EACH
@pytest.mark.parametrize("form", [dict, objects])
def test_a_conversation_is_read(api: Api, form: Any) -> None:
    """Calls and results are read with their ids, and one entry is by the user."""
    entries = [api.wire.user("Who?"), *api.wire.calls(LOOK, FIND), *api.wire.results((LOOK, "ok"), (FIND, "none"))]
    read = [api.dialect.read(form(one)) for one in api.dialect.messages(api.wire.body(entries))]
    calls = [one for message in read for one in message.calls]
    results = [(one.id, one.content, bool(one.is_error)) for message in read for one in message.results]
    contents = [{"result": "ok"}, {"result": "none"}] if api.name == "gemini" else ["ok", "none"]
    assert calls == [WrittenCall(one.id, one.name, one.arguments) for one in (LOOK, FIND)]
    assert results == [("call_1", contents[0], False), ("call_2", contents[1], False)]
    assert [one.by_user for one in read] == [True] + [False] * (len(read) - 1)
    assert "Who?" in str(read[0].text)


OTHERS: dict[str, list[Any]] = {
    "chat": [
        chat([text("ok"), text("ok")]),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "custom": {"name": "run", "input": "a"}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "custom": {"name": "run", "input": "b"}}]},
    ],
    "responses": [
        output([text("ok", "input_text")]), {"type": "reasoning", "id": "rs_1", "encrypted_content": "abc"},
        {"type": "reasoning", "id": "rs_2", "encrypted_content": "abc"},
        {"type": "custom_tool_call", "call_id": "call_1", "name": "run", "input": "ls"},
    ],
    "messages": [
        user(result("ok"), text("Go on.")), user(result([text("ok"), {"type": "image", "source": {"data": "x"}}])),
    ],
    "gemini": [response({"rows": [1]})],
}  # fmt: skip
"""More entries that are told apart."""


@EACH
def test_entries_have_marks_of_their_own(api: Api) -> None:
    """Results are told apart by id and content, calls by id, name and arguments, texts by role."""
    calls = LOOK, LOOK._replace(arguments={"path": "b"}), LOOK._replace(name="find"), LOOK._replace(id="call_3")
    results = (LOOK, "ok"), (LOOK, "[cleared]"), (LOOK._replace(id="call_3"), "ok")
    entries = [api.wire.user("ok"), api.wire.said("ok"), *OTHERS[api.name]]
    entries += [entry for one in calls for entry in api.wire.calls(one)]
    entries += [entry for one in results for entry in api.wire.results(one)]
    marks = [api.dialect.marks([one])[0] for one in entries]
    assert len(set(marks)) == len(entries)
    assert api.dialect.marks(entries) == marks


@each(
    "entries",
    {
        "chat": [
            [
                chat("ok"), chat([text("ok")]), chat([{**text("ok"), **CACHED}]), chat("ok", **CACHED),
                objects(chat("ok")),
            ],
            [chat([text("ok"), {**text("ok"), **CACHED}]), chat([text("ok"), text("ok")])],
            [*CHAT.calls(LOOK), *map(objects, CHAT.calls(LOOK))],
        ],
        "responses": [[*RESPONSES.calls(LOOK), {**RESPONSES.calls(LOOK)[0], "status": "completed", "id": None}]],
        "messages": [
            [MESSAGES.user("Who?"), user(text("Who?")), user({**text("Who?"), **CACHED})],
            [user(result("ok")), user(result("ok", **CACHED)), user(result([{**text("ok"), **CACHED}]))],
        ],
        "gemini": [
            [
                {"role": "model", "parts": [{**GEMINI.calls(LOOK)[0]["parts"][0], "thoughtSignature": one}]}
                for one in "ab"
            ]
        ],
    },
)  # fmt: skip
def test_marks_of_caches_and_of_the_service_do_not_count(api: Api, entries: list[Any]) -> None:
    """A mark of a prompt cache moves to the last entry with each request; a text is written as a part to carry it."""
    assert len({api.dialect.marks([one])[0] for one in entries}) == 1


@EACH
def test_an_iterator_of_the_program_is_not_consumed(api: Api) -> None:
    """LiteLLM gets what the program passes."""
    entries = iter([api.wire.user()])
    assert list(api.dialect.messages({api.wire.entries_in: entries})) == []
    assert len(list(entries)) == 1


# --- changes -----------------------------------------------------------------------------------------------------

STOP = text("Stop.")
STOP_INPUT = text("Stop.", "input_text")


@each(
    "entry,longer",
    {
        "chat": [
            (CHAT.user("Who?"), CHAT.user("Who?\n\nStop.")),
            (chat("ok"), chat("ok\n\nStop.")),
            (chat('{"rows": []}'), chat('{"rows": []}\n\nStop.')),
            (chat(""), chat("Stop.")),
            (chat(None), chat("Stop.")),
            (chat([text("ok")]), chat([text("ok"), STOP])),
            (chat([]), chat([STOP])),
        ],
        "responses": [
            (RESPONSES.user("Who?"), RESPONSES.user("Who?\n\nStop.")),
            (output("ok"), output("ok\n\nStop.")),
            (output(""), output("Stop.")),
            (output([text("ok", "input_text")]), output([text("ok", "input_text"), STOP_INPUT])),
            (output([]), output([STOP_INPUT])),
            (output("ok", "custom_tool_call_output"), output("ok\n\nStop.", "custom_tool_call_output")),
        ],
        "messages": [
            (MESSAGES.user("Who?"), MESSAGES.user("Who?\n\nStop.")),
            (user(result("ok", is_error=True, **CACHED)), user(result("ok\n\nStop.", is_error=True, **CACHED))),
            (user(result([text("ok")])), user(result([text("ok"), STOP]))),
            *((user(result(empty)), user(result([STOP]))) for empty in (None, "", [])),
        ],
        "gemini": [
            (GEMINI.user("Who?"), {"role": "user", "parts": [{"text": "Who?"}, {"text": "Stop."}]}),
            (response({"result": "ok"}), response({"result": "ok", "loopguard": "Stop."})),
            (response({}, {"text": "Go on."}), response({"loopguard": "Stop."}, {"text": "Go on."})),
        ],
    },
)
def test_a_sentence_is_added_to_any_content(api: Api, entry: Any, longer: Any) -> None:
    """It stands behind the text of a result or of the user, in a copy of the entry."""
    before = copy.deepcopy(entry)
    assert api.dialect.annotate(entry, {0: "Stop."}) == longer
    assert entry == before


MCP = {"type": "mcp_call", "id": "mcp_1", "name": "look", "arguments": "{}", "server_label": "files", "output": "ok"}
"""A call that the provider ran, with its result."""


@each(
    "entry",
    {
        "chat": [objects(chat("ok")), chat(7)],
        "responses": [
            MCP,
            output([{"stdout": "", "stderr": "", "outcome": {}}], "shell_call_output"),
            output({"type": "computer_screenshot"}, "computer_call_output"),
            output("{}", "local_shell_call_output"),
        ],
        "messages": [
            {"role": "assistant", "content": [{"type": "mcp_tool_result", "tool_use_id": "m1", "content": []}]}
        ],
    },
)
def test_an_entry_that_takes_no_text_stays(api: Api, entry: Any) -> None:
    """Its content has fields of its own, was made by the service, or is an object of a client."""
    assert api.dialect.annotate(entry, {0: "Stop."}) is entry


@EACH
def test_declared_tools_have_names_and_can_be_withdrawn(api: Api) -> None:
    """They stay declared. A request without tools stays as it is: services reject a choice among none."""
    body, bare = api.wire.body([], [api.wire.tool("look"), api.wire.tool("find")]), api.wire.body([])
    assert api.dialect.tools(body) == {"look", "find"}
    for chosen in ({}, {"tool_choice": "auto"} if "tool_choice" in api.wire.no_calls else {}):
        assert api.dialect.withdraw({**body, **chosen}) == {**body, **api.wire.no_calls}
    assert api.dialect.tools(bare) == frozenset()
    assert api.dialect.withdraw(bare) == bare


@each(
    "choice",
    {
        "chat": ["required", {"type": "function", "function": {"name": "look"}}],
        "responses": ["required", {"type": "function", "name": "look"}, {"type": "allowed_tools", "mode": "required"}],
        "messages": [{"type": "any"}, {"type": "tool", "name": "look"}],
        "gemini": [{"functionCallingConfig": {"mode": "ANY"}}],
    },
)
def test_a_request_that_demands_a_call_is_known(api: Api, choice: Any) -> None:
    """By its choice; a request that leaves the choice to the model, or forbids calls, demands none."""
    body = api.wire.body([], [api.wire.tool("look")])
    name = "toolConfig" if api.name == "gemini" else "tool_choice"
    assert api.dialect.demands({**body, name: choice})
    assert not api.dialect.demands(body)
    assert not api.dialect.demands({**body, **api.wire.no_calls})


KEYS = {
    "authorization": "Bearer local",
    "x-goog-api-key": "local",
    "x-api-key": "local",
    "anthropic-version": "2023-06-01",
}


MODEL = {"gemini": {}, **{name: {"model": "local"} for name in ("chat", "responses", "messages")}}


@EACH
def test_one_tool_can_be_demanded(api: Api) -> None:
    """The service understands the request as one in which this tool must be called."""
    declared = [api.wire.tool("look"), api.wire.tool("find")]
    asked = api.dialect.only(api.wire.body([api.wire.user()], declared), "find")
    assert api.service.read(api.wire.path, {}, KEYS, {**asked, **MODEL[api.name]}).choice == "find"
    assert api.dialect.demands(asked)


NAMED = {"type": "custom", "custom": {"name": "run"}}
THREAD = {"messages": [], "thread": {"type": "continue", "previous_message_id": "msg_1"}}


@each(
    "body,names",
    {
        "chat": [
            ({"tools": [CHAT.tool("look"), NAMED], "functions": [{"name": "old"}]}, {"look", "run", "old"}),
            ({"tools": [CHAT.tool("look"), {"type": "builtin"}]}, None),
            ({"tools": None}, frozenset()),
        ],
        "responses": [
            ({"tools": [RESPONSES.tool("look"), {"type": "shell"}]}, {"look", "shell"}),
            *(
                ({"tools": [RESPONSES.tool("look"), {"type": one}]}, None)
                for one in ("mcp", "namespace", "tool_search")
            ),
        ],
        "messages": [
            ({"tools": [MESSAGES.tool("look"), {"type": "computer_toolset_20260801"}]}, None),
            ({"tools": [MESSAGES.tool("look")], "mcp_servers": [{"type": "url"}]}, None),
            (THREAD, None),
        ],
        "gemini": [({"tools": [GEMINI.tool("look"), {"googleSearch": {}}]}, {"look", "googleSearch"})],
    },
)
def test_a_tool_of_the_service_has_a_name_or_may_be_any(api: Api, body: Any, names: Any) -> None:
    """None if the provider alone knows the names of some tools."""
    assert api.dialect.tools(body) == names


@each(
    "body,previous",
    {
        "chat": [({"messages": [], "previous_response_id": "x"}, None)],
        "responses": [
            ({"previous_response_id": "resp_1"}, "resp_1"),
            ({"conversation": "conv_1"}, "conv_1"),
            ({"conversation": {"id": "conv_1"}}, "conv_1"),
            ({"conversation": None}, None),
        ],
        "messages": [(THREAD, "msg_1"), ({"messages": []}, None)],
        "gemini": [({"contents": []}, None)],
    },
)
def test_the_conversation_that_a_request_continues(api: Api, body: Any, previous: str | None) -> None:
    """It is named by the reply before, or by an id of its own."""
    assert api.dialect.previous(body) == previous


# --- replies -----------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("is_json", [True, False], ids=["json", "objects"])
def test_a_reply_is_read_whole_and_in_chunks(api: Api, *, is_json: bool) -> None:
    """With its calls, their ids, its own id and its tokens, as JSON or as the client's objects."""
    form = (lambda given: given) if is_json else api.client
    body = {**api.wire.body([api.wire.user()]), "model": "m", "stream_options": {"include_usage": True}}
    asked = Asked((Message("user", "task-1: who?"),), number=1)
    written = Reply("I look.", (LOOK, FIND))
    answer = api.service.answer(asked, written, body)
    reply = api.dialect.reply(form(answer))
    assert reply is not None
    assert [(one.name, one.arguments) for one in reply.calls] == [(one.name, one.arguments) for one in (LOOK, FIND)]
    ids = [None, None] if api.name == "gemini" else [one.id for one in api.wire.read(answer).calls]
    assert [one.id for one in reply.calls] == ids
    assert reply.id == (answer["id"] if api.name in ("responses", "messages") else None)
    assert (reply.input_tokens, reply.output_tokens) == (asked.tokens, price(written))
    collector = api.dialect.collector()
    for event in events_of(b"".join(api.service.events(answer, body))):
        collector.add(form(event))
    assert collector.reply() == reply


TOKENS = {
    "chat": (
        {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}, (3, 4, 2),
    ),
    "responses": ({"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2}}, (3, 4, 2)),
    "messages": (
        {"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": None, "output_tokens": 7},
        (95, 7, 90),
    ),
    "gemini": (
        {"promptTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 2, "cachedContentTokenCount": 1},
        (3, 6, 1),
    ),
}  # fmt: skip


@EACH
def test_tokens_are_read_where_the_provider_gives_them(api: Api) -> None:
    """Those of the cache were read, too, and thoughts were written."""
    usage, tokens = TOKENS[api.name]
    empty = {"choices": [], "output": [], "content": [], "candidates": []}
    for given, expected in (({}, (None, None, None)), ({"usage": usage, "usageMetadata": usage}, tokens)):
        reply = api.dialect.reply({**empty, **given})
        assert reply is not None
        assert (reply.input_tokens, reply.output_tokens, reply.cached_tokens) == expected


@EACH
@pytest.mark.parametrize("bad", [True, -1, "3", 1e30, None])
def test_a_value_that_is_no_number_of_tokens_is_not_read(api: Api, bad: Any) -> None:
    """Not even where numbers are added up: it is unknown."""
    usage = {name: bad for name, value in TOKENS[api.name][0].items() if type(value) is int}
    reply = api.dialect.reply({"choices": [], "output": [], "content": [], "usage": usage, "usageMetadata": usage,
                               "candidates": []})  # fmt: skip
    assert reply is not None
    assert (reply.input_tokens, reply.output_tokens) == (None, None)
    assert not reply.cached_tokens


@EACH
@pytest.mark.parametrize("other", ["text", 7, None, {"data": []}, {"output": "text"}, object()])
def test_another_type_is_no_reply(api: Api, other: Any) -> None:
    """``cast_to`` may be anything."""
    assert api.dialect.reply(other) is None
