"""The judgement of one turn's calls: history, policy and detectors put together.

No lock, no text for the model, no user code: ``Turn`` adds those for a program that runs, and ``replay`` needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine import decide
from otel_loopguard.engine.history import update
from otel_loopguard.engine.words import OVER_TURNS, Action, First, Mode

if TYPE_CHECKING:
    from collections.abc import Container

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.tools.contracts import ResolvedCall
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.pending import PendingWords
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.words import Record, Trip

_KEPT = ("tick", "calls", "judged", "idle", "active_at", "refusals", "refused_message", "started_by_tool", "reached")
_MOST_OPEN_TRIPS = 32
_NUDGE = Action.NUDGE
_MODES = frozenset(map(str, Mode))
_DECLARED = frozenset({Mode.RETRY_LIMIT, Mode.REPEATED_EFFECT})
_NONE: set[int] = set()
"""Shared and never written to, as live turns observe nothing."""


class TurnJudge:
    """Judges the calls of one turn.

    With ``observes`` the calls have run already: each is counted as a run, and also as a refusal if it trips.
    For a live call: ``judge``, then ``settle``, then, if it ran, ``end``. For a call that has run: ``begin`` and
    ``end``, which overlap as the calls did; no ``end`` if the recording says that it was refused.
    """

    __slots__ = (
        "_succeeded",
        "asks",
        "ceiling",
        "compiled",
        "fingerprinter",
        "heeds",
        "history",
        "observes",
        "reusable",
    )

    def __init__(
        self,
        compiled: CompiledPolicy,
        *,
        ceiling: Action = Action.ABORT,
        observes: bool = False,
        fingerprinter: Fingerprinter | None = None,
    ) -> None:
        self.compiled = compiled
        self.ceiling = ceiling
        """The strongest action in this turn."""
        self.observes = observes
        self.heeds = not observes
        """The model has read the refusals of this turn, and may have heeded them."""
        self.fingerprinter = fingerprinter or compiled.fingerprinter
        self.history = compiled.new_history()
        self.asks = compiled.judges
        """Ask the detectors. Without it calls are only remembered."""
        self.reusable: Container[int] = ()
        """The calls whose earlier result can be given again."""
        self._succeeded: set[int] = set() if observes else _NONE
        """The observed calls that succeeded, for ``reusable``: no result is kept of them."""

    def start_over(self) -> None:
        """Begin with an empty history, without evidence. What is counted and reported of the turn goes on."""
        history = self.compiled.new_history()
        for name in _KEPT:
            setattr(history, name, getattr(self.history, name))
        self.history = history

    def judge(self, record: Record, custom: tuple[Trip, ...] = ()) -> None:
        """Judge a call by its open record, which gets the trip, if there is one. Only its index is taken.

        ``custom`` are the trips of the policy's custom detectors.
        """
        self.history.judged += 1
        if self.asks:
            record.trip = decide.before(self.history, record, self.compiled, self.ceiling, custom)

    def settle(self, record: Record) -> None:
        """Make the decision take effect: the call starts, or is refused."""
        trip, history = record.trip, self.history
        if trip is not None:
            record.trip = trip = self._possible(record, trip)
            self.remember(trip)
            if trip.action > _NUDGE:
                update.refuse(history, record, trip, counted=not self.observes)
                if not self.observes:
                    return
                update.start(history, record)
                return
        if history.refusals or history.half_open:
            update.let_run(history, record, heeds=self.heeds)
        update.start(history, record)

    def _possible(self, record: Record, trip: Trip, *, ran: bool = False) -> Trip:
        """Replace REUSE by another action if there is no result to give again, and CONCLUDE after a conclusion.

        A mode whose nudge is switched off does not nudge here either: the call runs.
        """
        if trip.action is Action.CONCLUDE and self.history.concluded_at >= 0:  # once a turn
            return trip._replace(action=Action.BLOCK)
        if trip.action is not Action.REUSE or (record.key in self.reusable and not ran):
            return trip
        tool = record.resolved.tool
        if min(tool.ceiling(trip.mode, self.compiled.policy), self.ceiling) >= Action.BLOCK:
            return trip._replace(action=Action.BLOCK)
        rule = tool.rules.get(trip.mode)
        return trip._replace(action=Action.OBSERVE if rule is not None and rule.nudge == 0 else Action.NUDGE)

    def remember(self, trip: Trip) -> None:
        """Keep a trip until the turn brings news again: then the agent has recovered from it."""
        history = self.history
        if trip.reason == OVER_TURNS:  # news of the turn is none of the conversation
            return
        history.open_trips = (*history.open_trips[-_MOST_OPEN_TRIPS:], trip)

    def reach(self, trip: Trip) -> First:
        """Note that a trip is reported. Return its place in the turn; a loop over turns has none."""
        return First.NO if trip.reason == OVER_TURNS else self.history.reach(str(trip.mode), trip.action)

    def pending_words_for(self, record: Record) -> PendingWords | None:
        """Return the words to search a result for; None for a first run: only repeats are judged by them."""
        if record.stats is None and not record.resolved.tool.refuses_second_run:
            return None
        return self.compiled.contracts.pending

    def cancelled(self, now: float | None) -> None:
        """Count the time that a cancelled call ran: the idle clock stands still then."""
        if now is not None:
            self.history.active_at = now

    def end(self, record: Record, facts: OutcomeFacts, now: float | None = None) -> Trip | None:
        """Count the outcome of a call. Return the trip of a nudge, if one is due for its result.

        ``now`` is None if the time was not recorded.
        """
        update.end(self.history, record, facts, self.fingerprinter, now)
        if self.history.window is not None:
            self.history.window.end(record)
        if self.observes and record.resolved.tool.contract.reuse and not record.error:
            self._succeeded.add(record.key)
            self.reusable = self._succeeded
        if record.trip is not None or not self.asks:
            return None
        return decide.after(self.history, record, self.compiled, self.ceiling)

    # --- calls that have run already -----------------------------------------------------------------------------

    def observe(self, record: Record, facts: OutcomeFacts, now: float) -> Trip | None:
        """Count a call of a live turn that has run, with its outcome. Return its trip, which ``count_trip`` counts.

        It is the trip of the outcome, or that of the call, unless the outcome is news. A declared limit holds anyway.
        """
        history, trip = self.history, record.trip
        if trip is None and (history.refusals or history.half_open):
            update.let_run(history, record, heeds=self.heeds)
        update.start(history, record)
        refusals = history.refusals
        nudge = self.end(record, facts, now)
        is_news = record.news and self.ceiling > Action.OBSERVE
        if is_news and record.capped is not None and not self._is_declared(record.capped):
            record.capped = None
        if trip is None:
            return nudge
        if is_news:
            if not self._is_declared(trip):
                record.trip = None
                return None
            history.refusals = refusals  # an executor would not have run it
        trip = self._possible(record, trip, ran=True)
        if trip.action >= Action.BLOCK:
            step = decide.next_step(history, record, self.compiled.policy)
            if step > trip.action:
                trip = trip._replace(verdict=step, action=step)
        return trip

    def _is_declared(self, trip: Trip) -> bool:
        """Return True if the limit of a trip was declared by the user, so that it holds whatever a call returns."""
        declared = trip.reason == "max_calls" or trip.mode in _DECLARED or trip.mode not in _MODES
        return declared or self.compiled.policy.counting == "calls"

    def count_trip(self, record: Record, trip: Trip) -> Trip:
        """Count the trip of a call that has run. Return it with the action that is possible."""
        trip = self._possible(record, trip, ran=True)
        if trip.action > _NUDGE:
            update.count_refusal(self.history, record, trip)
            if trip.action < Action.CONCLUDE:
                trip = trip._replace(action=_NUDGE)
        record.trip = trip
        self.remember(trip)
        return trip

    # --- calls that were recorded ----------------------------------------------------------------------------------

    def begin(
        self,
        resolved: ResolvedCall,
        arguments: int,
        *,
        registered: bool | None,
        now: float | None,
        written: int | None = None,
        refused: bool = False,
        has_run: bool = False,
    ) -> Record:
        """Judge a recorded call, and count it. Its trip says what would have happened instead, if anything.

        ``refused``: it was refused when it was made. It did not run, and will not be ended. ``has_run``: it was read in
        a model request. ``end_observed`` counts it, and the request after a conclusion has no tools.
        """
        history = self.history
        if has_run and history.conclusion_due and written != history.refused_message:
            history.concluded_at = history.news
        record = update.open_record(self.history, resolved, arguments, registered=registered, now=now, written=written)
        self.judge(record)
        if has_run:
            return record
        if not refused:
            self.settle(record)
            return record
        if record.trip is not None:
            record.trip = self._possible(record, record.trip)
        update.refuse(self.history, record, record.trip)
        return record

    def end_observed(self, record: Record, facts: OutcomeFacts, now: float) -> Trip | None:
        """Count a recorded call that was read in a model request. Return what would have been done about it."""
        trip = self.observe(record, facts, now)
        return None if trip is None else self.count_trip(record, trip)
