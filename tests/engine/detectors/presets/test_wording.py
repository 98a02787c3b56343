"""Under presets that count calls no default text mentions results, because they are not compared."""

from __future__ import annotations

import re

import pytest

from otel_loopguard.engine.detectors.presets import COUNTED
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.engine.sentences import abort, nudge, refusal
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall, Trip
from otel_loopguard.guard.guard import Guard

from .driver import Driven

CLAIM = re.compile(r"return|result|report|brought|nothing|same each|changed|stands|fail|getting anywhere|differ in")
POLICY = Policy(counting="calls", refusal="text")
REASONS = ("window", "max_calls")  # each refusal of the circuit breaker has one


@pytest.mark.parametrize("detector", COUNTED, ids=lambda one: str(one.mode))
@pytest.mark.parametrize("action", [Action.NUDGE, Action.BLOCK, Action.ABORT], ids=str)
def test_no_default_sentence_speaks_of_results(detector, action):
    """No nudge, no refusal and no exception that ends the run mentions them."""
    breaker = detector.mode == "global_circuit_breaker"
    for reason in REASONS if breaker else ("",):
        trip = Trip(detector.mode, "look", 3, 3, action, action, reason=reason)
        said = [nudge(trip, POLICY), refusal(trip, POLICY, 1), refusal(trip, POLICY, 3), abort(trip, POLICY, "look")]
        assert not any(map(CLAIM.search, said)), said


def test_the_warning_of_turn_nudge_says_what_was_counted():
    """The third equal call is nudged although its results differed."""
    driven = Driven("turn_nudge")
    for _ in range(3):
        driven("look", {"at": 1})
    assert driven.nudge.startswith("[loopguard] look has now been called 3 times with these arguments.")


def test_a_reused_result_is_only_called_the_earlier_one():
    """The text does not say that the result is still valid, because results are not compared."""
    driven = Driven("recipe_step")
    driven("composio_x", {"a": 1})
    assert (
        driven("composio_x", {"a": 1}).message
        == "[loopguard] Not called again: this is the earlier result of composio_x."
    )


def test_a_refusal_that_only_nudges_says_why():
    """Under a lower ceiling the nudge for a used-up budget does not mention failures."""
    turn = Guard(Policy(action="nudge", max_calls=2, tools={"look": ToolContract(kind="step")})).turn()
    for number in range(3):
        call = ToolCall("look", {"at": number})
        turn.begin(call)
        said = turn.end(call, Outcome(f"text {number}")).message
    assert said.startswith("[loopguard] A turn may make 2 tool calls; this is call 3.")
