"""Switch the guard on and off: the entry point of ``opentelemetry-instrument``, and the functions for code."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # the package has no type hints

from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.models import CLIENTS
from otel_loopguard.instrumentation.patching import Patches
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.instrumentation.unguarded import warn_at_imports
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Collection

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.guard.guard import Guard

logger = logging.getLogger("otel_loopguard")

_OPTIONS = ("policy", "guard", "settings", "tracer_provider", "meter_provider", "logger_provider")


class LoopGuardInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base class has no type hints
    """Guard the tool calls of every agent framework that the program imports.

    Options: ``policy``, ``guard``, ``settings``, ``tracer_provider``, ``meter_provider``, ``logger_provider``.
    """

    _patches: tuple[Patches, ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: a framework that is not installed is never imported, and so never patched."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        """Switch on. An exception from here would end all of a program's automatic instrumentation: none gets out."""
        options = {name: kwargs[name] for name in _OPTIONS if kwargs.get(name) is not None}
        runtime = kwargs.get("runtime")
        if runtime is None:
            with Shield()("runtime"):
                runtime = Runtime(**options)
            if runtime is None:
                return
        active_runtime.put(runtime)
        with runtime.shield("instrument"):
            self._patches = self._patches or (
                *(Patches(one.targets, one.native_scopes) for one in FRAMEWORKS),
                *(Patches(one.targets) for one in CLIENTS),
            )
            for patches in self._patches:
                patches.install()
            warn_at_imports()
        runtime.start()

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the signature of the base class
        active_runtime.put(None)
        for patches in self._patches:
            for place in patches.restore():
                logger.info("Another library wraps our patch of %s, so the patch stays in place, switched off.", place)


def instrument(
    policy: Policy | None = None,
    *,
    guard: Guard | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    logger_provider: LoggerProvider | None = None,
) -> None:
    """Guard the tool calls of every supported framework, whether it is imported already or later.

    The default of the policy comes from the environment, and the default providers are the global ones. If the guard
    is on already, as under ``opentelemetry-instrument``, these options replace the earlier ones. A turn that is open
    keeps the policy that it began with.
    """
    instrumentor = LoopGuardInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()
    # Made here, because a mistake in code must fail at its line; the entry point fails quietly.
    runtime = Runtime(
        policy,
        guard=guard,
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        logger_provider=logger_provider,
    )
    active_runtime.expects_calls = True
    instrumentor.instrument(runtime=runtime)


def uninstrument() -> None:
    """Restore the frameworks. Our wrapper under another one stays in place and does nothing."""
    instrumentor = LoopGuardInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def attach(provider: Any) -> bool:
    """Add the span processor to this tracer provider, once. Return False if it takes none.

    Only needed for a provider that is not the global one, such as one that a vendor's package keeps to itself.
    """
    return active_runtime.get().providers.attach(provider)
