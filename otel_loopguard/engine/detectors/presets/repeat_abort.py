"""``repeat_abort``: call number max_repeats + 1 with the same arguments raises ``ToolLoopError``: the run ends.

max_repeats is 3.
"""

from __future__ import annotations

from dataclasses import replace

from otel_loopguard.engine.detectors.presets import equal_calls
from otel_loopguard.engine.detectors.presets.preset import Preset
from otel_loopguard.engine.rule import Rule

PRESET = Preset(
    "repeat_abort",
    rows=(replace(equal_calls.ROW, rule=Rule(nudge=0, block=0, abort=4)),),
    settings={"action": "abort", "records": "all", "refusal": "text"},
    sentences={
        "generic_repeat.abort": 'Tool "{tool}" was called {count} times with identical arguments - aborting to prevent '
        "a loop"
    },
)
