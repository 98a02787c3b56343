"""Switch the guard on and off: the entry point of ``opentelemetry-instrument``, and the functions for code.

Most processes that start under ``opentelemetry-instrument`` have no agent. So the imports of the guard and its adapters
are in functions, which run at the first use.
"""

from __future__ import annotations

import logging
import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # the package has no type hints

from otel_loopguard.environment_variables import PREFIX
from otel_loopguard.instrumentation import frameworks, models
from otel_loopguard.instrumentation.imports import when_imported
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.instrumentation.unguarded import watch_imports
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.shield import Shield
from otel_loopguard.telemetry.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import ModuleType

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.instrumentation.patching import Patches
    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.telemetry.idle_watcher import WaitingWatcher

logger = logging.getLogger("otel_loopguard")

_OPTIONS = ("policy", "guard", "settings", "tracer_provider", "meter_provider", "logger_provider")


class LoopGuardInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # the base class has no type hints
    """Guard the tool calls of every supported agent framework that the program imports, now or later.

    Options: ``policy``, ``guard``, ``settings``, ``tracer_provider``, ``meter_provider``, ``logger_provider``.
    """

    _patches: Final[dict[str, Patches]] = {}
    """The patches of each adapter that was imported, by the adapter's module."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: a framework that is not installed is never imported, and so never patched."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        """Switch the guard on. No exception gets out: it would end all automatic instrumentation of the program."""
        options = {name: kwargs[name] for name in _OPTIONS if kwargs.get(name) is not None}
        runtime = kwargs.get("runtime")
        with Shield()("instrument"):
            if runtime is None and not options and _may_wait():
                process_start.at_first_use(partial(self._switch_on, settings=Settings.from_environment(os.environ)))
                process_start.attachments.add_processor(trace.get_tracer_provider(), Shield())
            else:
                self._switch_on(None, runtime, **options)
            if process_start.watcher is not None:
                self._patch_at_imports(standard=False)
                watch_imports()

    def _switch_on(self, waiting: WaitingWatcher | None, runtime: Runtime | None = None, **options: Any) -> None:
        """Guard calls from now on, in place of ``waiting``. The runtime is made of the options unless it is given."""
        if runtime is None:
            with Shield()("runtime"):
                from otel_loopguard.instrumentation.runtime import Runtime  # noqa: PLC0415 - see above

                runtime = Runtime(**options, open_spans=None if waiting is None else waiting.open_spans)
            if runtime is None:
                process_start.give_up(waiting)
                return
        from otel_loopguard.instrumentation.runtime import active_runtime  # noqa: PLC0415 - see above

        if active_runtime.put(runtime, instead_of=waiting):
            with runtime.shield("instrument"):
                self._patch_at_imports(standard=True)
            runtime.start()

    def _patch_at_imports(self, *, standard: bool) -> None:
        """Patch each module now if it is imported, else when it is.

        ``standard``: only modules of the standard library, which are imported in programs without an agent, too. Else
        only the others.
        """
        for room, fact in ((frameworks, "FRAMEWORK"), (models, "CLIENT")):
            for name, modules in room.PATCHED_MODULES.items():
                for module in modules:
                    if (module.partition(".")[0] in sys.stdlib_module_names) is standard:
                        when_imported(module, partial(self._patch, f"{room.__name__}.{name}", fact, module))

    def _patch(self, adapter: str, fact: str, name: str, module: ModuleType) -> None:
        """Import the adapter, and patch a module of its framework. Runs inside the program's import statement."""
        process_start.wake()
        if process_start.watcher is None:  # the guard was switched off
            return
        from otel_loopguard.instrumentation.patching import Patches  # noqa: PLC0415 - see above
        from otel_loopguard.instrumentation.runtime import active_runtime  # noqa: PLC0415 - see above

        runtime = active_runtime.instrumented
        if runtime is None:
            return
        with runtime.shield(f"import.{adapter}"):
            if adapter not in self._patches:
                found = getattr(import_module(adapter), fact)
                active_runtime.add_answer_tools(getattr(found, "answer_tools", ()))
                self._patches.setdefault(adapter, Patches(found.targets, getattr(found, "native_scopes", ())))
            self._patches[adapter].patch(name, module)

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the signature of the base class
        from otel_loopguard.instrumentation.runtime import active_runtime  # noqa: PLC0415 - see above

        active_runtime.put(None)
        for patches in self._patches.values():
            for place in patches.restore():
                logger.info("Another library wraps our patch of %s, so the patch stays in place, switched off.", place)


def _may_wait() -> bool:
    """Return True if the runtime may be made at the first use of an agent.

    It is made at once if a shared store is named, and if there is a mistake in the environment, to log it.
    """
    try:
        trace.get_tracer_provider()
    except Exception as error:  # noqa: BLE001 - the environment names a provider that cannot be loaded
        pass_interrupt(error)
        return False
    names = [name.removeprefix(PREFIX) for name in os.environ if name.startswith(PREFIX)]
    if not names:
        return True
    if any(name.startswith("STORE") for name in names):
        return False
    from otel_loopguard.policy_files.load import load_environment  # noqa: PLC0415 - only for a policy that was set

    loaded = load_environment(os.environ)
    return not loaded.problems and not loaded.notes


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
    from otel_loopguard.instrumentation.runtime import Runtime, active_runtime  # noqa: PLC0415 - see above

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
    """Switch the guard off, and put the functions of the frameworks back.

    A patch that another library has wrapped stays in place and does nothing.
    """
    instrumentor = LoopGuardInstrumentor()
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def attach(provider: Any) -> bool:
    """Add the span processor to this tracer provider, once. Return False if it takes none.

    Only needed for a provider that is not the global one, such as one that a vendor's package keeps to itself.
    """
    from otel_loopguard.instrumentation.runtime import active_runtime  # noqa: PLC0415 - see above

    return active_runtime.get().providers.attach(provider)
