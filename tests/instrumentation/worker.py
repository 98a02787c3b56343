"""A worker of a queue: it makes one step of a conversation for each line, and at its end says what it has counted.

Run as ``python -m tests.instrumentation.worker URL``. A line is the JSON of the messages, and so is each answer.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import openai

from otel_loopguard.testing import guarded

TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object", "properties": {}}}}]


def step(client: openai.OpenAI, messages: list[Any]) -> list[Any]:
    """Ask the model, and run the tools that it calls."""
    message = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS).choices[0].message  # type: ignore[arg-type,call-overload]  # plain dictionaries
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "This is a file, and it is always the same."}
        for call in message.tool_calls or ()
    ]
    return [*messages, message.model_dump(exclude_none=True), *results]


def main(url: str) -> None:
    """Work until standard input ends."""
    with guarded(clock=lambda: 0.0) as recording, openai.OpenAI(base_url=f"{url}/v1", api_key="local") as client:
        for line in sys.stdin:
            print(json.dumps(step(client, json.loads(line))), flush=True)
    print(json.dumps({"outcomes": recording.outcomes, "trips": len(recording.trips)}))


if __name__ == "__main__":
    main(sys.argv[1])
