"""A worker of a queue: it makes the calls that its input names, one line each, and answers with a line each.

``python -m tests.store.worker``. A line is JSON: the call as keywords of ``CALLS``, or {"say": text}.
"""

from __future__ import annotations

import asyncio
import json
import sys

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


def call(tool: str, path: str, turn: str | None, conversation: str | None) -> str:
    """Make a call in a turn, and return the answer that the model reads."""
    with loopguard.turn(conversation, turn_id=turn):
        try:
            return str(read_file(path) if tool == "read_file" else asyncio.run(fetch(path)))
        except loopguard.ToolLoopError as error:
            return f"ToolLoopError {error.mode}"


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
            answer = call(order["tool"], order["path"], order.get("turn"), order.get("conversation"))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
