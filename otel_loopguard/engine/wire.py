"""Write a state as plain values for a store, and read them. Numbers of results and texts of queries are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.conversation_memory import ConversationMemory
from otel_loopguard.engine.history.bounded import EMPTY
from otel_loopguard.engine.history.history import read_trip
from otel_loopguard.engine.state import Batch, OpenCall, State
from otel_loopguard.engine.verdict import Verdict
from otel_loopguard.engine.vocabulary import Action, Record, Sameness

if TYPE_CHECKING:
    from otel_loopguard.engine.user_messages import Notes


def plain(state: State) -> dict[str, Any]:
    """Return a state as plain values. The user's messages are not among them."""
    numbers = {id(batch): number for number, batch in enumerate(state.batches.values())}
    return {
        "turn": [state.turn, state.turn_id, state.is_over, state.past],
        "history": state.history.plain(),
        "open": [[op, [*call]] for op, call in state.open.items()],
        "batches": [[key, *_batch(batch)] for key, batch in state.batches.items()],
        "batch": numbers.get(id(state.batch)),
        "ran": list(state.ran),
        "answered": [[op, *_verdict(one)] for op, one in state.answered.items()],
        "conversation": None if state.conversation is None else state.conversation.to_list(),
    }


def read(values: dict[str, Any], state: State) -> None:
    """Read plain values into an empty state."""
    state.turn, state.turn_id, state.is_over, past = values["turn"]
    state.past = tuple(past)
    state.history.read(values["history"])
    state.open = {op: OpenCall(*call) for op, call in values["open"]} or EMPTY
    state.batches = {key: _read_batch(*batch) for key, *batch in values["batches"]} or EMPTY
    state.batch = None if values["batch"] is None else list(state.batches.values())[values["batch"]]
    state.ran = dict.fromkeys(values["ran"]) or EMPTY
    state.answered = {op: _read_verdict(*verdict) for op, *verdict in values["answered"]} or EMPTY
    if values["conversation"] is not None:
        state.conversation = ConversationMemory.from_list(values["conversation"])


def _batch(batch: Batch) -> list[Any]:
    return [batch.written, batch.interrupted, batch.resumed, list(batch.started.items())]


def _read_batch(written: int, interrupted: bool, resumed: bool, started: list[Any]) -> Batch:  # noqa: FBT001 - in order
    batch = Batch(written)
    batch.interrupted, batch.resumed, batch.started = interrupted, resumed, dict(started)
    return batch


def _verdict(verdict: Verdict) -> list[Any]:
    """Return a verdict about a call that had run as plain values: enough for another process to word it alike."""
    record: Any = verdict.record
    notes = [note if isinstance(note, str) else note.text for note in verdict.notes]
    trip = None if verdict.trip is None else list(verdict.trip)
    return [trip, verdict.action, verdict.refusals, notes, record.sameness, record.news, record.equal_in_row]


def _read_verdict(*values: Any) -> Verdict:
    trip, action, refusals, notes, sameness, news, row = values
    record = Record()
    record.sameness, record.news, record.equal_in_row = None if sameness is None else Sameness(sameness), news, row
    found: Notes = tuple(notes)
    action = None if action is None else Action(action)
    return Verdict(record, None if trip is None else read_trip(trip), action, notes=found, refusals=refusals)
