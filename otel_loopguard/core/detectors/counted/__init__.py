"""Detectors that count calls and never look at results: what ``counting = "calls"`` turns on.

They block polling, re-reads and edit-test cycles; that is how the systems work that the presets reproduce. Under
the default policy none of them is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.core.detectors import retry
from otel_loopguard.core.detectors.counted import alternation, polls, queries, repeats, total, unknown

if TYPE_CHECKING:
    from otel_loopguard.core.detectors.base import Detector

COUNTED: tuple[Detector, ...] = (
    unknown.DETECTOR,
    polls.DETECTOR,
    alternation.DETECTOR,
    repeats.DETECTOR,
    queries.DETECTOR,
    retry.DETECTOR,
    total.DETECTOR,
)

__all__ = ["COUNTED"]
