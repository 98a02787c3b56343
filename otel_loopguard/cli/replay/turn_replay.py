"""Judge the calls of a turn from their spans, each begun and ended at its time: recorded ones, and live ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.cli.replay.judge import TripOfRun, is_listed, result_was_new, shown_tool
from otel_loopguard.engine.words import Action, Sameness

if TYPE_CHECKING:
    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.cli.replay.timeline import Running, Timeline
    from otel_loopguard.engine.conversation import ConversationTurn
    from otel_loopguard.engine.judge import TurnJudge
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.words import Record, Trip
    from otel_loopguard.spans.otlp import RecordedCall


class TurnReplay:
    """The replay of the calls of a turn under one policy, each begun and ended at its time."""

    def __init__(self, judge: PolicyJudge, turn: TurnJudge, timeline: Timeline, calls: int) -> None:
        """``calls`` is the position of the next call in the turn."""
        self._compiled = judge.compiled
        self._turn = turn
        self._asks = turn.asks
        self._timeline = timeline
        self._calls = calls
        self.conversation: ConversationTurn | None = None
        """The place of the turn in its conversation, where conversations are remembered."""
        self._trips: list[TripOfRun] = []
        self.in_vain: set[int] = set()
        """The calls that were refused, or would have been, or were repeats without news."""

    def run(self, calls: list[RecordedCall], *, last: bool) -> list[TripOfRun]:
        """Return the trips of these calls. With ``last``, all calls have ended then."""
        for call in calls:
            self.begin(call)
        if last:
            self.end_all()
        return sorted(self._trips, key=lambda trip: trip.call)

    def begin(self, call: RecordedCall) -> None:
        """Begin a call, after the ends of those that were over before."""
        timeline, position = self._timeline, self._calls
        self._calls += 1
        for one in timeline.begin(call.at, call.step):
            self._end(one)
        record = self._begin(call)
        if call.refused:
            if not call.stopped_by_user:
                self.in_vain.add(position)
            if record.trip is not None:
                self._add(position, record.trip, record, call)
        else:
            timeline.add(position, call, record, call.ended)
            if call.has_run:  # a request has its result: the next result is read after it
                self.end_all()

    def end_until(self, time: float | None) -> None:
        """End the calls that are over at this time, or all if it is not known."""
        for one in self._timeline.until(time):
            self._end(one)

    def end_all(self) -> None:
        """End all calls that have begun."""
        self.end_until(None)

    def _begin(self, call: RecordedCall) -> Record:
        resolved, arguments = call.resolve(self._compiled)
        # A call without arguments is part of the history, because it may have changed something.
        self._turn.asks = self._asks and call.has_arguments
        time = self._timeline
        record = self._turn.begin(
            resolved,
            arguments,
            registered=call.registered,
            now=time.now,
            written=time.written,
            refused=call.refused,
            has_run=call.has_run,
        )
        self._turn.asks = self._asks
        return record

    def _end(self, ended: Running) -> None:
        _, position, call, record = ended
        if call.has_run:
            self._end_observed(position, call, record)
            return
        if record.trip is not None and record.trip.verdict >= Action.REUSE:
            self.in_vain.add(position)
        if call.cancelled:
            self._turn.cancelled(self._timeline.now)
            if record.trip is not None:
                self._add(position, record.trip, record, call)
            return
        self._turn.asks = self._asks and call.has_arguments
        facts = call.facts(record, self._turn)
        found = facts.found
        # The same result, and news: a run inside the call brought it.
        record.child_news = found is not None and found.news and found.sameness is Sameness.SAME
        trip, nudge = record.trip, self._turn.end(record, facts, self._timeline.now)
        if record.ran_in_vain:
            self.in_vain.add(position)
        self._turn.asks = self._asks
        nudge = self._over_turns(call, record, facts, nudge)
        if trip is not None or nudge is not None:
            self._add(position, trip or nudge, record, call)  # type: ignore[arg-type]  # one of them is there

    def _end_observed(self, position: int, call: RecordedCall, record: Record) -> None:
        facts = call.facts(record, self._turn)
        trip = self._turn.end_observed(record, facts, self._timeline.now or 0.0)
        trip = self._over_turns(call, record, facts, trip)
        if record.ran_in_vain or (trip is not None and trip.verdict >= Action.REUSE):
            self.in_vain.add(position)
        if trip is not None:
            self._add(position, trip, record, call, has_run=True)

    def _over_turns(self, call: RecordedCall, record: Record, facts: OutcomeFacts, trip: Trip | None) -> Trip | None:
        """Count an outcome in the conversation. Return the trip of the call, if there is one."""
        if self.conversation is None:
            return trip
        record.turns_without_news = call.turns_without_news
        now, reports = self._timeline.now, trip is None and record.trip is None
        found = self.conversation.end(record, facts, self._compiled, now, reports=reports)
        return found if found is not None and call.has_arguments else trip

    def _add(self, position: int, trip: Trip, record: Record, call: RecordedCall, *, has_run: bool = False) -> None:  # noqa: ARG002 - live judging reports the call
        if is_listed(trip):
            lost = trip.action >= Action.REUSE and record.sameness is not None and result_was_new(record)
            tool = shown_tool(record.resolved.tool, record.registered)
            mode, action, limit = str(trip.mode), trip.action, trip.limit
            self._trips.append(TripOfRun(0, position, tool, mode, action, trip.count, lost, limit, has_run))
