"""The places in which a value reaches the guard: arguments, results, errors, commands, queries, names, messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.guard.turn import Turn

KNOWN = [f"tool_number_{number}" for number in range(1_000)]


def policy() -> Policy:
    """Return a policy under which all code that looks at a value may run."""
    return Policy(
        action=Action.OBSERVE,
        tools={
            "search": ToolContract(query="auto"),
            "state": ToolContract(volatile=("nonce", "a")),
            "keep": ToolContract(reuse=True),
            "aim": ToolContract(target="at"),
        },
    )


class Place(NamedTuple):
    """A place: makes the call and the outcome, from the value, a similar value, and the number of the call."""

    make: Callable[[Any, int], tuple[ToolCall, Outcome]]
    texts_only: bool = False
    times: int = 1
    """The number of times that the call has the value: its budget is that of a value of this size."""


OK = Outcome("done")

PLACES: dict[str, Place] = {
    "arguments": Place(lambda value, _: (ToolCall("look", value), OK)),
    "an argument": Place(lambda value, _: (ToolCall("look", {"a": value}), OK)),
    "an argument of a write": Place(lambda value, _: (ToolCall("write_file", {"path": "a", "content": value}), OK)),
    "a command": Place(lambda value, _: (ToolCall("run_shell", {"command": value}), OK)),
    "commands": Place(lambda value, _: (ToolCall("run_shell", {"commands": [value] * 100}), OK), times=100),
    "words of a command": Place(lambda value, _: (ToolCall("run_shell", {"cmd": ["bash", "-c", value]}), OK)),
    "a shell in a shell": Place(
        lambda value, _: (ToolCall("run_shell", {"command": f"bash -c {value!r}; bash -c {value!r}"}), OK),
        texts_only=True,
    ),
    "an action": Place(lambda value, _: (ToolCall("do", {"action": value, "command": value}), OK)),
    "a query": Place(lambda value, _: (ToolCall("search", {"query": value}), OK)),
    "SQL": Place(lambda value, _: (ToolCall("run_query", {"sql": value, "statement": value, "query": value}), OK)),
    "a target": Place(lambda value, _: (ToolCall("aim", {"at": value, "reason": value}), OK)),
    "a gateway's tool": Place(lambda value, _: (ToolCall("call_tool", {"name": value, "arguments": value}), OK)),
    "a result": Place(lambda value, _: (ToolCall("look", {}), Outcome(value))),
    "a result of a write": Place(lambda value, _: (ToolCall("write_file", {}), Outcome(value))),
    "a result of a queue": Place(lambda value, _: (ToolCall("pop_message", {}), Outcome(value))),
    "a result with volatile keys": Place(lambda value, _: (ToolCall("state", {}), Outcome(value))),
    "a result that is kept": Place(lambda value, _: (ToolCall("keep", {}), Outcome("x", keep=value))),
    "a part of a result": Place(lambda value, _: (ToolCall("look", {}), Outcome({"a": [value], "n": 1}))),
    "an answer": Place(lambda value, n: (ToolCall("look", {"a": f"a text {n}", "b": n}), Outcome(value))),
    "an answer to itself": Place(lambda value, n: (ToolCall("look", {"a": value, "n": n}), Outcome(value))),
    "an error": Place(lambda value, _: (ToolCall("look", {"a": 1}), Outcome(error=value))),
    "an error about itself": Place(lambda value, n: (ToolCall("look", {"a": value, "n": n}), Outcome(error=value))),
    "an argument of a failure": Place(
        lambda value, n: (ToolCall("look", {"a": value, "n": n}), Outcome(error=f"ls 'a' 1 {n} failed: no such file"))
    ),
    "a result that is an error": Place(lambda value, _: (ToolCall("look", {}), Outcome(value, is_error=True))),
    "an exception": Place(lambda value, _: (ToolCall("look", {}), Outcome(error=ValueError(value)))),
    "a name": Place(lambda value, _: (ToolCall(value, {}), OK)),
    "an unknown name": Place(lambda value, _: (ToolCall(value, {}, known_tools=KNOWN), Outcome(error="no such tool"))),
    "known names": Place(
        lambda value, _: (ToolCall("lok", {}, known_tools=[value] * 1_000), Outcome(error="no such tool")),
        texts_only=True,
        times=1_000,
    ),
    "a call id": Place(lambda value, _: (ToolCall("look", {}, value), OK)),
}


def play(make: Callable[[int], Any], place: Place, turn: Turn, timed: Callable[[Callable[[], Any]], Any]) -> None:
    """Make eight calls with two similar values. Every ``begin`` and ``end`` goes through ``timed``."""
    values = [make(0), make(1)]
    for number, which in enumerate((0, 1, 0, 1, 1, 1, 0, 0)):
        call, outcome = place.make(values[which], number // 2)
        decision = timed(lambda call=call: turn.begin(call))
        if decision.runs:
            timed(lambda call=call, outcome=outcome: turn.end(call, outcome))


def turn() -> Turn:
    """Return a new turn under the policy that looks at most."""
    return Guard(policy()).turn()
