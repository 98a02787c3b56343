"""The environment variables that ``opentelemetry-instrument --help`` lists, and takes as flags.

The key of the fingerprints is not among them on purpose: a flag can be read by everybody who may list processes.
"""

from __future__ import annotations

OTEL_PYTHON_LOOPGUARD_ACTION = "OTEL_PYTHON_LOOPGUARD_ACTION"
"""The ceiling of what is done about loops: off, observe, nudge, reuse, block (default) or abort."""

OTEL_PYTHON_LOOPGUARD_PRESET = "OTEL_PYTHON_LOOPGUARD_PRESET"
"""The name of a policy that comes with the package."""

OTEL_PYTHON_LOOPGUARD_CONFIG = "OTEL_PYTHON_LOOPGUARD_CONFIG"
"""The path of a TOML file with a policy."""

OTEL_PYTHON_LOOPGUARD_EVENTS = "OTEL_PYTHON_LOOPGUARD_EVENTS"
"""Where a loop is told: span (default), log or both."""

OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID = "OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID"
"""How conversation ids are shown: raw (default), hash or off."""

OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN = "OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN"
"""Whether calls outside of any known agent run are refused, too: true or false (default)."""
