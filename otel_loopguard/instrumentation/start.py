"""Switching the guard on and off in code, where ``opentelemetry-instrument`` does not do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otel_loopguard.core.guard import Guard
    from otel_loopguard.core.policy.policy import Policy


def instrument(
    policy: Policy | None = None,
    *,
    guard: Guard | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    logger_provider: LoggerProvider | None = None,
) -> None:
    """Guard the tool calls of every supported framework, whether it is imported already or later.

    What is not given comes from the environment: the policy, and the global providers. Where the guard is on already,
    as under ``opentelemetry-instrument``, what is said here takes the place of what was said before; a turn that is
    open goes on under the rules that it began with.
    """
    instrumentor = LoopGuardInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    # Made here, because what was asked for in code must fail where it is asked for; the entry point fails quietly.
    runtime = Runtime(
        policy,
        guard=guard,
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        logger_provider=logger_provider,
    )
    instrumentor.instrument(runtime=runtime)


def uninstrument() -> None:
    """Leave the frameworks as they were. A wrapper under somebody else's stays in place and does nothing."""
    instrumentor = LoopGuardInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def attach(provider: Any) -> bool:
    """Have this tracer provider's spans seen, too, once; whether it can be done.

    Only needed for a provider that is not the global one, such as one that a vendor's package keeps to itself.
    """
    return active_runtime.get().providers.attach(provider)
