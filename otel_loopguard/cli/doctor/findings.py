"""Everything that the doctor can find, in one table: what it means, and what to do about it. ``docs/doctor.md`` is its
long form, and a test holds the two together.
"""

from __future__ import annotations

from typing import NamedTuple

BREAKS, WARNS, TELLS = "breaks", "warns", "tells"
"""``breaks``: loops are not stopped as they should be, exit status 1. ``warns``: they are, but something is missing, as
telemetry. ``tells``: good to know."""


class Kind(NamedTuple):
    """A sort of finding; ``{...}`` is filled in."""

    level: str
    text: str
    remedy: str


KINDS = {
    # --- the guard itself
    "not-loaded": Kind(
        BREAKS,
        "The program ran without the guard: nothing of otel_loopguard was loaded in it.",
        "Install otel-loopguard into the environment of the Python that runs the program, and do not start it with "
        "`python -I` or `-E`.",
    ),
    "switched-off": Kind(
        BREAKS,
        "The guard is not on.",
        "Take `loopguard` and `*` out of OTEL_PYTHON_DISABLED_INSTRUMENTATIONS, and look for "
        "`uninstrument()` in the program.",
    ),
    "action-off": Kind(
        BREAKS,
        "The policy's action is off: nothing is looked at ({origin}).",
        "Set OTEL_PYTHON_LOOPGUARD_ACTION=block, or observe to watch only.",
    ),
    "only-observing": Kind(
        WARNS,
        "The policy's action is {action}: loops are told, and no call is refused ({origin}).",
        "When what it tells is right, set OTEL_PYTHON_LOOPGUARD_ACTION=block.",
    ),
    "policy-mistake": Kind(
        BREAKS,
        "The policy has a mistake, and the default policy is in force. {problem}",
        "Correct it; `otel-loopguard policy check FILE` names all mistakes of a file.",
    ),
    "unread-variable": Kind(WARNS, "A setting that nobody reads. {problem}", "Correct its name, or remove it."),
    "internal-error": Kind(
        BREAKS,
        "The guard had {count} faults of its own at {site}; the calls ran as if it were not there.",
        "Update otel-loopguard; if it stays, please report it with this output.",
    ),
    # --- frameworks
    "no-framework": Kind(
        TELLS,
        "No supported framework is installed.",
        "Guard your own functions with @otel_loopguard.tool, or your own loop with otel_loopguard.call.",
    ),
    "points-missing": Kind(
        BREAKS,
        "{framework} {versions}: nothing to patch in {module}; its {sort} are not guarded.",
        "Update otel-loopguard, or pin the framework to a version that docs/ names as supported.",
    ),
    "patch-lost": Kind(
        BREAKS,
        "{framework} {versions}: {place} is there without our patch; its {sort} are not guarded.",
        "Something replaced it after start: import the framework before that, or call otel_loopguard.instrument() "
        "after it.",
    ),
    "loop-ran": Kind(
        BREAKS,
        "{framework}: the same call six times over was not refused in the self-test.",
        "See the other findings; if there are none, please report it with this output.",
    ),
    "not-tried": Kind(
        TELLS,
        "{framework}: the self-test could not try it ({reason}).",
        "Examine your own program: otel-loopguard doctor -- python app.py",
    ),
    # --- calls of the program
    "no-calls": Kind(
        WARNS,
        "The program made no tool call that the guard saw.",
        "Have it do something with tools while it is examined; tools without a framework need @otel_loopguard.tool.",
    ),
    "only-watched": Kind(
        BREAKS,
        "{count} calls belong to no known agent run (source: {source}), and are only watched.",
        "Put one message's work into `with otel_loopguard.turn(conversation_id=...):`, or set "
        "OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN=true.",
    ),
    "foreign-only": Kind(
        BREAKS,
        "{count} tool calls are known from spans of other instrumentations only: they are watched, and cannot be "
        "refused.",
        "Guard the functions themselves with @otel_loopguard.tool.",
    ),
    "not-ended": Kind(
        TELLS,
        "A process of the program was ended before it could tell everything (pid {pid}).",
        "Nothing, if it was stopped on purpose: what its turns did until about a second before is counted.",
    ),
    "program-failed": Kind(
        WARNS, "The program ended with status {status}.", "Look at what it printed; the guard does not change it."
    ),
    # --- telemetry
    "no-sdk": Kind(
        WARNS,
        "No OpenTelemetry SDK is set up: loops are stopped, but nothing is exported.",
        "pip install opentelemetry-distro",
    ),
    "sdk-disabled": Kind(
        WARNS, "The OpenTelemetry SDK is disabled: loops are stopped, but nothing is exported.",
        "Remove OTEL_SDK_DISABLED.",
    ),
    "no-processor": Kind(
        WARNS,
        "The tracer provider {provider} does not have our span processor: calls are guarded, but spans of other "
        "instrumentations are not looked at.",
        "Call otel_loopguard.attach(provider) where the provider is made.",
    ),
    "sampled-out": Kind(
        WARNS,
        "The sampler {sampler} keeps {share} of new traces: loops are stopped all the same, but in "
        "the others nobody sees them.",
        "Set OTEL_TRACES_SAMPLER=parentbased_always_on, and sample in the collector, which keeps every trace with a "
        "trip (`otel-loopguard stack` writes its configuration).",
    ),
    "no-exporter": Kind(
        WARNS,
        "The tracer provider has no exporter: spans go nowhere.",
        "Set OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    "endpoint-silent": Kind(
        WARNS,
        "Nobody answers at {endpoint} ({reason}): spans are lost.",
        "Start the collector there, or correct OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    "endpoint-refuses": Kind(
        WARNS,
        "{endpoint} answers {status}: spans are lost.",
        "Correct the address (OTLP over HTTP is on port 4318 and ends in /v1/traces), or OTEL_EXPORTER_OTLP_HEADERS.",
    ),
    # --- others
    "other-instrumentation": Kind(
        TELLS,
        "{name} is on, too.",
        "Nothing: it stands beside the guard, and a call that both see is counted once.",
    ),
    "other-guard": Kind(
        TELLS,
        "{name} is in use, too.",
        "Nothing, if both are wanted: the guard refuses calls that bring nothing new, the other one counts. Whichever "
        "comes first ends the loop.",
    ),
}  # fmt: skip


class Finding(NamedTuple):
    """Something that was found."""

    code: str
    level: str
    text: str
    remedy: str


def finding(code: str, **values: object) -> Finding:
    """A finding of this sort."""
    kind = KINDS[code]
    return Finding(code, kind.level, kind.text.format(**values), kind.remedy)
