"""One service: ``opentelemetry-instrument python -m dashboards.pictures.agent NAME SECONDS``.

The loop is written by hand over the client of `openai`, whose transport is a script: it needs no network and no key.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx
from openai import OpenAI

import otel_loopguard as loopguard
from dashboards.pictures.services import SERVICES, Service

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS_OF_A_CALL = 900
PROMPT = 2_500


class Script:
    """The model: it answers a request with the next call, or with a text."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.calls: list[dict[str, Any]] = []
        """The arguments of each call of the turn."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        time.sleep(self._service.think)
        asked = json.loads(request.content)
        results = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        done = len(results)
        refused = bool(results) and "tool_loop_detected" in results[-1] and not self._service.stubborn
        call = self.calls[done] if done < len(self.calls) and not refused else None
        return httpx.Response(200, json=self._reply(asked, call, done))

    def _reply(self, asked: dict[str, Any], arguments: dict[str, Any] | None, done: int) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if arguments is not None and asked.get("tool_choice") != "none":
            function = {"name": self._service.tool, "arguments": json.dumps(arguments)}
            message["content"] = None
            message["tool_calls"] = [{"id": f"{id(self.calls)}-{done}", "type": "function", "function": function}]
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        read, wrote = PROMPT + TOKENS_OF_A_CALL * min(done, 40), 120
        usage = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
        return {
            "id": "r", "object": "chat.completion", "created": 0, "model": asked["model"], "choices": [choice],
            "usage": usage,
        }  # fmt: skip


def run_turn(service: Service, client: OpenAI, tool: Callable[..., str], deadline: float, number: int) -> None:
    """Answer one message of a user."""
    declared: Any = [{"type": "function", "function": {"name": service.tool, "parameters": {"type": "object"}}}]
    messages: list[Any] = [{"role": "user", "content": f"Task {number}"}]
    with loopguard.turn(conversation_id=f"{service.name}-{number}"):
        while time.time() < deadline:
            asked = client.chat.completions.create(model=service.model, messages=messages, tools=declared)
            reply = asked.choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            for call in reply.tool_calls or ():
                assert call.type == "function"
                try:
                    result = loopguard.call(call.function.name, call.function.arguments, tool, call_id=call.id)
                except ConnectionError as error:
                    result = str(error)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if not reply.tool_calls:
                return


def tool_of(service: Service) -> Callable[..., str]:
    """Return the tool of a service. What belongs to a loop has ``stuck`` in its arguments."""

    def tool(**arguments: Any) -> str:
        what = "-".join(str(value) for value in arguments.values())
        if "stuck" not in what or service.loop in ("repeat", "poll"):
            return f"{what}: " + ("running" if service.loop == "poll" and "stuck" in what else "text of it, " * 9)
        if service.loop == "error":
            msg = "the host refused the connection"
            raise ConnectionError(msg)
        return "Several people have that name, please ask for one of them by the department and the first name. " * 2

    return tool


def calls_of(service: Service, number: int) -> list[dict[str, Any]]:
    """Return the arguments of the calls of one turn."""
    if not service.every or number % service.every:
        return [{"path": f"{number}-{step}"} for step in range(3)]
    same = service.loop in ("repeat", "poll")
    return [{"path": f"stuck-{number}" if same else f"stuck-{number}-{step}"} for step in range(service.steps)]


def main() -> None:
    """Run turns until the time is over."""
    service = next(each for each in SERVICES if each.name == sys.argv[1])
    deadline = time.time() + float(sys.argv[2])
    script = Script(service)
    client = OpenAI(
        api_key="none", base_url="http://model", http_client=httpx.Client(transport=httpx.MockTransport(script))
    )
    tool = tool_of(service)
    for number in count(1):
        if time.time() > deadline:
            break
        script.calls = calls_of(service, number)
        with suppress(loopguard.ToolLoopError):
            run_turn(service, client, tool, deadline, number)
        time.sleep(service.pause)


if __name__ == "__main__":
    main()
