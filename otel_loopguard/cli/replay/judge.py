"""Judge recorded turns under a policy, without the parts that only a live program needs: locks, spans, messages.

A call after a refusal is judged as if the refused call had run, so every refusal is listed, not only the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.cli.replay.fast_path import LimitsByTool
from otel_loopguard.core.model import Action, Record, Sameness
from otel_loopguard.core.turn import decide
from otel_loopguard.core.turn.compiled import CompiledPolicy

if TYPE_CHECKING:
    from otel_loopguard.core.model import Trip
    from otel_loopguard.core.policy.policy import Policy
    from otel_loopguard.core.tools.contracts import ResolvedCall
    from otel_loopguard.core.values.fingerprint import Fingerprinter
    from otel_loopguard.core.values.results import OutcomeFacts


class TripOfRun(NamedTuple):
    """A trip on one call of a run."""

    turn: int
    call: int
    tool: str
    mode: str
    action: Action
    count: int  # type: ignore[assignment]  # hides tuple.count
    lost: bool = False
    """True if the call was refused, and its recorded result was new."""


class PolicyJudge:
    """Judges turns under one policy. A policy that only observes is judged as if it refused."""

    def __init__(self, policy: Policy) -> None:
        if policy.action is Action.OBSERVE:
            policy = replace(policy, action=Action.BLOCK)
        self.off = policy.action is Action.OFF
        self.compiled = CompiledPolicy(policy)
        self.forgets = policy.counting == "calls" and policy.window > 0
        """True if it counts calls within a window of time. Then each look at the history drops old calls."""
        self.limits = LimitsByTool(policy)

    def turn(self, fingerprinter: Fingerprinter | None = None) -> TurnJudge:
        """Begin a turn. All its fingerprints come from one fingerprinter."""
        return TurnJudge(self.compiled, fingerprinter or self.compiled.fingerprinter, off=self.off)


class TurnJudge:
    """One turn: ``begin`` and ``end`` for each of its calls."""

    __slots__ = ("_compiled", "_fingerprinter", "_history", "_reusable", "asks")

    def __init__(self, compiled: CompiledPolicy, fingerprinter: Fingerprinter, *, off: bool) -> None:
        self._compiled = compiled
        self._fingerprinter = fingerprinter
        self._history = compiled.history()
        self.asks = not off
        """Whether the modes are asked; calls that none has anything to say about are only remembered."""
        self._reusable: set[int] | None = None

    def begin(self, resolved: ResolvedCall, arguments: int, *, registered: bool | None, now: float) -> Record:
        """The call is about to run; its ``trip`` says what would be done instead, if anything."""
        record = self._judged(resolved, arguments, registered=registered, now=now)
        self._history.started(record)
        return record

    def refused(self, resolved: ResolvedCall, arguments: int, *, registered: bool | None, now: float) -> Record:
        """The same for a call that, as the record says, was refused: it did not run, and will not be ended."""
        record = self._judged(resolved, arguments, registered=registered, now=now)
        if record.trip is None or record.trip.action < Action.REUSE:
            self._history.refused(record, insistable=False)
        elif self._history.counts_refused and self._history.tally is not None:
            self._history.tally.add(record)
        return record

    def _judged(self, resolved: ResolvedCall, arguments: int, *, registered: bool | None, now: float) -> Record:
        history = self._history
        record = history.opened(resolved, arguments, registered=registered, now=now)
        if not self.asks:
            return record
        trip = decide.before(history, record, self._compiled, Action.ABORT)
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

    def end(self, record: Record, seen: OutcomeFacts) -> Trip | None:
        """The call has run; a nudge, if its result would have come with one."""
        history, compiled = self._history, self._compiled
        history.ended(record, seen, self._fingerprinter)
        if record.resolved.tool.contract.reuse and not record.error:
            self._reusable = self._reusable or set()
            self._reusable.add(record.key)
        if not self.asks or record.trip is not None:
            return None
        return decide.after(history, record, compiled, Action.ABORT)


def result_was_new(record: Record) -> bool:
    """Return True if the result of a refused call differs from those of its earlier runs."""
    if record.sameness is Sameness.FIRST:
        return True
    return record.news and record.sameness in (Sameness.DIFFERENT, Sameness.PROGRESS)
