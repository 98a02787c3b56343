"""Guard all agents that ask their models through LiteLLM's proxy, in any language: docs/how-to/gateway.md.

The proxy's configuration names it: ``litellm_settings: {callbacks: otel_loopguard.gateway.guard}``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["guard"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Make ``guard``, the proxy's callback. LiteLLM is imported here, and nowhere before."""
    if name == "guard":
        return _guard()
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


@cache
def _guard() -> Any:
    from otel_loopguard.gateway.callback import LoopGuard  # noqa: PLC0415 - imports LiteLLM

    return LoopGuard()
