"""Remember the outcomes of a conversation over its turns, for a policy with ``scope = "conversation"``.

An agent that a scheduler wakes may make the same calls in each turn, for ever. An outcome is *news* to the conversation
if no turn had it from this call, or, if it is an error, from this tool. Turns in a row that made calls and brought no
news are counted and reported, and nothing is refused for them: the history of each turn alone decides about its calls.
"""

from __future__ import annotations

from array import array
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard.engine.history.update import pair
from otel_loopguard.engine.ledger import NOTHING_SPENT, Ledger
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.values.compare import detailed_fingerprints
from otel_loopguard.engine.vocabulary import OVER_TURNS, Action, Kind, Trip

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from otel_loopguard.engine.compiled import CompiledPolicy
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.vocabulary import Record

MOST_OUTCOMES = 256
"""The most numbers that a conversation remembers, two or three for each call. A forgotten outcome is news again."""
MOST_TURNS = 64
"""The most turns that are told apart: so many of one conversation may run at the same time."""

_MASKED_SALT = 0xD6E8FEB86659FD93
"""Makes the number of a masked result differ from that of a result with the same bytes."""


class ConversationMemory:
    """The outcomes of a conversation, and its turns since the last news. Writable as a list of numbers."""

    __slots__ = ("due", "ledgers", "outcomes", "spent", "turns", "used", "vain_turns")

    def __init__(self) -> None:
        self.outcomes = array("Q")
        """Calls, calls with their results, and errors, each as one number; the least recently used is first."""
        self.turns = array("Q")
        """The fingerprint of the turn that brought the last news, then those of the latest turns without."""
        self.vain_turns = 0
        """The number of turns without news since the last news, the current turn included."""
        self.due = 0
        """The number of turns at which the next report of this row is due; 0 before its first report."""
        self.used = 0.0
        """The time of the last call, in seconds of the guard's clock."""
        self.ledgers: dict[int, Ledger] = {}
        """The ledgers of the latest turns, by the fingerprint of the turn."""
        self.spent = NOTHING_SPENT
        """The sums of all turns before these."""

    def is_news(self, record: Record, facts: OutcomeFacts, fingerprinter: Fingerprinter) -> bool:
        """Return True if the conversation has not seen this outcome, and remember it.

        The first two different results of a call are news. From the third on, a result is news only if it also differs
        without timestamps, ids and durations.
        """
        tool, key = record.resolved.tool, record.key
        if facts.is_error:
            return self._is_new((facts.shape or facts.digest) ^ tool.digest)
        is_known = not self._is_new(key)
        if not self._is_new(pair(key, facts.digest)):
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
        return masked is None or self._is_new(pair(key, masked ^ _MASKED_SALT))

    def _is_new(self, number: int) -> bool:
        """Return True if the number was not remembered, and remember it as the latest."""
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
            self.turns, self.vain_turns = array("Q", [turn]), 0
        elif turn not in self.turns:
            self.turns.append(turn)
            self.vain_turns += 1
            if len(self.turns) > MOST_TURNS:
                del self.turns[0]
        return max(self.vain_turns - 1, 0)

    def is_due(self, turns: int, limit: int) -> bool:
        """Return True at ``limit`` turns in a row, and each time that the number has doubled: 10, 20, 40, 80."""
        if turns < max(limit, self.due):
            return False
        self.due = 2 * limit
        while self.due <= turns:
            self.due *= 2
        return True

    def settle(self, turn: int, ledger: Ledger) -> None:
        """Note what a turn has spent so far. A second time replaces the first."""
        self.ledgers[turn] = ledger
        if len(self.ledgers) > MOST_TURNS:
            self.spent = self.spent.plus(self.ledgers.pop(next(iter(self.ledgers))))

    def spent_before(self, turn: int) -> Ledger:
        """Return what the other turns of the conversation spent, as far as they have ended."""
        others = (ledger for other, ledger in self.ledgers.items() if other != turn)
        return reduce(Ledger.plus, others, self.spent)

    def to_list(self) -> list[Any]:
        """Return the conversation as plain values: fingerprints and counters."""
        ledgers = [list(self.spent), *([turn, *ledger] for turn, ledger in self.ledgers.items())]
        return [self.vain_turns, self.due, self.used, self.turns.tolist(), self.outcomes.tolist(), ledgers]

    @classmethod
    def from_list(cls, values: list[Any]) -> ConversationMemory:
        """Restore the conversation that ``to_list`` returned."""
        found = cls()
        found.vain_turns, found.due, found.used, turns, outcomes, (spent, *ledgers) = values
        found.spent, found.ledgers = Ledger(*spent), {turn: Ledger(*ledger) for turn, *ledger in ledgers}
        found.turns, found.outcomes = array("Q", turns), array("Q", outcomes)
        return found


class Memory(Protocol):
    """The place where conversations are kept: in the guard, or, for a shared turn, in the turn's own state."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that is held while a conversation is read and written."""

    def use(self, name: str, now: float | None, longest_idle: float) -> ConversationMemory:
        """Return the conversation of this name; a new one if it had no call for ``longest_idle`` seconds.

        The caller holds the lock.
        """


class PlaceInConversation(NamedTuple):
    """The place of a turn, and of its nested turns, in a conversation."""

    memory: Memory
    name: str
    """The id of the conversation."""
    turn: int
    """The keyed fingerprint of the turn's id."""

    def conversation(self, compiled: CompiledPolicy, now: float | None) -> ConversationMemory:
        """Return the conversation, or a new one as ``Memory.use`` does. The caller holds the lock of the memory."""
        return self.memory.use(self.name, now, compiled.policy.conversation_idle)

    def end(
        self, record: Record, facts: OutcomeFacts, compiled: CompiledPolicy, now: float | None, *, reports: bool
    ) -> Trip | None:
        """Count the outcome of a call. Return a trip if a report is due and ``reports`` is True, else None.

        A call of a tool of kind ``think`` or ``step`` does not count, nor one whose ``no_novelty.turns`` is off. If a
        recorded call has the number of turns that its guard had counted, that number is taken. ``now``: seconds of the
        guard's clock, or None if the time was not recorded.
        """
        tool, kind = record.resolved.tool, record.kind
        limit = (tool.rules[Mode.NO_NOVELTY].turns or 0) if tool.ceiling(Mode.NO_NOVELTY, compiled.policy) else 0
        if not limit or kind is Kind.THINK or not kind.is_evidence:
            return None
        with self.memory.lock:
            conversation = self.conversation(compiled, now)
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
