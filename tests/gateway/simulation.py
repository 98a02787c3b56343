"""Simulated agents that send their requests through the replicas of a gateway, without the proxy."""

from __future__ import annotations

import asyncio
import json
import uuid
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from otel_loopguard import Guard, Policy
from otel_loopguard.gateway import gateway
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.testing import Recording

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.store.memory import FlakyStore

CALLER = SimpleNamespace(api_key="k")
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("list_queue", "work_on")
]
QUEUE = "8 tickets are open: 1 2 3 4 5 6 7 8"


def drawn_id() -> str:
    """Return an id that no other call has."""
    return f"call_{uuid.uuid4().hex}"


def numbered() -> Callable[[], str]:
    """Return a function that numbers the calls of one conversation."""
    numbers = count()
    return lambda: f"call_{next(numbers)}"


class Replica:
    """A gateway, without the proxy that it is a part of."""

    def __init__(self, store: FlakyStore | None = None, **settings: Any) -> None:
        self.recording = Recording()
        self.runtime = Runtime(
            guard=Guard(Policy(hash_key=b"k" * 16), store=store, **settings),
            tracer_provider=self.recording.tracer_provider,
            meter_provider=self.recording.meter_provider,
        )

    async def ask(self, agent: Agent) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the request as it leaves the gateway, and the reply; None if the gateway refuses it."""

        async def handled() -> tuple[dict[str, Any], dict[str, Any] | None]:
            request: dict[str, Any] = {"messages": agent.sent(), "tools": TOOLS, "litellm_call_id": "1"}
            request["proxy_server_request"] = {"headers": agent.headers}
            if await gateway._judge(self.runtime, CHAT, CALLER, request) is not None:
                return request, None
            reply = agent.reply(request)
            await gateway.alearn({"choices": [{"message": reply}]}, "1")
            return request, reply

        return await asyncio.get_running_loop().create_task(handled())


class Agent:
    """Looks at the queue, and then works on one ticket after the other; or looks at the queue again and again."""

    def __init__(self, question: str, *, loops: bool = False, steps: int = 12, opening: int = 1) -> None:
        """``opening``: the number of its first calls that all workers make."""
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        self.loops, self.steps, self.opening = loops, steps, opening
        self.new_id: Callable[[], str] = drawn_id
        """Gives each call its id, as the model server does."""
        self.rename: Callable[[], str] | None = None
        """Gives calls other ids, as some clients do."""
        self.system: Callable[[], str] | None = None
        self.shorten: Callable[[Agent], None] | None = None
        """Shortens the history after a call."""
        self.headers: dict[str, str] = {}
        self.ran = self.told = 0
        """Calls that ran, and requests that left the gateway with a sentence of the guard, or without tools."""
        self.answered = False

    def sent(self) -> list[dict[str, Any]]:
        """Return the messages of the next request."""
        instructions = [] if self.system is None else [{"role": "system", "content": self.system()}]
        return [*instructions, *self.messages]

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the model's reply to a request."""
        if request.get("tool_choice") == "none" or (not self.loops and self.ran == self.steps):
            return {"role": "assistant", "content": "done"}
        name, arguments = "list_queue", {}
        if self.ran >= self.opening and not self.loops:
            name, arguments = "work_on", {"item": uuid.uuid4().hex}
        elif self.opening > 1 and not self.loops:
            arguments = {"page": self.ran}
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": self.new_id(), "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def result(self, call: dict[str, Any]) -> str:
        """Return the result of a call."""
        return QUEUE if call["function"]["name"] == "list_queue" else f"closed: {call['function']['arguments']}"

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
            if self.rename is not None:
                call["id"] = self.rename()
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": self.result(call)})
        self.answered = "tool_calls" not in reply
        if self.shorten is not None:
            self.shorten(self)
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


def spans(replicas: list[Replica]) -> int:
    """Return the number of spans that replicas have exported."""
    return sum(len(replica.recording.spans) for replica in replicas)
