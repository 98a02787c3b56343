"""Measure reading the requests of OpenAI's client, beside the bare client: python -m benchmarks.performance.requests.

The conversation has 200 messages of 1 KB before each request, of which two are new. The client's transport answers at
once, so the client's figure is its own work alone. All cases take turns, round by round.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from time import thread_time
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Goal, Row, Section, compared, interleaved, main
from benchmarks.workload import TOOL, conversation
from otel_loopguard.instrumentation.instrumentor import instrument, uninstrument
from otel_loopguard.instrumentation.model_api import Sent
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.turns.message_lists import latest
from otel_loopguard.turns.messages import Reply, WrittenCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MESSAGES = 200
GOAL = Goal(100)
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in (TOOL, "write_file")
]


def sent(messages: list[Any]) -> Sent:
    """The request as the client's method gets it: fresh objects, the same texts."""
    body = {"model": "m", "messages": [dict(one) for one in messages], "tools": TOOLS}
    return Sent(CHAT, body, "m", lambda changed: ((), {}), lambda reply, listener: reply)  # noqa: ARG005 - nothing is sent


def read(messages: list[Any]) -> tuple[float, float]:
    """Return the processor time of reading a request, and of counting its new call."""
    runtime, request = active_runtime.get(), sent(messages)
    started = thread_time()
    exchange = runtime.reader.open(request)
    opened = thread_time()
    exchange.judge_calls()
    exchange.prepare(lambda: RuntimeError, (), {})  # type: ignore[arg-type, return-value]  # nothing is raised
    return opened - started, thread_time() - opened


def reading(number: int) -> tuple[float, float]:
    """Read a conversation, and then its next request, with two new messages."""
    messages = conversation(number, MESSAGES + 2)
    read(messages[:MESSAGES])
    call, known = messages[MESSAGES]["tool_calls"][0], latest.get()
    assert known is not None
    known.reply(Reply((WrittenCall(call["id"], TOOL, json.loads(call["function"]["arguments"])),)), 0.0)
    return read(messages[: MESSAGES + 2])


def cold(messages: int, number: int) -> float:
    """Read a conversation that is not known."""
    made = conversation(number, messages)
    return sum(read(made))


def client_call(create: Callable[..., Any], number: int) -> float:
    """Send a request with the bare client."""
    messages = conversation(number, MESSAGES + 2)
    started = thread_time()
    create(model="m", messages=messages, tools=TOOLS)
    return thread_time() - started


def bare_client() -> Callable[..., Any]:
    """OpenAI's client on a transport that answers at once."""
    import httpx
    import openai

    answer = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}],
    }  # fmt: skip
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))  # noqa: ARG005 - its signature
    client = openai.OpenAI(api_key="local", base_url="http://local/v1", http_client=httpx.Client(transport=transport))
    create: Callable[..., Any] = client.chat.completions.create
    return create


CLIENT, AGAIN = "a request of the bare client", f"reading {MESSAGES} messages, 2 of them new"


def sections(*, quick: bool) -> Iterator[Section]:
    """Measure the client, and the reading of its requests."""
    about = (
        f"A conversation of {MESSAGES} messages of 1 KB, of which two are new in each request. The transport of "
        "OpenAI's client answers at once, so that its time is its own work alone."
    )
    try:
        create = bare_client()
    except ImportError as error:
        yield Section("Reading model requests", about, [Row(AGAIN, note=f"not measured, {error}", goal=GOAL)])
        return
    numbers = count()

    def client(*, guarded: bool) -> float:
        if guarded:
            return client_call(create, next(numbers))
        uninstrument()
        figure = client_call(create, next(numbers))
        instrument()
        return figure

    instrument()
    found = interleaved(
        {
            CLIENT: lambda: client(guarded=False),
            "a request of the client, read for the first time": lambda: client(guarded=True),
            AGAIN: lambda: reading(next(numbers))[0],
            "counting the new call": lambda: reading(next(numbers))[1],
            f"first reading of {MESSAGES} messages": lambda: cold(MESSAGES, next(numbers)),
            f"first reading of {4 * MESSAGES} messages": lambda: cold(4 * MESSAGES, next(numbers)),
        },
        15 if quick else 45,
    )
    uninstrument()
    found = {name: [1e6 * seconds for seconds in values] for name, values in found.items()}
    yield Section("Reading model requests", about, compared(found, CLIENT, "client", {AGAIN: GOAL}))


if __name__ == "__main__":
    sys.exit(main(sections, __doc__))
