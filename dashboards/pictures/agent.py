"""One service: ``opentelemetry-instrument python -m dashboards.pictures.agent NAME SECONDS``.

The loop is written by hand over the client of `openai`. The model is a script behind a server of the tests.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from openai import OpenAI

import otel_loopguard as loopguard
from dashboards.pictures.services import SERVICES, Service
from tests.models.conversation import Asked, Call, Reply
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable

PROMPT = "You help the people of a company. " * 200
STUCK = "stuck"
"""It is in the arguments of the calls of a loop."""


def calls_of(service: Service, number: int) -> list[dict[str, Any]]:
    """Return the arguments of the calls of one turn."""
    if not service.every or number % service.every:
        return [{"path": f"{number}-{step}"} for step in range(3)]
    same = service.loop in ("repeat", "poll")
    return [{"path": f"{STUCK}-{number}" if same else f"{STUCK}-{number}-{step}"} for step in range(service.steps)]


def model_of(service: Service) -> Callable[[Asked], Reply]:
    """Return the script of a service's model."""

    def reply(asked: Asked) -> Reply:
        time.sleep(service.think)
        results = asked.results
        calls = calls_of(service, int(asked.key.removeprefix("task-")))[len(results) :]
        refused = not asked.may_call or (results and "tool_loop_detected" in results[-1].text)
        if not calls or (refused and not service.stubborn):
            return Reply("Done.")
        return Reply(calls=(Call(service.tool, calls[0]),))

    return reply


def tool_of(service: Service) -> Callable[..., str]:
    """Return the tool of a service."""

    def tool(path: str) -> str:
        if STUCK not in path or service.loop == "repeat":
            return f"{path}: " + "text of it, " * 9
        if service.loop == "poll":
            return f"{path}: running"
        if service.loop == "error":
            msg = "the host refused the connection"
            raise ConnectionError(msg)
        return "Several people have that name, please ask for one of them by the department and the first name. " * 2

    return tool


def run_turn(service: Service, client: OpenAI, tool: Callable[..., str], deadline: float, number: int) -> None:
    """Answer one message of a user."""
    declared: Any = [{"type": "function", "function": {"name": service.tool, "parameters": {"type": "object"}}}]
    messages: list[Any] = [{"role": "system", "content": PROMPT}, {"role": "user", "content": f"task-{number}"}]
    with loopguard.turn(conversation_id=f"{service.name}-{number}"):
        while time.time() < deadline:
            asked = client.chat.completions.create(model=service.model, messages=messages, tools=declared)
            reply: Any = asked.choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            for call in reply.tool_calls or ():
                try:
                    result = loopguard.call(call.function.name, call.function.arguments, tool, call_id=call.id)
                except ConnectionError as error:
                    result = str(error)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if not reply.tool_calls:
                return


def main() -> None:
    """Run turns until the time is over."""
    service = next(each for each in SERVICES if each.name == sys.argv[1])
    deadline = time.time() + float(sys.argv[2])
    with Server(model_of(service)).running() as server:
        client = OpenAI(api_key="local", base_url=f"{server.url}/v1", max_retries=0)
        for number in count(1):
            if time.time() > deadline:
                break
            with suppress(loopguard.ToolLoopError):
                run_turn(service, client, tool_of(service), deadline, number)
            time.sleep(service.pause)


if __name__ == "__main__":
    main()
