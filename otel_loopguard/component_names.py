"""Find names of exporters and id generators that OpenTelemetry will not find, and leave them out of the environment.

With one such name, OpenTelemetry's configuration fails before it loads an instrumentation, and nothing is guarded.
Names are looked up as the SDK does, among the entry points of the installed packages.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from importlib.metadata import distributions
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.shield import logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

_EXPORTERS = {
    "OTEL_TRACES_EXPORTER": "opentelemetry_traces_exporter",
    "OTEL_METRICS_EXPORTER": "opentelemetry_metrics_exporter",
    "OTEL_LOGS_EXPORTER": "opentelemetry_logs_exporter",
}
"""The variables with names of exporters, and the groups of their entry points."""

_PROTOCOLS = {
    "OTEL_TRACES_EXPORTER": "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_METRICS_EXPORTER": "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    "OTEL_LOGS_EXPORTER": "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL",
}
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_EXPORTER_BY_PROTOCOL = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}

_ID_GENERATOR = "OTEL_PYTHON_ID_GENERATOR"


class WrongName(NamedTuple):
    """A name that OpenTelemetry does not find."""

    variable: str
    name: str
    known: tuple[str, ...]
    """The names that it would find."""

    def __str__(self) -> str:
        known = f", only {', '.join(self.known)}" if self.known else ""
        return f"{self.variable}: there is no {self.name!r}{known}."


class Corrections(NamedTuple):
    """The wrong names, and the variables that had them, with their values without these names."""

    wrong: tuple[WrongName, ...] = ()
    values: Mapping[str, str] = {}


def correct(environ: MutableMapping[str, str]) -> None:
    """Leave the wrong names out of this environment, and log one line about them."""
    corrections = find_wrong_names(environ)
    if corrections.wrong:
        environ.update(corrections.values)
        logger.warning(
            "otel_loopguard: %s Left out, so that OpenTelemetry starts and the guard is on.",
            " ".join(map(str, corrections.wrong)),
        )


def find_wrong_names(environ: Mapping[str, str]) -> Corrections:
    """Find the names that keep OpenTelemetry from loading the guard; none if it is not to load the guard."""
    names = (*_EXPORTERS, *_PROTOCOLS.values(), _PROTOCOL, _ID_GENERATOR)
    if not any(name in environ for name in names) or _switched_off(environ):
        return Corrections()
    installed = _entry_points()
    if not _has_configurator(environ, installed["opentelemetry_configurator"]):
        return Corrections()  # nothing reads the names
    wrong: list[WrongName] = []
    values = {}
    for variable, group in _EXPORTERS.items():
        value, found = _exporters(environ, variable, installed[group])
        if found:
            wrong += found
            values[variable] = value
    generator, generators = environ.get(_ID_GENERATOR), installed["opentelemetry_id_generator"]
    if generator is not None and generator.strip() not in generators:
        wrong.append(_wrong(_ID_GENERATOR, generator, generators))
        values[_ID_GENERATOR] = "random"  # the SDK's default
    return Corrections(tuple(dict.fromkeys(wrong)), values)


def _switched_off(environ: Mapping[str, str]) -> bool:
    disabled = environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "").split(",")
    return not {"loopguard", "*"}.isdisjoint(name.strip() for name in disabled)


def _has_configurator(environ: Mapping[str, str], installed: set[str]) -> bool:
    wanted = environ.get("OTEL_PYTHON_CONFIGURATOR")
    return bool(installed) if wanted is None else wanted in installed


def _entry_points() -> defaultdict[str, set[str]]:
    """Return the names of all entry points by group, of the working directory, too, which the program's path has."""
    found = defaultdict(set)
    for distribution in distributions(path=[os.getcwd(), *sys.path]):
        for point in distribution.entry_points:
            found[point.group].add(point.name)
    return found


def _exporters(environ: Mapping[str, str], variable: str, installed: set[str]) -> tuple[str, list[WrongName]]:
    """Return the value of a variable without its wrong names ("none" if none is left), and the wrong names."""
    source = next((name for name in (_PROTOCOLS[variable], _PROTOCOL) if environ.get(name)), None)
    # A distribution of OpenTelemetry sets `otlp` where a variable is missing; without a protocol that is never wrong.
    value = environ.get(variable, "otlp" if source else "")
    kept, wrong = [], []
    for name in value.split(",") if value and value.strip().lower() != "none" else ():
        point: str | None = name.strip()
        if point == "otlp":
            protocol = environ[source].strip() if source else "grpc"
            known = _exporter_by_protocol(protocol)
            point = known.get(protocol)
            if point is None and source:
                wrong.append(_wrong(source, protocol, known))
                continue
        if point in installed:
            kept.append(name)
        else:
            wrong.append(_wrong(variable, point or "", installed))
    return ",".join(kept) or "none", wrong


def _exporter_by_protocol(protocol: str) -> Mapping[str, str]:
    """Return the exporter of each protocol that the SDK knows; it takes long to import, and may know new ones."""
    if protocol in _EXPORTER_BY_PROTOCOL:
        return _EXPORTER_BY_PROTOCOL
    from opentelemetry.sdk._configuration import _EXPORTER_BY_OTLP_PROTOCOL  # noqa: PLC0415 - only for a rare value

    return _EXPORTER_BY_OTLP_PROTOCOL


def _wrong(variable: str, name: str, known: Iterable[str]) -> WrongName:
    return WrongName(variable, name, tuple(sorted(known)))
