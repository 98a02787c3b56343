"""Requests and replies as the proxy hands them over: judged once, tenants apart, and every fault lets them pass."""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace

from otel_loopguard import Policy, semconv
from otel_loopguard.gateway import gateway
from otel_loopguard.guard.turn import Turn
from otel_loopguard.instrumentation.model_api import Sent
from otel_loopguard.instrumentation.model_reader import Exchange, ModelReader
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.testing import guarded
from otel_loopguard.turns.message_lists import MessageList, MessageLists
from tests.instrumentation.models.dialects import APIS
from tests.models.conversation import Asked, Call, Message, Reply
from tests.models.wire import CHAT as WIRE
from tests.models.wire import looped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from otel_loopguard.errors import ToolLoopError
    from otel_loopguard.testing import Recording

at_once = partial(guarded, clock=lambda: 0.0)
"""The guard on a clock that does not move."""
ALICE, BOB = SimpleNamespace(api_key="alice"), SimpleNamespace(api_key="bob")
TOOLS = [WIRE.tool()]
QUESTION = WIRE.user("what is in it?")


def called(number: int) -> dict[str, Any]:
    """A message of the model with the nth call."""
    return WIRE.calls(nth(number))[0]


def nth(number: int) -> Call:
    """The nth of equal calls."""
    return Call("read_file", {"path": "a.txt"}, f"call_{number}")


def conversation(steps: int) -> list[dict[str, Any]]:
    """A question and so many equal calls with equal results."""
    return looped(WIRE, steps, nth)


def reply(number: int, **usage: int) -> dict[str, Any]:
    """A reply with the nth call."""
    return {"choices": [{"message": called(number)}], "usage": usage}


class Sender:
    """Sends requests as the proxy does: each in a task of its own."""

    def __init__(self, auth: Any = ALICE, **headers: str) -> None:
        self.auth = auth
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def send(
        self, messages: list[Any], answer: Any = None, /, *, kind: str = "acompletion", **body: Any
    ) -> tuple[dict[str, Any], ToolLoopError | None]:
        """Return the request as it leaves the gateway, and the error that ends it."""
        data = {
            "model": "m", "messages": messages, "tools": TOOLS, "litellm_call_id": "1",
            "proxy_server_request": {"headers": self.headers}, **body,
        }  # fmt: skip

        async def handle() -> ToolLoopError | None:
            error = await gateway.judge(self.auth, data, kind)
            if answer is not None:
                gateway.learn(answer, "1")
            self.context = contextvars.copy_context()
            return error

        error = await asyncio.get_running_loop().create_task(handle())
        return data, error

    async def loop(self, first: int = 0, last: int = 9) -> tuple[dict[str, Any], ToolLoopError | None]:
        """Send a conversation that grows by an equal call each time; return the last request."""
        for steps in range(first, last):
            await self.send(conversation(steps))
        return await self.send(conversation(last))


def turns(recording: Recording) -> list[Any]:
    return [(span.attributes or {})[semconv.TURN_ID] for span in recording.spans]


# --- the end of a turn ---------------------------------------------------------------------------------------------


DONE = {"choices": [{"message": {"role": "assistant", "content": "Done."}}]}


@pytest.mark.parametrize(
    ("steps", "answer", "end"),
    [(0, DONE, "answered"), (3, DONE, "answered"), (9, DONE, "concluded"), (3, reply(3), None)],
)
async def test_a_reply_tells_how_its_turn_ended(steps: int, answer: Any, end: str | None) -> None:
    """A reply with calls has no such header, and no other request gets it."""
    sender = Sender()
    with at_once() as recording:
        for before in range(steps):
            await sender.send(conversation(before), reply(before))
        await sender.send(conversation(steps), answer)
        assert sender.context.run(gateway.headers_of_reply, "1") == (end and {"x-loopguard-end": end})
        assert sender.context.run(gateway.headers_of_reply, "2") is None
        assert recording.counted(semconv.METRIC_TURNS_ENDED) == (end is not None and steps > 0)


# --- the ladder --------------------------------------------------------------------------------------------------


async def test_a_hook_and_a_model_that_answer_each_other_are_told_then_ended() -> None:
    """By the texts of the requests, also where no reply was read. The one that is ended is not changed."""
    answer = {"role": "assistant", "content": "All that was asked is done, and nothing is left to do."}
    asked = [{"role": "user", "content": text} for text in ("make the tests pass", "the tests do not pass")]
    grown = [[*asked[:1], *[answer, asked[1]] * rounds] for rounds in range(7)]
    with at_once() as recording:
        sent = [await Sender().send(messages) for messages in grown]
        _, at_another = await Sender(BOB).send(grown[4])
    told = ["You have given this answer 3 times" in str(data["messages"]) for data, _ in sent]
    assert told == [False] * 4 + [True] * 2 + [False]
    assert [error is not None for _, error in sent] == [False] * 6 + [True]
    assert at_another is None
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


async def test_a_loop_is_nudged_then_concluded_then_ended() -> None:
    """The requests alone tell it: no reply was read."""
    with at_once() as recording:
        nudged, _ = await Sender().loop(0, 2)
        concluded, _ = await Sender().loop(3, 9)
        _, ended = await Sender().loop(10, 10)
    assert nudged["messages"][:-1] == conversation(2)[:-1]
    assert nudged["messages"][-1]["content"].startswith("text\n\n[loopguard]")
    assert (nudged.get("tool_choice"), concluded["tool_choice"]) == (None, "none")
    assert ended is not None
    assert ended.turn_id == turns(recording)[0]
    assert [trip.action for trip in recording.trips] == [*["nudge"] * 7, "conclude", "abort"]


async def test_a_request_without_a_loop_is_not_touched() -> None:
    """The same objects go on."""
    with at_once():
        messages = conversation(1)
        data, error = await Sender().send(messages)
    assert data["messages"] is messages
    assert (error, data.keys() & {"tool_choice", "input"}) == (None, set())


async def test_an_ended_turn_stays_ended_until_the_user_writes() -> None:
    """A client that tries again gets the same error, and the next question is answered."""
    with at_once():
        _, ended = await Sender().loop(0, 10)
        _, again = await Sender().send(conversation(10))
        asked = [*conversation(10), {"role": "assistant", "content": "Sorry."}, {"role": "user", "content": "thanks"}]
        _, next_turn = await Sender().send(asked)
    assert ended is again is not None
    assert next_turn is None


async def test_a_request_that_is_sent_again_counts_nothing() -> None:
    """A client whose connection broke sends the same list: the calls in it are known, and so are their sentences."""
    with at_once() as recording:
        for steps in range(5):
            first, _ = await Sender().send(conversation(steps))
            again, _ = await Sender().send(conversation(steps))
            assert again["messages"] == first["messages"]
    assert len(recording.spans) == 4


async def test_a_concluded_request_that_is_sent_again_is_concluded_again() -> None:
    """Its first attempt may have got lost behind the gateway."""
    with at_once():
        first, _ = await Sender().loop(0, 9)
        again, error = await Sender().send(conversation(9))
    assert error is None
    assert (again["tool_choice"], again["messages"]) == (first["tool_choice"], first["messages"])


@pytest.mark.parametrize(
    ("kind", "headers", "off"),
    [
        *((kind, {}, False) for kind in ("aembedding", "atext_completion", "agenerate_content", "call_mcp_tool")),
        ("acompletion", {"x_loopguard_judged": "1"}, False),
        ("acompletion", {}, True),
    ],
)
async def test_requests_of_others_are_left_alone(kind: str, headers: dict[str, str], *, off: bool) -> None:
    """Those without calls that are read, those that were judged in the client's process, and all while it is off."""
    with at_once() as recording:
        assert recording.runtime is not None
        recording.runtime.off = off
        for steps in range(11):
            data, error = await Sender(**headers).send(conversation(steps), kind=kind)
            assert (data["messages"], data.get("tool_choice"), error) == (conversation(steps), None, None)
        assert recording.spans == []
        recording.runtime.off = False
        await Sender().send(conversation(1))
        assert len(recording.spans) == 1


async def test_observe_changes_no_request() -> None:
    """Trips are counted, and every request leaves as it came."""
    with at_once(Policy(action="observe")) as recording:
        for steps in range(12):
            data, error = await Sender().send(conversation(steps))
            assert (data["messages"], data.get("tool_choice"), error) == (conversation(steps), None, None)
    assert {trip.action for trip in recording.trips} == {"observe"}


# --- tenants and conversations -----------------------------------------------------------------------------------


async def test_tenants_in_turns_are_judged_as_alone() -> None:
    """Each sees the sentences and the end of its own calls, while the other's requests are equal to the byte."""
    found: dict[str, list[Any]] = {"alice": [], "bob": [], "alone": []}

    async def send(name: str, auth: Any, steps: int) -> None:
        data, error = await Sender(auth).send(conversation(steps))
        found[name].append((data["messages"], data.get("tool_choice"), error is None))

    with at_once():
        for steps in range(11):
            await send("alone", ALICE, steps)
    with at_once() as recording:
        for steps in range(11):
            for auth in (ALICE, BOB):
                await send(auth.api_key, auth, steps)
    assert found["alice"] == found["bob"] == found["alone"]
    assert found["alone"][-1][2] is False
    assert len(set(turns(recording))) == 2


async def test_a_kept_conversation_of_one_tenant_is_not_continued_by_another() -> None:
    """The id of a reply and the ids of calls lead to lists of the same tenant only."""
    output = [{"type": "function_call_output", "call_id": "call_1", "output": "text"}]
    answer = {"output": [{"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}], "id": "r1"}
    tools = [{"type": "function", "name": "f"}]
    with at_once() as recording:
        for auth, previous in ((ALICE, "seen"), (BOB, "seen"), (ALICE, "rewritten")):
            if auth is ALICE and previous == "seen":
                await Sender(auth).send([], answer, kind="aresponses", input="hello", tools=tools)
                continue
            await Sender(auth).send([], kind="aresponses", input=output, tools=tools, previous_response_id=previous)
            assert len(recording.spans) == (auth is ALICE)


async def test_the_conversation_header_keeps_equal_conversations_apart() -> None:
    """Below one key, two users may ask the same, and a server may number its calls."""
    with at_once() as recording:
        for conversation_id in ("one", "two"):
            await Sender(x_loopguard_conversation=conversation_id).loop(0, 1)
    assert len(set(turns(recording))) == 2
    assert {(span.attributes or {})[semconv.CONVERSATION_ID] for span in recording.spans} == {"one", "two"}


# --- judged elsewhere --------------------------------------------------------------------------------------------


async def test_a_client_below_the_gateway_does_not_judge_again() -> None:
    """LiteLLM's own functions and clients are patched in this process, too, under opentelemetry-instrument."""
    from otel_loopguard.instrumentation.model_request import async_request_wrapper

    class Original:
        def bind(self, given):
            return self.call, None, given

        async def call(self, body):
            return {"choices": []}

    def read(instance, args, kwargs):
        return Sent(CHAT, args[0], "m", lambda changed: ((changed,), {}), lambda reply, _: reply)

    below = async_request_wrapper(read, lambda: ValueError)(Original())
    with at_once() as recording:
        for steps in range(4):

            async def handle(steps=steps):
                data = {"messages": conversation(steps), "tools": TOOLS}
                await gateway.judge(ALICE, data, "acompletion")
                await below(data)

            await asyncio.get_running_loop().create_task(handle())
    assert len(recording.spans) == 3


# --- replies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
async def test_tokens_are_booked_whenever_the_reply_is_logged(*, late: bool) -> None:
    """The proxy logs a reply in the background: maybe after the next request."""
    with at_once() as recording:
        for steps in range(7):
            sender = Sender()
            await sender.send(conversation(steps))
            if late:
                await Sender().send(conversation(steps + 1))
            sender.context.run(gateway.learn, reply(steps + 1, prompt_tokens=100, completion_tokens=10), "1")
        await Sender().send(conversation(7))
        booked = {
            word: recording.counted(semconv.METRIC_MODEL_TOKENS, loopguard__step=word) for word in ("loop", "work")
        }
    assert booked == {"loop": 6 * 110, "work": 110}


async def test_a_reply_of_another_request_in_the_same_task_is_not_learnt() -> None:
    """A guardrail of the proxy may ask a model, too."""
    with at_once() as recording:
        sender = Sender()
        await sender.send([QUESTION])
        sender.context.run(gateway.learn, reply(7), "2")
        assert recording.runtime is not None
        assert recording.runtime.reader.lists.find_open("read_file", "call_7") is None


# --- the time of a request ---------------------------------------------------------------------------------------


class Agent:
    """Reads one file again and again, over one API of the proxy. Its clock is moved by hand."""

    def __init__(self, api: str, *, fails: bool = False) -> None:
        self.api = APIS[api]
        self.kind = {"chat": "acompletion", "responses": "aresponses", "messages": "anthropic_messages"}[api]
        self.fails = fails
        """True if each request fails once, and is sent again."""
        self.now = 1_000.0
        self.entries: list[Any] = [self.api.wire.user()]
        self.learn: Callable[[Any], Awaitable[None]] = self.learn_whole

    async def run(self, thought: float, requests: int = 11) -> list[Any]:
        """Make requests, of which each takes so long. Return the trips."""
        with guarded(clock=lambda: self.now) as recording:
            for number in range(requests):
                await asyncio.get_running_loop().create_task(self.request(number + 1, thought))
            assert recording.runtime is not None
            assert recording.runtime.shield.seen == set()
        return [(trip.mode, trip.count, trip.verdict, trip.action) for trip in recording.trips]

    async def request(self, number: int, thought: float) -> None:
        """Make a request, and the call of its reply, if it has one."""
        for fails in [True, False] if self.fails else [False]:
            body = {**self.api.wire.body(self.entries, [self.api.wire.tool()]), "model": "m", "litellm_call_id": "1"}
            if await gateway.judge(ALICE, body, self.kind) is not None:
                return
            self.now += thought
            if fails:
                gateway.fail("1")
        asked = Asked((Message("user", "task-1: who?"),), number=number)
        answer = self.api.service.answer(asked, Reply("", (nth(number),)), body)
        await self.learn(answer)
        step = self.api.wire.read(answer)
        self.entries += [*step.entries, *self.api.wire.results((step.calls[0], "text"))]

    @staticmethod
    async def learn_whole(answer: Any) -> None:
        """Learn a reply before its client has it, as the proxy says, and then from its log."""
        await gateway.alearn(answer, "1")
        gateway.learn(answer, "1")

    @staticmethod
    async def learn_from_log(answer: Any) -> None:
        """Learn a reply that was streamed."""
        gateway.learn(answer, "1")


EACH_API = pytest.mark.parametrize("api", ["chat", "responses", "messages"])


@EACH_API
@pytest.mark.parametrize("learn", ["learn_whole", "learn_from_log"])
async def test_a_loop_over_a_slow_model_is_told_and_ended_as_over_a_quick_one(api: str, learn: str) -> None:
    """Forty seconds of thought before each read are no wait: the third is a loop."""
    slow, quick = Agent(api), Agent(api)
    slow.learn = quick.learn = getattr(Agent, learn)
    trips = await slow.run(40.0)
    assert trips == await quick.run(0.0)
    assert [trip[1:] for trip in trips][:2] == [(2, "nudge", "nudge"), (3, "block", "nudge")]


@EACH_API
async def test_a_request_that_failed_has_taken_its_time(api: str) -> None:
    """The client sends it again: both times are thought, and each counts once."""
    assert await Agent(api, fails=True).run(40.0) == await Agent(api).run(0.0)


async def test_a_reply_that_is_logged_after_the_next_request_adds_no_thought() -> None:
    """Its call has been counted by then, and only time since a call counts. That of the next request does."""
    now = [0.0]
    with guarded(clock=lambda: now[0]) as recording:
        senders = Sender(), Sender()
        await senders[0].send(conversation(1))
        now[0] = 100.0
        await senders[1].send(conversation(2))
        assert recording.runtime is not None
        (turn,) = (one.turn for one in recording.runtime.reader.lists._lists.values())
        assert turn is not None
        senders[0].context.run(gateway.learn, reply(2), "1")
        assert turn.current.history.thought == 0.0
        now[0] = 140.0
        senders[1].context.run(gateway.learn, reply(3), "1")
        assert turn.current.history.thought == 40.0


@pytest.mark.parametrize("call_id", [None, "2"])
async def test_the_failure_of_another_request_tells_nothing(
    call_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guardrail of the proxy may ask a model, too; and a request may fail before it is read."""
    told: list[float] = []
    monkeypatch.setattr(Turn, "thought", lambda _, seconds: told.append(seconds))
    times = iter(range(1_000))
    gateway.fail(call_id)
    with guarded(clock=lambda: float(next(times))):
        sender = Sender()
        await sender.send(conversation(1))
        sender.context.run(gateway.fail, call_id)
        assert told == []
        sender.context.run(gateway.fail, "1")
        assert len(told) == 1


async def test_a_request_in_no_turn_tells_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one of a conversation has no calls yet."""
    told: list[float] = []
    monkeypatch.setattr(Turn, "thought", lambda _, seconds: told.append(seconds))
    await Agent("chat").run(40.0, 1)
    assert told == []


# --- spans -------------------------------------------------------------------------------------------------------


async def test_the_span_of_a_call_is_a_child_of_the_callers_span() -> None:
    """Its trace is that of the agent, whatever its language."""
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with at_once() as recording:
        await Sender(traceparent=traceparent).send(conversation(1))
    (span,) = recording.spans
    assert trace.format_trace_id(span.context.trace_id) == traceparent[3:35]
    assert span.parent is not None
    assert trace.format_span_id(span.parent.span_id) == traceparent[36:52]


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        {"messages": None},
        {"messages": 7},
        {"messages": [None, 7, "text"]},
        {"messages": [{"role": "assistant", "tool_calls": 7}, {"role": "tool", "content": object()}]},
        {"tools": [None], "proxy_server_request": 7},
        {"proxy_server_request": {"headers": []}},
    ],
)
@pytest.mark.parametrize("kind", ["acompletion", "aresponses", "anthropic_messages"])
async def test_a_malformed_request_passes_as_it_is(kind: str, body: dict[str, Any]) -> None:
    """The provider says what is wrong with it."""
    with at_once():
        for _ in range(3):
            data, error = await Sender().send([], kind=kind, **body)
            assert error is None
            assert {name: data[name] for name in body} == body


@pytest.mark.parametrize("kind", [RuntimeError, RecursionError, TimeoutError])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (gateway, "own"), (gateway, "headers_of"), (gateway, "caller_of"), (gateway, "_context_of"),
        (ModelReader, "open"), (Exchange, "ajudge_calls"), (Exchange, "prepare"), (Exchange, "_turn"),
        (MessageLists, "find"), (MessageLists, "keep"), (MessageList, "read"), (Turn, "aran"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)  # fmt: skip
async def test_a_fault_of_the_guard_lets_the_request_pass(
    owner: Any, name: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted, whatever class it has."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise kind

    monkeypatch.setattr(owner, name, fail)
    with at_once() as recording:
        for steps in range(12):
            data, error = await Sender().send(conversation(steps))
            assert (data["messages"], error) == (conversation(steps), None)
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) >= 11


async def test_a_fault_with_a_reply_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy has sent the reply already, and its log goes on."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(Exchange, "whole", fail)
    with at_once() as recording:
        await Sender().send([QUESTION], reply(1))
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 1


async def test_a_runtime_that_cannot_be_made_lets_the_request_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store without a key, for example: the start of the proxy has said so."""

    def fail() -> Any:
        raise RuntimeError

    monkeypatch.setattr(active_runtime, "get", fail)
    data, error = await Sender().send(conversation(9))
    assert (data["messages"], error) == (conversation(9), None)


async def test_turns_that_repeat_each_other_are_reported_by_the_conversation_header() -> None:
    """Each beat is a new list of messages. Without the header, and of another tenant, nothing connects them."""
    with at_once(Policy(scope="conversation")) as recording:
        senders = Sender(x_loopguard_conversation="beat"), Sender(BOB, x_loopguard_conversation="beat"), Sender()
        for beat in range(12):
            for sender in senders if beat < 9 else senders[:1]:
                await sender.send([{"role": "user", "content": f"It is {beat} o'clock."}], reply(beat))
                question = [{"role": "user", "content": f"It is {beat} o'clock."}, called(beat)]
                await sender.send([*question, {"role": "tool", "tool_call_id": f"call_{beat}", "content": "text"}])
    assert [(trip.mode, trip.action, trip.count) for trip in recording.trips] == [("no_novelty", "observe", 10)]
