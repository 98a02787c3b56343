"""Thread pools: work that is submitted in a turn belongs to that turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.targets import CallTarget, Framework
from otel_loopguard.turns.scope import Scope, current_scope, in_scope

if TYPE_CHECKING:
    from collections.abc import Callable


def _submit(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
    scope = current_scope()
    if scope is None or not args:
        return wrapped(*args, **kwargs)
    return wrapped(_run_in, scope, *args, **kwargs)


def _run_in(scope: Scope, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    with in_scope(scope):
        return function(*args, **kwargs)


FRAMEWORK = Framework("threads", (CallTarget("concurrent.futures.thread", "ThreadPoolExecutor.submit", _submit),))
