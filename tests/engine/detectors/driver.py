"""Drive a turn as a program does, and keep what the guard said about each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard import Action, Guard, Outcome, Policy, ToolCall

if TYPE_CHECKING:
    from otel_loopguard import Decision

LONG = "The orders of the customer are listed below, the newest one first, each with its number and state."
"""Longer than an acknowledgement, so that it can prove something."""
WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "islet", "jetty", "knoll", "lagoon",
         "marsh", "north", "oasis", "prairie", "quarry", "ridge", "shoal", "tarn", "upland", "vale", "weald",
         "yard", "zenith")  # fmt: skip


class Said(NamedTuple):
    """What the guard said about one call."""

    action: str
    """``told`` with the result, ``refused``, or ``ran``."""
    mode: str
    decision: Decision


class Driven:
    """One turn. Each call is made after a pause that is too short to count as waiting."""

    def __init__(self, *modes: str, **settings: Any) -> None:
        """With ``modes`` no other one judges."""
        alone = {"order": modes, "conclude_after": 0, "abort_after": 0} if modes else {}
        self.now = 0.0
        self.turn = Guard(Policy(**{**alone, **settings}), clock=lambda: self.now).turn()
        self.said: list[Said] = []

    def __call__(
        self,
        tool: str = "read_page",
        result: Any = LONG,
        *,
        error: Any = None,
        pause: float = 0.5,
        known: Any = None,
        hints: Any = None,
        may_exist: bool = False,
        **arguments: Any,
    ) -> Decision:
        """Make one call. Return the decision about its result, or its refusal."""
        self.now += pause
        call = ToolCall(tool, arguments, known_tools=known, hints=hints, may_exist=may_exist)
        decision = begun = self.turn.begin(call)
        if begun.runs:
            self.now += 0.01
            decision = self.turn.end(call, Outcome(None if error else result, error))
        told = "told" if decision.message else "ran"
        trip = decision.trip
        mode = str(trip.mode) if trip is not None and (told == "told" or not begun.runs) else ""
        self.said.append(Said(told if begun.runs else "refused", mode, decision))
        return decision

    def told(self, mode: str | None = None) -> list[int]:
        """Return the places of the calls that were nudged, by this mode."""
        return self._places("told", mode)

    def refused(self, mode: str | None = None) -> list[int]:
        """Return the places of the calls that were refused, by this mode."""
        return self._places("refused", mode)

    def _places(self, action: str, mode: str | None) -> list[int]:
        return [
            place
            for place, one in enumerate(self.said, 1)
            if one.action == action and (mode is None or one.mode == mode)
        ]

    @property
    def quiet(self) -> bool:
        """True if every call ran, and nothing was said."""
        return all(one.action == "ran" for one in self.said)


__all__ = ["LONG", "WORDS", "Action", "Driven"]
