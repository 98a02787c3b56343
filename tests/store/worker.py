"""A worker of a queue: it makes the calls that its input names, one line each, and answers with a line each.

``python -m tests.store.worker``. A line is JSON: the call as keywords of ``call``, or {"say": text}. A call of
``ask_agent`` answers the headers of its request first; the next line is what the agent in another process has said.
"""

from __future__ import annotations

import asyncio
import json
import sys

from opentelemetry import context
from opentelemetry.propagate import extract, inject

import otel_loopguard as loopguard


@loopguard.tool
def read_file(path: str) -> str:
    """Return the same text each time."""
    return f"the text of {path}"


@loopguard.tool
async def fetch(path: str) -> str:
    """Do the same in async code."""
    await asyncio.sleep(0)
    return f"the page of {path}"


@loopguard.tool
def ask_agent(path: str) -> str:
    """Send a request to an agent in another process."""
    headers: dict[str, str] = {"path": path}
    inject(headers)
    print(json.dumps(headers), flush=True)
    return sys.stdin.readline().strip()


def call(
    tool: str,
    path: str,
    turn: str | None = None,
    conversation: str | None = None,
    headers: dict[str, str] | None = None,
) -> str:
    """Make a call in a turn, and return the answer that the model reads. ``headers``: of the request for the turn."""
    context.attach(extract(headers or {}))
    with loopguard.turn(conversation, turn_id=turn):
        try:
            if tool == "ask_agent":
                return str(ask_agent(path))
            return str(read_file(path) if tool == "read_file" else asyncio.run(fetch(path)))
        except loopguard.RunStopped as error:
            return f"{type(error).__name__} {error.mode}"


def said(text: str, conversation: str, *, stop: bool) -> str:
    """Say a message of the user, and return whether it was taken, or that it was not stored."""
    try:
        return str(bool(loopguard.say(text, conversation_id=conversation, stop=stop)))
    except loopguard.NotStoredError:
        return "NotStoredError"


def main() -> None:
    """Answer each line."""
    for line in sys.stdin:
        order = json.loads(line)
        if "say" in order:
            answer = said(order["say"], order["conversation"], stop=order.get("stop", False))
        else:
            answer = call(**order)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
