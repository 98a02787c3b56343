"""The memory of a conversation beyond its turns, for a policy with ``scope = "conversation"``.

A heartbeat, or an agent that a scheduler wakes, may make the same calls in each turn, for ever. No turn of it is a
loop; the turns are. An outcome is *news* to the conversation if this call, or an error of this tool, did not bring it
before in any turn. Turns in a row that made calls and brought no news are counted, and reported at ``turns`` of
``no_novelty``, again at twice and four times that number.

The memory refuses nothing. A call that ran in an earlier turn runs when a new message of the user asks for it, or after
some time: its result may be new. The history of each turn decides alone about its calls.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.values.compare import detailed_fingerprints
from otel_loopguard.engine.words import OVER_TURNS, Action, Kind, Trip

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.words import Record

MOST_OUTCOMES = 256
"""The numbers that a conversation remembers: two or three for each call. What is forgotten counts as new."""
MOST_TURNS = 64
"""Turns that are told apart: of one conversation so many may run at the same time."""
_64_BITS = 0xFFFFFFFFFFFFFFFF
_MASKED_SALT = 0xD6E8FEB86659FD93
"""Tells a masked form from a result, as the history of a turn does."""


class ConversationMemory:
    """The outcomes of a conversation, and its turns since the last news. Writable as a list of numbers."""

    __slots__ = ("due", "outcomes", "row", "turns", "used")

    def __init__(self) -> None:
        self.outcomes = array("Q")
        """Calls, calls with their results, and errors, each as one number; the least recently used is first."""
        self.turns = array("Q")
        """The turn of the last news, and the latest turns since then."""
        self.row = 0
        """The turns since the last news."""
        self.due = 0
        """The number of turns at which the next report of this row is due."""
        self.used = 0.0
        """The time of the last call."""

    def is_news(self, record: Record, facts: OutcomeFacts, fingerprinter: Fingerprinter) -> bool:
        """Return True if the conversation has not seen this outcome, and remember it.

        The first result of a call that differs is new. From then on results are also compared without timestamps, ids
        and durations.
        """
        tool, key = record.resolved.tool, record.key
        if facts.is_error:
            return self._is_new((facts.shape or facts.digest) ^ tool.digest)
        is_known = not self._is_new(key)
        if not self._is_new(_pair(key, facts.digest)):
            return False
        details = None
        if is_known and facts.data:
            details = detailed_fingerprints(
                facts.data, fingerprinter, volatile_keys=tool.contract.volatile, mask=not tool.takes_next,
                is_error=False,
            )  # fmt: skip
        if not is_known or details is None:
            return True
        masked = details.without_durations.masked
        return masked is None or self._is_new(_pair(key, masked ^ _MASKED_SALT))

    def _is_new(self, number: int) -> bool:
        """Return True if the number is not remembered. It is the latest from now on."""
        outcomes = self.outcomes
        is_known = number in outcomes
        if is_known:
            outcomes.remove(number)
        elif len(outcomes) >= MOST_OUTCOMES:
            del outcomes[0]
        outcomes.append(number)
        return not is_known

    def count(self, turn: int, *, is_news: bool) -> int:
        """Count the turn of a call. Return the number of turns before it, in a row, that brought no news."""
        if is_news:
            self.turns, self.row = array("Q", [turn]), 0
        elif turn not in self.turns:
            self.turns.append(turn)
            self.row += 1
            if len(self.turns) > MOST_TURNS:
                del self.turns[0]
        return max(self.row - 1, 0)

    def is_due(self, turns: int, limit: int) -> bool:
        """Return True once at this number of turns in a row, and once at twice and four times that number."""
        if turns < max(limit, self.due):
            return False
        self.due = 2 * limit
        while self.due <= turns:
            self.due *= 2
        return True

    def to_list(self) -> list[Any]:
        """Write the state: fingerprints and counters."""
        return [self.row, self.due, self.used, self.turns.tolist(), self.outcomes.tolist()]

    @classmethod
    def from_list(cls, values: list[Any]) -> ConversationMemory:
        """Read the state that ``to_list`` wrote."""
        found = cls()
        found.row, found.due, found.used, turns, outcomes = values
        found.turns, found.outcomes = array("Q", turns), array("Q", outcomes)
        return found


class Memory(Protocol):
    """Holds conversations: those of a guard, or that of a shared turn, which is in its state."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while a conversation is read and written."""

    def use(self, name: str, now: float | None, longest_idle: float) -> ConversationMemory:
        """Return the conversation, under the lock: a new one if it was idle for too long."""


class PlaceInConversation(NamedTuple):
    """The place of a turn, and of its nested turns, in a conversation."""

    memory: Memory
    name: str
    """The id of the conversation."""
    turn: int
    """The keyed fingerprint of the turn's id."""

    def end(
        self, record: Record, facts: OutcomeFacts, compiled: CompiledPolicy, now: float | None, *, reports: bool
    ) -> Trip | None:
        """Count the outcome of a call. Return a trip if one is due, and ``reports``: the call has no other.

        Calls that prove nothing are left out: thoughts, tools of kind ``step``, and those whose limit is switched off.
        The number in a recorded call is that of the guard. ``now`` is None if the time was not recorded.
        """
        tool, kind = record.resolved.tool, record.kind
        limit = (tool.rules[Mode.NO_NOVELTY].turns or 0) if tool.ceiling(Mode.NO_NOVELTY, compiled.policy) else 0
        if not limit or kind is Kind.THINK or not kind.is_evidence:
            return None
        with self.memory.lock:
            conversation = self.memory.use(self.name, now, compiled.policy.conversation_idle)
            turns = None if facts.found is None else facts.found.turns_without_news
            if turns is None:
                is_news = conversation.is_news(record, facts, compiled.fingerprinter)
                turns = conversation.count(self.turn, is_news=is_news)
            record.turns_without_news = turns
            if not turns:  # another row
                conversation.due = 0
            if not reports or not conversation.is_due(turns, limit):
                return None
        return Trip(
            Mode.NO_NOVELTY, record.tool, turns, limit, Action.NUDGE, Action.OBSERVE, record.kind,
            first_seen_index=record.index, reason=OVER_TURNS,
        )  # fmt: skip


def _pair(key: int, result: int) -> int:
    return (key * 31 + result) & _64_BITS
