"""What every detector shares: its shape, and how a trip is written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.core.model import Action, Kind, Mode, Record, Trip

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.history.update import History
    from otel_loopguard.core.history.window import CallWindow
    from otel_loopguard.core.policy.policy import Rule
    from otel_loopguard.core.tools.contracts import Tool

    Check = Callable[[History, Record, Rule], Trip | None]

EXEMPT = frozenset({Kind.FINAL, Kind.HANDOFF, Kind.STEP})
"""Kinds whose repetition is no loop: terminal tools, hand-offs (but for laps), and steps declared as such."""

NO_LAP = frozenset({Kind.FINAL, Kind.STEP})
"""Kinds that make no lap. Hand-offs do: two agents that hand over to each other are a loop."""

POLLING = frozenset({Kind.POLL, Kind.WAIT})


class Detector(NamedTuple):
    """A mode, and the two questions it asks.

    ``untried``: whether it judges calls that never ran, too. ``judges_news``: whether it may have something to
    say of a first run that succeeded, as most runs are. ``concerns``: whether it has anything to do with a tool.
    """

    mode: Mode
    before: Check | None
    after: Check | None
    untried: bool = False
    judges_news: bool = False
    concerns: Callable[[Tool], bool] | None = None


def trip(record: Record, mode: str, count: int, limit: int, verdict: Action, **more: Any) -> Trip:
    """A trip of this call; what is done about it is the ladder's to say."""
    stats = record.stats
    first_seen = stats.first_index if stats is not None else record.index
    return Trip(mode, record.tool, count, limit, verdict, kind=record.kind, first_seen_index=first_seen, **more)


def judged(record: Record) -> bool:
    """Whether the common modes judge this call: polls are judged as polls only, exempt kinds not at all."""
    return not record.polled and record.kind not in EXEMPT


def unchanged(history: History, record: Record) -> bool:
    """The promise: the call has run, and since then nothing changed that could make its answer another one."""
    return record.stats is not None and not history.changed_since(record.stats)


def declared_exempt(record: Record, exempt: frozenset[Kind]) -> bool:
    """Whether the contract exempts this call. Where calls are counted a name does not: the systems that do so have
    never heard of kinds, and count ``submit`` like any other tool.
    """
    return record.kind in exempt and record.resolved.tool.declared


def counted(history: History, record: Record) -> CallWindow:
    """The calls that count by now; there is a tally wherever a counting detector is asked."""
    tally = history.tally
    assert tally is not None  # noqa: S101 - Rules asks counting detectors only where it makes a tally
    tally.forget_until(record.at)
    return tally
