"""Insisting has a price: 1, doubled by each run in vain, 1 again by news."""

from __future__ import annotations

import json

from otel_loopguard import Action, Guard, Outcome, Policy, ToolCall


def insist(turn, at_most=40, error="it broke"):
    """Fail with ever new arguments, and insist on each refused call. Return the refusals before each run."""
    refused, found = 0, []
    for number in range(at_most):
        call = ToolCall("query_api", {"key": f"v{number}"})
        for _ in range(40):
            decision = turn.begin(call)
            if decision.action is Action.ABORT:
                return [*found, "ended"]
            if decision.runs:
                break
            refused += 1
        turn.end(call, Outcome(error=error))
        found.append(refused)
        refused = 0
    return found


def test_an_agent_that_insists_without_end_is_ended():
    """It is refused 1, 2, 4 times for a run; then its run is concluded, and ends."""
    turn = Guard(Policy(), clock=lambda: 0.0).turn()
    assert insist(turn) == [0] * 9 + [1, 2, 4, "ended"]


def test_the_price_is_in_the_bytes_of_a_turn():
    """A turn that was stored asks as much as one that was not."""
    policy = Policy(hash_key=b"k" * 32, conclude_after=0, abort_after=0)
    turn, other = (Guard(policy, clock=lambda: 0.0).turn() for _ in "ab")
    assert insist(turn, 12) == [0] * 9 + [1, 2, 4]
    other.restore(turn.state())
    for one in (turn, other):
        trip = one.begin(ToolCall("query_api", {"key": "next"})).trip
        assert (trip.insistable, trip.price) == (True, 8)


def test_a_refusal_with_a_price_does_not_invite():
    """It was insisted on before, and brought nothing new."""
    turn = Guard(Policy(conclude_after=0, abort_after=0), clock=lambda: 0.0).turn()
    insist(turn, 10)
    said = json.loads(turn.begin(ToolCall("query_api", {"key": "next"})).message)["message"]
    assert "again" not in said
