"""Values nested deeper than any parser follows are compared as text, and never raise."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Outcome, Policy, ToolCall
from otel_loopguard.engine.vocabulary import Action, Sameness

DEPTH = 100_000
NESTED: list = []
for _ in range(DEPTH):
    NESTED = [NESTED]
TEXTS = (
    "[" * DEPTH + "]" * DEPTH,
    '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "(" * DEPTH,
    "[" * 400 + '"\\"x\\""' + "]" * 400,
    "[" * 1_000 + '"\\"x\\""' + "]" * 1_000,
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("write", [lambda text: text, lambda text: {"items": text}])
def test_deep_texts_are_compared(text, write):
    """An equal result is the same, another one is not, with and without a first run, in results and arguments."""
    with Guard(Policy(action=Action.OBSERVE)).turn() as turn:
        call, found = ToolCall("tool_7", write(text)), []
        for result in (text, text, text + " x", text + " y"):
            turn.begin(call)
            found.append(turn.end(call, Outcome(write(result))).record.sameness)
    assert found == [Sameness.FIRST, Sameness.SAME, Sameness.DIFFERENT, Sameness.DIFFERENT]


@pytest.mark.parametrize("arguments", [NESTED, {"a": NESTED}])
def test_deep_objects_are_compared(arguments):
    """Objects that are too deep to be read never raise. As arguments they are never equal: each call is a first one."""
    with Guard(Policy(action=Action.OBSERVE)).turn() as turn:
        call, found = ToolCall("tool_7", arguments), []
        for result in ("one", "one", "two", NESTED, [NESTED, 1]):
            turn.begin(call)
            found.append(turn.end(call, Outcome(result)).record.sameness)
    assert set(found) == {Sameness.FIRST}
