"""Where the probe listens: at the reporter, the meters, and the loop guards of others. Only in an examined process."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.patching import Patches
from otel_loopguard.instrumentation.targets import CallTarget
from otel_loopguard.telemetry.call_span import CallSpan
from otel_loopguard.telemetry.meters import Meters
from otel_loopguard.turns.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.cli.doctor.probe import Probe

_LANGCHAIN = "langchain.agents.middleware"
OTHER_GUARDS = (
    (f"{_LANGCHAIN}.tool_call_limit", "ToolCallLimitMiddleware.__init__", "LangChain ToolCallLimitMiddleware", None),
    (f"{_LANGCHAIN}.model_call_limit", "ModelCallLimitMiddleware.__init__", "LangChain ModelCallLimitMiddleware", None),
    ("pydantic_ai.usage", "UsageLimits.__init__", "Pydantic AI UsageLimits(tool_calls_limit)", "tool_calls_limit"),
    ("crewai.tools.tool_usage", "ToolUsage._check_tool_repeated_usage", "CrewAI's check of repeated tool usage", None),
)  # fmt: skip
"""Module, place, name, and the keyword that has to be given. In use is what is really made or called."""


def listen(probe: Probe) -> None:
    """Count what is reported from now on."""
    _around(CallSpan, "finish", lambda args: _finished(probe, args[0], args[1]))
    _around(Runs, "close", lambda _args: probe.turn_over())
    _around(Meters, "tool_call", lambda _args: _counted(probe))
    _around(Meters, "error", lambda args: probe.errors.update([args[1]]))
    Patches(
        CallTarget(module, path, _noting(probe, name, keyword)) for module, path, name, keyword in OTHER_GUARDS
    ).install()


def _around(owner: Any, name: str, hear: Callable[[Any], None]) -> None:
    inner = getattr(owner, name)

    @wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        hear(args)
        return inner(*args, **kwargs)

    setattr(owner, name, outer)


def _finished(probe: Probe, call_span: Any, ending: str) -> None:
    turn = call_span.scope.turn
    probe.calls[probe.label, turn.source, turn.enforced, ending] += 1
    probe.unseen += not call_span.span.is_recording()


def _counted(probe: Probe) -> None:
    probe.counted += 1


def _noting(probe: Probe, name: str, keyword: str | None) -> Callable[..., Any]:
    def wrapper(wrapped: Any, _instance: Any, args: Any, kwargs: Any) -> Any:
        if keyword is None or kwargs.get(keyword) is not None:
            probe.guards.add(name)
        return wrapped(*args, **kwargs)

    return wrapper
