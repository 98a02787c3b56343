"""The rule of evidence: the weight of a repeat depends on the work since the run before, and on what its result proves.

The evidence of a call is a sum of weights. At 1 the next equal call is refused: two repeats of 1/2 with nothing in
between, four of 1/4 after news from reading. An answer to a question proves much, an acknowledgement of an act little,
and "not yet" least.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.core.history.call_stats import ACKNOWLEDGED, ACTED, BRIEF, PENDING, SUCCESS, TRANSIENT
from otel_loopguard.core.model import Kind, Mode, Record, Sameness

if TYPE_CHECKING:
    from otel_loopguard.core.history.call_stats import CallStats
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.policy.policy import Rule

_SAME, _ALIKE, _FIRST = Sameness.SAME, Sameness.ALIKE, Sameness.FIRST
_WAIT, _THINK, _AGENT = Kind.WAIT, Kind.THINK, Kind.AGENT
_REPEAT, _POLL = Mode.GENERIC_REPEAT, Mode.POLL_NO_PROGRESS
_ENDS_A_PART = frozenset({Kind.FINAL, Kind.HANDOFF})
_YES = BRIEF | SUCCESS


class Reason(enum.IntEnum):
    """The reason for the number of repeats that are allowed."""

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
    PATIENT = 5
    """The call waits for something, or ends the agent's part."""


class Limit(NamedTuple):
    """The limit of a call's repeats at one moment."""

    block: int
    """The run that is refused; 0 = none."""
    reason: Reason
    forgets: bool
    """Something may have changed since the last run: the evidence so far is void."""
    never: bool
    """The repeat is not refused: something may have changed, or so much came in between that it is as good as new."""

    @property
    def weight(self) -> float:
        """Return the weight of one *same* under this limit."""
        if self.never or not self.block:
            return 0.0
        return 1 / (self.block - 1) if self.block > 1 else 1.0

    @property
    def nudge(self) -> int:
        """Return the run at which the model is nudged: half of the limit, rounded up."""
        return (self.block + 1) // 2


def limit_of(history: History, record: Record, stats: CallStats, flags: int) -> Limit:
    """Return the limit of a call, by the work since its last run. The largest limit that applies holds.

    ``flags`` are those of its last result.
    """
    rules = record.resolved.tool.rules
    news, changes, writes, waits = history.since(stats)
    rule = rules[_REPEAT]
    judged_since_news = flags & ACKNOWLEDGED or record.kind is _WAIT or (record.kind is _AGENT and flags & _YES == _YES)
    forgets = bool(changes or (news and judged_since_news))
    never = forgets or 0 < (rule.fresh_after_news or 0) <= news
    awaited = flags & ACKNOWLEDGED and history.last_pending > stats.last_end
    if record.kind.is_patient or flags & PENDING or waits or awaited:
        return Limit(rules[_POLL].block or 0, Reason.PATIENT, forgets, never)
    block, reason = first_limit(rule), Reason.REPEAT
    if block:
        if news or writes:
            block = max(block, rule.block_after_reads or 0)
        if flags & TRANSIENT and (rule.block_if_transient or 0) > block:
            block, reason = rule.block_if_transient or 0, Reason.TRANSIENT
        if flags & ACTED:
            block, reason = max(block, rule.block_if_acted or 0), Reason.ACTED
        elif flags & ACKNOWLEDGED:
            block, reason = max(block, rule.block_if_acknowledged or 0), Reason.ACKNOWLEDGED
        elif stats.moves > 1:
            block, reason = max(block, rule.block_if_acknowledged or 0), Reason.MOVES
    return Limit(block, reason, forgets, never)


def first_limit(rule: Rule) -> int:
    """Return the first run that does not run any more, refused or aborted; 0 if there is none."""
    block, abort = rule.block or 0, rule.abort or 0
    return min(block, abort) if block and abort else block or abort


def is_poll(record: Record) -> bool:
    """Return True if the call is judged by ``poll_no_progress``; terminal tools and hand-offs are just repeated."""
    return record.limit is not None and record.limit.reason is Reason.PATIENT and record.kind not in _ENDS_A_PART


def repeats(record: Record) -> bool:
    """Return True if the run counts as *same*. For a patient call a result that comes back is the same, too."""
    return record.sameness is _SAME or (record.comes_back and record.limit.reason is Reason.PATIENT)


def weigh(history: History, record: Record, stats: CallStats, flags: int) -> None:
    """Add a run to the evidence of its call. Call it before the run's own part moves the turn's counters.

    ``flags`` are those of this run. A first result is not searched, so an equal one stands in for it.
    """
    record.limit = limit = limit_of(history, record, stats, flags if record.sameness is _SAME else stats.flags)
    if record.child_news:  # the same answer, but the nested run did new work for it
        stats.reset_evidence(history.idle)
        return
    if limit.forgets:
        stats.evidence = 0
    if record.changed_between:
        stats.alike = 1
    if repeats(record):
        stats.equal += 1
        stats.steady += 1
        if record.kind.is_evidence:
            stats.evidence += record.haste * limit.weight
        stats.vain += record.beyond or stats.refused > 0
    elif record.sameness is _ALIKE:
        stats.evidence, stats.equal, stats.same_since = 0, 1, history.idle
        stats.steady += 1
        stats.alike += not record.changed_between and not record.waited
    else:
        stats.reset_evidence(history.idle)
        stats.moves += record.alone and record.news


def strength(record: Record, *, same: bool) -> float:
    """Return the part of a call without news in the counts of such calls; ``same``: its result repeats."""
    limit = record.limit
    if same:
        part: float = record.haste
        if limit.reason > Reason.REPEAT and limit.block > 1:
            part *= min(1.0, 2 / (limit.block - 1))
    elif record.kind.is_patient or (limit is not None and limit.reason is Reason.PATIENT):
        part = 0.1
    elif record.alone and not record.error and record.sameness is not _FIRST:
        part = 0.4  # it moves, if to and fro
    else:
        part = 1.0
    return part / 2 if record.kind is _THINK else part
