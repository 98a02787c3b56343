"""Make each function of the package raise where no framework runs the tools: model clients, the gateway, shared turns.

The model of a client and of the gateway is a script. It reads each request, and compares it with that of the program.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
from openai import AsyncOpenAI, OpenAI

import otel_loopguard as loopguard
from benchmarks.reliability.faults import broken_under
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.gateway import gateway
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.store import cell
from otel_loopguard.testing import Transcript
from tests.store.memory import FlakyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.reliability.faults import Drivers
    from benchmarks.reliability.result import Row
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.testing import Ask

    Tools = Any
    Steps = Sequence[Sequence[Ask]]
    Json = dict[str, Any]

TITLE = "Faults without a framework"
ABOUT = """The same for programs that run their tools themselves and ask a model by `openai`, for agents that ask it
through the gateway, and for shared turns. *Broken*, too: a request has anything but what the program wrote and
sentences, or lacks its tools though there is no loop; or a run hangs."""
LOOP = 14
"""The calls of a loop: requests go without tools from the tenth on."""
CALLER = SimpleNamespace(api_key="k")


class Conversation:
    """A program that runs the tools itself, and the script of its model."""

    def __init__(self, tools: Tools, steps: Steps, *, stubborn: bool = False) -> None:
        self._tools, self._steps = tools, steps
        self._stubborn = stubborn
        """The model calls tools that it was not given."""
        self.transcript = Transcript()
        described = {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
        self.body: Json = {
            "model": "m",
            "messages": [{"role": "user", "content": f"question {uuid.uuid4().hex}"}],
            "tools": [{"type": "function", "function": described}],
        }
        """The next request."""

    def copy(self) -> Json:
        """Return the request as other code may change it."""
        copied: Json = json.loads(json.dumps(self.body))
        return copied

    def go_on(self, message: Json) -> bool:
        """Run the calls of a message. Return False if it has none."""
        self.body["messages"].append(message)
        for call in message.get("tool_calls") or ():
            result = self._tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            self.body["messages"].append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return bool(message.get("tool_calls"))

    def reply(self, got: Json) -> Json:
        """Return the model's message in reply to a request, as it came from the program."""
        own, kept = self.body["messages"], self.transcript
        told = [
            {**one, "content": mine["content"]} if str(one["content"]).startswith(mine["content"] or "None") else one
            for one, mine in zip(got["messages"], own, strict=False)
        ]
        may_call = got.get("tool_choice") != "none"
        if told != own or got["tools"] != self.body["tools"]:
            kept.error = AssertionError("another request")
        kept.read = [one["content"] for one in got["messages"] if one["role"] == "tool"]
        if not may_call:
            kept.ended = "no tools"
        step = sum(one["role"] == "assistant" for one in own)
        if step == len(self._steps) or not (may_call or self._stubborn):
            return {"role": "assistant", "content": "done"}
        (ask,) = self._steps[step]
        function = {"name": ask.tool, "arguments": json.dumps(ask.arguments)}
        call = {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer as the provider does."""
        message = self.reply(json.loads(request.content))
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        made = {"id": uuid.uuid4().hex, "object": "chat.completion", "created": 1, "model": "m"}
        return httpx.Response(200, json={**made, "choices": [choice], "usage": usage})


def _chat(tools: Tools, steps: Steps, *, stubborn: bool = False) -> Transcript:
    one = Conversation(tools, steps, stubborn=stubborn)
    with OpenAI(**_at_provider(httpx.Client(transport=httpx.MockTransport(one.answer)))) as client:
        try:
            while one.go_on(client.chat.completions.create(**one.copy()).choices[0].message.to_dict()):
                pass
        except ToolLoopError as error:
            one.transcript.ended = str(error)
    return one.transcript


def _achat(tools: Tools, steps: Steps) -> Transcript:
    async def run() -> Transcript:
        one = Conversation(tools, steps)
        transport = httpx.MockTransport(one.answer)
        async with AsyncOpenAI(**_at_provider(httpx.AsyncClient(transport=transport))) as client:
            try:
                while one.go_on((await client.chat.completions.create(**one.copy())).choices[0].message.to_dict()):
                    pass
            except ToolLoopError as error:
                one.transcript.ended = str(error)
        return one.transcript

    return asyncio.run(run())


def _at_provider(http_client: Any) -> Json:
    return {"api_key": "k", "base_url": "http://provider/v1", "max_retries": 0, "http_client": http_client}


def _gateway(tools: Tools, steps: Steps, *, store: FlakyStore | None = None, stubborn: bool = False) -> Transcript:
    async def run() -> Transcript:
        one = Conversation(tools, steps, stubborn=stubborn)
        while await asyncio.create_task(request(one)):  # the proxy has a task for each
            pass
        return one.transcript

    async def request(one: Conversation) -> bool:
        data = {**one.copy(), "litellm_call_id": "1", "proxy_server_request": {"headers": {}}}
        error = await gateway.judge(CALLER, data, "acompletion")
        if error is not None:
            one.transcript.ended = str(error)
            return False
        message = one.reply(data)
        reply = {"choices": [{"message": message}]}
        await gateway.alearn(reply, "1")
        gateway.learn(reply, "1")
        return one.go_on(message)

    _guard().store = store
    return asyncio.run(run())


def _guard() -> Guard:
    runtime = active_runtime.instrumented
    assert runtime is not None
    return runtime.guard


def _shared(tools: Tools, steps: Steps, run: Callable[..., None]) -> Transcript:
    """Make the calls in a turn of a store, to which a user sends a message."""
    transcript, _guard().store = Transcript(), FlakyStore()
    with loopguard.turn(turn_id=uuid.uuid4().hex) as turn:
        turn.say("a message of the user")
        try:
            run(tools, steps, transcript)
        except ToolLoopError as error:
            transcript.ended = str(error)
    return transcript


def _calls(tools: Tools, steps: Steps, transcript: Transcript) -> None:
    for (ask,) in steps:
        transcript.read.append(loopguard.call(ask.tool, ask.arguments, tools[ask.tool], known_tools=tools))


def _calls_on_loop(tools: Tools, steps: Steps, transcript: Transcript) -> None:
    async def run() -> None:
        _calls(tools, steps, transcript)

    asyncio.run(run())


def _async_calls(tools: Tools, steps: Steps, transcript: Transcript) -> None:
    async def run() -> None:
        for (ask,) in steps:

            async def tool(ask: Ask = ask, **arguments: Any) -> Any:
                await asyncio.sleep(0)
                return tools[ask.tool](**arguments)

            transcript.read.append(await loopguard.call(ask.tool, ask.arguments, tool, known_tools=tools))

    asyncio.run(run())


WAYS: dict[str, Drivers] = {
    "openai": {
        "chat": _chat,
        "async chat": _achat,
        "stubborn chat": lambda tools, steps: _chat(tools, steps, stubborn=True),
    },
    "gateway": {
        "replica": _gateway,
        "replica with a store": lambda tools, steps: _gateway(tools, steps, store=FlakyStore()),
        "stubborn": lambda tools, steps: _gateway(tools, steps, stubborn=True),
    },
    "shared turn": {
        "threads": lambda tools, steps: _shared(tools, steps, _calls),
        "tasks": lambda tools, steps: _shared(tools, steps, _async_calls),
        "functions on an event loop": lambda tools, steps: _shared(tools, steps, _calls_on_loop),
    },
}


def measure(seed: int, scale: float) -> Iterator[Row]:
    """Break every function under drivers that the seed draws."""
    cell._LONGEST_WAIT = 0.1
    yield from broken_under(WAYS.items(), Random(seed), scale, loop=LOOP)
