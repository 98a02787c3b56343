"""Turn the facts about a program and its environment into findings."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.doctor.finding_kinds import TELLS, WARNS, Finding, finding
from otel_loopguard.cli.ineffective import ineffective
from otel_loopguard.cli.output import counted
from otel_loopguard.component_names import find_wrong_names
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.environment_variables import PREFIX
from otel_loopguard.instrumentation.unguarded import IN_REQUESTS, UNREAD
from otel_loopguard.policy_files.load import VARIABLES, WITH_MISTAKES
from otel_loopguard.telemetry.unseen import FEW_REPLIES, FEW_TURNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_loopguard.policy_files.load import LoadedPolicy

    Report = dict[str, Any]

_SAMPLED_WELL = 0.99
_STOPPED = (-signal.SIGINT, 128 + signal.SIGINT, -signal.SIGTERM)
_GIVEN_IN_CODE = "given in code"


def of_policy(loaded: LoadedPolicy) -> Iterator[Finding]:
    """Yield the mistakes of the policy and its variables, and what has no effect in them."""
    for problem in loaded.problems:
        code = "variable-mistake" if problem.place == "environment" else "policy-mistake"
        yield finding(code, problem=problem, in_force=loaded.in_force)
    if not loaded.problems:
        for problem in ineffective(loaded):
            yield finding("limit-without-effect", problem=problem)
    for note in loaded.notes:
        known = note.name.removeprefix(PREFIX) in VARIABLES
        yield finding("hash-key" if known else "unread-variable", problem=note)


def of_names(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the names in ``OTEL_*`` variables, such as those of exporters, that do not exist: they are left out."""
    for problem in find_wrong_names(environ).wrong:
        yield finding("wrong-name", problem=problem)


def of_start(reason: str | None) -> Finding:
    """Return why no process has a report: OpenTelemetry failed to start for this reason, or, if None, has no guard."""
    return finding("not-loaded") if reason is None else finding("start-failed", reason=reason)


def of_end(status: int, reports: Sequence[Report]) -> Iterator[Finding]:
    """Yield that the program failed, and whether the guard ended it. A stop by SIGINT or SIGTERM is no failure."""
    if not status or status in _STOPPED:
        return
    code = "ended-by-guard" if any(report["ended_by_guard"] for report in reports) else "program-failed"
    yield finding(code, status=f"status {status}" if status > 0 else f"signal {-status}")


def of_program(reports: Sequence[Report], origin: str, *, selftest: bool, left_out: bool) -> Iterator[Finding]:
    """Yield what the reports of a program's processes show; most of it is of the process with the most calls.

    ``origin`` is the source of the policy's action. ``left_out``: wrong names of exporters were left out, and ``none``
    may stand in their place.
    """
    main = max(reports, key=lambda report: sum(call["count"] for call in report["calls"]))
    if not main["on"]:  # everything else is missing because of it
        yield finding("switched-off")
        return
    yield from _of_guard(main, origin)
    of_frameworks = list(_of_frameworks(main))
    yield from of_frameworks
    yield from _of_unguarded(reports, only_imported=not selftest and any(report["calls"] for report in reports))
    yield from _of_telemetry(main["telemetry"], left_out=left_out)
    if selftest:
        yield from _of_selftest(main)
    yield from _of_calls(reports)
    has_lost = any(one.code == "patch-lost" for one in of_frameworks)
    for name in sorted({name for report in reports for name in report["instrumentations"]}):
        yield finding("other-replacement" if has_lost else "other-instrumentation", name=name)
    for name in sorted({name for report in reports for name in report["text_protocols"]}):
        yield finding("text-protocol", name=name)
    for name in sorted({name for report in reports for name in report["guards"]}):
        yield finding("other-guard", name=name)


def _of_guard(report: Report, origin: str) -> Iterator[Finding]:
    action = Action[report["action"].upper()]
    if report["policy"] == _GIVEN_IN_CODE:
        origin = _GIVEN_IN_CODE
    if action is Action.OFF:
        yield finding("action-off", origin=origin)
    elif action < Action.REUSE and origin != WITH_MISTAKES:  # those are findings of their own
        yield finding("only-observing", action=action, origin=origin)
    elif report["exempt"]:
        yield finding("exempt", names=", ".join(report["exempt"]))
    for site, count in report["errors"].items():
        yield finding("internal-error", site=site, faults=counted(count, "fault"))


def _of_frameworks(report: Report) -> Iterator[Finding]:
    if not report["frameworks"] and not report["clients"] and not report["unguarded"]:
        yield finding("no-framework")
    for framework in (*report["frameworks"], *report["clients"]):
        names = {"framework": framework["name"], "versions": versions(framework)}
        for target in framework["targets"]:
            if target["state"] == "bare" and target["subject"] != "other" and not _patched_elsewhere(framework, target):
                yield finding(
                    "patch-lost", place=f"{target['module']}:{target['path']}", subject=target["subject"], **names
                )
        for found, tested in framework["newer"] if framework["imported"] else ():
            yield finding("newer-than-tested", found=found, tested=tested)
        for module, subject in _without_targets(framework["targets"]):
            yield finding("targets-missing", module=module, subject=subject, **names)


def _of_unguarded(reports: Sequence[Report], *, only_imported: bool) -> Iterator[Finding]:
    """Yield the installed frameworks and clients that have no patch; ``only_imported``: of those, the imported ones."""
    known = [one for report in reports for one in report["unguarded"]]
    imported = {one["name"]: one for one in known if one["imported"]}
    found = imported if only_imported else {one["name"]: one for one in known} | imported
    by_hand = sum(report["by_hand"] for report in reports) if only_imported else 0
    clients = " or ".join(dict.fromkeys(client["name"] for report in reports for client in report["clients"]))
    for one in found.values():
        names = {"name": one["name"], "version": one["version"]}
        if one["judged"] != UNREAD and by_hand:
            yield finding("guarded-by-hand", calls=counted(by_hand, "such call"), **names)
        elif one["judged"] == IN_REQUESTS and clients:
            yield finding("only-in-requests", clients=clients, **names)
        elif one["judged"] != UNREAD:
            yield finding("not-guarded", **names)
    unread = [one for one in found.values() if one["judged"] == UNREAD]
    used = [] if only_imported else [one for one in unread if one["imported"]]
    if unread:
        listed = ", ".join(f"{one['name']} {one['version']}" for one in used or unread)
        yield finding("client-not-read", level=WARNS if used else None, names=listed)
    sent: Counter[str] = Counter()
    for report in reports:
        sent.update(report["unread_requests"])
    if sent and not used:
        level, requests = TELLS if only_imported else None, counted(sum(sent.values()), "request")
        yield finding("requests-not-read", level=level, requests=requests, paths=" and ".join(sorted(sent)))


def _patched_elsewhere(framework: dict[str, Any], target: dict[str, Any]) -> bool:
    """Return True if calls pass a patched function all the same.

    It is the same function in another module, where other versions have it. Or it is another method that each request
    of the same client passes.
    """
    owner = target["path"].partition(".")[0]
    return any(
        other["state"] == "held"
        and (
            other["path"] == target["path"]
            or (target["subject"] == "requests" and other["path"].partition(".")[0] == owner)
        )
        for other in framework["targets"]
    )


def _without_targets(targets: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the modules in which this version has none of the functions to patch, each with what is not guarded."""
    needed = [target for target in targets if not target["optional"] and target["subject"] != "other"]
    for module, subject in dict.fromkeys((target["module"], target["subject"]) for target in needed):
        here = [target for target in needed if (target["module"], target["subject"]) == (module, subject)]
        if all(target["state"] == "absent" for target in here):
            yield module, subject


def versions(framework: dict[str, Any]) -> str:
    """Return the packages of a framework with their versions, such as ``langgraph 1.0.1``."""
    return ", ".join(f"{dist} {version}" for dist, version in framework["versions"].items())


def _of_telemetry(found: dict[str, Any], *, left_out: bool) -> Iterator[Finding]:
    if found["disabled"]:
        yield finding("sdk-disabled")
    elif not found["sdk"]:
        yield finding("no-sdk")
    else:
        if not found["processor"]:
            yield finding("no-processor", provider=found["provider"])
        if found["sampled"] is not None and found["sampled"] < _SAMPLED_WELL:
            yield finding("sampled-out", sampler=found["sampler"], share=f"{found['sampled']:.0%}")
        of_spans = [one for one in found["exporters"] if one["signal"] == "traces"]
        if not of_spans:
            yield finding("exporter-none" if found["none_chosen"] and not left_out else "no-exporter")
        name = found["service_name"]
        if found["exporters"] and (name is None or name.startswith("unknown_service")):
            yield finding("no-service-name", name=name)
        if any(one["name"].endswith("ConsoleSpanExporter") for one in of_spans):
            yield finding("console-exporter")


def _of_selftest(report: Report) -> Iterator[Finding]:
    if "ran" in report["tested"].values() and Action[report["action"].upper()] >= Action.BLOCK:
        yield finding("loop-ran")


def _of_what_was_not_shown(reports: Sequence[Report]) -> Iterator[Finding]:
    """Yield what the requests and turns that were read show of calls that could not be judged, or not together."""
    shown = [report["not_shown"] for report in reports]
    replies, requests = (sum(one.get(name, 0) for one in shown) for name in ("replies", "requests"))
    if replies > FEW_REPLIES:
        yield finding("replies-not-answered", replies=f"{replies:,} replies")
    turns = max(one.get("turns", 0) for one in shown)
    if turns > FEW_TURNS:
        yield finding("equal-turns", turns=turns)
    is_silent = not any(report["calls"] or report["text_protocols"] for report in reports)
    if requests and is_silent:
        yield finding("requests-without-tools", requests=counted(requests, "request"))


def _of_requests(reports: Sequence[Report]) -> Iterator[Finding]:
    """Yield the requests of which nobody knows what they took: budgets do not count them."""
    number: Counter[str] = Counter()
    for report in reports:
        number.update(report["requests"])
    accounts = {budget.partition(".")[2] for report in reports for budget in report["budgets"]}
    if number["without_tokens"]:
        level = TELLS if accounts.isdisjoint(("tokens", "input_tokens", "output_tokens", "cost")) else None
        requests = f"{number['without_tokens']:,} of {counted(number['all'], 'request')}"
        yield finding("tokens-unknown", level=level, requests=requests)
    if number["without_price"] and "cost" in accounts:
        requests = f"{number['without_price']:,} of {counted(number['all'], 'request')}"
        yield finding("no-price", requests=requests)


def _of_calls(reports: Sequence[Report]) -> Iterator[Finding]:
    watched: Counter[str] = Counter()
    for report in reports:
        for call in report["calls"]:
            if not call["enforced"]:
                watched[call["source"]] += call["count"]
    from_spans = sum(report["from_spans"] for report in reports)
    if not from_spans and not any(report["calls"] for report in reports):
        yield finding("no-calls")
    yield from _of_what_was_not_shown(reports)
    yield from _of_requests(reports)
    for source, count in watched.items():
        yield finding("only-observed", source=source, calls=counted(count, "call"))
    caught = sum(report["caught"] for report in reports)
    if caught:
        yield finding("abort-caught", turns=counted(caught, "turn"))
    if from_spans:
        yield finding("spans-only", calls=counted(from_spans, "tool call"))
    for report in reports:
        if not report["ended"]:
            yield finding("not-ended", pid=report["pid"])
