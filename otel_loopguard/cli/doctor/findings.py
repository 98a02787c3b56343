"""Turn facts into findings. One table has every finding, with its meaning and its remedy.

``docs/doctor.md`` is the long form of the table, and a test holds the two together.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.component_names import find_wrong_names
from otel_loopguard.core.model import Action
from otel_loopguard.core.policy.load import PREFIX, VARIABLES, WITH_MISTAKES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_loopguard.core.policy.load import LoadedPolicy

    Report = dict[str, Any]

BREAKS, WARNS, TELLS = "breaks", "warns", "tells"
"""``breaks``: loops are not stopped, exit status 1. ``warns``: they are stopped, but something is missing, such as
telemetry. ``tells``: a note."""


class FindingKind(NamedTuple):
    """A kind of finding; ``{...}`` is filled in."""

    level: str
    text: str
    remedy: str


KINDS = {
    # --- the guard itself
    "not-loaded": FindingKind(
        BREAKS,
        "The program ran without the guard: nothing of otel_loopguard was loaded in it.",
        "Install otel-loopguard into the environment of the Python that runs the program, and do not start it with "
        "`python -I` or `-E`.",
    ),
    "start-failed": FindingKind(
        BREAKS,
        "OpenTelemetry could not start, and so loaded no instrumentation: the guard is on only if the program itself "
        "calls otel_loopguard.instrument(). {reason}",
        "Correct the setting that is wrong.",
    ),
    "wrong-name": FindingKind(
        WARNS,
        "{problem} opentelemetry-instrument leaves it out, because with a wrong name OpenTelemetry would load no "
        "instrumentation, and so no guard.",
        "Correct the name, or install the package that has it. Until then telemetry is missing, and the guard is off "
        "where zero-code start works without opentelemetry-instrument, as in Kubernetes.",
    ),
    "switched-off": FindingKind(
        BREAKS,
        "The guard is not on.",
        "Take `loopguard` and `*` out of OTEL_PYTHON_DISABLED_INSTRUMENTATIONS, and look for "
        "`uninstrument()` in the program.",
    ),
    "action-off": FindingKind(
        BREAKS,
        "The policy's action is off: no call is judged ({origin}).",
        "Set OTEL_PYTHON_LOOPGUARD_ACTION=block; observe judges calls and refuses none.",
    ),
    "only-observing": FindingKind(
        WARNS,
        "The policy's action is {action}: loops are reported, and no call is refused ({origin}).",
        "If the reported loops are real ones, set OTEL_PYTHON_LOOPGUARD_ACTION=block.",
    ),
    "policy-mistake": FindingKind(
        BREAKS,
        "The policy has a mistake. Until it is corrected, {in_force}. {problem}",
        "Correct it; `otel-loopguard policy check FILE` names all mistakes of a file.",
    ),
    "unread-variable": FindingKind(
        WARNS, "A setting that does not exist. {problem}", "Correct its name, or remove it."
    ),
    "hash-key": FindingKind(
        WARNS,
        "The key of the fingerprints is missing, or can be guessed. {problem}",
        "Store a random key where only the program can read it (`openssl rand -hex 32`), and name that file in "
        "OTEL_PYTHON_LOOPGUARD_HASH_KEY_FILE.",
    ),
    "internal-error": FindingKind(
        BREAKS,
        "The guard had {count} faults of its own at {site}; these calls ran without it.",
        "Update otel-loopguard; if the fault stays, please report it with this output.",
    ),
    # --- frameworks
    "no-framework": FindingKind(
        TELLS,
        "No supported framework and no client of a model provider is installed.",
        "Guard your own functions with @otel_loopguard.tool, or your own loop with otel_loopguard.call.",
    ),
    "targets-missing": FindingKind(
        BREAKS,
        "{framework} {versions}: nothing to patch in {module}; its {subject} are not guarded.",
        "Update otel-loopguard, or pin the framework to a version that docs/ names as supported.",
    ),
    "patch-lost": FindingKind(
        BREAKS,
        "{framework} {versions}: {place} is not patched; its {subject} are not guarded.",
        "Something replaced it after start: import the framework before that, or call otel_loopguard.instrument() "
        "after it.",
    ),
    "text-protocol": FindingKind(
        WARNS,
        "{name} asks for tool calls in plain text: its loop cannot be read in the requests to the model.",
        "Guard its tools with @otel_loopguard.tool.",
    ),
    "loop-ran": FindingKind(
        BREAKS,
        "{framework}: the same call, made six times, was not refused in the self-test.",
        "See the other findings; if there are none, please report it with this output.",
    ),
    "not-tried": FindingKind(
        TELLS,
        "{framework}: the self-test could not try it ({reason}).",
        "Examine your own program: otel-loopguard doctor -- python app.py",
    ),
    # --- calls of the program
    "no-calls": FindingKind(
        WARNS,
        "The guard saw no tool call of the program.",
        "Run a task that calls tools; tools without a framework need @otel_loopguard.tool.",
    ),
    "only-observed": FindingKind(
        BREAKS,
        "{count} calls belong to no known agent run (source: {source}), so they are only observed.",
        "Put one message's work into `with otel_loopguard.turn(conversation_id=...):`, or set "
        "OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN=true.",
    ),
    "spans-only": FindingKind(
        BREAKS,
        "{count} tool calls are seen only in spans of other instrumentations: they are watched, and cannot be refused.",
        "Guard the functions themselves with @otel_loopguard.tool.",
    ),
    "not-ended": FindingKind(
        TELLS,
        "A process of the program ended before it could write its full report (pid {pid}).",
        "Nothing, if you stopped it: its calls are counted up to about a second before.",
    ),
    "program-failed": FindingKind(
        WARNS, "The program ended with status {status}.", "Read its own output; the guard does not change the status."
    ),
    # --- telemetry
    "no-sdk": FindingKind(
        WARNS,
        "No OpenTelemetry SDK is set up: loops are stopped, but nothing is exported.",
        "pip install opentelemetry-distro",
    ),
    "sdk-disabled": FindingKind(
        WARNS, "The OpenTelemetry SDK is disabled: loops are stopped, but nothing is exported.",
        "Remove OTEL_SDK_DISABLED.",
    ),
    "no-processor": FindingKind(
        WARNS,
        "The tracer provider {provider} does not have our span processor: "
        "calls are guarded, but spans of other instrumentations are not read.",
        "Call otel_loopguard.attach(provider) where the provider is made.",
    ),
    "sampled-out": FindingKind(
        WARNS,
        "The sampler {sampler} keeps {share} of new traces: loops are stopped, but they are visible only in those "
        "traces.",
        "Set OTEL_TRACES_SAMPLER=parentbased_always_on, and sample in the collector, which keeps every trace with a "
        "trip (`otel-loopguard stack` writes its configuration).",
    ),
    "no-exporter": FindingKind(
        WARNS,
        "The tracer provider has no exporter: spans are not exported.",
        "Set OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    "endpoint-silent": FindingKind(
        WARNS,
        "No answer from {endpoint} ({reason}): spans are lost.",
        "Start the collector there, or correct OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    "endpoint-refuses": FindingKind(
        WARNS,
        "{endpoint} answers {status}: spans are lost.",
        "Correct the address (OTLP over HTTP is on port 4318 and ends in /v1/traces), or OTEL_EXPORTER_OTLP_HEADERS.",
    ),
    # --- others
    "other-instrumentation": FindingKind(
        TELLS,
        "{name} is on, too.",
        "Nothing: it works together with the guard, and a call that both see is counted once.",
    ),
    "other-guard": FindingKind(
        TELLS,
        "{name} is in use, too.",
        "Nothing, if both are wanted: the guard refuses calls that bring nothing new, the other one counts. Whichever "
        "comes first ends the loop.",
    ),
}  # fmt: skip


class Finding(NamedTuple):
    """One finding in an environment or a program."""

    code: str
    level: str
    text: str
    remedy: str


def finding(code: str, **values: object) -> Finding:
    """Make a finding of this kind."""
    kind = KINDS[code]
    return Finding(code, kind.level, kind.text.format(**values), kind.remedy)


# --- from facts to findings ----------------------------------------------------------------------------------------

_SAMPLED_WELL = 0.99
_GIVEN_IN_CODE = "given in code"


def of_policy(loaded: LoadedPolicy) -> Iterator[Finding]:
    """Find mistakes in the policy of the environment."""
    for problem in loaded.problems:
        yield finding("policy-mistake", problem=problem, in_force=loaded.in_force)
    for note in loaded.notes:
        known = note.name.removeprefix(PREFIX) in VARIABLES
        yield finding("hash-key" if known else "unread-variable", problem=note)


def of_names(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Find names of exporters and the like that are left out at the start."""
    for problem in find_wrong_names(environ).wrong:
        yield finding("wrong-name", problem=problem)


def of_start(reason: str | None) -> Finding:
    """Say why no process has a report: OpenTelemetry did not start, for this reason, or the guard is not there."""
    return finding("not-loaded") if reason is None else finding("start-failed", reason=reason)


def of_program(reports: Sequence[Report], origin: str, *, selftest: bool) -> Iterator[Finding]:
    """Find faults in the reports of a program's processes. Most are looked for in the process with the most calls."""
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
    for name in sorted({name for report in reports for name in report["text_protocols"]}):
        yield finding("text-protocol", name=name)
    for name in sorted({name for report in reports for name in report["guards"]}):
        yield finding("other-guard", name=name)


def _of_guard(report: Report, origin: str) -> Iterator[Finding]:
    if not report["on"]:
        yield finding("switched-off")
        return
    action = Action[report["action"].upper()]
    if report["policy"] == _GIVEN_IN_CODE:
        origin = _GIVEN_IN_CODE
    if action is Action.OFF:
        yield finding("action-off", origin=origin)
    elif action < Action.REUSE and origin != WITH_MISTAKES:  # those are findings of their own
        yield finding("only-observing", action=action, origin=origin)
    for site, count in report["errors"].items():
        yield finding("internal-error", site=site, count=count)


def _of_frameworks(report: Report) -> Iterator[Finding]:
    if not report["frameworks"] and not report["clients"]:
        yield finding("no-framework")
    if not report["on"]:
        return
    for framework in (*report["frameworks"], *report["clients"]):
        names = {"framework": framework["name"], "versions": versions(framework)}
        for target in framework["targets"]:
            if target["state"] == "bare" and target["subject"] != "other" and not _patched_elsewhere(framework, target):
                yield finding(
                    "patch-lost", place=f"{target['module']}:{target['path']}", subject=target["subject"], **names
                )
        for module, subject in _without_targets(framework["targets"]):
            yield finding("targets-missing", module=module, subject=subject, **names)


def _patched_elsewhere(framework: dict[str, Any], target: dict[str, Any]) -> bool:
    """True if the same function is patched in another module, where other versions have it."""
    same = (other for other in framework["targets"] if other["path"] == target["path"])
    return any(other["state"] == "held" for other in same)


def _without_targets(targets: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The modules in which this version has none of the functions that all known versions have."""
    needed = [target for target in targets if not target["optional"] and target["subject"] != "other"]
    for module, subject in dict.fromkeys((target["module"], target["subject"]) for target in needed):
        here = [target for target in needed if (target["module"], target["subject"]) == (module, subject)]
        if all(target["state"] == "absent" for target in here):
            yield module, subject


def versions(framework: dict[str, Any]) -> str:
    """The packages of a framework, with their versions."""
    return ", ".join(f"{dist} {version}" for dist, version in framework["versions"].items())


def _of_telemetry(found: dict[str, Any]) -> Iterator[Finding]:
    if found["disabled"]:
        yield finding("sdk-disabled")
    elif not found["sdk"]:
        yield finding("no-sdk")
    else:
        if not found["processor"]:
            yield finding("no-processor", provider=found["provider"])
        if found["sampled"] is not None and found["sampled"] < _SAMPLED_WELL:
            yield finding("sampled-out", sampler=found["sampler"], share=f"{found['sampled']:.0%}")
        if not found["exporters"]:
            yield finding("no-exporter")


def _of_selftest(report: Report) -> Iterator[Finding]:
    refuses = report["on"] and Action[report["action"].upper()] >= Action.BLOCK
    for framework, result in report["tested"].items():
        if result not in ("refused", "ran"):
            yield finding("not-tried", framework=framework, reason=result)
        elif result == "ran" and refuses:
            yield finding("loop-ran", framework=framework)


def _of_calls(reports: Sequence[Report]) -> Iterator[Finding]:
    watched: Counter[str] = Counter()
    for report in reports:
        for call in report["calls"]:
            if not call["enforced"]:
                watched[call["source"]] += call["count"]
    from_spans = sum(report["from_spans"] for report in reports)
    if not from_spans and not any(report["calls"] for report in reports):
        yield finding("no-calls")
    for source, count in watched.items():
        yield finding("only-observed", source=source, count=count)
    if from_spans:
        yield finding("spans-only", count=from_spans)
    for report in reports:
        if not report["ended"]:
            yield finding("not-ended", pid=report["pid"])
