"""One turn's bounded memory: what was called, what came back, what was news and what changed the world.

Two counters carry the idea of the whole package: ``news`` (a result not seen before) and ``changes`` (news that
may have changed the world, or proves that it changed). What a call's evidence is worth depends on how far they
moved since the call last ran, its own part in them apart.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.contracts import WRITING
from otel_loopguard.core.model import Kind, Mode, Record, Sameness, Trip
from otel_loopguard.core.queries import query_of
from otel_loopguard.core.sameness import compare, likeness

if TYPE_CHECKING:
    from otel_loopguard.core.contracts import Understood
    from otel_loopguard.core.fingerprint import Fingerprinter
    from otel_loopguard.core.outcomes import Fingerprinted
    from otel_loopguard.core.policy import Rule
    from otel_loopguard.core.sameness import Likeness
    from otel_loopguard.core.tally import Tally

MOST_RECORDS = 64
MOST_CALLS = 1_024
MOST_PAIRS = 4_096
MOST_REMEMBERED = 256
MOST_QUERIES = 32

_64_BITS = 0xFFFFFFFFFFFFFFFF
_POLLING = frozenset({Kind.POLL, Kind.WAIT})
_NO_EVIDENCE = frozenset({Kind.FINAL, Kind.STEP, Kind.HANDOFF})
"""Kinds that neither end nor lengthen a run of calls without news."""
_NO_ORDER = frozenset({Kind.FINAL, Kind.STEP})
"""Kinds whose runs are no step of a lap."""


class Known:
    """What is known of one call (one tool with one set of arguments) that has run in this turn."""

    __slots__ = (
        "alike", "at", "changes", "equal", "evidence", "first_index", "last_end", "likeness", "news", "own_changes",
        "own_news", "own_waits", "own_writes", "pending", "poll", "result", "successes", "transient", "waits", "writes",
    )  # fmt: skip

    def __init__(self, first_index: int) -> None:
        self.first_index = first_index
        self.result = 0
        """The result's fingerprint; it stays while results are the *same*."""
        self.equal = 1
        """Runs in a row with the same result, the first included."""
        self.alike = 1
        self.evidence: float = 0
        self.successes = 0
        self.last_end = 0
        self.at = 0.0
        self.pending = self.transient = False
        self.news = self.changes = self.writes = self.waits = 0
        """The turn's counters at the start of the last run, this call's own part in them apart."""
        self.own_news = self.own_changes = self.own_writes = self.own_waits = 0
        self.likeness: Likeness | None = None
        self.poll: tuple[int, float] | None = None
        """For polls: how many runs without news count, and when the first of them started."""


class Streaks:
    """What is known of one tool: how often in a row it failed alike, or gave the same for untried arguments."""

    __slots__ = ("answers", "changes", "errors", "queries", "result", "same_results", "shape")

    def __init__(self) -> None:
        self.answers: dict[int, None] = _EMPTY
        self.shape = self.errors = self.changes = self.result = self.same_results = 0
        self.queries: list[str] = []
        """Normalised queries since the last result that this tool had not given before."""


class History:
    """The memory of one turn. Not thread-safe by itself: the turn holds its lock around every method."""

    __slots__ = (
        "barren", "barren_in_turn", "calls", "changes", "counts_refused", "errors_in_row", "gates", "insistable",
        "keys", "known", "last_key", "most_calls", "news", "open_trips", "pairs", "polls_apart", "refusals", "results",
        "shapes", "started_by_tool", "streak", "tally", "tick", "tools", "transients", "unknown_answered", "unknown_calls", "waits", "writes",
    )  # fmt: skip

    def __init__(self, most_calls: int = 0) -> None:
        self.most_calls = most_calls
        self.tally: Tally | None = None
        """For detectors that count calls; the others need none."""
        self.counts_refused = self.polls_apart = False
        """What else those detectors are told: refused calls count, too; polls have a mode of their own."""
        self.tick = 0
        """Counts starts and ends: the turn's own time."""
        self.calls = self.news = self.changes = 0
        self.writes = 0
        """Starts and ends of tools that may write."""
        self.waits = 0
        """Ended runs of waits and polls."""
        self.known: dict[int, Known] = {}
        self.keys = array("Q")
        self.results = array("Q")
        """The last runs in order, what was called and what came back; polls and waits left out."""
        self.barren = self.barren_in_turn = 0
        """Calls without news: in a row, and in the turn."""
        self.errors_in_row = self.unknown_calls = 0
        self.refusals = 0
        """Refusals since the last news."""
        self.last_key = self.streak = 0
        # Most turns never need these:
        self.unknown_answered: dict[str, None] = _EMPTY
        self.pairs: dict[int, None] = _EMPTY
        self.shapes: dict[int, None] = _EMPTY
        self.transients: dict[int, None] = _EMPTY
        self.insistable: dict[int, None] = _EMPTY
        self.gates: dict[Any, int] = _EMPTY
        self.tools: dict[str, Streaks] = _EMPTY
        self.started_by_tool: dict[str, int] = _EMPTY
        self.open_trips: tuple[Trip, ...] = ()

    # --- before a call -------------------------------------------------------------------------------------------

    def opened(self, understood: Understood, arguments: int, *, registered: bool | None, now: float) -> Record:
        """A record for a call that is about to be judged; it counts only once it is ``started``."""
        record = Record()
        record.tool = understood.tool.name
        record.call = understood
        record.kind = understood.kind
        record.registered = registered
        record.arguments = arguments
        record.key = (arguments ^ hash(understood.tool.name)) & _64_BITS
        record.known = known = self.known.get(record.key)
        record.polled = understood.kind in _POLLING or (
            known is not None and (known.pending or self.waits - known.own_waits != known.waits)
        )
        record.index = self.calls
        record.since = self._others(known)
        record.tick = self.tick
        record.at = now
        record.result = record.sameness = record.trip = None
        record.error = record.pending = record.transient = record.news = record.concurrent = record.between = (
            record.child_news
        ) = False
        return record

    def _others(self, known: Known | None) -> tuple[int, int, int, int]:
        """The counters, a call's own part in them apart."""
        if known is None:
            return self.news, self.changes, self.writes, self.waits
        return (
            self.news - known.own_news,
            self.changes - known.own_changes,
            self.writes - known.own_writes,
            self.waits - known.own_waits,
        )

    def started(self, record: Record) -> None:
        """The call runs: it counts towards caps from now on, so that parallel calls cannot outrun them."""
        self.tick += 1
        record.tick = self.tick
        self.calls += 1
        if record.kind in WRITING:  # from now on it may write
            self.writes += 1
            if record.known is not None:
                record.known.own_writes += 1
        if self.tally is not None:
            self.tally.add(record)
        if record.call.tool.contract.cap is not None:
            self.started_by_tool = counts = self.started_by_tool or {}
            counts[record.tool] = counts.get(record.tool, 0) + 1

    def refused(self, record: Record, *, insistable: bool) -> None:
        """The call does not run."""
        self.refusals += 1
        if insistable:
            self.insist(record.key)
        if self.counts_refused and self.tally is not None:
            self.tally.add(record)

    def changed_since(self, known: Known) -> bool:
        """Whether anything may have changed since the start of this call's last run, its own part apart."""
        return self.changes - known.own_changes != known.changes

    def insist(self, key: int) -> None:
        """An untried call was refused: made once more, it runs."""
        self.insistable = _kept(self.insistable, key, MOST_REMEMBERED)

    def weight(self, known: Known, rule: Rule) -> float:
        """What one more *same* of this call would add to its evidence; None of it after a change."""
        if not rule.block or self.changed_since(known):
            return 0.0
        busy = self.news - known.own_news != known.news or self.writes - known.own_writes != known.writes
        limit = rule.reading if busy else rule.block
        if known.transient and rule.transient:
            limit = max(limit or 0, rule.transient)
        return 1 / (limit - 1) if limit and limit > 1 else float(limit == 1)

    # --- after a call --------------------------------------------------------------------------------------------

    def ended(self, record: Record, outcome: Fingerprinted, fingerprinter: Fingerprinter) -> None:
        """The call has run: everything that follows from its outcome is counted."""
        started_known, known, masked = record.known is not None, self.known.get(record.key), None
        concurrent = known is not None and record.tick < known.last_end
        record.known, record.concurrent = known, concurrent
        record.result, record.error = outcome.digest, outcome.is_error
        record.transient, record.pending = outcome.transient, outcome.pending
        if known is None:
            record.sameness = Sameness.FIRST
        elif concurrent:
            record.sameness = Sameness.SAME if known.result == outcome.digest else Sameness.DIFFERENT
        else:
            record.sameness, masked = self._compared(record, known, outcome, fingerprinter)
        record.news = self._is_news(record, known, outcome, masked)
        changed = record.news and (
            (not record.error and record.kind in WRITING)
            or (known is not None and record.sameness is Sameness.DIFFERENT)
        )
        if known is None:
            known = record.known = self._remember(record, outcome.digest)
        elif not concurrent:
            self._weigh(record, known)
            if record.sameness is not Sameness.SAME:
                known.result = outcome.digest
        elif record.sameness is Sameness.DIFFERENT:  # which of the two came last, nobody knows
            known.evidence, known.equal, known.alike, known.result = 0, 1, 1, outcome.digest
        if record.kind in WRITING and not started_known:
            known.own_writes += 1  # its start was counted before anything was known of it
        self._count(record, known, changed=changed, concurrent=concurrent)
        if not concurrent:
            self._order(record, known)
            self._tool(record, outcome)

    def _compared(
        self, record: Record, known: Known, outcome: Fingerprinted, fingerprinter: Fingerprinter
    ) -> tuple[Sameness, int | None]:
        """How the result compares with the last one of this call; and its masked fingerprint, where it was made."""
        if outcome.digest == known.result:
            return Sameness.SAME, None
        last = known.likeness
        known.likeness = now = likeness(outcome.data, record.call.tool, fingerprinter)
        changed = self.changed_since(known)
        masked = (now.changed if changed else now.quiet).masked
        if last is None:
            return Sameness.DIFFERENT, masked
        return compare(last, now, record.kind, changed=changed), masked

    def _is_news(self, record: Record, known: Known | None, outcome: Fingerprinted, masked: int | None) -> bool:
        unseen = known is None or self._is_unseen_pair(record.key, outcome.digest, known.result)
        if masked is not None:  # a result that comes back under a new id is no news either
            unseen = self._is_unseen_pair(record.key, masked ^ _MASKED_SALT, 0) and unseen
        if record.child_news:
            return True
        if record.error:
            shape = outcome.shape ^ (hash(record.tool) & _64_BITS)
            if shape in self.shapes:
                return False
            self.shapes = _kept(self.shapes, shape, MOST_PAIRS)
            return True
        return unseen and record.sameness not in _NOT_NEW and record.kind is not Kind.THINK

    def _is_unseen_pair(self, key: int, result: int, last: int) -> bool:
        """Whether the call never gave this result; a call's last result is known without being kept here."""
        if result == last:
            return False
        pair = _pair(key, result)
        unseen = pair not in self.pairs
        self.pairs = _kept(self.pairs, _pair(key, last), MOST_PAIRS)
        self.pairs = _kept(self.pairs, pair, MOST_PAIRS)
        return unseen

    def _remember(self, record: Record, result: int) -> Known:
        known = Known(record.index)
        known.result = result
        if len(self.known) >= MOST_CALLS:
            self.known.pop(next(iter(self.known)))
        self.known[record.key] = known
        return known

    def _weigh(self, record: Record, known: Known) -> None:
        """What this run adds to the call's counts: before its own part moves the turn's counters."""
        record.between = changed = self.changed_since(known)
        sameness = record.sameness
        if changed:
            known.evidence, known.alike = 0, 1
        if record.polled:
            self._weigh_poll(record, known)
        elif sameness is Sameness.SAME:
            known.equal += 1
            if record.kind not in _NO_EVIDENCE:
                weight = self.weight(known, record.call.tool.rules[Mode.GENERIC_REPEAT])
                if record.transient and weight:
                    weight = min(weight, 1 / max(1, (record.call.tool.rules[Mode.GENERIC_REPEAT].transient or 2) - 1))
                known.evidence += weight
        elif sameness is Sameness.ALIKE and not changed:
            known.alike += 1
        if sameness is Sameness.DIFFERENT or sameness is Sameness.PROGRESS:
            known.evidence = 0
            known.equal = known.alike = 1

    def _weigh_poll(self, record: Record, known: Known) -> None:
        if record.news or (record.kind is Kind.WAIT and self.news - known.own_news != known.news):
            known.poll = None
            return
        count, since = known.poll or (1, known.at)
        apart = record.call.tool.rules[Mode.POLL_NO_PROGRESS].apart or 0
        known.poll = (count + (record.at - known.at < apart), since)

    def _count(self, record: Record, known: Known, *, changed: bool, concurrent: bool) -> None:
        wrote = record.kind in WRITING
        waited = record.kind in _POLLING or record.pending
        self.tick += 1
        self.news += record.news
        self.changes += changed
        self.writes += wrote
        self.waits += waited
        known.own_news += record.news
        known.own_changes += changed
        known.own_writes += wrote
        known.own_waits += waited
        if not concurrent:
            known.news, known.changes, known.writes, known.waits = record.since
            known.last_end, known.at = self.tick, record.at
            known.pending, known.transient = record.pending, record.transient
            if len(self.known) > MOST_CALLS // 2:  # least recently used goes first
                self.known[record.key] = self.known.pop(record.key)
        known.successes += not record.error
        if record.news:
            self.barren = self.refusals = 0
        elif not record.polled and not concurrent and record.kind not in _NO_EVIDENCE:
            self.barren_in_turn += 1
            self.barren += record.sameness is not Sameness.ALIKE
        if not record.polled and not concurrent:
            if record.error:
                self.errors_in_row += 1
            else:
                self.errors_in_row = 0

    def _order(self, record: Record, known: Known) -> None:
        """The run takes its place among the last ones."""
        if record.polled or record.kind in _NO_ORDER:
            return
        if record.key == self.last_key:
            self.streak += 1
        else:
            self.last_key, self.streak = record.key, 1
        self.keys.append(record.key)
        self.results.append(known.result)
        if len(self.keys) > MOST_RECORDS:
            del self.keys[0], self.results[0]
        if record.transient:
            self.transients = _kept(self.transients, known.result, MOST_REMEMBERED)

    def _tool(self, record: Record, outcome: Fingerprinted) -> None:
        """What this run says of its tool."""
        if record.registered is False and record.tool not in self.unknown_answered:
            if record.error:
                self.unknown_calls += 1
            else:
                self.unknown_answered = _kept(self.unknown_answered, record.tool, MOST_REMEMBERED)
        elif not record.error:
            self.unknown_calls = 0
        first = record.sameness is Sameness.FIRST
        if record.polled or record.kind in _NO_EVIDENCE or not (record.error or first):
            streaks = self.tools.get(record.tool)
            if streaks is not None and not record.error:
                streaks.errors = 0
            return
        streaks = self.streaks(record.tool)
        if not record.error:
            streaks.errors = 0
            same = streaks.same_results and streaks.result == outcome.digest
            streaks.same_results = streaks.same_results + 1 if same else 1
            streaks.result = outcome.digest
            if record.call.tool.contract.query is not None:
                _asked(streaks, record, outcome)
        elif first:
            again = streaks.shape == outcome.shape and streaks.changes == self.changes
            streaks.errors = streaks.errors + 1 if again else 1
            streaks.shape, streaks.changes = outcome.shape, self.changes

    def streaks(self, tool: str) -> Streaks:
        """What is known of a tool; begun when first asked for."""
        streaks = self.tools.get(tool)
        if streaks is None:
            if not self.tools:
                self.tools = {}
            elif len(self.tools) >= MOST_REMEMBERED:
                self.tools.pop(next(iter(self.tools)))
            streaks = self.tools[tool] = Streaks()
        return streaks


def _asked(streaks: Streaks, record: Record, outcome: Fingerprinted) -> None:
    """A query that brought what this tool had not given before begins a new list of queries."""
    query = query_of(record.call.arguments, record.call.tool.contract.query)
    if query is None:
        return
    if outcome.empty or outcome.digest in streaks.answers:
        streaks.queries = [*streaks.queries[-MOST_QUERIES:], query]
    else:
        streaks.queries = [query]
    streaks.answers = _kept(streaks.answers, outcome.digest, MOST_REMEMBERED)


_NOT_NEW = frozenset({Sameness.SAME, Sameness.ALIKE})
_MASKED_SALT = 0xC2B2AE3D27D4EB4F
"""A masked form is no result: text without volatile parts has the same bytes in both."""
_EMPTY: Any = {}
"""Shared and never written to: an empty dictionary a turn would be most of a short turn's memory."""


def _pair(key: int, result: int) -> int:
    return (key * 31 + result) & _64_BITS


def _kept(store: dict[Any, None], item: Any, most: int) -> dict[Any, None]:
    """The store with the item in it; the oldest goes when it is full."""
    if not store:
        return {item: None}
    if item not in store and len(store) >= most:
        store.pop(next(iter(store)))
    store[item] = None
    return store
