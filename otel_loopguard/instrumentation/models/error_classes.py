"""Choose the class of the error that a client's method raises to end a run. Many programs retry all but a few."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from otel_loopguard.errors import RunStopped

if TYPE_CHECKING:
    from types import ModuleType


def error_class() -> type[RunStopped]:
    """Return the class for a client of a provider. With CrewAI it is its ``HookAborted``, too, which is not retried."""
    return _mixed(*_crewai())


def litellm_error_class() -> type[RunStopped]:
    """Return the class for LiteLLM. Its router and mini-swe-agent do not retry what is denied, so it is that, too."""
    return _mixed(*_crewai(), _denied(sys.modules["litellm.exceptions"]))


def _crewai() -> tuple[Any, ...]:
    aborted = getattr(sys.modules.get("crewai.hooks.dispatch"), "HookAborted", None)
    return () if aborted is None else (aborted,)


@cache
def _denied(exceptions: ModuleType) -> Any:
    """Return a class of LiteLLM's ``PermissionDeniedError`` with a constructor that takes the message alone."""
    kind: Any = exceptions.PermissionDeniedError

    class Denied(kind):  # type: ignore[misc]  # it is known at run time only
        def __init__(self, message: str) -> None:
            response = exceptions.httpx.Response(403, request=exceptions.httpx.Request("POST", "https://litellm.ai"))
            super().__init__(message, llm_provider="", model="", response=response)
            self.message = message
            self.args = (message,)

    return Denied


@cache
def _mixed(*kinds: Any) -> type[RunStopped]:
    """Return a subclass of ``RunStopped`` and of all these classes."""
    if not kinds:
        return RunStopped
    return type("RunStopped", (RunStopped, *kinds), {"__module__": RunStopped.__module__})
