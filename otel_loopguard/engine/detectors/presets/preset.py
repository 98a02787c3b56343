"""The shape of a preset: a system whose behaviour is reproduced, described by its rows and by what it declares.

These systems count calls, whatever they return, and know no kinds of tools: a name exempts nothing, only
``kind = "step"`` does. So they refuse polls, re-reads and edit-and-test cycles; the default policy runs none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.engine.detectors.row import Detector


@dataclass(frozen=True)
class Preset:
    """One system. It refuses calls, and ends no run because of its refusals, unless its settings say otherwise."""

    name: str
    rows: tuple[Detector, ...]
    """Its modes in its order, with its limits."""
    settings: Mapping[str, Any]
    """Settings of the policy as a whole."""
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Contracts by globs of tool names."""
    sentences: Mapping[str, str] = field(default_factory=dict)
    """Its own sentences for the model, by the names that ``Policy.sentences`` has."""

    @property
    def table(self) -> dict[str, Any]:
        """The preset as the table of a policy file."""
        return {
            "conclude_after": 0,
            "abort_after": 0,
            "counting": "calls",
            **self.settings,
            "order": list(dict.fromkeys(row.mode for row in self.rows)),
            "modes": {row.mode: row.rule.settings for row in self.rows},
            "sentences": dict(self.sentences),
            "tools": dict(self.tools),
        }
