"""A turn as the guard sees it, without what only a live program needs: locks, spans, the model's answers.

What was recorded after a refusal is taken as if the call had run, so every refusal is listed, not only the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.core import ladder
from otel_loopguard.core.model import Action, Mode, Record, Sameness
from otel_loopguard.core.rules import Rules

if TYPE_CHECKING:
    from otel_loopguard.core.contracts import Tool, Understood
    from otel_loopguard.core.model import Trip
    from otel_loopguard.core.outcomes import Fingerprinted
    from otel_loopguard.core.policy import Policy


class Tripped(NamedTuple):
    """A trip on one call of a run."""

    turn: int
    call: int
    tool: str
    mode: str
    action: Action
    count: int  # type: ignore[assignment]  # hides tuple.count
    lost: bool = False
    """The call was refused, and what it had brought was new."""


class Judge:
    """Judges turns under one policy. One that only observes is asked what it would do."""

    def __init__(self, policy: Policy) -> None:
        if policy.action is Action.OBSERVE:
            policy = replace(policy, action=Action.BLOCK)
        self.off = policy.action is Action.OFF
        self.rules = Rules(policy)
        self.needs_a_repeat = policy.counting == "results" and not policy.max_calls and not policy.detectors
        """Whether a turn in which nothing is repeated, and hardly anything fails, can make no trip."""
        self._patience: dict[Tool, tuple[int, int]] = {}
        self.simple: dict[str, Tool] = {}
        """Tools that are what their calls say: no gateway, and no target to look for."""

    def remember(self, name: str, tool: Tool) -> None:
        """A tool that was looked up; simple ones are kept."""
        if tool.name == name and tool.route is None and tool.contract.target is None:
            if len(self.simple) > _MOST_TOOLS:
                self.simple.clear()
            self.simple[name] = tool

    def patience(self, tool: Tool) -> tuple[int, int]:
        """How many errors, and how many equal results, of calls that differ make the first trip; 0 = judge at once."""
        known = self._patience.get(tool)
        if known is None:
            if len(self._patience) > _MOST_TOOLS:
                self._patience.clear()
            known = self._patience[tool] = _patience(tool)
        return known

    def turn(self) -> TurnJudge:
        """A turn that begins."""
        return TurnJudge(self.rules, off=self.off)


class TurnJudge:
    """One turn: ``begin`` and ``end`` for each of its calls."""

    __slots__ = ("_history", "_off", "_reusable", "_rules")

    def __init__(self, rules: Rules, *, off: bool) -> None:
        self._rules = rules
        self._history = rules.history()
        self._off = off
        self._reusable: set[int] | None = None

    def begin(self, understood: Understood, arguments: int, *, registered: bool | None, now: float) -> Record:
        """The call is about to run; its ``trip`` says what would be done instead, if anything."""
        record = self._judged(understood, arguments, registered=registered, now=now)
        self._history.started(record)
        return record

    def refused(self, understood: Understood, arguments: int, *, registered: bool | None, now: float) -> Record:
        """The same for a call that, as the record says, was refused: it did not run, and will not be ended."""
        record = self._judged(understood, arguments, registered=registered, now=now)
        if record.trip is None or record.trip.action < Action.REUSE:
            self._history.refused(record, insistable=False)
        elif self._history.counts_refused and self._history.tally is not None:
            self._history.tally.add(record)
        return record

    def _judged(self, understood: Understood, arguments: int, *, registered: bool | None, now: float) -> Record:
        history = self._history
        record = history.opened(understood, arguments, registered=registered, now=now)
        if self._off:
            return record
        trip = ladder.before(history, record, self._rules, Action.ABORT)
        if trip is not None:
            record.trip = trip = self._with_what_is_kept(record, trip)
            if trip.action >= Action.REUSE:
                tally, history.tally = history.tally, None  # it counts once: as a run, or as a refusal
                history.refused(record, insistable=trip.insistable)
                history.tally = tally
        return record

    def _with_what_is_kept(self, record: Record, trip: Trip) -> Trip:
        """There is nothing to reuse of a call that never succeeded."""
        if trip.action is Action.REUSE and record.key not in (self._reusable or ()):
            return trip._replace(action=Action.BLOCK)
        return trip

    def end(self, record: Record, seen: Fingerprinted) -> Trip | None:
        """The call has run; a nudge, if its result would have come with one."""
        history, rules = self._history, self._rules
        history.ended(record, seen, rules.fingerprinter)
        if record.call.tool.contract.reuse and not record.error:
            self._reusable = self._reusable or set()
            self._reusable.add(record.key)
        if self._off or record.trip is not None:
            return None
        return ladder.after(history, record, rules, Action.ABORT)


def _patience(tool: Tool) -> tuple[int, int]:
    if tool.contract.cap is not None or tool.contract.query is not None:
        return 0, 0
    errors, novelty = tool.rules[Mode.ERROR_REPEAT], tool.rules[Mode.NO_NOVELTY]
    breaker = tool.rules[Mode.GLOBAL_CIRCUIT_BREAKER]
    nudges = (errors.nudge, novelty.nudge, breaker.nudge, breaker.barren_nudge)
    blocks = (errors.block, novelty.block, breaker.block, breaker.barren_block)
    limits = [limit for limit in nudges if limit] + [limit - 1 for limit in blocks if limit]
    return min(limits, default=_NO_LIMIT), errors.same_result or _NO_LIMIT


_MOST_TOOLS = 4_096
_NO_LIMIT = 1 << 30


def brought_something_new(record: Record) -> bool:
    """Whether a call that would have been refused had a result which its earlier runs had not shown."""
    if record.sameness is Sameness.FIRST:
        return True
    return record.news and record.sameness in (Sameness.DIFFERENT, Sameness.PROGRESS)
