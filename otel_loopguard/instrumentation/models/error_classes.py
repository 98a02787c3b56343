"""The class of the error that ends a run at a client's method. Many programs retry all classes but a few."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from otel_loopguard.errors import ToolLoopError

if TYPE_CHECKING:
    from types import ModuleType


def error_class() -> type[ToolLoopError]:
    """Return the class for a client of a provider: CrewAI retries all but its own ``HookAborted``."""
    return _mixed(*_crewai())


def litellm_error_class() -> type[ToolLoopError]:
    """Return the class for LiteLLM: its router and mini-swe-agent do not retry what is denied."""
    return _mixed(*_crewai(), _denied(sys.modules["litellm.exceptions"]))


def _crewai() -> tuple[Any, ...]:
    aborted = getattr(sys.modules.get("crewai.hooks.dispatch"), "HookAborted", None)
    return () if aborted is None else (aborted,)


@cache
def _denied(exceptions: ModuleType) -> Any:
    """Return LiteLLM's class with a constructor that takes the message alone, as those of other exceptions do."""
    kind: Any = exceptions.PermissionDeniedError

    class Denied(kind):  # type: ignore[misc]  # it is known at run time only
        def __init__(self, message: str) -> None:
            response = exceptions.httpx.Response(403, request=exceptions.httpx.Request("POST", "https://litellm.ai"))
            super().__init__(message, llm_provider="", model="", response=response)
            self.message = message
            self.args = (message,)

    return Denied


@cache
def _mixed(*kinds: Any) -> type[ToolLoopError]:
    """Return a class that is a ``ToolLoopError`` and also the other ones."""
    if not kinds:
        return ToolLoopError
    return type("ToolLoopError", (ToolLoopError, *kinds), {"__module__": ToolLoopError.__module__})
