"""Every kind of finding, with its remedy. ``docs/doctor.md`` has a section for each, which says what it means."""

from __future__ import annotations

from typing import NamedTuple

from otel_loopguard.errors import DOCS
from otel_loopguard.telemetry import unseen

BREAKS, OPEN, WARNS, TELLS = "breaks", "open", "warns", "tells"
"""The levels of findings. ``breaks``: a problem, loops are not stopped. ``open``: it is not known whether they
are. Both make the exit status 1. ``warns``: something else is wrong, such as lost telemetry. ``tells``: a note."""
_PAGE = f"{DOCS}/doctor.md"


class FindingKind(NamedTuple):
    """A kind of finding."""

    level: str
    text: str
    """With places such as ``{name}`` for the values of a finding."""
    remedy: str


KINDS = {
    # --- the guard itself
    "not-loaded": FindingKind(BREAKS,
        "The program ran without the guard: nothing of otel_loopguard was loaded in it.",
        "Install otel-loopguard for the Python that runs the program, and start that without `-I` and `-E`."),
    "start-failed": FindingKind(BREAKS,
        "OpenTelemetry could not start, and so loaded no instrumentation. {reason}",
        "Correct the setting that is wrong."),
    "wrong-name": FindingKind(WARNS,
        "{problem} It is left out.",
        "Correct the name, or install the package that has it."),
    "switched-off": FindingKind(BREAKS,
        "The guard is not on.",
        "Take `loopguard` and `*` out of OTEL_PYTHON_DISABLED_INSTRUMENTATIONS. If they are not in it, look for a call "
        "of `uninstrument()` in the program."),
    "action-off": FindingKind(BREAKS,
        "The policy's action is off: no call is judged ({origin}).",
        "Set OTEL_PYTHON_LOOPGUARD_ACTION=block."),
    "only-observing": FindingKind(WARNS,
        "The policy's action is {action}: loops are reported, and no call is refused ({origin}).",
        "If the reported loops are real ones, set OTEL_PYTHON_LOOPGUARD_ACTION=block."),
    "exempt": FindingKind(WARNS,
        "The policy refuses no call of these tools, and none for these modes: {names}.",
        "Nothing, if their loops may run on. Else remove that `action`, or that `block = 0`."),
    "policy-mistake": FindingKind(BREAKS,
        "The policy has a mistake. Until it is corrected, {in_force}. {problem}",
        "Correct it; `otel-loopguard policy check FILE` names all mistakes of a file."),
    "variable-mistake": FindingKind(BREAKS,
        "An environment variable has a mistake. Until it is corrected, {in_force}. {problem}",
        "Correct the variable, or remove it."),
    "limit-without-effect": FindingKind(WARNS,
        "A setting of the policy has no effect. {problem}",
        "Do as the sentence says, or remove the setting."),
    "unread-variable": FindingKind(WARNS,
        "A variable is set that nothing reads. {problem}",
        "Correct its name, or remove it."),
    "hash-key": FindingKind(WARNS,
        "The key of the fingerprints is missing, or can be guessed. {problem}",
        "Write a key into a file (`openssl rand -hex 32`), and name it in OTEL_PYTHON_LOOPGUARD_HASH_KEY_FILE."),
    "internal-error": FindingKind(BREAKS,
        "The guard had {faults} of its own at {site}, and let these calls run.",
        "Update otel-loopguard; if the fault stays, please report it with this output."),
    # --- frameworks
    "no-framework": FindingKind(TELLS,
        "No supported framework and no client of a model provider is installed.",
        "Guard your own functions with @otel_loopguard.tool, or your own loop with otel_loopguard.call."),
    "not-guarded": FindingKind(WARNS,
        "{name} {version} is installed; its tools are not guarded.",
        "Put @otel_loopguard.tool on the functions of its tools, below the framework's own decorator, and one "
        "message's work into `with otel_loopguard.turn():`."),
    "only-in-requests": FindingKind(WARNS,
        "{name} {version} is installed; its tools are not guarded. Its calls are judged in its requests through "
        "{clients}, and there only.",
        "Run it under the doctor: `calls` must not be `none`. If it is, guard its tools with @otel_loopguard.tool."),
    "guarded-by-hand": FindingKind(TELLS,
        "{name} {version} has no patch: of its tools, only those with @otel_loopguard.tool are guarded ({calls}).",
        "Nothing, if all its tools have @otel_loopguard.tool. Else add it to the others."),
    "client-not-read": FindingKind(TELLS, *unseen.CLIENTS),
    "requests-not-read": FindingKind(WARNS,
        "{requests} by HTTP to paths of models' APIs ({paths}) went through no client that is read.",
        "If an agent made them, guard its tools with @otel_loopguard.tool, or send them through a client that is read: "
        "docs/models.md"),
    "targets-missing": FindingKind(BREAKS,
        "{framework} {versions}: nothing to patch in {module}; its {subject} are not guarded.",
        "Update otel-loopguard, or pin the framework to a supported version: docs/frameworks.md"),
    "patch-lost": FindingKind(BREAKS,
        "{framework} {versions}: {place} is not patched; its {subject} are not guarded.",
        "Another package has replaced the patched function. Import the framework before that package, or call "
        "otel_loopguard.instrument() after it."),
    "newer-than-tested": FindingKind(TELLS,
        "{found} is newer than {tested}, the newest that was tested.",
        "Nothing, if its calls are guarded. A newer otel-loopguard may know it: docs/reference/versions.md"),
    "other-replacement": FindingKind(WARNS,
        "{name} is on, too: it may have replaced the function that is not patched.",
        "Switch it off to see: OTEL_PYTHON_DISABLED_INSTRUMENTATIONS, with its entry point's name."),
    "text-protocol": FindingKind(WARNS,
        "{name} asks for tool calls in plain text: its loop cannot be read in the requests to the model.",
        "Guard its tools with @otel_loopguard.tool."),
    "loop-ran": FindingKind(BREAKS,
        "The same call, made six times, was not refused in the self-test.",
        "See the other findings; if there are none, please report it with this output."),
    # --- calls of the program
    "no-calls": FindingKind(OPEN,
        "The guard saw no tool call of the program.",
        "Run a task that calls tools. If it did, put @otel_loopguard.tool on their functions, and one message's work "
        "into `with otel_loopguard.turn():`."),
    "replies-not-answered": FindingKind(WARNS, *unseen.REPLIES),
    "equal-turns": FindingKind(WARNS, *unseen.TURNS),
    "requests-without-tools": FindingKind(WARNS, *unseen.TEXT),
    "tokens-unknown": FindingKind(WARNS,
        "{requests} did not tell their tokens: they are unknown in the turn's ledger, and no budget counts them.",
        "Have streams tell them: `stream_options={\"include_usage\": True}` in OpenAI's Chat Completions."),
    "no-price": FindingKind(WARNS,
        "{requests} were to models without a price in the policy: its budget of cost does not count them.",
        "Add their models to [cost_per_million_tokens]."),
    "only-observed": FindingKind(BREAKS,
        "Not guarded: {calls} of no known turn (source: {source}). Loops in them are reported, and not stopped.",
        "Put one message's work into `with otel_loopguard.turn():`."),
    "abort-caught": FindingKind(WARNS,
        "The program catches the RunStopped that ends a run, and goes on ({turns}).",
        "Let RunStopped through, or limit the steps of the agent."),
    "spans-only": FindingKind(BREAKS,
        "Not guarded: {calls} known only from spans of other instrumentations. They had run, and are never refused.",
        "Guard the functions themselves with @otel_loopguard.tool."),
    "not-ended": FindingKind(TELLS,
        "A process of the program was killed, or ended with os._exit() (pid {pid}): its count may be too low.",
        "Nothing, if you stopped it."),
    "program-failed": FindingKind(WARNS,
        "The program ended with {status}.",
        "Read its own output; no error of the guard ended it."),
    "ended-by-guard": FindingKind(WARNS,
        "The program ended with {status}, because it does not catch the RunStopped of a run that the guard ended.",
        "Catch it where one message's work ends, and answer the user: "
        f"{DOCS}/how-to/catch-tool-loop-error.md"),
    # --- telemetry
    "no-sdk": FindingKind(TELLS,
        "No OpenTelemetry SDK is set up: nothing is exported.",
        "Nothing, if you want no spans and metrics. Else: pip install opentelemetry-distro"),
    "sdk-disabled": FindingKind(WARNS,
        "The OpenTelemetry SDK is disabled: nothing is exported.",
        "Remove OTEL_SDK_DISABLED."),
    "no-processor": FindingKind(WARNS,
        "The tracer provider {provider} lacks our span processor: spans of other instrumentations are not read.",
        "Call otel_loopguard.attach(provider) where the provider is made."),
    "sampled-out": FindingKind(WARNS,
        "The sampler {sampler} keeps {share} of new traces: loops in the others are stopped, but have no spans.",
        "Set OTEL_TRACES_SAMPLER=parentbased_always_on, and sample in the collector."),
    "no-exporter": FindingKind(WARNS,
        "The tracer provider has no exporter: spans are not exported.",
        "Set OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT."),
    "exporter-none": FindingKind(TELLS,
        "OTEL_TRACES_EXPORTER is none: spans are not exported.",
        "Nothing, if there is no collector. With one, set OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT."),
    "console-exporter": FindingKind(WARNS,
        "The console exporter prints the spans, where no dashboard can read them.",
        "Set OTEL_TRACES_EXPORTER=otlp and OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER=none without a "
        "collector."),
    "no-service-name": FindingKind(WARNS,
        "The program has no service name, only {name}.",
        "Set OTEL_SERVICE_NAME."),
    "endpoint-malformed": FindingKind(WARNS,
        "{endpoint} is no address of a collector ({reason}): telemetry is lost.",
        "Set OTEL_EXPORTER_OTLP_ENDPOINT, such as http://localhost:4317 for gRPC, http://localhost:4318 for HTTP."),
    "endpoint-silent": FindingKind(WARNS,
        "No answer from {endpoint} ({reason}): telemetry is lost.",
        "Start the collector there, or correct OTEL_EXPORTER_OTLP_ENDPOINT. Without a collector, set "
        "OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER and OTEL_LOGS_EXPORTER to none."),
    "endpoint-refuses": FindingKind(WARNS,
        "{endpoint} answers {status}: telemetry is lost.",
        "Correct the address, or OTEL_EXPORTER_OTLP_HEADERS."),
    # --- the shared store
    "store-mistake": FindingKind(WARNS,
        "The shared store has a mistake in its settings. {problem}",
        "Correct it. Without a store each process judges by its own calls only."),
    "store-unusable": FindingKind(WARNS,
        "The shared store {url} cannot be used: {reason}. Each process judges by its own calls only.",
        f"Start the server, or correct OTEL_PYTHON_LOOPGUARD_STORE: {DOCS}/how-to/shared-store.md"),
    "store-slow": FindingKind(WARNS,
        "The shared store {url} ({server}) answers in {ms} ms; the time-out is {timeout} ms.",
        "Use a server that is nearer, or raise the time-out, in seconds: redis://...?timeout=0.2"),
    "store-evicts": FindingKind(WARNS,
        "The shared store {url} drops any key when its memory is full ({policy}), also those of turns in progress.",
        "Set maxmemory-policy to volatile-ttl or noeviction."),
    "store-unbounded": FindingKind(TELLS,
        "The shared store {url} has no bound on its memory (maxmemory 0).",
        "Set maxmemory, with maxmemory-policy volatile-ttl."),
    "store-answers": FindingKind(TELLS,
        "The shared store {url} ({server}) answers in {ms} ms; the time-out is {timeout} ms.",
        "Nothing."),
    # --- hooks of coding agents
    "hooks-missing": FindingKind(OPEN,
        "Our hooks are not in the settings of {who}, neither the user's nor this folder's.",
        "Install them: otel-loopguard hooks install, with the program's name."),
    "hooks-unreadable": FindingKind(BREAKS,
        "The settings of a program cannot be read. {problem}",
        "Correct the file."),
    "hooks-folder": FindingKind(BREAKS,
        "The judge's folder cannot be used, so every call runs. {problem}",
        "Do as the sentence says."),
    "hooks-incomplete": FindingKind(BREAKS,
        "{path} has not all hooks of this version ({events}).",
        "Install them again: otel-loopguard hooks install, with the program's name."),
    "hooks-twice": FindingKind(WARNS,
        "{who} has our hooks in the user's settings and in this folder's: it may ask twice about each call.",
        "Take one of them out: otel-loopguard hooks uninstall, with or without --project."),
    "hooks-to-do": FindingKind(TELLS,
        "{who} runs the hooks only if you do one thing more: {still}",
        "Nothing, if you have done it."),
    "judge-silent": FindingKind(BREAKS,
        "No judge answers, though a session has begun: every call runs.",
        "See why: otel-loopguard hooks serve. What the last judge has said: otel-loopguard hooks log"),
    "judge-version": FindingKind(WARNS,
        "The judge that runs is of version {running}, the package of version {installed}.",
        "End it: otel-loopguard hooks stop. The next session starts one of this version."),
    "hook-silent": FindingKind(BREAKS,
        "A hook of {who} does not reach the judge ({reason}), so every call runs.",
        "Install the hooks again: otel-loopguard hooks install, with the program's name."),
    "hook-differs": FindingKind(WARNS,
        "Of equal calls in {who} {found} was refused, and by the policy it is {wanted}.",
        "End the judge, which keeps the policy of its start: otel-loopguard hooks stop. If that changes nothing, the "
        "machine is too busy, and answers come too late."),
    "hook-slow": FindingKind(WARNS,
        "A hook of {who} takes {ms} ms, and waits {limit} ms at most for the judge: then the call runs.",
        "Run this again when the machine is less busy."),
    "hook-by-python": FindingKind(WARNS,
        "Each hook of {who} starts a Python, because there was no perl and no curl.",
        "Install one of them, then the hooks again."),
    "plugin-not-run": FindingKind(TELLS,
        "The plugin of {who} runs in the program only: the judge was asked as it asks.",
        "Nothing."),
    # --- others
    "other-instrumentation": FindingKind(TELLS, "{name} is on, too.", "Nothing: it works together with the guard."),
    "other-guard": FindingKind(TELLS, "{name} is in use, too.", "Nothing, if both are wanted."),
}  # fmt: skip


class Finding(NamedTuple):
    """One finding about an environment or a program."""

    code: str
    level: str
    text: str
    remedy: str

    @property
    def page(self) -> str:
        """The address of the section of docs/doctor.md about this kind of finding."""
        return f"{_PAGE}#{self.code}"


def finding(code: str, *, level: str | None = None, **values: object) -> Finding:
    """Return a finding of the kind ``code``, a key of ``KINDS``, with these values in its text.

    ``level`` replaces that of the kind, where the program makes it matter more.
    """
    kind = KINDS[code]
    return Finding(code, level or kind.level, kind.text.format(**values), kind.remedy)
