"""Thread pools: work that is submitted in a turn belongs to that turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallTarget, Framework
from otel_loopguard.turns.scope import Scope, bind, current_scope, in_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.instrumentation.targets import Original


def _submit(original: Original) -> Callable[..., Any]:
    wrapped = original.unbound

    def submit(*given: Any, **kwargs: Any) -> Any:
        scope = current_scope() if active_runtime.instrumented is not None else None
        if scope is None or len(given) < 2:
            return wrapped(*given, **kwargs)
        return wrapped(given[0], _run_in, scope, *given[1:], **kwargs)

    return submit


def _run_in(scope: Scope, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    outer = current_scope()
    try:
        with in_scope(scope):
            return function(*args, **kwargs)
    finally:
        if current_scope() is scope:  # an exception that another thread injected has cut the exit short
            bind(outer)


FRAMEWORK = Framework("threads", (CallTarget("concurrent.futures.thread", "ThreadPoolExecutor.submit", _submit),))
