"""The copy of a shared turn: its place in the log, and all that the events are folded into; writable to bytes."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard.engine.conversation import Conversation
from otel_loopguard.engine.history.evidence import Limit, Reason
from otel_loopguard.engine.words import Action, Decision, Mode, Record, ToolCall
from otel_loopguard.guard.log_events import CallBegan, resolved_call, trip_of
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.engine.history.state import History
    from otel_loopguard.engine.tools.contracts import Contracts, ResolvedCall

_VERSION = 1
"""Written first. A snapshot of another version is not read: the turn goes on with an empty history."""
MOST_OPEN = 1_024
MOST_BATCHES = 64
MOST_ANSWERED = 256


class OpenCall(NamedTuple):
    """A call that began and has not ended."""

    call: ToolCall
    began: CallBegan
    record: Record
    refused: bool
    """It ends only if a function of the policy let it run all the same."""


class SharedState:
    """All of a copy but the history."""

    __slots__ = (
        "answered",
        "batches",
        "conversation",
        "epoch",
        "is_over",
        "open",
        "position",
        "sealed_id",
        "snapshot_at",
        "taken",
        "turn",
    )

    def __init__(self) -> None:
        self.epoch = b""
        self.conversation = Conversation()
        """The memory beyond a turn, for a policy that wants one."""
        self.position = 0
        """The entries of the log that are folded."""
        self.snapshot_at = 0
        """The position of the log's snapshot."""
        self.turn = 0
        """Identifies the turn that the log is in."""
        self.sealed_id = ""
        self.is_over = False
        self.open: OrderedDict[int, OpenCall] = OrderedDict()
        """By the identity of the event with which the call began."""
        self.batches: OrderedDict[int, int] = OrderedDict()
        """The tick at which the first call of each model message began."""
        self.answered: OrderedDict[int, Decision] = OrderedDict()
        """The decisions about observed calls that have a trip or a text, by the identities of their events."""
        self.taken: frozenset[int] = frozenset()
        """Events that are folded though the log never had them, because it was begun with this copy."""

    def begin_turn(self, number: int, sealed_id: str) -> None:
        """Forget the turn before."""
        self.turn, self.sealed_id, self.is_over = number, sealed_id, False
        self.open.clear()
        self.batches.clear()
        self.answered.clear()

    def written(self, batch: int, tick: int) -> int | None:
        """Return the tick at which the first call of a model message began. This is the first if none did."""
        if not batch:
            return None
        if batch not in self.batches:
            self.batches[batch] = tick
            if len(self.batches) > MOST_BATCHES:
                self.batches.popitem(last=False)
        return self.batches[batch]

    def keep(self, op: int, call: OpenCall) -> None:
        """Remember a call that began."""
        self.open[op] = call
        if len(self.open) > MOST_OPEN:
            self.open.popitem(last=False)

    def take_resumed(self, began: CallBegan, key: int) -> OpenCall | None:
        """Remove and return the open call that is made again after an interrupt: the same call, with the same id."""
        if not began.call_id:
            return None
        for op, one in self.open.items():
            is_same = one.began.call_id == began.call_id and one.record.key == key and not one.refused
            if is_same and one.began.batch != began.batch:  # two calls of one message are two calls
                return self.open.pop(op)
        return None

    def answer(self, op: int, decision: Decision) -> None:
        """Remember the decision about an observed call, for a process that observes it again."""
        if decision.trip is not None or decision.message:
            self.answered[op] = decision
            if len(self.answered) > MOST_ANSWERED:
                self.answered.popitem(last=False)

    # --- snapshots -----------------------------------------------------------------------------------------------

    def to_bytes(self, history: History, messages: list[Any], seal: Callable[[str], str]) -> bytes:
        """Write the copy, with its history and the user's messages. Texts are sealed."""
        state = {
            "version": _VERSION,
            "turn": self.turn,
            "turn_id": self.sealed_id,
            "is_over": self.is_over,
            "history": history.to_bytes().decode(),
            "open": [[op, list(one.began), one.refused, _record_values(one.record)] for op, one in self.open.items()],
            "batches": list(self.batches.items()),
            "conversation": self.conversation.to_list(),
            "answered": [[op, *_decision_values(one, seal)] for op, one in self.answered.items()],
            "messages": messages,
            "taken": list(self.taken),
        }
        return orjson.dumps(state)

    def restore(
        self, data: bytes, history: History, contracts: Contracts, unseal: Callable[[str], str | None]
    ) -> list[Any]:
        """Read the copy that ``to_bytes`` wrote. Return the user's messages."""
        try:
            state = orjson.loads(data)
        except ValueError as error:
            pass_interrupt(error)
            return []
        if state.get("version") != _VERSION:
            return []
        self.turn, self.sealed_id, self.is_over = state["turn"], state["turn_id"], state["is_over"]
        history.restore(state["history"].encode())
        for op, began, refused, values in state["open"]:
            call_began = CallBegan(*began)
            resolved = resolved_call(call_began, contracts, unseal)
            record = _restored(values, call_began, history, resolved)
            self.open[op] = OpenCall(ToolCall(record.tool), call_began, record, refused)
        self.batches.update(state["batches"])
        self.conversation = Conversation.from_list(state["conversation"])
        self.taken = frozenset(state["taken"])
        for op, action, sealed, trip in state["answered"]:
            message = None if sealed is None else unseal(sealed)
            self.answered[op] = Decision(
                None if action is None else Action(action), None if trip is None else trip_of(trip, ""), message
            )
        messages: list[Any] = state["messages"]
        return messages


_FIELDS = (
    "alone", "arguments", "at", "beyond", "changed_between", "child_news", "concurrent", "gap", "haste", "idle",
    "index", "key", "lost", "resumed", "since", "tick", "waited", "written",
)  # fmt: skip
_GAP = _FIELDS.index("gap")


def _record_values(record: Record) -> list[Any]:
    """Return the plain values of the record of an open call, which has no outcome yet."""
    values: list[Any] = [getattr(record, name) for name in _FIELDS]
    trip = None if record.trip is None else list(record.trip._replace(tool=""))
    return [values, record.stats is not None, None if record.limit is None else list(record.limit), trip]


def _restored(values: list[Any], began: CallBegan, history: History, resolved: ResolvedCall) -> Record:
    fields, ran_before, limit, trip = values
    record = Record()
    for name, value in zip(_FIELDS, fields, strict=True):
        setattr(record, name, value)
    if fields[_GAP] is None:  # of the first call of a turn; JSON has no infinite numbers
        record.gap = -math.inf
    news, changes, writes, waits = record.since
    record.since = (news, changes, writes, waits)
    record.resolved, record.tool, record.kind = resolved, resolved.tool.name, resolved.kind
    record.registered = began.registered
    record.stats = history.find(record.key) if ran_before else None
    if limit is not None:
        block, mode, reason, *rest = limit
        record.limit = Limit(block, Mode(mode), Reason(reason), *rest)
    record.trip = None if trip is None else trip_of(trip, record.tool)
    return record


def _decision_values(decision: Decision, seal: Callable[[str], str]) -> list[Any]:
    trip = None if decision.trip is None else list(decision.trip._replace(tool=""))
    sealed = None if decision.message is None else seal(decision.message)
    return [decision.action, sealed, trip]
