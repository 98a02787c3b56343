"""The entry point by which ``opentelemetry-instrument`` finds us."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.patching import Patches
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Collection

logger = logging.getLogger("otel_loopguard")

_OPTIONS = ("policy", "guard", "settings", "tracer_provider", "meter_provider", "logger_provider")


class LoopGuardInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Guards the tool calls of every agent framework that the program imports.

    Options: ``policy``, ``guard``, ``settings``, ``tracer_provider``, ``meter_provider``, ``logger_provider``.
    """

    _patches: tuple[Patches, ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        """None: a framework that is not installed is never imported, and so never patched."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        """An exception from here would end all of a program's automatic instrumentation: none is let out."""
        options = {name: kwargs[name] for name in _OPTIONS if kwargs.get(name) is not None}
        runtime = kwargs.get("runtime")
        if runtime is None:
            with Shield()("runtime"):
                runtime = Runtime(**options)
            if runtime is None:
                return
        active_runtime.put(runtime)
        with runtime.shield("instrument"):
            self._patches = self._patches or tuple(Patches(one.targets, one.native_scopes) for one in FRAMEWORKS)
            for patches in self._patches:
                patches.install()
        runtime.announce()

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the signature of the base class
        active_runtime.put(None)
        for patches in self._patches:
            for place in patches.restore():
                logger.info("Somebody wrapped over our patch of %s: it stays there, switched off.", place)
