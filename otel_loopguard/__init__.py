"""Stop LLM agents that call the same tools again and again, and show it in Grafana.

>>> import otel_loopguard as loopguard

Importing this package is fast: each public name is imported when it is first used.
"""

from __future__ import annotations

from otel_loopguard.version import __version__

TYPE_CHECKING = False  # importing typing would cost more than all else here
if TYPE_CHECKING:
    from typing import Any

    from otel_loopguard.engine.detectors.row import Detector
    from otel_loopguard.engine.history.history import History
    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.modes import Mode
    from otel_loopguard.engine.policy.policy import Policy, ToolContract
    from otel_loopguard.engine.rule import Rule
    from otel_loopguard.engine.settings import Setting
    from otel_loopguard.engine.user_messages import UserMessage
    from otel_loopguard.engine.vocabulary import Action, Decision, Hints, Kind, Outcome, Record, ToolCall, Trip
    from otel_loopguard.errors import (
        LoopGuardError,
        NotStoredError,
        PolicyError,
        RunBudgetError,
        RunStopped,
        ToolLoopError,
    )
    from otel_loopguard.guard.ending import EndedTurn
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.instrumentation.functions.decorator import call, tool
    from otel_loopguard.instrumentation.instrumentor import attach, instrument, uninstrument
    from otel_loopguard.instrumentation.turn_api import current_turn, say, turn
    from otel_loopguard.policy_files.load import load_policy
    from otel_loopguard.turns.endings import last_turn

__all__ = [
    "Action",
    "Decision",
    "Detector",
    "EndedTurn",
    "Guard",
    "Hints",
    "History",
    "Kind",
    "Ledger",
    "LoopGuardError",
    "Mode",
    "NotStoredError",
    "Outcome",
    "Policy",
    "PolicyError",
    "Record",
    "Rule",
    "RunBudgetError",
    "RunStopped",
    "Setting",
    "ToolCall",
    "ToolContract",
    "ToolLoopError",
    "Trip",
    "Turn",
    "UserMessage",
    "__version__",
    "attach",
    "call",
    "current_turn",
    "instrument",
    "last_turn",
    "load_policy",
    "say",
    "tool",
    "turn",
    "uninstrument",
]

_HOME = {
    "Action": "engine.vocabulary",
    "Decision": "engine.vocabulary",
    "Detector": "engine.detectors.row",
    "EndedTurn": "guard.ending",
    "Guard": "guard.guard",
    "Hints": "engine.vocabulary",
    "History": "engine.history.history",
    "Kind": "engine.vocabulary",
    "Ledger": "engine.ledger",
    "LoopGuardError": "errors",
    "Mode": "engine.modes",
    "NotStoredError": "errors",
    "Outcome": "engine.vocabulary",
    "Policy": "engine.policy.policy",
    "PolicyError": "errors",
    "Record": "engine.vocabulary",
    "Rule": "engine.rule",
    "RunBudgetError": "errors",
    "RunStopped": "errors",
    "Setting": "engine.settings",
    "ToolCall": "engine.vocabulary",
    "ToolContract": "engine.policy.policy",
    "ToolLoopError": "errors",
    "Trip": "engine.vocabulary",
    "Turn": "guard.turn",
    "UserMessage": "engine.user_messages",
    "attach": "instrumentation.instrumentor",
    "call": "instrumentation.functions.decorator",
    "current_turn": "instrumentation.turn_api",
    "instrument": "instrumentation.instrumentor",
    "last_turn": "turns.endings",
    "load_policy": "policy_files.load",
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
