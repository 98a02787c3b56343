"""Drive a guard under a preset, one call after the other, like the system that the preset reproduces."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import load_preset, load_text

if TYPE_CHECKING:
    from otel_loopguard.engine.vocabulary import Decision

_results = itertools.count()


class Driven:
    """One turn under a preset; every result differs from all before, unless a result or an error is given."""

    def __init__(self, preset: str, more: str = "") -> None:
        policy = load_text(f'preset = "{preset}"\n{more}').checked() if more else load_preset(preset).checked()
        self.now = 0.0
        self.guard = Guard(policy, clock=lambda: self.now)
        self.turn = self.guard.turn()
        self.nudge: str | None = None
        """The message that came with the last result."""

    def __call__(
        self, tool: str, arguments: Any = None, result: Any = None, known: Any = None, error: Any = None
    ) -> Decision:
        """Make one call. Return the decision before it ran."""
        call = ToolCall(tool, arguments, known_tools=known)
        decision = self.turn.begin(call)
        self.nudge = None
        if decision.runs:
            given = f"result {next(_results)}" if result is None else result
            self.nudge = self.turn.end(call, Outcome(given, error)).message
        return decision

    def runs(self, tool: str, arguments: Any = None, **more: Any) -> bool:
        """Make one call. Return True if it ran."""
        return self(tool, arguments, **more).runs

    def next_turn(self) -> None:
        """Begin the turn of the next message of the user."""
        self.turn.close()
        self.turn = self.guard.turn()
