"""The environment variables that ``opentelemetry-instrument`` lists in its help and accepts as flags.

The key of the fingerprints and the URL of the store, which may have a password, are left out on purpose: flags are
visible to every user who may list processes.
"""

from __future__ import annotations

PREFIX = "OTEL_PYTHON_LOOPGUARD_"  # of each environment variable of this package, also of those that are left out

OTEL_PYTHON_LOOPGUARD_ACTION = "OTEL_PYTHON_LOOPGUARD_ACTION"
"""The strongest action on a loop: off, observe, nudge, reuse, block (default), conclude or abort."""

OTEL_PYTHON_LOOPGUARD_SCOPE = "OTEL_PYTHON_LOOPGUARD_SCOPE"
"""The reach of the memory: turn (default), or conversation to report turns that only repeat each other, too."""

OTEL_PYTHON_LOOPGUARD_CONCLUDE_AFTER = "OTEL_PYTHON_LOOPGUARD_CONCLUDE_AFTER"
"""Refusals without news in between, at which the model has to answer without tools: 7 (default); 0 = never."""

OTEL_PYTHON_LOOPGUARD_ABORT_AFTER = "OTEL_PYTHON_LOOPGUARD_ABORT_AFTER"
"""Refusals without news in between, at which the run is ended with ToolLoopError: 10 (default); 0 = never."""

OTEL_PYTHON_LOOPGUARD_PRESET = "OTEL_PYTHON_LOOPGUARD_PRESET"
"""The name of a policy that comes with the package."""

OTEL_PYTHON_LOOPGUARD_CONFIG = "OTEL_PYTHON_LOOPGUARD_CONFIG"
"""The path of a TOML file with a policy."""

OTEL_PYTHON_LOOPGUARD_EVENTS = "OTEL_PYTHON_LOOPGUARD_EVENTS"
"""The places of a trip's event: span, log or both (default where a logger provider is set)."""

OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID = "OTEL_PYTHON_LOOPGUARD_CONVERSATION_ID"
"""The form of conversation ids in telemetry: raw (default), hash or off."""

OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN = "OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN"
"""Refuse calls outside of any known agent run, too; unrelated requests may share a turn: true or false (default)."""

OTEL_PYTHON_LOOPGUARD_GENAI_METRICS = "OTEL_PYTHON_LOOPGUARD_GENAI_METRICS"
"""Record the metrics of the GenAI conventions, too: on (default) or off."""

OTEL_PYTHON_LOOPGUARD_SUMMARY = "OTEL_PYTHON_LOOPGUARD_SUMMARY"
"""Print a line with the calls, their loops and what was done on standard error at the end: on (default) or off."""

OTEL_PYTHON_LOOPGUARD_STORE_EXPIRY = "OTEL_PYTHON_LOOPGUARD_STORE_EXPIRY"
"""Seconds after the last call of a turn, at which the shared store forgets it: 86400 (default)."""
