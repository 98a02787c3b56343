"""The rule of evidence: the weight of a repeat depends on the work since the run before, and on what its result proves.

The evidence of a call is a sum of weights. At 1 the next equal call is refused: two repeats of 1/2 with nothing in
between, four of 1/4 after news from reading. An answer to a question proves much, an acknowledgement of an act little,
and "not yet" least.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.history.call_stats import ACKNOWLEDGED, ACTED, EMPTY, OVER, PENDING, TRANSIENT
from otel_loopguard.engine.history.independence import are_independent
from otel_loopguard.engine.vocabulary import Kind, Record, Sameness

if TYPE_CHECKING:
    from otel_loopguard.engine.history.call_stats import CallStats
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.rule import Rule

_SAME, _ALIKE, _FIRST = Sameness.SAME, Sameness.ALIKE, Sameness.FIRST
_REPEAT, _POLL = "generic_repeat", "poll_no_progress"
"""The two modes that judge by this rule."""


class Reason(enum.IntEnum):
    """The reason why a call may be repeated so often and no more."""

    REPEAT = 0
    """Nothing else applies."""
    TRANSIENT = 1
    """The last result was a transient error."""
    ACTED = 2
    """A write succeeded."""
    ACKNOWLEDGED = 3
    """A short result of a tool that moves a cursor, or whose kind is unknown."""
    MOVES = 4
    """The result changed by itself before: twice, with no other call in between."""
    EMPTY = 5
    """A look found nothing."""
    PATIENT = 6
    """The call waits for something, or ends the agent's part."""


class Limit(NamedTuple):
    """The limit of a call's repeats at one moment."""

    block: int
    """The run that is refused; 0 = none."""
    mode: str
    """``poll_no_progress`` for calls that wait for something, ``generic_repeat`` for all others."""
    reason: Reason
    forgets: bool
    """True if something may have changed since the last run: the evidence so far is void."""
    never: bool
    """True if the repeat is not refused: something may have changed, or as many news came as ``fresh_after_news``."""
    weight: float
    """The weight of one more equal result: 1 / (block - 1), or 0 if the repeat is not refused."""
    learned: bool
    """True if something changed, by tools that never changed the result; see ``independence``."""


def limit_of(history: History, record: Record, stats: CallStats, flags: int, since: tuple[int, int, int]) -> Limit:
    """Return the limit of a call that has run before. The largest limit that applies holds.

    ``flags``: those of its last run. ``since``: news, changes and waits of other calls since then.
    """
    news, changes, waits = since
    rules, kind = record.resolved.tool.rules, record.kind
    rule = rules[_REPEAT]
    learned = changes > 0 and bool(history.independent) and are_independent(history, record, stats)
    forgets = (changes > 0 and not learned) or (news > 0 and flags & ACKNOWLEDGED > 0)
    mode, reason = _REPEAT, Reason.REPEAT
    awaits = flags & ACKNOWLEDGED and history.last_pending > stats.last_end  # an unknown tool may wait
    is_patient = kind.is_patient and not (kind is Kind.POLL and flags & OVER)
    if is_patient or flags & PENDING or waits or awaits:
        block, reason = rules[_POLL].block or 0, Reason.PATIENT
        if kind.polls or not kind.is_patient:  # not a tool that ends the agent's part
            mode = _POLL
    else:
        block = first_limit(rule)
        if block:
            if news:
                block = max(block, rule.block_after_reads or 0)
            if flags & TRANSIENT and (rule.block_if_transient or 0) > block:
                block, reason = rule.block_if_transient or 0, Reason.TRANSIENT
            if flags & ACTED:
                block, reason = max(block, rule.block_if_acted or 0), Reason.ACTED
            elif flags & ACKNOWLEDGED:
                block, reason = max(block, rule.block_if_acknowledged or 0), Reason.ACKNOWLEDGED
            elif flags & EMPTY:
                block, reason = max(block, rule.block_if_acknowledged or 0), Reason.EMPTY
            elif stats.moves > 1:
                block, reason = max(block, rule.block_if_acknowledged or 0), Reason.MOVES
    never = forgets or 0 < (rule.fresh_after_news or 0) <= news
    weight = 0.0 if never or not block else 1 / (block - 1) if block > 1 else 1.0
    return Limit(block, mode, reason, forgets, never, weight, learned)


def first_limit(rule: Rule) -> int:
    """Return the lower one of ``block`` and ``abort``: the first run that does not take place; 0 if both are off."""
    block, abort = rule.block or 0, rule.abort or 0
    return min(block, abort) if block and abort else block or abort


def weigh(history: History, record: Record, stats: CallStats, flags: int) -> None:
    """Add a run to the evidence of its call. Call it before the run's own part moves the turn's counters.

    ``flags``: those of this run. The first result of a call is not searched for words such as "pending", so the flags
    of the first equal result hold for it, too.
    """
    if record.sameness is not _SAME:
        flags = stats.flags
    if record.waits or flags != stats.flags or history.tick != record.tick:  # else its limit has not changed since
        record.limit = limit_of(history, record, stats, flags, history.since(stats))
    limit = record.limit
    if record.child_news:  # the same answer, but the nested run did new work for it
        stats.reset_evidence(history.wall)
        return
    if limit.forgets:
        stats.evidence = 0
    if record.changed_between:
        stats.alike = stats.varied = 1
    if record.sameness is _SAME:
        stats.equal += 1
        stats.steady += 1
        if record.kind.is_evidence:
            stats.evidence += record.haste * limit.weight
        stats.vain += record.beyond or stats.refused > 0
    elif record.sameness is _ALIKE:
        stats.evidence, stats.equal, stats.same_since = 0, 1, history.wall
        stats.steady += 1
        stats.varied += not record.changed_between
        stats.alike += not (record.changed_between or record.news)
    else:
        stats.reset_evidence(history.wall)
        stats.moves += record.alone and record.news


def strength(record: Record, *, same: bool) -> float:
    """Return how much a call without news counts in ``no_news_in_row`` and ``no_news_in_turn``, from 0 to 1.

    ``same``: its result is that of its last run.
    """
    if same:
        limit, haste = record.limit, record.haste
        provable = limit.reason is Reason.REPEAT or limit.reason is Reason.MOVES or limit.block < 2
        return haste if provable else haste * min(1.0, 2 / (limit.block - 1))
    if record.alone and not record.error and record.sameness is not _FIRST:
        return 0.4  # it moves, if to and fro
    return 1.0
