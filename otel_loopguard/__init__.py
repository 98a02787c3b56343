"""Stop LLM agents that call the same tools again and again, and show it in Grafana.

>>> import otel_loopguard as loopguard

Importing this package is fast: each public name is imported when it is first used.
"""

from __future__ import annotations

from otel_loopguard.version import __version__

TYPE_CHECKING = False  # importing typing would cost more than all else here
if TYPE_CHECKING:
    from typing import Any

    from otel_loopguard.core.guard import Guard
    from otel_loopguard.core.history.state import History
    from otel_loopguard.core.model import Action, Decision, Hints, Kind, Mode, Outcome, Record, ToolCall, Trip
    from otel_loopguard.core.policy.load import load_policy
    from otel_loopguard.core.policy.policy import Policy, Rule, ToolContract
    from otel_loopguard.core.turn.turn import Turn
    from otel_loopguard.core.turn.user_messages import UserMessage
    from otel_loopguard.errors import LoopGuardError, PolicyError, ToolLoopError
    from otel_loopguard.instrumentation.functions.decorator import call, tool
    from otel_loopguard.instrumentation.instrumentor import attach, instrument, uninstrument
    from otel_loopguard.instrumentation.turn_api import say, turn

__all__ = [
    "Action",
    "Decision",
    "Guard",
    "Hints",
    "History",
    "Kind",
    "LoopGuardError",
    "Mode",
    "Outcome",
    "Policy",
    "PolicyError",
    "Record",
    "Rule",
    "ToolCall",
    "ToolContract",
    "ToolLoopError",
    "Trip",
    "Turn",
    "UserMessage",
    "__version__",
    "attach",
    "call",
    "instrument",
    "load_policy",
    "say",
    "tool",
    "turn",
    "uninstrument",
]

_HOME = {
    "Action": "core.model",
    "Decision": "core.model",
    "Guard": "core.guard",
    "Hints": "core.model",
    "History": "core.history.state",
    "Kind": "core.model",
    "LoopGuardError": "errors",
    "Mode": "core.model",
    "Outcome": "core.model",
    "Policy": "core.policy.policy",
    "PolicyError": "errors",
    "Record": "core.model",
    "Rule": "core.policy.policy",
    "ToolCall": "core.model",
    "ToolContract": "core.policy.policy",
    "ToolLoopError": "errors",
    "Trip": "core.model",
    "Turn": "core.turn.turn",
    "UserMessage": "core.turn.user_messages",
    "attach": "instrumentation.instrumentor",
    "call": "instrumentation.functions.decorator",
    "instrument": "instrumentation.instrumentor",
    "load_policy": "core.policy.load",
    "say": "instrumentation.turn_api",
    "tool": "instrumentation.functions.decorator",
    "turn": "instrumentation.turn_api",
    "uninstrument": "instrumentation.instrumentor",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - a program that uses no name pays for no import

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
