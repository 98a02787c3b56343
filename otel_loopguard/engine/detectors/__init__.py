"""The detectors, one family a file, in the order of their precedence.

A detector is two plain functions of ``(history, record, rule)``: ``before`` may refuse a call before it is dispatched,
``after`` may nudge the model with its result. Each returns a Trip or None. A custom detector is a ``before`` function.
"""

from __future__ import annotations

from otel_loopguard.engine.detectors import (
    breaker,
    cycle,
    effect,
    errors,
    novelty,
    query,
    repeat,
    retry,
    unknown,
    volatile,
)
from otel_loopguard.engine.detectors.base import Detector

DETECTORS: tuple[Detector, ...] = (
    unknown.DETECTOR,
    repeat.POLL,
    cycle.DETECTOR,
    repeat.REPEAT,
    query.DETECTOR,
    errors.ERROR,
    errors.ANSWER,
    volatile.DETECTOR,
    effect.DETECTOR,
    novelty.DETECTOR,
    retry.DETECTOR,
    breaker.BUDGET,
    breaker.TURN,
)

__all__ = ["DETECTORS", "Detector"]
