"""``local_reads``: an equal call of a reading tool is refused after a retry budget of 2: the third one.

Arguments are normalised before they are compared. The refusal is logged with tool, abbreviated fingerprint and attempt;
refused attempts count.
"""

from __future__ import annotations

from dataclasses import replace

from otel_loopguard.engine.detectors.presets import equal_calls
from otel_loopguard.engine.detectors.presets.preset import Preset
from otel_loopguard.engine.rule import Rule

_READS = ("read_file", "list_dir", "glob", "grep", "web_fetch", "web_search")
PRESET = Preset(
    "local_reads",
    rows=(replace(equal_calls.ROW, rule=Rule(nudge=0, block=0)),),
    settings={"action": "block", "records": "all", "arguments": "normalised", "refusal": "text"},
    tools={name: {"modes": {"generic_repeat": {"block": 3}}} for name in _READS},
    sentences={
        "generic_repeat": "Error: repeated identical tool call blocked. "
        "Use the prior result or choose a different tool."
    },
)
