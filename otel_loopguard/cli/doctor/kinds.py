"""Every kind of finding, with its meaning and its remedy.

``docs/doctor.md`` is the long form of the table, and a test holds the two together.
"""

from __future__ import annotations

from typing import NamedTuple

BREAKS, OPEN, WARNS, TELLS = "breaks", "open", "warns", "tells"
"""``breaks``: loops are not stopped, exit status 1. ``open``: nothing shows that they are, exit status 1. ``warns``:
something is missing, such as telemetry. ``tells``: a note."""


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
    "exempt": FindingKind(
        WARNS,
        "The policy refuses no call of these tools, and none for these modes: {names}.",
        "Nothing, if their loops may run on. Else remove that `action`, or that `block = 0`.",
    ),
    "policy-mistake": FindingKind(
        BREAKS,
        "The policy has a mistake. Until it is corrected, {in_force}. {problem}",
        "Correct it; `otel-loopguard policy check FILE` names all mistakes of a file.",
    ),
    "variable-mistake": FindingKind(
        BREAKS,
        "An environment variable has a mistake, and may be meant to set the policy. Until it is corrected, {in_force}. "
        "{problem}",
        "Correct the variable, or remove it.",
    ),
    "limit-without-effect": FindingKind(
        WARNS,
        "A limit or an action is never reached. {problem}",
        "Raise the one that comes before it, too, or lower this one to the largest value that has an effect.",
    ),
    "unread-variable": FindingKind(
        WARNS, "A variable that does not exist, and decides nothing. {problem}", "Correct its name, or remove it."
    ),
    "hash-key": FindingKind(
        WARNS,
        "The key of the fingerprints is missing, or can be guessed. {problem}",
        "Store a random key where only the program can read it (`openssl rand -hex 32`), and name that file in "
        "OTEL_PYTHON_LOOPGUARD_HASH_KEY_FILE.",
    ),
    "internal-error": FindingKind(
        BREAKS,
        "The guard had {faults} of its own at {site}, and let these calls run.",
        "Update otel-loopguard; if the fault stays, please report it with this output.",
    ),
    # --- frameworks
    "no-framework": FindingKind(
        TELLS,
        "No supported framework and no client of a model provider is installed.",
        "Guard your own functions with @otel_loopguard.tool, or your own loop with otel_loopguard.call.",
    ),
    "not-guarded": FindingKind(
        WARNS,
        "{name} {version} is installed; its tools are not guarded.",
        "Put @otel_loopguard.tool on the functions of its tools, below the framework's own decorator, and one "
        "message's work into `with otel_loopguard.turn():`.",
    ),
    "only-in-requests": FindingKind(
        WARNS,
        "{name} {version} is installed; its tools are not guarded. Its calls are judged in its requests to the model, "
        "if they go through {clients}, and there only.",
        "Run it under the doctor: `calls` must not be `none`. If it is, put @otel_loopguard.tool on the functions of "
        "its tools, below the framework's own decorator, and one message's work into `with otel_loopguard.turn():`. "
        "docs/models.md has how such a loop ends.",
    ),
    "guarded-by-hand": FindingKind(
        TELLS,
        "{name} {version} has no patch: of its tools, only those with @otel_loopguard.tool are guarded ({calls}).",
        "Nothing, if each of its tools has it.",
    ),
    "client-not-read": FindingKind(
        TELLS,
        "Requests to a model through these clients are not read: {names}.",
        "Nothing, if no agent uses them. Else send the requests through openai, anthropic, google-genai or litellm, or "
        "guard the tools with @otel_loopguard.tool.",
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
        "The same call, made six times, was not refused in the self-test.",
        "See the other findings; if there are none, please report it with this output.",
    ),
    # --- calls of the program
    "no-calls": FindingKind(
        OPEN,
        "The guard saw no tool call of the program.",
        "Run a task that calls tools. If it did, put @otel_loopguard.tool on their functions, and one message's work "
        "into `with otel_loopguard.turn():`.",
    ),
    "only-observed": FindingKind(
        BREAKS,
        "{calls} of no known agent run (source: {source}): only observed.",
        "Put one message's work into `with otel_loopguard.turn():`, or set "
        "OTEL_PYTHON_LOOPGUARD_ENFORCE_WITHOUT_TURN=true, under which unrelated requests may share a turn.",
    ),
    "abort-caught": FindingKind(
        WARNS,
        "The program catches the ToolLoopError that ends a run, and goes on ({turns}): each repeat is refused, but the "
        "model is asked again and again.",
        "Let ToolLoopError through, or limit the steps of the agent: frameworks that make a result of each error have "
        "a setting such as max_steps.",
    ),
    "spans-only": FindingKind(
        BREAKS,
        "{calls} known only from spans of other instrumentations: watched, and never refused.",
        "Guard the functions themselves with @otel_loopguard.tool.",
    ),
    "not-ended": FindingKind(
        TELLS,
        "A process of the program was killed, or ended with os._exit() (pid {pid}): its count of calls may be too low.",
        "Nothing, if you stopped it: only the calls since its last ended turn are missing.",
    ),
    "program-failed": FindingKind(
        WARNS, "The program ended with {status}.", "Read its own output; no error of the guard ended it."
    ),
    "ended-by-guard": FindingKind(
        WARNS,
        "The program ended with {status}, because it does not catch the ToolLoopError with which the guard ends a run "
        "that only repeats itself.",
        "Catch otel_loopguard.ToolLoopError where one message's work ends, and answer the user: "
        "docs/how-to/catch-tool-loop-error.md",
    ),
    # --- telemetry
    "no-sdk": FindingKind(
        WARNS,
        "No OpenTelemetry SDK is set up: the guard works without it, but nothing is exported.",
        "pip install opentelemetry-distro",
    ),
    "sdk-disabled": FindingKind(
        WARNS, "The OpenTelemetry SDK is disabled: the guard works without it, but nothing is exported.",
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
        "The sampler {sampler} keeps {share} of new traces: every call is judged, but loops are visible only in those "
        "traces.",
        "Set OTEL_TRACES_SAMPLER=parentbased_always_on, and sample in the collector, which keeps every trace with a "
        "trip (`otel-loopguard stack` writes its configuration).",
    ),
    "no-exporter": FindingKind(
        WARNS,
        "The tracer provider has no exporter: spans are not exported.",
        "Set OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    "exporter-none": FindingKind(
        TELLS,
        "OTEL_TRACES_EXPORTER is none: spans are not exported. The guard works without them.",
        "Nothing, if there is no collector. With one, set OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
    "console-exporter": FindingKind(
        WARNS,
        "The console exporter prints the spans: no dashboard and no `otel-loopguard replay` can read them there.",
        "Set OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER=none without a "
        "collector.",
    ),
    "no-service-name": FindingKind(
        WARNS,
        "The program has no service name, only {name}: dashboards and alerts cannot tell it from other programs.",
        "Set OTEL_SERVICE_NAME.",
    ),
    "endpoint-malformed": FindingKind(
        WARNS,
        "{endpoint} is no address of a collector ({reason}): telemetry is lost.",
        "Set OTEL_EXPORTER_OTLP_ENDPOINT to an address with its port, such as http://localhost:4317 for gRPC and "
        "http://localhost:4318 for HTTP.",
    ),
    "endpoint-silent": FindingKind(
        WARNS,
        "No answer from {endpoint} ({reason}): telemetry is lost, and the program waits for it when it ends.",
        "Start the collector there, or correct OTEL_EXPORTER_OTLP_ENDPOINT. Without a collector, set "
        "OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER and OTEL_LOGS_EXPORTER to none.",
    ),
    "endpoint-refuses": FindingKind(
        WARNS,
        "{endpoint} answers {status}: telemetry is lost.",
        "Correct the address (OTLP over HTTP is on port 4318 and ends in /v1/traces), or OTEL_EXPORTER_OTLP_HEADERS.",
    ),
    # --- the shared store
    "store-mistake": FindingKind(
        WARNS,
        "The shared store has a mistake in its settings. {problem}",
        "Correct it. Without a store each process judges by its own calls only.",
    ),
    "store-unusable": FindingKind(
        WARNS,
        "The shared store {url} cannot be used: {reason}. Each process judges by its own calls only.",
        "Start the server, or correct OTEL_PYTHON_LOOPGUARD_STORE, the rights of its user, or the firewall; "
        "docs/how-to/shared-store.md has the settings.",
    ),
    "store-slow": FindingKind(
        WARNS,
        "The shared store {url} ({server}) answers in {ms} ms, near or above its time-out of {timeout} ms: some or all "
        "calls are judged without it.",
        "Use a server that is nearer, or raise the time-out: redis://...?timeout=0.2. Each tool call waits for it "
        "twice.",
    ),
    "store-evicts": FindingKind(
        WARNS,
        "The shared store {url} drops any key when its memory is full ({policy}): also turns that are in use.",
        "Set maxmemory-policy to volatile-ttl, or noeviction, or give the store a server of its own.",
    ),
    "store-unbounded": FindingKind(
        TELLS,
        "The shared store {url} has no bound on its memory (maxmemory 0).",
        "Set maxmemory with maxmemory-policy volatile-ttl, or a shorter OTEL_PYTHON_LOOPGUARD_STORE_EXPIRY.",
    ),
    "store-answers": FindingKind(
        TELLS,
        "The shared store {url} ({server}) answers in {ms} ms; the time-out is {timeout} ms.",
        "Nothing.",
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
