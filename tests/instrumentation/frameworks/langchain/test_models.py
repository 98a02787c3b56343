"""A chat model of any client is read as OpenAI's is: results, tokens, time and words. It answers without tools."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.caches import InMemoryCache
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

import otel_loopguard as loopguard
from otel_loopguard import Ledger, Policy, RunBudgetError, ToolLoopError, last_turn, semconv
from otel_loopguard.instrumentation.frameworks.langchain import models
from otel_loopguard.testing import assert_no_trip, guarded
from tests.scripted.langchain import prebuilt_agent, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.filterwarnings("ignore")

PRICED = Policy(cost_per_million_tokens={"own-*": {"input": 2.0, "cached_input": 1.0, "output": 8.0}})
USAGE: Any = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, "input_token_details": {"cache_read": 60}}
QUESTION: Any = {"messages": [("user", "Go on.")]}
LONG: Any = {"recursion_limit": 400}


@tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}. " * 30


class OwnModel(BaseChatModel):
    """A model of a client that nobody knows. ``write`` gets the number of a request, and if tools may be called.

    It returns the path of a call, or a text that ends in a full stop.
    """

    write: Any
    usage: Any = USAGE
    think: Any = None
    seen: list[Any] = []

    @property
    def _llm_type(self) -> str:
        return "own"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Declare tools, as integrations do."""
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], **options)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages, more))])

    def _answer(self, messages: Any, more: Any) -> AIMessage:
        self.seen.append(messages)
        if self.think is not None:
            self.think()
        number = len(self.seen)
        written = self.write(number, bool(more.get("tools")))
        calls: Any = (
            [] if written.endswith(".") else [{"name": "look", "args": {"path": written}, "id": f"c{number}x9"}]
        )
        told = {"model_name": "own-1"}
        text = "" if calls else written
        return AIMessage(text, tool_calls=calls, usage_metadata=self.usage, response_metadata=told)


class Streaming(OwnModel):
    """The same, which writes its reply in pieces."""

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Iterator[Any]:
        whole = self._answer(messages, more)
        pieces: list[Any] = [
            {"tool_call_chunks": [{"name": one["name"], "args": '{"path": ', "id": one["id"], "index": 0}]}
            for one in whole.tool_calls
        ]
        pieces += [
            {"tool_call_chunks": [{"name": None, "args": f'"{one["args"]["path"]}"}}', "id": None, "index": 0}]}
            for one in whole.tool_calls
        ]
        told = {"usage_metadata": whole.usage_metadata, "response_metadata": whole.response_metadata}
        for piece in ({"content": whole.content}, *pieces, told):
            yield ChatGenerationChunk(message=AIMessageChunk(**{"content": "", **piece}))


class Later(Streaming):
    """The same in async code."""

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        return self._generate(messages, **more)

    async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Any:
        for chunk in self._stream(messages, **more):
            yield chunk


class Around(OwnModel):
    """A model that hands its requests on to another one."""

    inner: Any

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        message = self.inner.bind(**more).invoke(messages)
        return ChatResult(generations=[ChatGeneration(message=message)])


def around(**options: Any) -> Around:
    """Two models around an own one."""
    return Around(inner=Around(inner=OwnModel(**options), **options), **options)


KINDS = {"own": OwnModel, "streaming": Streaming, "later": Later, "around": around}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def working(number: int, may_call: bool) -> str:
    """Look at three things, then answer."""
    return "abc"[number - 1] if number <= 3 and may_call else "Done."


def stuck(_: int, may_call: bool) -> str:
    """Look at the same thing as long as there are tools."""
    return "a" if may_call else "I looked."


# --- an agent ----------------------------------------------------------------------------------------------------


def invoke(agent: Any) -> Any:
    """Run an agent, and return its messages."""
    return agent.invoke(QUESTION, LONG)["messages"]


def ainvoke(agent: Any) -> Any:
    """The same in async code."""
    return asyncio.run(agent.ainvoke(QUESTION, LONG))["messages"]


def stream(agent: Any) -> Any:
    """The same, with the pieces of each reply."""
    steps = list(agent.stream(QUESTION, LONG, stream_mode=["messages", "values"]))
    return [value for mode, value in steps if mode == "values"][-1]["messages"]


def astream(agent: Any) -> Any:
    """The same in async code."""

    async def run() -> Any:
        steps = [step async for step in agent.astream(QUESTION, LONG, stream_mode=["messages", "values"])]
        return [value for mode, value in steps if mode == "values"][-1]["messages"]

    return asyncio.run(run())


WAYS = {"invoke": invoke, "ainvoke": ainvoke, "stream": stream, "astream": astream}
each_way = pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)


def seen_of(model: Any) -> list[Any]:
    """The requests that the innermost model has got."""
    return seen_of(model.inner) if isinstance(model, Around) else list(model.seen)


@each_way
@each_kind
def test_a_turn_has_what_the_replies_tell(kind: Any, run: Callable[[Any], Any]) -> None:
    """Requests, tokens, those from the cache, and cost. Each request is read once, and a normal run has no event."""
    with guarded(PRICED) as recording:
        model = kind(write=working)
        assert run(prebuilt_agent(model, [look]))[-1].content == "Done."
        ended = last_turn()
        assert_no_trip(recording)
        assert recording.counted(semconv.METRIC_MODEL_REQUESTS) == 4
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    cost = pytest.approx(4 * (40 * 2.0 + 60 * 1.0 + 10 * 8.0) / 1e6)
    assert ended is not None
    assert ended.ledger.timeless == Ledger(4, 3, 400, 40, 240, cost=cost)


@each_way
@each_kind
def test_a_working_run_sends_what_it_sends_without_the_guard(kind: Any, run: Callable[[Any], Any]) -> None:
    """The messages are equal, and those of the program."""
    requests = []
    for guard in (False, True):
        model = kind(write=working)
        if guard:
            with guarded():
                run(prebuilt_agent(model, [look]))
        else:
            run(prebuilt_agent(model, [look]))
        requests.append([[(one.type, one.content) for one in messages] for messages in seen_of(model)])
    assert requests[0] == requests[1]


@each_way
@each_kind
def test_a_stuck_agent_is_told_and_answers_without_tools(kind: Any, run: Callable[[Any], Any]) -> None:
    """The sentence is in the last request alone: the graph's own messages do not have it."""
    with guarded() as recording:
        model = kind(write=stuck)
        messages = run(prebuilt_agent(model, [look]))
        assert messages[-1].content == "I looked."
        assert recording.outcomes == ["executed", "nudged", *["blocked"] * 7]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert "No tool can be called for this answer" in seen_of(model)[-1][-1].content
    assert "No tool can be called for this answer" not in messages[-2].content


@each_way
def test_a_model_that_calls_without_tools_is_ended(run: Callable[[Any], Any]) -> None:
    """``ToolLoopError`` leaves the run, and no request is sent after it."""
    model = Streaming(write=lambda *_: "a")
    with guarded(), pytest.raises(ToolLoopError):
        run(prebuilt_agent(model, [look]))
    assert len(model.seen) == 10


@each_way
def test_a_budget_holds_for_any_client(run: Callable[[Any], Any]) -> None:
    """The model reads ever new things: told, concluded, and ended if it goes on."""
    budget = Policy(budget={"tree": {"requests": 8}})
    with guarded(budget):
        obedient = Streaming(write=lambda number, may: f"p{number}" if may else "So far.")
        assert run(prebuilt_agent(obedient, [look]))[-1].content == "So far."
    assert len(obedient.seen) == 9
    stubborn = Streaming(write=lambda number, _: f"p{number}")
    with guarded(budget), pytest.raises(RunBudgetError):
        run(prebuilt_agent(stubborn, [look]))
    assert len(stubborn.seen) == 9


def test_a_model_that_keeps_its_tools_itself_is_told() -> None:
    """No request declares them, so they cannot be withdrawn: the sentence alone asks for an answer."""

    class Keeping(OwnModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    model = Keeping(write=lambda *_: "a")
    with guarded(), pytest.raises(ToolLoopError):
        invoke(prebuilt_agent(model, [look]))
    assert "No tool can be called for this answer" in model.seen[-1][-1].content


def test_the_time_of_a_request_is_the_models() -> None:
    """A model that thinks for a minute does not wait."""
    now = [0.0]

    def think() -> None:
        now[0] += 60.0

    with guarded(clock=lambda: now[0]), loopguard.turn() as turn:
        invoke(prebuilt_agent(OwnModel(write=working, think=think), [look]))
    assert (turn.ledger.seconds, turn.ledger.model_seconds) == (240.0, 240.0)


def test_a_fault_of_ours_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes out as it is, and the fault is counted."""
    monkeypatch.setattr(models, "_dialect_of", lambda _: 1 / 0)
    with guarded() as recording:
        assert invoke(prebuilt_agent(OwnModel(write=working), [look]))[-1].content == "Done."
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 4


# --- a loop by hand, whose tools nobody knows --------------------------------------------------------------------


def whole(model: Any, messages: Any) -> Any:
    """Ask a model."""
    return model.invoke(messages)


def whole_later(model: Any, messages: Any) -> Any:
    """The same in async code."""
    return asyncio.run(model.ainvoke(messages))


def in_pieces(model: Any, messages: Any) -> Any:
    """Ask for a stream, and add its pieces."""
    chunks = list(model.stream(messages))
    return sum(chunks[1:], chunks[0]) if isinstance(chunks[0], AIMessageChunk) else chunks[0]


def in_pieces_later(model: Any, messages: Any) -> Any:
    """The same in async code."""

    async def ask() -> Any:
        return [chunk async for chunk in model.astream(messages)]

    chunks = asyncio.run(ask())
    return sum(chunks[1:], chunks[0]) if isinstance(chunks[0], AIMessageChunk) else chunks[0]


def in_events(model: Any, messages: Any) -> Any:
    """Ask for a stream of events."""

    async def ask() -> Any:
        return [event async for event in model.astream_events(messages, version="v2")]

    return asyncio.run(ask())[-1]["data"]["output"]


def in_typed_events(model: Any, messages: Any) -> Any:
    """Ask a model that streams for a stream of the newest version."""
    if not isinstance(model.bound, Streaming):
        return whole(model, messages)
    if not hasattr(BaseChatModel, "_chat_model_stream_v3"):
        pytest.skip("this version of langchain-core has no such stream")
    return model.stream_events(messages, version="v3").output


def at_once(model: Any, messages: Any) -> Any:
    """Ask by ``batch``."""
    return model.batch([messages])[0]


ASKED = {
    one.__name__: one for one in (whole, whole_later, in_pieces, in_pieces_later, in_events, in_typed_events, at_once)
}
asked_each_way = pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)


def by_hand(model: Any, ask: Callable[[Any, Any], Any], edit: Callable[[Any], None] = lambda _: None) -> list[Any]:
    """Run the calls of a model with a function that no adapter knows, until it answers. Return the messages."""
    messages: list[Any] = [SystemMessage("You are a helper."), HumanMessage("Go on.")]
    bound = model.bind_tools([look])
    for _ in range(60):
        edit(messages)
        reply = ask(bound, list(messages))
        messages.append(reply)
        if not reply.tool_calls:
            return messages
        messages += [
            ToolMessage(f"there is {one['args']['path']}. " * 30, tool_call_id=one["id"]) for one in reply.tool_calls
        ]
    return messages


@asked_each_way
@each_kind
def test_calls_that_no_executor_ran_are_judged_in_the_requests(kind: Any, ask: Any) -> None:
    """The program opens no turn, and runs no graph: its messages are its turn."""
    with guarded(PRICED) as recording:
        model = kind(write=stuck)
        messages = by_hand(model, ask)
        assert text_of(messages[-1]) == "I looked."
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == len(messages) // 2 - 1
        assert recording.counted(semconv.METRIC_MODEL_REQUESTS) == len(seen_of(model)) < 20
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
        ended = last_turn()
    assert ended is not None
    assert ended.ledger.requests == len(seen_of(model))
    assert "loopguard" not in str([one.content for one in messages])


def cleared(messages: list[Any]) -> None:
    """Keep the last result only, as programs do that edit the context."""
    results = [place for place, one in enumerate(messages) if isinstance(one, ToolMessage)]
    for place in results[:-1]:
        messages[place] = messages[place].model_copy(update={"content": "[cleared]"})


@asked_each_way
@each_kind
def test_what_the_program_has_cleared_is_not_held_against_the_model(kind: Any, ask: Any) -> None:
    """It reads four files, twice, and has lost each when it reads it again."""
    with guarded(clock=lambda: 0.0) as recording:
        model = kind(write=lambda number, _: "abcdabcd"[number - 1] if number <= 8 else "Done.")
        assert text_of(by_hand(model, ask, cleared)[-1]) == "Done."
        assert_no_trip(recording)
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 8


def test_a_model_and_a_hook_that_answer_each_other_are_ended() -> None:
    """A program that sends the same text after each answer."""
    model = Streaming(write=lambda *_: "All is done, and nothing is left to do.")

    def harness() -> None:
        bound, messages = model.bind_tools([look]), []
        for _ in range(12):
            messages.append(HumanMessage("The tests do not pass. Go on."))
            messages.append(in_pieces(bound, messages))

    with guarded() as recording:
        with pytest.raises(ToolLoopError) as raised:
            harness()
        assert raised.value.mode == "text_repeat"
        assert recording.counted(semconv.METRIC_TRIPS, loopguard__mode="text_repeat") == 2
    assert len(model.seen) <= 6


def test_a_reply_from_the_cache_is_no_request() -> None:
    """It took no tokens, so nobody is asked to pay for it."""
    model = OwnModel(write=lambda *_: "Done.", cache=InMemoryCache())
    with guarded(), loopguard.turn() as turn:
        for _ in range(3):
            model.invoke("hello")
    assert turn.ledger.timeless == Ledger(1, 0, 100, 10, 60, unpriced=1)


def test_a_fake_that_answers_with_the_message_it_got_has_no_calls() -> None:
    """LangChain's own returns it as it is, which is no message of a model."""
    with guarded() as recording, loopguard.turn() as turn:
        assert ParrotFakeChatModel().invoke("hello").content == "hello"
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert turn.ledger.requests == 1


def test_a_reply_without_usage_is_unknown() -> None:
    """Nothing is guessed."""
    with guarded(), loopguard.turn() as turn:
        OwnModel(write=lambda *_: "Done.", usage=None).invoke("hello")
        list(Streaming(write=lambda *_: "Done.", usage=None).stream("hello"))
    assert turn.ledger.timeless == Ledger(2, unmetered=2, unpriced=2)


def test_requests_at_once_are_counted_each() -> None:
    """``batch`` asks in threads, ``abatch`` in tasks."""
    model = Later(write=lambda *_: "Done.")
    with guarded(), loopguard.turn() as turn:
        model.batch(["hello"] * 20)
        asyncio.run(model.abatch(["hello"] * 20))
    assert turn.ledger.timeless == Ledger(40, 0, 4_000, 400, 2_400, unpriced=40)


@pytest.mark.parametrize("kind", [Streaming, Later])
def test_a_stream_that_is_left_early_leaves_nothing_behind(kind: Any) -> None:
    """It was sent; the next request is another one, also if it is made between two pieces."""
    model = kind(write=lambda *_: "Done.")
    with guarded() as recording, loopguard.turn() as turn:
        pieces = model.stream("hello")
        next(pieces)
        model.invoke("hello")
        pieces.close()
        model.invoke("hello")
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert turn.ledger.requests == 3


def test_an_exception_of_a_model_comes_out() -> None:
    """The request was sent, and its usage is unknown."""
    with guarded(), loopguard.turn() as turn:
        for ask in (whole, whole_later, in_pieces, in_pieces_later):
            with pytest.raises(ZeroDivisionError):
                ask(Later(write=lambda *_: str(1 / 0)), "hello")
    assert turn.ledger.timeless == Ledger(4, unmetered=4, unpriced=4)


def test_an_agent_in_a_tool_is_read_as_one_of_its_own() -> None:
    """Its requests are its turn's, and the tree has all."""

    @tool
    def ask_helper(path: str) -> str:
        """Ask another agent."""
        return str(invoke(prebuilt_agent(OwnModel(write=working), [look]))[-1].content)

    calls = [[{"name": "ask_helper", "args": {"path": name}, "id": f"h{name}"}] for name in "ab"]

    class Boss(OwnModel):
        def _answer(self, messages: Any, more: Any) -> AIMessage:
            done = Counter(one.type for one in messages)["tool"]
            return AIMessage("", tool_calls=calls[done]) if done < len(calls) else AIMessage("Done.")

    with guarded(), loopguard.turn() as turn:
        invoke(prebuilt_agent(Boss(write=working), [ask_helper]))
    ledger = turn.ledger.timeless
    assert (ledger.requests, ledger.calls, ledger.children, ledger.depth) == (3 + 2 * 4, 2 + 2 * 3, 2, 1)


def test_a_request_that_demands_the_answers_tool_is_not_concluded() -> None:
    """A program with a choice of its own takes a text for a mistake: the sentence alone asks for an answer."""
    model = OwnModel(write=lambda *_: "a")
    with guarded(), pytest.raises(ToolLoopError):
        by_hand(model.bind(tool_choice="any"), lambda bound, messages: bound.invoke(messages, tool_choice="any"))
    assert "say what is missing" in str(model.seen[-1])


# --- how each integration declares tools, and asks for no call ---------------------------------------------------

OPENAI = {"type": "function", "function": {"name": "look", "parameters": {}}}
ANTHROPIC = {"name": "look", "input_schema": {"type": "object"}}
BEDROCK = {"toolSpec": {"name": "look", "inputSchema": {"json": {}}}}
GOOGLE = {"function_declarations": [{"name": "look", "parameters": {}}]}
ASK: Any = {"messages": [HumanMessage("Go on.")]}


@pytest.mark.parametrize("declared", [OPENAI, ANTHROPIC, BEDROCK, GOOGLE, {"type": "function", "name": "look"}, look])
def test_the_name_of_a_tool_is_read_in_each_format(declared: Any) -> None:
    """Also that of LangChain's own objects."""
    assert models.CHAT_MODEL.tools({**ASK, "tools": [declared]}) == {"look"}


def test_a_name_that_cannot_be_read_is_unknown() -> None:
    """No tools are none; one that stands for others, or is of an odd form, makes the names unknown."""
    assert models.CHAT_MODEL.tools(ASK) == frozenset()
    assert models.CHAT_MODEL.tools({**ASK, "tools": [OPENAI, {"type": "mcp", "server_label": "x"}]}) is None
    assert models.CHAT_MODEL.tools({**ASK, "tools": [object()]}) is None
    assert models.CHAT_MODEL.tools({**ASK, "tools": [{"type": "web_search"}]}) == {"web_search"}


@pytest.mark.parametrize(
    ("provider", "declared", "expected"),
    [
        ("openai", OPENAI, {"tools": [OPENAI], "tool_choice": "none"}),
        ("anthropic", ANTHROPIC, {"tools": [ANTHROPIC], "tool_choice": {"type": "none"}}),
        ("aws.bedrock", ANTHROPIC, {"tools": [ANTHROPIC], "tool_choice": {"type": "none"}}),
        ("gcp.gen_ai", GOOGLE, {"tools": [GOOGLE], "tool_choice": "none"}),
        ("aws.bedrock", BEDROCK, {}),
        ("ollama", OPENAI, {}),
    ],
)
def test_tools_are_withdrawn_as_the_integration_can_say_it(provider: str, declared: Any, expected: Any) -> None:
    """Where no way is known, nothing is declared."""
    body = {**ASK, "stop": None, "tools": [declared]}
    assert models._dialect_of(provider).withdraw(body) == {**ASK, "stop": None, **expected}


@pytest.mark.parametrize("choice", ["any", "required", "look", True, {"type": "any"}, {"any": {}}, {"tool": {}}])
def test_a_demand_is_read_in_each_format(choice: Any) -> None:
    """``auto`` and ``none`` are none."""
    assert models.CHAT_MODEL.demands({**ASK, "tool_choice": choice})
    for free in (None, "auto", "none", {"type": "auto"}, {"auto": {}}):
        assert not models.CHAT_MODEL.demands({**ASK, "tool_choice": free})


def test_messages_are_equal_whatever_id_langchain_gives_them() -> None:
    """A copy in the graph's state has one, and a cached message a mark for the cache."""
    one, other = HumanMessage("hello"), HumanMessage("hello", id="7")
    marked = HumanMessage([{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}])
    assert len(set(models.CHAT_MODEL.marks([one, other, marked]))) == 1
    assert len(set(models.CHAT_MODEL.marks([one, AIMessage("hello"), ToolMessage("hello", tool_call_id="7")]))) == 3


def test_a_call_that_the_provider_ran_is_read_with_its_result() -> None:
    """It is a block of the message, in the form of the provider's API."""
    content: Any = [
        {"type": "text", "text": "I search."},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "rivers"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"title": "Rivers"}]},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"path": "a"}},
    ]
    read = models.CHAT_MODEL.read(AIMessage(content, tool_calls=[{"name": "look", "args": {"path": "a"}, "id": "c1"}]))
    assert [call.name for call in read.calls] == ["look", "web_search"]
    assert [result.id for result in read.results] == ["s1"]


def test_a_programs_own_class_can_be_sent_to_another_process() -> None:
    """``cloudpickle`` copies a class of ``__main__`` with our functions in it."""
    pytest.importorskip("cloudpickle")
    done = subprocess.run([sys.executable, "-c", _PICKLES], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


_PICKLES = """
import cloudpickle, pickle
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel
from otel_loopguard.testing import guarded

with guarded():
    class Mine(BaseChatModel):
        _llm_type = "mine"
        def _generate(self, messages, stop=None, run_manager=None, **more): ...

    copied = pickle.loads(cloudpickle.dumps(Mine))
    print(copied is Mine or callable(copied._generate))
"""


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_that_repeats_itself_is_cut_if_the_policy_says_so(*, is_async: bool) -> None:
    """The model writes on for 100 pieces; the program gets the error after about 2,000 characters."""
    written = []

    class Chanting(OwnModel):
        """A model that does not come to an end."""

        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Iterator[Any]:
            for number in range(100):
                written.append(number)
                yield ChatGenerationChunk(message=AIMessageChunk("The line goes on, and on. " * 4))

        async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> Any:
            for chunk in self._stream(messages):
                yield chunk

    model: Any = Chanting(write=working).bind_tools([look])

    async def read() -> list[Any]:
        return [chunk async for chunk in model.astream("task-1: tell me all")]

    policy = Policy(modes={"text_run": {"action": "abort"}})
    with guarded(policy) as recording, pytest.raises(ToolLoopError, match="equal blocks"):
        asyncio.run(read()) if is_async else list(model.stream("task-1: tell me all"))
    assert 15 <= len(written) <= 30
    assert [str(trip.action) for trip in recording.trips] == ["observe", "abort"]
