"""``repeated_effect``: an effect that must happen once is about to happen again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.detectors.row import About, Detector, Sentences, at_a_repeat
from otel_loopguard.engine.detectors.trips import refusal, trip, unchanged
from otel_loopguard.engine.rule import Rule
from otel_loopguard.engine.settings import Setting
from otel_loopguard.engine.vocabulary import Action, Record, Trip

if TYPE_CHECKING:
    from otel_loopguard.engine.history.history import History


def before(history: History, record: Record, rule: Rule) -> Trip | None:
    """Refuse the second run of a tool declared ``once``, and the fifth of one whose server calls it destructive.

    The second run of a tool that moves money by its name is refused, too; there the model may insist.
    """
    stats = record.stats
    if stats is None or not stats.successes or not record.kind.is_evidence:
        return None
    count = stats.successes + 1
    tool, limit = record.resolved.tool, rule.block or 0
    if tool.contract.once:
        return trip(record, ROW.mode, count, limit, Action.BLOCK) if 0 < limit <= count else None
    if _is_payment(tool):
        is_due = 0 < limit <= count and unchanged(history, record)
        return trip(record, ROW.mode, count, limit, Action.BLOCK, insistable=True, reason="money") if is_due else None
    limit = rule.block_if_destructive or 0
    if not 0 < limit <= count or not _may_be_destructive(record) or not unchanged(history, record):
        return None
    return refusal(history, record, ROW.mode, count, limit)


def after(_history: History, record: Record, rule: Rule) -> Trip | None:
    """Nudge at the second success with equal arguments, of a tool declared ``once`` or called destructive."""
    stats = record.stats
    if stats is None or record.error or not rule.nudge or stats.successes < rule.nudge or not record.kind.is_evidence:
        return None
    tool = record.resolved.tool
    if not (tool.contract.once or _is_payment(tool) or _may_be_destructive(record)):
        return None
    return trip(record, ROW.mode, stats.successes, rule.nudge, Action.NUDGE)


def _is_payment(tool: Any) -> bool:
    return bool(tool.moves_money) and tool.contract.once is None


def _may_be_destructive(record: Record) -> bool:
    """Return True unless the user has declared a kind that does not write: that overrules the server's hint."""
    return not record.resolved.tool.declared or record.kind.writes


def concerns(tool: Any, _policy: Any) -> bool:
    """Return True for a tool declared ``once``; with ``once`` left open, if it is destructive or moves money."""
    hints = tool.hints
    hinted = hints is not None and hints.destructive is True and hints.idempotent is False
    return bool(tool.contract.once) or _is_payment(tool) or (hinted and tool.contract.once is None)


ROW = Detector(
    "repeated_effect",
    rule=Rule(nudge=2, block=2, block_if_destructive=5),
    settings={
        "block_if_destructive": Setting.count(
            "The run that is refused for a tool that its server marks as destructive."
        ),
    },
    before=before,
    after=after,
    untried=False,
    judges_news=False,
    concerns=concerns,
    may_trip_from=at_a_repeat,
    refusal="{tool} has already been done with these arguments; it must not happen twice.",
    nudge="This has now been done {count} times with the same arguments.",
    reasons={
        "money": Sentences(
            "{tool} succeeded with these arguments before, and nothing has changed since: the money may have moved "
            "already. See what it did before it is done again.",
            advice="none",
        )
    },
    tells_by_nudge=True,
    is_declared=True,
    about=About(
        title="an effect that is repeated",
        agent="is about to repeat an effect that must happen once: it is declared so, or moves money by its name",
        told="2nd",
        refused="2nd",
        precisely=(
            "a tool declared `once`, one that moves money by its name, or one called destructive by its server, "
            "succeeds again, and nothing changed in between",
            "2nd",
            "2nd (`once`: whatever changed), unless it insists where only the name says so; the 5th if its server "
            "says so",
        ),
        cause="the acknowledgement of the effect does not say that it happened",
    ),
)
