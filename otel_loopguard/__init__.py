"""Stops LLM agents that call the same tools again and again, and lets the people who run them see it.

>>> import otel_loopguard as loopguard

Importing this package costs next to nothing: what it offers is imported when it is first used.
"""

from __future__ import annotations

from .version import __version__

TYPE_CHECKING = False  # importing typing for it would cost more than all else here
if TYPE_CHECKING:
    from typing import Any

    from .core.guard import Guard, Turn
    from .core.model import Action, Decision, Hints, Kind, Mode, Outcome, ToolCall, Trip
    from .core.policy import Policy, Rule, ToolContract
    from .errors import LoopGuardError, PolicyError, ToolLoopError
    from .instrumentation.functions import call, tool
    from .instrumentation.start import attach, instrument, uninstrument
    from .instrumentation.user import say, turn

__all__ = [
    "Action",
    "Decision",
    "Guard",
    "Hints",
    "Kind",
    "LoopGuardError",
    "Mode",
    "Outcome",
    "Policy",
    "PolicyError",
    "Rule",
    "ToolCall",
    "ToolContract",
    "ToolLoopError",
    "Trip",
    "Turn",
    "__version__",
    "attach",
    "call",
    "instrument",
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
    "Kind": "core.model",
    "LoopGuardError": "errors",
    "Mode": "core.model",
    "Outcome": "core.model",
    "Policy": "core.policy",
    "PolicyError": "errors",
    "Rule": "core.policy",
    "ToolCall": "core.model",
    "ToolContract": "core.policy",
    "ToolLoopError": "errors",
    "Trip": "core.model",
    "Turn": "core.guard",
    "attach": "instrumentation.start",
    "call": "instrumentation.functions",
    "instrument": "instrumentation.start",
    "say": "instrumentation.user",
    "tool": "instrumentation.functions",
    "turn": "instrumentation.user",
    "uninstrument": "instrumentation.start",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - a program that uses nothing of ours pays for nothing

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
