"""Gather the facts of a running process: frameworks, clients and patches, exporters, other instrumentations."""

from __future__ import annotations

import inspect
import os
import random
import re
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry import _logs, metrics, trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]  # the package has no type hints

from otel_loopguard.engine.policy.check import dotted
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.instrumentation.model_api import ModelClient
from otel_loopguard.instrumentation.models import CLIENTS
from otel_loopguard.instrumentation.patching import is_ours
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import OverrideTarget, RunTarget, ToolTarget
from otel_loopguard.instrumentation.unguarded import installed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_loopguard.engine.rule import Rule
    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.instrumentation.targets import Framework, Target

_SAMPLES = 200
_PART_OF_SIGNAL = re.compile(r"\._?(?:trace|metric|log)_exporter")
_SUBJECTS = ((ToolTarget, "tools"), (RunTarget, "runs"))


def gather() -> dict[str, Any]:
    """Return all facts about this process, as types that JSON has."""
    process_start.wake()
    runtime = active_runtime.instrumented
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "on": runtime is not None,
        "action": None if runtime is None else str(runtime.guard.policy.action),
        "policy": None if runtime is None else runtime._policy_name,  # noqa: SLF001 - as in the line at start
        "budgets": [] if runtime is None else [budget.reason for budget in runtime.guard.compiled.budgets],
        "exempt": [] if runtime is None else list(exempt(runtime.guard)),
        "frameworks": list(frameworks()),
        "clients": list(clients()),
        "unguarded": list(installed(active_runtime.unread_clients)),
        "not_shown": {} if runtime is None else runtime.unseen()._asdict(),
        "telemetry": telemetry(),
        "instrumentations": sorted(instrumentations()),
    }


def exempt(guard: Guard) -> Iterator[str]:
    """Yield the tools and modes whose calls are never refused, by the policy or a declaration in code."""
    policy = guard.policy
    yield from _exempt_modes("modes", policy.modes)
    for glob, contract in (*policy.tools.items(), *guard.declared.items()):
        if contract.action is not None and contract.action < Action.REUSE:
            yield f"{dotted(('tools', glob))} ({contract.action})"
        yield from _exempt_modes(f"{dotted(('tools', glob))}.modes", contract.modes)


def _exempt_modes(table: str, modes: Mapping[str, Rule]) -> Iterator[str]:
    for mode, rule in modes.items():
        if rule.action is not None and rule.action < Action.REUSE:
            yield f"{table}.{mode} ({rule.action})"
        elif rule.block == 0 and not rule.settings.get("abort"):
            yield f"{table}.{mode} (block = 0)"


# --- frameworks and clients ----------------------------------------------------------------------------------------


def frameworks() -> Iterator[dict[str, Any]]:
    """Yield each installed framework that can be patched, with the state of its targets."""
    yield from _installed(FRAMEWORKS)


def clients() -> Iterator[dict[str, Any]]:
    """Yield each installed client of a model provider that can be patched, with the state of its targets."""
    yield from _installed(CLIENTS)


def _installed(known: Iterable[Framework | ModelClient]) -> Iterator[dict[str, Any]]:
    for one in known:
        versions = {}
        for package in {**dict.fromkeys(one.versions.get("newest", ())), **one.tested}:
            with suppress(PackageNotFoundError, ValueError):  # a requirement with more than a name is no package
                versions[package] = version(package)
        if versions:  # else it is not installed, or part of Python
            yield {
                "name": one.name,
                "versions": versions,
                "imported": any(target.module in sys.modules for target in one.targets),
                "newer": [
                    [f"{package} {versions[package]}", tested]
                    for package, tested in one.tested.items()
                    if _numbers(versions.get(package, "")) > _numbers(tested)
                ],
                "targets": [_target(target, one) for target in one.targets if target.module in sys.modules],
            }


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version, by which versions compare."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _target(target: Target, of: Framework | ModelClient) -> dict[str, Any]:
    other = "requests" if isinstance(of, ModelClient) else "other"
    subject = next((word for kind, word in _SUBJECTS if isinstance(target, kind)), other)
    return {
        "module": target.module,
        "path": target.path,
        "subject": subject,
        "optional": getattr(target, "optional", False),
        "state": _state(target),
    }


def _state(target: Target) -> str:
    """Return ``held`` if our wrapper is on the function, ``bare`` if not, ``absent`` if this version has none.

    Of a method that subclasses override, it is on what makes these.
    """
    function: Any = sys.modules[target.module]
    path = target.path
    if isinstance(target, OverrideTarget):
        path = f"{path.rpartition('.')[0]}.__init_subclass__"
    try:
        for name in path.split("."):
            function = inspect.getattr_static(function, name)  # getattr would bind the wrapper
    except AttributeError:
        return "absent"
    function = getattr(function, "__func__", function)
    while function is not None:
        if is_ours(function):
            return "held"
        function = getattr(function, "__wrapped__", None)
    return "bare"


def importable() -> Iterator[str]:
    """Yield the modules to patch whose package is installed."""
    for framework in FRAMEWORKS:
        for module in dict.fromkeys(target.module for target in framework.targets):
            if find_spec(module.partition(".")[0]) is not None:
                yield module


# --- OpenTelemetry -------------------------------------------------------------------------------------------------


def telemetry() -> dict[str, Any]:
    """Return the facts about the active tracer provider, its sampler, and the exporters of all signals."""
    provider: Any = trace.get_tracer_provider()
    processors = _parts(provider, "_active_span_processor", "_span_processors")
    sampler = getattr(provider, "sampler", None)
    return {
        "provider": type(provider).__name__,
        "sdk": hasattr(provider, "add_span_processor"),
        "disabled": bool(getattr(provider, "_disabled", False)),
        "processor": any(type(one).__name__ == "LoopGuardSpanProcessor" for one in processors),
        "sampler": None if sampler is None else sampler.get_description(),
        "sampled": None if sampler is None else _share(sampler),
        "exporters": list(_exporters()),
        "none_chosen": os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none",
        "service_name": _service_name(provider),
    }


def _service_name(provider: Any) -> str | None:
    resource = getattr(provider, "resource", None)
    name = None if resource is None else resource.attributes.get("service.name")
    return None if name is None else str(name)


def _share(sampler: Any) -> float:
    """Return the share of new traces that the sampler keeps, from 0 to 1, by asking it about 200."""
    draw = random.Random(0)  # noqa: S311 - trace ids for a measurement
    kept: int = sum(
        sampler.should_sample(None, draw.getrandbits(128), "execute_tool").decision.is_sampled()
        for _ in range(_SAMPLES)
    )
    return kept / _SAMPLES


def _parts(provider: Any, holder: str, name: str) -> list[Any]:
    """Return the processors or readers of a provider. The SDK keeps them in private attributes only."""
    return list(getattr(getattr(provider, holder, None), name, ()))


def _exporters() -> Iterator[dict[str, Any]]:
    """Yield each exporter of the active providers, with its signal and endpoint."""
    of_metrics = metrics.get_meter_provider()
    readers = getattr(of_metrics, "_metric_readers", ())  # older versions have them in their configuration
    for signal, parts in (
        ("traces", _parts(trace.get_tracer_provider(), "_active_span_processor", "_span_processors")),
        ("metrics", readers or _parts(of_metrics, "_sdk_config", "metric_readers")),
        ("logs", _parts(_logs.get_logger_provider(), "_multi_log_record_processor", "_log_record_processors")),
    ):
        for part in parts:
            held_by = (getattr(part, "_batch_processor", None), part)
            names = ("_exporter", "span_exporter")
            exporter = next((found for one in held_by for name in names if (found := getattr(one, name, None))), None)
            if exporter is None:
                continue
            module, endpoint = type(exporter).__module__, getattr(exporter, "_endpoint", None)
            yield {
                "signal": signal,
                "name": f"{_PART_OF_SIGNAL.split(module)[0]}.{type(exporter).__name__}",
                "endpoint": None if endpoint is None else harmless(str(endpoint)),
                "grpc": "grpc" in module,
            }


def harmless(endpoint: str) -> str:
    """Return an address without the parts that may be secret: user, password and query."""
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    except ValueError:  # a bracket without its other one
        return "an address that cannot be read"
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" if parts.scheme else f"{place}{parts.path}"


def instrumentations() -> Iterator[str]:
    """Yield the modules of other active instrumentations."""
    for kind in _kinds(BaseInstrumentor):
        instance = vars(kind).get("_instance")
        if instance is not None and instance.is_instrumented_by_opentelemetry:
            module = kind.__module__
            if not module.startswith("otel_loopguard."):
                yield module


def _kinds(kind: Any) -> Iterator[Any]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)
