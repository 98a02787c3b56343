"""The presets of other systems, one system a file, and the rows of policies that count calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.detectors import retry_limit
from otel_loopguard.engine.detectors.presets import (
    chat_turn,
    equal_calls,
    local_reads,
    recipe_step,
    repeat_abort,
    repeat_hint,
    turn_nudge,
    typed_window,
)

if TYPE_CHECKING:
    from otel_loopguard.engine.detectors.presets.preset import Preset
    from otel_loopguard.engine.detectors.row import Detector

_SYSTEMS = (chat_turn, local_reads, recipe_step, repeat_abort, repeat_hint, turn_nudge, typed_window)
PRESETS: dict[str, Preset] = {system.PRESET.name: system.PRESET for system in _SYSTEMS}
COUNTED: tuple[Detector, ...] = (
    typed_window.UNKNOWN,
    typed_window.POLLS,
    typed_window.ALTERNATION,
    equal_calls.ROW,
    chat_turn.SIMILAR,
    retry_limit.ROW,
    turn_nudge.BUDGET,
    typed_window.ALL,
)
"""The detectors of a policy with ``counting = "calls"``, in the order of precedence. The policy has their limits."""
