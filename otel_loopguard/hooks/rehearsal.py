"""Rehearse a program's hooks as they are registered: a session of equal calls, of which the judge leaves no trace."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.hooks.events import After, Before, MessageOver, SessionOver

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.hooks.events import Event
    from otel_loopguard.hooks.programs.program import Program

    Ask = Callable[[str, bytes], bytes]

REHEARSAL: Final = "otel_loopguard_rehearsal"
"""The key in the JSON of a sample hook. Its value names the rehearsal, which has a judge of its own."""
CALL: Final = ToolCall("read_file", {"path": "otel-loopguard.txt"})
OUTCOME: Final = Outcome("the text of a sample")


class Rehearsed(NamedTuple):
    """The answers to equal calls."""

    refused_at: int | None
    """The number of the call that was refused; None if all would have run."""
    seconds: list[float]
    """The time of each hook before and after a call."""


def rehearse(program: Program, ask: Ask, most: int) -> Rehearsed:
    """Make ``CALL`` in a session of its own until it is refused, ``most`` times at most. The session is ended.

    ``ask``: run the hook of this event with this input, and return its answer.
    """
    session, seconds = secrets.token_hex(8), list[float]()
    names: dict[type[Event], str] = {}
    for name in program.registration.events:
        names.setdefault(type(program.read(name, sample(session))), name)  # type: ignore[arg-type]  # None is never asked

    def asked(kind: type[Event], number: int = 0) -> bytes:
        start = time.perf_counter()
        answer = ask(names[kind], orjson.dumps(sample(session, number))) if kind in names else b""
        if kind in (Before, After):
            seconds.append(time.perf_counter() - start)
        return answer.strip()

    try:
        for number in range(1, most + 1):
            if asked(Before, number):
                return Rehearsed(number, seconds)
            asked(After, number)
            asked(MessageOver, number)
    finally:
        asked(SessionOver)
    return Rehearsed(None, seconds)


def sample(session: str, number: int = 0) -> dict[str, Any]:
    """Return the JSON of a hook about a call. Each program takes the keys that are its own."""
    return {
        REHEARSAL: session,
        **dict.fromkeys(("session_id", "sessionId", "sessionID", "prompt_id", "turn_id", "messageID"), session),
        **dict.fromkeys(("tool_name", "toolName", "tool"), CALL.tool),
        **dict.fromkeys(("tool_input", "toolArgs", "args"), CALL.arguments),
        **dict.fromkeys(("tool_use_id", "tool_call_id", "callID"), f"call {number}"),
        **dict.fromkeys(("tool_response", "toolResult", "output"), OUTCOME.result),
    }
