"""Replicas of a gateway with one store judge a conversation as one gateway does, whichever of them gets a request."""

from __future__ import annotations

import asyncio
import itertools
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import Guard, Policy, semconv
from otel_loopguard.gateway import gateway
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.testing import Recording
from tests.models.conversation import Call
from tests.models.wire import CHAT as WIRE
from tests.models.wire import looped
from tests.store.memory import FlakyStore

if TYPE_CHECKING:
    from collections.abc import Callable

ALICE, BOB = SimpleNamespace(api_key="alice"), SimpleNamespace(api_key="bob")
TOOLS = [WIRE.tool()]


class Replica:
    """A gateway of its own, with the telemetry that it exports."""

    def __init__(self, store: FlakyStore | None, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.recording = Recording()
        self.runtime = Runtime(
            guard=Guard(Policy(hash_key=b"k" * 16), store=store, clock=clock),
            tracer_provider=self.recording.tracer_provider,
            meter_provider=self.recording.meter_provider,
        )

    async def send(self, messages: list[Any], auth: Any = ALICE, **headers: str) -> tuple[Any, Any, str]:
        """Return the messages that leave the gateway, its choice of tools, and the error."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        data = {"messages": messages, "tools": TOOLS, "proxy_server_request": {"headers": names}}
        judged = gateway._judge(self.runtime, CHAT, auth, data)
        error = await asyncio.get_running_loop().create_task(judged)
        return data["messages"], data.get("tool_choice"), "" if error is None else error.mode


def conversation(steps: int, question: str = "what is in it?", ids: str = "call_7f3a9c2e{}") -> list[dict[str, Any]]:
    """A question and so many equal calls with equal results."""
    return looped(WIRE, steps, lambda number: Call("read_file", {"path": "a.txt"}, ids.format(number)), question)


async def alone(last: int = 10, **options: Any) -> list[Any]:
    """The requests as they leave one gateway without a store."""
    replica = Replica(None)
    return [await replica.send(conversation(steps, **options)) for steps in range(last + 1)]


def reported(replicas: list[Replica]) -> tuple[int, dict[str, float]]:
    """The number of spans, and the trips by their action, of all replicas."""
    points = [point for one in replicas for point in one.recording.points(semconv.METRIC_TRIPS)]
    trips: dict[str, float] = {}
    for point in points:
        if point.value:
            action = str(point.attributes[semconv.ACTION])
            trips[action] = trips.get(action, 0) + point.value
    return sum(len(one.recording.spans) for one in replicas), trips


EXACT = (10, {"nudge": 7, "conclude": 1, "abort": 1})


@pytest.mark.parametrize("ids", ["call_7f3a9c2e{}", "call_7f3a9c2e"], ids=["ids", "equal_ids"])
@pytest.mark.parametrize("count", [2, 3])
async def test_requests_in_turn_are_judged_as_by_one(count: int, ids: str) -> None:
    """Every request leaves as from one gateway, and each call and trip is reported once by one of them."""
    store = FlakyStore()
    replicas = [Replica(store) for _ in range(count)]
    turn = itertools.cycle(replicas)
    assert [await next(turn).send(conversation(steps, ids=ids)) for steps in range(11)] == await alone(ids=ids)
    assert reported(replicas) == EXACT


@pytest.mark.parametrize("seed", range(5))
async def test_requests_in_any_order_of_replicas_are_judged_as_by_one(seed: int) -> None:
    """Also while another tenant sends the same requests through the same replicas."""
    store, drawn = FlakyStore(), random.Random(seed)
    replicas = [Replica(store) for _ in range(3)]
    found: dict[str, list[Any]] = {"alice": [], "bob": []}
    for steps in range(11):
        for auth in (ALICE, BOB):
            found[auth.api_key].append(await drawn.choice(replicas).send(conversation(steps), auth))
    expected = await alone()
    assert found == {"alice": expected, "bob": expected}
    spans, trips = EXACT
    assert reported(replicas) == (2 * spans, {action: 2 * number for action, number in trips.items()})


@pytest.mark.parametrize("last", [2, 8, 9])
async def test_a_replica_that_was_started_again_goes_on(last: int) -> None:
    """It has met nothing of the turn, and reads the calls from the request and the decisions from the store."""
    store = FlakyStore()
    before = Replica(store)
    for steps in range(last):
        await before.send(conversation(steps))
    after = Replica(store)
    found = [await after.send(conversation(steps)) for steps in range(last, 11)]
    assert found == (await alone())[last:]
    assert reported([before, after]) == EXACT


async def test_an_ended_turn_is_ended_everywhere() -> None:
    """A client that sends its request again may reach another replica: it is refused there, and not counted again."""
    store = FlakyStore()
    replicas = [Replica(store) for _ in range(2)]
    for steps in range(11):
        await replicas[0].send(conversation(steps))
    _, _, mode = await replicas[1].send(conversation(10))
    assert mode == "generic_repeat"
    assert reported(replicas) == EXACT


async def test_the_next_question_begins_a_turn_in_every_replica() -> None:
    """Also in one that saw nothing of the turn before but its first request."""
    store = FlakyStore()
    replicas = [Replica(store) for _ in range(2)]
    for steps in range(8):
        await replicas[steps > 0].send(conversation(steps))
    asked = [*conversation(7), {"role": "assistant", "content": "It is text."}, {"role": "user", "content": "again?"}]
    await replicas[1].send(asked)
    for number, replica in enumerate(replicas * 2, 1):
        call = Call("read_file", {"path": "a.txt"}, f"call_5d1b0e4a{number}")
        asked += [*WIRE.calls(call), *WIRE.results((call, "text"))]
        sent, choice, mode = await replica.send(asked)
        assert (choice, mode) == (None, "")
        assert ("[loopguard]" in sent[-1]["content"]) is (number > 1)
    turns = [(span.attributes or {})[semconv.TURN_ID] for one in replicas for span in one.recording.spans]
    assert sorted(turns.count(turn) for turn in set(turns)) == [4, 7]


async def test_conversations_that_begin_with_equal_words_are_apart() -> None:
    """A program that asks the same each hour makes the same call each hour: its ids tell the runs apart."""
    store = FlakyStore()
    replicas = [Replica(store) for _ in range(2)]
    for run in range(6):
        sent, _, _ = await replicas[run % 2].send(conversation(1, ids=f"run7f3a9c2e{run}x{{}}"))
        assert "[loopguard]" not in sent[-1]["content"]


async def test_a_named_conversation_may_be_cut() -> None:
    """A replica that sees the shorter history finds the turn by the header and the question."""
    store = FlakyStore()
    replicas = [Replica(store) for _ in range(2)]
    earlier = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello."}]
    await replicas[0].send([*earlier, *conversation(2)], x_loopguard_conversation="c")
    await replicas[1].send(conversation(3), x_loopguard_conversation="c")
    turns = {(span.attributes or {})[semconv.TURN_ID] for one in replicas for span in one.recording.spans}
    assert len(turns) == 1


async def test_without_a_store_each_replica_judges_what_it_sees() -> None:
    """The loop ends behind any load balancer, and each replica reports it."""
    replicas = [Replica(None) for _ in range(2)]
    turn = itertools.cycle(replicas)
    found = [await next(turn).send(conversation(steps)) for steps in range(11)]
    assert [(sent, mode) for sent, _, mode in found][:9] == [(sent, mode) for sent, _, mode in await alone(8)]
    assert {one for _, one, _ in found} == {None, "none"}
    assert all(one.recording.trips for one in replicas)


async def kept(
    replicas: list[Replica],
    auth: Any = ALICE,
    paths: str = "SSSSSSSSSSS",
    think: Callable[[], None] = lambda: None,
) -> list[tuple[Any, Any, str]]:
    """The requests of a conversation that the provider keeps, each through the next replica, as they leave it."""

    async def ask(replica: Replica, step: int) -> tuple[Any, Any, str]:
        items: list[Any] = [{"role": "user", "content": "what is in it?"}]
        data: dict[str, Any] = {"input": items, "tools": [{"type": "function", "name": "read_file"}]}
        if step:
            data["input"] = [{"type": "function_call_output", "call_id": f"call_{step}", "output": "text"}]
            data["previous_response_id"] = f"resp_{step}"
        data |= {"litellm_call_id": f"request-{step}", "proxy_server_request": {"headers": {}}}
        error = await gateway._judge(replica.runtime, RESPONSES, auth, data)
        think()
        call = {
            "type": "function_call",
            "call_id": f"call_{step + 1}",
            "name": "read_file",
            "arguments": f'{{"path": "SECRET {paths[step]}"}}',
        }
        reply = {"id": f"resp_{step + 1}", "object": "response", "output": [call]}
        if step % 3:
            await gateway.alearn(reply, f"request-{step}")
        else:
            gateway.learn(reply, f"request-{step}")
        return data["input"], data.get("tool_choice"), "" if error is None else error.mode

    turn = itertools.cycle(replicas)
    return [await asyncio.get_running_loop().create_task(ask(next(turn), step)) for step in range(len(paths))]


async def test_a_conversation_that_the_provider_keeps_is_judged_as_by_one() -> None:
    """A request has no calls then, only results: the replica that passed the reply on has noted its calls."""
    store = FlakyStore()
    replicas = [Replica(store) for _ in range(3)]
    one = await kept([Replica(None)])
    assert one[-1][2] == "generic_repeat"
    assert await kept(replicas) == one
    assert reported(replicas) == EXACT
    stored = [state for _, state in store.cells.values()]
    assert not any(b"SECRET" in data or b"SECRET".hex().encode() in data for data in stored)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_slow_model_whose_provider_keeps_the_conversation_is_judged_as_a_quick_one(count: int) -> None:
    """A replica tells the others by the turn that they share how long the model thought."""
    now = [0.0]

    def think() -> None:
        now[0] += 40.0

    store = FlakyStore(lambda: now[0])
    replicas = [Replica(store, lambda: now[0]) for _ in range(count)]
    assert await kept(replicas, think=think) == await kept([Replica(None)])


class SlowModel:
    """A model that takes 40 seconds for each reply; each request of its conversation goes to the next replica."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        store = FlakyStore(lambda: self.now + 5_000.0) if count > 1 else None
        self.replicas = [Replica(store, lambda: self.now) for _ in range(count)]

    async def _send(self, replica: Replica, steps: int, reply: Any) -> tuple[Any, Any, str]:
        data = {"messages": conversation(steps), "tools": TOOLS, "litellm_call_id": "1"}
        error = await gateway._judge(replica.runtime, CHAT, ALICE, data)
        self.now += 40.0
        await gateway.alearn({"choices": [{"message": reply}]}, "1")
        return data["messages"], data.get("tool_choice"), "" if error is None else error.mode

    async def requests(self, waits: float) -> list[tuple[Any, Any, str]]:
        """The requests as they leave the gateways. The tool takes so many seconds."""
        found = []
        for steps, replica in zip(range(11), itertools.cycle(self.replicas)):
            reply = conversation(steps + 1)[-2]
            found.append(await asyncio.get_running_loop().create_task(self._send(replica, steps, reply)))
            self.now += waits
        return found


@pytest.mark.parametrize("waits", [0.0, 15.0])
@pytest.mark.parametrize("count", [2, 3])
async def test_thinking_in_another_replica_is_no_waiting(count: int, waits: float) -> None:
    """Each replica tells the others how long the model thought, and when it had written a call."""
    model = SlowModel(count)
    assert await model.requests(waits) == await SlowModel(1).requests(waits) == await alone()
    assert sum(len(one.recording.spans) for one in model.replicas) == 10


async def test_a_noted_call_is_found_by_its_caller_only() -> None:
    """Another tenant with the same ids of calls and replies has a conversation of its own."""
    store = FlakyStore()
    replicas = [Replica(store) for _ in range(2)]
    one = await kept([Replica(None)])
    await kept(replicas)
    assert await kept(replicas[::-1], BOB) == one


@pytest.mark.parametrize("count", [1, 2])
async def test_the_sentence_of_an_earlier_result_is_not_written_on_a_later_one(count: int) -> None:
    """The provider has the earlier result. The later one is at the same place of its request, and is new."""
    store = FlakyStore()
    requests = await kept([Replica(store) for _ in range(count)], paths="SSAB")
    texts = [request[0]["output"] for request, _, _ in requests[1:]]
    assert texts[0] == texts[2] == "text"
    assert "[loopguard]" in texts[1]
