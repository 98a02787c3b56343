"""Agents that work, and one that loops, through the replicas of a gateway with one store."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from otel_loopguard import Guard, Policy
from otel_loopguard.gateway import gateway
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.testing import Recording
from tests.store.memory import FlakyStore

CALLER = SimpleNamespace(api_key="k")
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("list_queue", "work_on")
]
QUEUE = "8 tickets are open: 1 2 3 4 5 6 7 8"


class Replica:
    """A gateway, without the proxy that it is a part of."""

    def __init__(self, store: FlakyStore | None = None) -> None:
        self.recording = Recording()
        self.runtime = Runtime(
            guard=Guard(Policy(hash_key=b"k" * 16), store=store),
            tracer_provider=self.recording.tracer_provider,
            meter_provider=self.recording.meter_provider,
        )

    async def ask(self, agent: Agent) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the request as it leaves the gateway, and the reply; None if the gateway refuses it."""

        async def handled() -> tuple[dict[str, Any], dict[str, Any] | None]:
            request: dict[str, Any] = {"messages": list(agent.messages), "tools": TOOLS, "litellm_call_id": "1"}
            request["proxy_server_request"] = {"headers": {}}
            if await gateway._judge(self.runtime, CHAT, CALLER, request) is not None:
                return request, None
            reply = agent.reply(request)
            await gateway.alearn({"choices": [{"message": reply}]}, "1")
            return request, reply

        return await asyncio.get_running_loop().create_task(handled())


class Agent:
    """Looks at the queue, and then works on one ticket after the other; or looks at the queue again and again."""

    def __init__(self, question: str, *, loops: bool = False, steps: int = 12) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        self.loops, self.steps = loops, steps
        self.ran = self.told = 0
        """Calls that ran, and requests that left the gateway with a sentence of the guard, or without tools."""
        self.answered = False

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the model's reply to a request."""
        if request.get("tool_choice") == "none" or (not self.loops and self.ran == self.steps):
            return {"role": "assistant", "content": "done"}
        name, arguments = "list_queue", {}
        if self.ran and not self.loops:
            name, arguments = "work_on", {"item": uuid.uuid4().hex}
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    async def step(self, replica: Replica, *, loses: bool = False) -> bool:
        """Make a request, and its call. Return False at the end. With ``loses`` it gets no reply, and asks again."""
        request, reply = await replica.ask(self)
        if loses and reply is not None:
            request, reply = await replica.ask(self)
        self.told += "[loopguard]" in json.dumps(request["messages"]) or request.get("tool_choice") == "none"
        if reply is None:
            return False
        self.messages.append(reply)
        for call in reply.get("tool_calls", ()):
            self.ran += 1
            found = QUEUE if call["function"]["name"] == "list_queue" else f"closed: {call['function']['arguments']}"
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})
        self.answered = "tool_calls" not in reply
        return not self.answered


async def run(agents: list[Agent], replicas: list[Replica], rng: random.Random, disturb: Any = None, lost: float = 0.0):
    """Let the agents make their requests in a drawn order, each to a drawn replica."""
    live = list(agents)
    while live:
        if disturb is not None:
            disturb(rng)
        agent = rng.choice(live)
        if not await agent.step(rng.choice(replicas), loses=rng.random() < lost) or agent.ran > 100:
            live.remove(agent)


def agents_of(seed: int) -> list[Agent]:
    """One that loops, and eight that work, with a question each."""
    return [Agent(f"what is in queue {seed}-{number}?", loops=number == 0) for number in range(9)]


def spans(replicas: list[Replica]) -> int:
    return sum(len(replica.recording.spans) for replica in replicas)


REPLICAS = pytest.mark.parametrize("count", [1, 2, 3])


@REPLICAS
@pytest.mark.parametrize("seed", range(3))
async def test_a_loop_ends_and_work_is_left_alone(count: int, seed: int) -> None:
    """The loop has nine calls, as through one gateway; no worker is told a word, and each call is reported once."""
    store = FlakyStore()
    replicas, agents = [Replica(store) for _ in range(count)], agents_of(seed)
    await run(agents, replicas, random.Random(seed))
    loop, *workers = agents
    assert (loop.ran, loop.answered) == (9, True)
    assert [(one.ran, one.answered, one.told) for one in workers] == [(12, True, 0)] * 8
    assert spans(replicas) == sum(one.ran for one in agents)


@REPLICAS
@pytest.mark.parametrize("seed", range(3))
async def test_requests_that_are_sent_again_change_nothing(count: int, seed: int) -> None:
    """A client that did not get a reply asks again: no worker is told a word, and the loop ends."""
    store = FlakyStore()
    replicas, agents = [Replica(store) for _ in range(count)], agents_of(seed)
    await run(agents, replicas, random.Random(seed), lost=0.3)
    loop, *workers = agents
    assert loop.answered
    assert loop.ran <= 12
    assert [(one.ran, one.answered, one.told) for one in workers] == [(12, True, 0)] * 8


@pytest.mark.parametrize("fault", ["away", "empty", "fail_over"])
async def test_a_store_that_fails_has_no_worker_told(fault: str) -> None:
    """The loop ends all the same."""
    store, rng = FlakyStore(), random.Random(fault)
    replicas, agents = [Replica(store) for _ in range(3)], agents_of(0)

    def disturb(rng: random.Random) -> None:
        if rng.random() < 0.1:
            {"away": store.away, "empty": lambda _: store.empty(), "fail_over": store.fail_over}[fault](2)

    await run(agents, replicas, rng, disturb)
    loop, *workers = agents
    assert loop.answered
    assert loop.ran < 100
    assert [(one.ran, one.answered, one.told) for one in workers] == [(12, True, 0)] * 8
