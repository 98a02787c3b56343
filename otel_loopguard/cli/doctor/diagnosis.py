"""Examine a program, or run the self-test, and write what was found as text or JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from otel_loopguard.cli.doctor.endpoint import of_exporters
from otel_loopguard.cli.doctor.finding_kinds import BREAKS, OPEN, TELLS, WARNS, Finding
from otel_loopguard.cli.doctor.findings import of_end, of_names, of_policy, of_program, of_start, versions
from otel_loopguard.cli.doctor.run_with_probe import examine, reason_of_failed_start
from otel_loopguard.cli.doctor.store import of_store
from otel_loopguard.cli.policy import settings_of
from otel_loopguard.engine.policy.check import dotted
from otel_loopguard.policy_files.load import load_environment
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.policy_files.load import LoadedPolicy

    Report = dict[str, Any]

_HEADS = {BREAKS: "problem", OPEN: "NOT KNOWN", WARNS: "warning", TELLS: "note"}
_VERDICTS = {
    "broken": "Loops may run on here: see {codes}.",
    "unknown": "No tool call was seen, so nothing is known: loops may run on here.",
    "observed": "Loops are reported here, and not stopped.",
    "partly": "Repeats are refused here, but not every loop is stopped: see {codes}.",
    "stopped": "Loops are stopped here, in the calls that are counted above.",
    "ended": "Loops are ended here, and no repeat is refused before: the calls had run when the guard saw them.",
    "installed": "The guard is on here, and refused the loops of the self-test.",
}
"""The last line of the text, by the ``verdict`` of the JSON."""
_PARTLY = ("exempt", "abort-caught")
"""The findings that some loops run on while others are stopped."""
_QUIET = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_PYTHON_LOGGING_LEVEL": "critical"}


class Diagnosis(NamedTuple):
    """The result of an examination."""

    findings: list[Finding]
    reports: Sequence[Report]
    """The report of the probe in each process."""
    settings: dict[str, dict[str, Any]]
    """The value and the source of settings, by name: those that differ from the default, and four others."""
    status: int | None
    """The exit status of the program, negative for a signal; None in the self-test."""

    @property
    def verdict(self) -> str:
        """A key of ``_VERDICTS``. If no call was seen it is ``unknown`` at best."""
        levels, codes = {one.level for one in self.findings}, {one.code for one in self.findings}
        if BREAKS in levels:
            return "broken"
        if OPEN in levels:
            return "unknown"
        if "only-observing" in codes:
            return "observed"
        if self.status is None:
            return "installed"
        if not codes.isdisjoint(_PARTLY):
            return "partly"
        sources = {call["source"] for report in self.reports for call in report["calls"]}
        return "ended" if sources == {"messages"} else "stopped"

    @property
    def ok(self) -> bool:
        """True if calls were seen, and no problem was found."""
        return self.verdict not in ("broken", "unknown")

    def json(self) -> str:
        """Return the diagnosis as JSON."""
        found = {
            "otel_loopguard": __version__,
            "ok": self.ok,
            "verdict": self.verdict,
            "findings": [one._asdict() for one in self.findings],
            "policy": self.settings,
            "program_status": self.status,
            "processes": self.reports,
        }
        return orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() + "\n"

    def text(self) -> str:
        """Return the diagnosis as lines for a reader."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield f"otel-loopguard {__version__}"
        for number, report in enumerate(self.reports):
            yield from _process(report, first=number == 0)
        yield from policy_lines(self.settings, "policy (all of it: otel-loopguard policy show)")
        yield ""
        yield from finding_lines(self.findings)
        named = (one for one in self.findings if one.level == BREAKS or (self.ok and one.code in _PARTLY))
        codes = dict.fromkeys(f"[{one.code}]" for one in named)
        yield _VERDICTS[self.verdict].format(codes=" and ".join(codes))
        if self.status is None:
            yield "No program of yours was seen. To examine one: otel-loopguard doctor -- python app.py"


def policy_lines(settings: dict[str, dict[str, Any]], title: str) -> Iterator[str]:
    """Yield the lines about settings as ``shown_settings`` returns them."""
    yield title
    for name, setting in settings.items():
        yield f"  {name} = {orjson.dumps(setting['value']).decode()}  # {setting['from']}"


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines about findings, the worst first."""
    for level in (BREAKS, OPEN, WARNS, TELLS):
        for one in findings:
            if one.level == level:
                yield f"{_HEADS[level]}: {one.text} [{one.code}]"
                yield f"    -> {one.remedy}"
                yield f"    {one.page}"


def diagnose(command: list[str] | None, selftest: list[str]) -> Diagnosis:
    """Run a program under the probe, or the self-test if ``command`` is None, and return what was found."""
    loaded = load_environment(os.environ)
    examined = examine(selftest, quiet=True, environment=_QUIET) if command is None else examine(command)
    settings = shown_settings(loaded)
    wrong_names = list(of_names(os.environ))
    findings = [*of_policy(loaded), *wrong_names]
    if examined.reports:
        findings += of_program(
            examined.reports, settings["action"]["from"], selftest=command is None, left_out=bool(wrong_names)
        )
    else:
        findings.append(of_start(reason_of_failed_start(command or selftest)))
    exporters = [one for report in examined.reports for one in report["telemetry"]["exporters"]]
    findings += of_exporters(exporters)
    findings += of_store(os.environ, loaded.policy.hash_key)
    if command is not None:
        findings += of_end(examined.status, examined.reports)
    return Diagnosis(findings, examined.reports, settings, None if command is None else examined.status)


def shown_settings(loaded: LoadedPolicy) -> dict[str, dict[str, Any]]:
    """Return ``Diagnosis.settings``. Of the hash key it has only whether it is set."""
    rows = [(dotted(path), value, origin) for path, value, origin in settings_of(loaded)]
    always = ("action", "conclude_after", "abort_after", "hash_key")
    return {
        name: {"value": value, "from": origin} for name, value, origin in rows if origin != "default" or name in always
    }


def _process(report: Report, *, first: bool) -> Iterator[str]:
    telemetry = report["telemetry"]
    yield f"process {report['pid']}: Python {report['python']}, {report['executable']}"
    yield f"  guard: {_guard(report)}"
    for framework in (*report["frameworks"], *report["clients"]):
        if first or framework["imported"]:
            yield f"  {framework['name']}: {versions(framework)}; {_patches(framework)}"
    for one in report["unguarded"]:
        if first or one["imported"]:
            yield f"  {one['name']} {one['version']}: not patched{'' if one['imported'] else ', not imported'}"
    yield f"  calls: {_calls(report) or 'none'}"
    if telemetry["sdk"]:
        yield (
            f"  spans: {telemetry['provider']}, our processor {'on it' if telemetry['processor'] else 'NOT on it'}, "
            f"sampler {str(telemetry['sampler']).partition('{')[0]}"
        )
    for exporter in telemetry["exporters"]:
        yield f"  exporter of {exporter['signal']}: {exporter['name']} to {exporter['endpoint'] or 'where it writes'}"


def _guard(report: Report) -> str:
    return f"on, action {report['action']}, policy {report['policy']}" if report["on"] else "OFF"


def _patches(framework: dict[str, Any]) -> str:
    if not framework["imported"]:
        return "not imported"
    targets = [target for target in framework["targets"] if target["state"] != "absent"]
    held = sum(target["state"] == "held" for target in targets)
    return f"{held} of {len(targets)} places patched"


def _calls(report: Report) -> str:
    """Return the numbers of calls by label, source of the turn and outcome; empty without a call."""
    groups: dict[str, list[str]] = {}
    for call in report["calls"]:
        label = "" if call["label"] == "app" else f"{call['label']}, "
        watched = "" if call["enforced"] else ", ONLY OBSERVED"
        group = groups.setdefault(f"{label}turn by {call['source']}{watched}", [])
        group.append(f"{call['count']} {call['outcome']}")
    return "; ".join(f"{', '.join(counts)} ({name})" for name, counts in groups.items())
