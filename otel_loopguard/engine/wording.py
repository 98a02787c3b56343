"""Turn a verdict into a decision, with texts for the model. Done by the process that has the call, after the fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine import sentences
from otel_loopguard.engine.user_messages import note_texts
from otel_loopguard.engine.vocabulary import USER_STOP, Action, Decision, nothing_seen

if TYPE_CHECKING:
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.user_messages import Notes
    from otel_loopguard.engine.verdict import Verdict
    from otel_loopguard.engine.vocabulary import ToolCall


def begun(verdict: Verdict, call: ToolCall, policy: Policy, earlier: Any = None) -> Decision:
    """Word the decision before a call. ``earlier``: the call's earlier result, which the action REUSE gives again."""
    record, trip, action = verdict.record, verdict.trip, verdict.action
    if action is None:
        return nothing_seen(record)
    if action <= Action.NUDGE:
        return Decision(action, trip, record=record)
    if trip is None or trip.mode == USER_STOP:
        return _stopped(verdict)
    notes = verdict.notes
    if action is Action.REUSE:
        text = _joined((*notes, sentences.reused(trip)))
        return Decision(action, trip, text, earlier, record, notes=notes)
    text = sentences.refusal(trip, policy, verdict.refusals, call.known_tools, notes)
    return Decision(action, trip, text, record=record, mark=policy.mark, notes=notes)


def ended(verdict: Verdict, call: ToolCall, policy: Policy) -> Decision:
    """Word the decision about a result: a nudge, if one is due, and the user's messages."""
    if verdict.action is None and not verdict.notes and not verdict.recovered:
        return nothing_seen(verdict.record)
    return _with_nudge(verdict, call, policy)


def ran(verdict: Verdict, call: ToolCall, policy: Policy) -> Decision:
    """Word the decision about a call that has run: it may say that the call would have been refused."""
    record, trip = verdict.record, verdict.trip
    if trip is None and not verdict.notes:
        return nothing_seen(record)._replace(recovered=verdict.recovered, repeated=verdict.repeated)
    if trip is not None and trip.mode == USER_STOP:
        decision = _stopped(verdict)._replace(recovered=verdict.recovered)
    elif trip is None or trip.action < Action.NUDGE or (trip.action is Action.NUDGE and trip.verdict is Action.NUDGE):
        decision = _with_nudge(verdict, call, policy)
    else:
        sentence = sentences.told(record, trip, policy, verdict.refusals, call.known_tools)  # type: ignore[arg-type]  # it has a trip
        notes: Notes = (*verdict.notes, sentence)
        decision = Decision(trip.action, trip, _joined(notes), None, record, verdict.recovered, None, notes)
    return decision._replace(repeated=True, record=None) if verdict.repeated else decision


def concluded(verdict: Verdict, policy: Policy, *, stopped: bool) -> str | None:
    """Return the sentence for a model request without tools; None if no conclusion is due."""
    if verdict.action is None:
        return None
    return sentences.conclusion(verdict.trip, policy, verdict.refusals, stopped=stopped)


def undelivered_notes(decision: Decision) -> Notes:
    """Return the notes of a decision for delivery with a later result: a nudge then names the call that it is about."""
    notes: Notes = decision.notes
    if decision.action is Action.NUDGE and notes and isinstance(notes[-1], str):
        notes = (*notes[:-1], sentences.about_earlier_call(decision.record.tool, notes[-1]))
    return notes


def _stopped(verdict: Verdict) -> Decision:
    text = _joined((*verdict.again, *verdict.notes))
    return Decision(verdict.action, verdict.trip, text, record=verdict.record, notes=verdict.notes)


def _with_nudge(verdict: Verdict, call: ToolCall, policy: Policy) -> Decision:
    notes, record = verdict.notes, verdict.record
    shown: Any = verdict.trip or (None if record is None else record.trip)
    if shown is not None and shown.action is Action.NUDGE:
        notes = (*notes, sentences.nudge(shown, policy, call.known_tools))
    return Decision(
        verdict.action, verdict.trip, _joined(notes) or None, record=record, recovered=verdict.recovered, notes=notes
    )


def _joined(notes: Notes) -> str:
    return "\n".join(note_texts(notes))
