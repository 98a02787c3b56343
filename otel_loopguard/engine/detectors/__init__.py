"""The detectors, one mode a file. ``DETECTORS`` lists their rows in the order of precedence."""

from __future__ import annotations

from otel_loopguard.engine.detectors import (
    context_loop,
    cycle,
    error_repeat,
    generic_repeat,
    global_circuit_breaker,
    lost,
    nested_repeat,
    no_novelty,
    ping_pong,
    poll_no_progress,
    repeated_effect,
    retry_limit,
    same_answer,
    similar_query,
    text_repeat,
    text_run,
    unknown_tool_repeat,
    volatile_repeat,
)
from otel_loopguard.engine.detectors.row import Detector

DETECTORS: tuple[Detector, ...] = (
    unknown_tool_repeat.ROW,
    nested_repeat.ROW,
    poll_no_progress.ROW,
    ping_pong.ROW,
    cycle.ROW,
    generic_repeat.ROW,
    lost.ROW,
    similar_query.ROW,
    error_repeat.ROW,
    same_answer.ROW,
    volatile_repeat.ROW,
    repeated_effect.ROW,
    no_novelty.ROW,
    retry_limit.ROW,
    global_circuit_breaker.BUDGET,
    global_circuit_breaker.ROW,
    text_repeat.ROW,
    text_run.ROW,
    context_loop.ROW,
)

__all__ = ["DETECTORS", "Detector"]
