"""From what was seen to what was found."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.doctor.findings import Finding, finding
from otel_loopguard.core.model import Action

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.core.policy.load import LoadedPolicy

    Report = dict[str, Any]

_SEEN_WELL = 0.99
GIVEN_IN_CODE = "given in code"


def of_policy(loaded: LoadedPolicy) -> Iterator[Finding]:
    """What the environment's policy says."""
    for problem in loaded.problems:
        yield finding("policy-mistake", problem=problem)
    for note in loaded.notes:
        yield finding("unread-variable", problem=note)


def of_program(reports: Sequence[Report], origin: str, *, selftest: bool) -> Iterator[Finding]:
    """What the processes of a program told; the last one told most, where a report is of all of them."""
    if not reports:
        yield finding("not-loaded")
        return
    main = max(reports, key=lambda report: sum(call["count"] for call in report["calls"]))
    yield from _of_guard(main, origin)
    yield from _of_frameworks(main)
    yield from _of_telemetry(main["telemetry"])
    if selftest:
        yield from _of_selftest(main)
    else:
        yield from _of_calls(reports)
    for name in sorted({name for report in reports for name in report["instrumentations"]}):
        yield finding("other-instrumentation", name=name)
    for name in sorted({name for report in reports for name in report["guards"]}):
        yield finding("other-guard", name=name)


def _of_guard(report: Report, origin: str) -> Iterator[Finding]:
    if not report["on"]:
        yield finding("switched-off")
        return
    action = Action[report["action"].upper()]
    if report["policy"] == GIVEN_IN_CODE:
        origin = GIVEN_IN_CODE
    if action is Action.OFF:
        yield finding("action-off", origin=origin)
    elif action < Action.REUSE:
        yield finding("only-observing", action=action, origin=origin)
    for site, count in report["errors"].items():
        yield finding("internal-error", site=site, count=count)


def _of_frameworks(report: Report) -> Iterator[Finding]:
    if not report["frameworks"]:
        yield finding("no-framework")
    if not report["on"]:
        return
    for framework in report["frameworks"]:
        told = {"framework": framework["name"], "versions": versions(framework)}
        for point in framework["points"]:
            if point["state"] == "bare" and point["sort"] != "other" and not _held_elsewhere(framework, point):
                yield finding("patch-lost", place=f"{point['module']}:{point['path']}", sort=point["sort"], **told)
        for module, sort in _empty(framework["points"]):
            yield finding("points-missing", module=module, sort=sort, **told)


def _held_elsewhere(framework: dict[str, Any], point: dict[str, Any]) -> bool:
    """Whether the same place is named twice, for versions that have it elsewhere, and is held there."""
    same = (other for other in framework["points"] if other["path"] == point["path"])
    return any(other["state"] == "held" for other in same)


def _empty(points: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Modules in which this version has none of the places that all known versions have."""
    needed = [point for point in points if not point["optional"] and point["sort"] != "other"]
    for module, sort in dict.fromkeys((point["module"], point["sort"]) for point in needed):
        here = [point for point in needed if (point["module"], point["sort"]) == (module, sort)]
        if all(point["state"] == "absent" for point in here):
            yield module, sort


def versions(framework: dict[str, Any]) -> str:
    """The packages of a framework with their versions."""
    return ", ".join(f"{dist} {version}" for dist, version in framework["versions"].items())


def _of_telemetry(found: dict[str, Any]) -> Iterator[Finding]:
    if found["disabled"]:
        yield finding("sdk-disabled")
    elif not found["sdk"]:
        yield finding("no-sdk")
    else:
        if not found["processor"]:
            yield finding("no-processor", provider=found["provider"])
        if found["sampled"] is not None and found["sampled"] < _SEEN_WELL:
            yield finding("sampled-out", sampler=found["sampler"], share=f"{found['sampled']:.0%}")
        if not found["exporters"]:
            yield finding("no-exporter")


def _of_selftest(report: Report) -> Iterator[Finding]:
    refuses = report["on"] and Action[report["action"].upper()] >= Action.BLOCK
    for framework, said in report["tested"].items():
        if said not in ("refused", "ran"):
            yield finding("not-tried", framework=framework, reason=said)
        elif said == "ran" and refuses:
            yield finding("loop-ran", framework=framework)


def _of_calls(reports: Sequence[Report]) -> Iterator[Finding]:
    watched: Counter[str] = Counter()
    for report in reports:
        for call in report["calls"]:
            if not call["enforced"]:
                watched[call["source"]] += call["count"]
    foreign = sum(report["foreign"] for report in reports)
    if not foreign and not any(report["calls"] for report in reports):
        yield finding("no-calls")
    for source, count in watched.items():
        yield finding("only-watched", source=source, count=count)
    if foreign:
        yield finding("foreign-only", count=foreign)
    for report in reports:
        if not report["ended"]:
            yield finding("not-ended", pid=report["pid"])
