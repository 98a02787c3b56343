"""``repeat_hint``: call number max_repeats + 1 with the same arguments gets a hint instead of a result.

max_repeats is 3. Refused calls count, too.
"""

from __future__ import annotations

from dataclasses import replace

from otel_loopguard.engine.detectors.presets import equal_calls
from otel_loopguard.engine.detectors.presets.preset import Preset
from otel_loopguard.engine.rule import Rule

PRESET = Preset(
    "repeat_hint",
    rows=(replace(equal_calls.ROW, rule=Rule(nudge=0, block=4)),),
    settings={"action": "block", "records": "all", "refusal": "text", "mark": "loop-detected"},
    sentences={
        "generic_repeat": '[loop-detected] Tool "{tool}" has now been called {count} times with identical arguments. '
        "Consider trying a different approach, changing the arguments, or finishing the response."
    },
)
