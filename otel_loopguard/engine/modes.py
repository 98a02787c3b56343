"""The modes, and tables of what is known of each, derived from the rows of the detectors."""

from __future__ import annotations

import enum
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import DETECTORS
from otel_loopguard.engine.detectors.presets import COUNTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_loopguard.engine.detectors.row import Detector
    from otel_loopguard.engine.rule import Rule


class _Modes(enum.EnumMeta):
    if TYPE_CHECKING:  # the members are made of the rows, which no type checker sees

        def __getattr__(cls, name: str) -> Mode: ...


class Mode(str, enum.Enum, metaclass=_Modes):
    """The shapes of a loop, in the order of their precedence."""

    _ignore_ = ["name"]
    for name in dict.fromkeys(row.mode for row in DETECTORS):
        vars()[name.upper()] = name

    __hash__ = str.__hash__  # as its text, and several times as fast as that of an enumeration

    def __str__(self) -> str:
        return str(self.value)


def joined(rows: Sequence[Detector]) -> Detector:
    """Join the rows of one mode: the row with an ``about``, or else the first, with the reasons of all."""
    reasons = {reason: found for row in rows for reason, found in row.reasons.items()}
    return replace(next((row for row in rows if row.about is not None), rows[0]), reasons=reasons)


ROWS: Mapping[str, Detector] = MappingProxyType(
    {mode: joined([row for row in DETECTORS if row.mode == mode]) for mode in Mode}
)
"""By mode: its texts, settings and limits. Its checks are in ``DETECTORS``, where a mode may have several rows."""
COUNTED_ROWS: Mapping[str, Detector] = MappingProxyType(
    {row.mode: joined([one for one in COUNTED if one.mode == row.mode]) for row in COUNTED}
)
"""The same for a policy with ``counting = "calls"``."""
DEFAULT_RULES: Mapping[str, Rule] = MappingProxyType({mode: row.default for mode, row in ROWS.items()})
INSISTED_BY_TOOL = frozenset(mode for mode, row in ROWS.items() if row.insisted_by_tool)
"""Modes of which the model insists by any new call of the same tool."""
DECLARED = frozenset(mode for mode, row in ROWS.items() if row.is_declared)
"""Modes of limits that a person has declared: they hold whatever a call returns."""
