"""``recipe_step``: a turn is one step of a recipe. A repeated call of ``composio_*`` gets the earlier result.

Only calls with equal arguments count. A call that failed has no result to give again, so it runs. Other tools are not
judged.
"""

from __future__ import annotations

from dataclasses import replace

from otel_loopguard.engine.detectors.presets import equal_calls
from otel_loopguard.engine.detectors.presets.preset import Preset
from otel_loopguard.engine.rule import Rule

PRESET = Preset(
    "recipe_step",
    rows=(replace(equal_calls.ROW, rule=Rule(nudge=0, block=0)),),
    settings={"action": "reuse", "records": "ran"},
    tools={
        "composio_*": {
            "reuse": True,
            "route": {"tool": []},  # judged as itself, not as the tool behind it
            "modes": {"generic_repeat": {"block": 2}},
        }
    },
)
