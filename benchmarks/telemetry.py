"""Write the tables of docs/telemetry.md from what a program exports: python -m benchmarks.telemetry [--check].

Types and places are those of telemetry that was really emitted. Descriptions are the docstrings of ``semconv``; what a
text can hold is their last paragraph, ``Holds: ...``. A name without a description is an error, and so is a constant of
an attribute or a metric that the program never emits.
"""

from __future__ import annotations

import ast
import inspect
import logging
import re
import sys
from collections import defaultdict
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context as otel_context
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult

import otel_loopguard as loopguard
from otel_loopguard import Policy, Rule, ToolCall, ToolLoopError, semconv
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.watch.exports import Exports
from otel_loopguard.cli.watch.live import LiveJudge
from otel_loopguard.cli.watch.otlp_messages import MalformedError
from otel_loopguard.cli.watch.report import WatchReport
from otel_loopguard.engine.ledger import Ledger
from otel_loopguard.engine.vocabulary import RUN_BUDGET, Action, Outcome, Trip, Usage
from otel_loopguard.guard.ending import ANSWERED
from otel_loopguard.instrumentation.call import GuardedCall
from otel_loopguard.instrumentation.functions.decorator import FUNCTION
from otel_loopguard.instrumentation.model_api import Sent
from otel_loopguard.instrumentation.model_reader import ReadCall
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.targets import Reading
from otel_loopguard.shield import Shield
from otel_loopguard.telemetry.call_span import CallSpan, NativeSpan
from otel_loopguard.telemetry.run_span import RunSpan
from otel_loopguard.telemetry.settings import Settings
from otel_loopguard.testing import Ask, Recording, Toolbox, guarded
from otel_loopguard.turns.scope import Scope, current_scope
from tests.scripted.langchain import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

try:
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter as InMemoryLogs
except ImportError:  # OpenTelemetry before 1.39
    from opentelemetry.sdk._logs.export import InMemoryLogExporter as InMemoryLogs

PAGE = Path(__file__).resolve().parents[1] / "docs" / "telemetry.md"
_KINDS = {"Sum": "counter", "Histogram": "histogram", "Gauge": "gauge"}
_TYPES = {str: "text", bool: "boolean", int: "number", float: "number"}
_PLACES = ("call", "run", "event", "log", "metric")
_TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


class Metric(NamedTuple):
    """A metric as it was exported."""

    kind: str
    unit: str
    description: str
    labels: frozenset[str]


class Exported:
    """The names that were exported: attributes with their types and places, spans by the first word, metrics."""

    def __init__(self) -> None:
        self.types: dict[str, set[str]] = defaultdict(set)
        self.places: dict[str, set[str]] = defaultdict(set)
        self.spans: set[str] = set()
        self.events: set[str] = set()
        self.metrics: dict[str, Metric] = {}

    def add_metrics(self, data: Any, prefix: str = "") -> None:
        """Add the metrics of an export, or those with this prefix."""
        for resource in data.resource_metrics:
            for metric in resource.scope_metrics[0].metrics:
                if not metric.name.startswith(prefix):
                    continue
                for point in metric.data.data_points:
                    self.add("metric", point.attributes)
                labels = frozenset(label for point in metric.data.data_points for label in point.attributes)
                kind = _KINDS[type(metric.data).__name__]
                self.metrics[metric.name] = Metric(kind, metric.unit, metric.description, labels)

    def add(self, place: str, attributes: Mapping[str, Any] | None) -> None:
        """Add the attributes of one span, event, record or data point."""
        for name, value in (attributes or {}).items():
            self.types[name].add(_TYPES[type(value)])
            self.places[name].add(place)


def exported() -> Exported:
    """Run a program that makes every span, event, record and measurement, and return what it exported."""
    found = Exported()
    prices, modes = {"*": {"input": 1, "output": 1}}, {"no_novelty": Rule(turns=1)}
    policy = Policy(cost_per_million_tokens=prices, currency="USD", abort_after=3, scope="conversation", modes=modes)
    with guarded(policy) as recording:
        _run_program(recording)
        for span in recording._spans.get_finished_spans():
            if span.instrumentation_scope is not None and span.instrumentation_scope.name == semconv.SCOPE:
                word = span.name.split()[0]
                found.spans.add(word)
                found.add("run" if word == semconv.OPERATION_INVOKE_AGENT else "call", span.attributes)
                for event in span.events:
                    found.events.add(event.name)
                    found.add("event", event.attributes)
        for record in recording.logs:
            found.events.add(str(record.event_name))
            found.add("log", record.attributes)
        found.add_metrics(recording._metrics.get_metrics_data())
    with watching() as (judge, metrics, _):
        judge.take(TracesData().SerializeToString())
        judge.take(_message([_other_call(), _other_call()]))
        with suppress(MalformedError):
            judge.take(b"no OTLP")
    found.add_metrics(metrics.data, prefix="loopguard.watch.")
    return found


@contextmanager
def watching(**settings: Any) -> Iterator[tuple[LiveJudge, KeptMetrics, InMemoryLogs]]:
    """Judge messages as `otel-loopguard watch --otlp` does; at the end all is exported."""
    metrics, logs = KeptMetrics(), InMemoryLogs()
    outlet = Exports([metrics], [logs], Shield(), interval=3600)
    policy = PolicyJudge(Policy())
    report = WatchReport(policy, outlet, Settings())
    judge = LiveJudge(policy, report, report.shield, **settings)
    report.watch(judge)
    outlet.start()
    yield judge, metrics, logs
    judge.close()
    outlet.close()


class KeptMetrics(MetricExporter):
    """Keeps the last export."""

    def __init__(self) -> None:
        super().__init__()
        self.data: Any = None

    def export(self, metrics_data: Any, *_: Any, **__: Any) -> MetricExportResult:
        """Keep it."""
        self.data = metrics_data
        return MetricExportResult.SUCCESS

    def force_flush(self, *_: Any) -> bool:
        """Do nothing."""
        return True

    def shutdown(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


def _message(spans: Iterable[Span]) -> bytes:
    resource = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
    resource.resource.attributes.add(key="service.name").value.string_value = "agent"
    return TracesData(resource_spans=[resource]).SerializeToString()


def _other_call() -> Span:
    span = Span(trace_id=bytes(15) + b"1", span_id=b"87654321", name="execute_tool search")
    span.attributes.add(key=semconv.OPERATION_NAME).value.string_value = "execute_tool"
    return span


def _run_program(recording: Recording) -> None:
    """Make calls of every sort: by hand, of a framework's agent, and of another instrumentation."""
    runtime: Any = recording.runtime
    known = ("look", "fetch", "wait", "open", "frobnicate")

    def call(tool: str, result: str | dict[str, str], **arguments: str) -> None:
        loopguard.call(tool, arguments, lambda **_: result, call_id="a call", known_tools=known)

    with loopguard.turn("a conversation", agent_name="helper"):
        for path in "aaab":
            call("look", f"there is {path}", path=path)
            current_scope().turn.thought(1)  # type: ignore[union-attr]  # it is in a turn
        for _ in range(2):
            call("fetch", {"text": "a long and steady description " * 5})
        for _ in range(2):
            call("wait", "the job is still running")
            call("look", "503 service unavailable, retry after 5 s", path="c")
            call("look", "status: finished", path="d")
            call("look", "no results", path="e")
        for number in range(3):
            call("frobnicate", f"queued: 7a{number}b5c9d")
        for path in "abc":
            call("open", "Error: the disk is full", path=path)
        call("a tool that is not registered", "")
        _ask_model(runtime)
    for _ in range(3):
        with loopguard.turn("a heartbeat"):
            call("look", "there is a", path="a")
    DRIVERS["agent-invoke"](Toolbox().functions(), [[Ask("read_file", {"path": "a.txt"})]] * 9)

    scope = Scope(runtime.guard.turn(), conversation_id="a conversation", agent_name="helper")
    run = RunSpan.start(runtime.providers, scope)
    with loopguard.turn(agent_name="helper"):
        turn: Any = current_scope().turn  # type: ignore[union-attr]  # it is in a turn
        turn.spend(Ledger(children=1, depth=1))
        runtime.reader.report(turn, Trip(RUN_BUDGET, "", 5, 4, Action.ABORT, reason="tree.calls"))
    scope.turn.spend(
        Ledger(2, 0, 900, 80, 500, unmetered=1, cost=0.25, children=1, depth=1, compactions=1, loop_tokens=980)
    )
    if run is not None:
        run.end(None, ANSWERED)
    runtime.usage.response(scope.turn.id, ["first"], Usage("gpt-5", 900, 80, 500), otel_context.get_current())
    runtime.providers.usage_of = runtime.usage.written_first
    written = Reading(ToolCall("look", {}, call_id="first"))
    with GuardedCall(runtime, FUNCTION, written, scope, None) as guarded_call:
        guarded_call.result("there is a")
    span = CallSpan(runtime.providers, ToolCall("look", {}), scope, NativeSpan.NONE)
    outcome = Outcome("there is a")
    decision = scope.turn.ran(span.call, outcome)
    span.start(ReadCall(span, decision, 0.0), 0)
    span.finish("executed", outcome, decision)
    other = recording.tracer_provider.get_tracer("another instrumentation")
    seen = {"gen_ai.tool.call.arguments": '{"q": "a"}', "gen_ai.tool.call.result": "b"}
    for _ in range(3):
        with other.start_as_current_span("execute_tool search") as span:
            span.set_attributes({semconv.OPERATION_NAME: "execute_tool", semconv.TOOL_NAME: "search", **seen})
    runtime.usage.close(scope.turn.id)
    runtime.shield.report("a site", ZeroDivisionError())
    runtime.providers.outlets().meters.store_failure("timeout")


def _ask_model(runtime: Any) -> None:
    """Make a request to a model, as the patched method of a client does."""
    body = {"messages": [{"role": "user", "content": "what is in a?"}]}
    exchange = runtime.reader.open(Sent(CHAT, body, "gpt-5", lambda _: ((), {}), lambda reply, _: reply))
    exchange.judge_calls()
    exchange.prepare(lambda: ToolLoopError, (), {})
    usage = {"prompt_tokens": 900, "completion_tokens": 80, "prompt_tokens_details": {"cached_tokens": 500}}
    exchange.whole({"choices": [], "usage": usage})


# --- the page ----------------------------------------------------------------------------------------------------


def constants() -> dict[str, tuple[str, str]]:
    """The value and the docstring of each name in ``semconv``, as they stand there."""
    found, last = {}, ""
    for node in ast.parse(Path(semconv.__file__).read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
            found[last] = getattr(semconv, last), ""
        elif last and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found[last] = found[last][0], inspect.cleandoc(str(node.value.value))
    return found


def is_attribute(constant: str, value: object) -> bool:
    """True of the constant of an attribute: all other names have no dot, or a prefix that tells what they are."""
    return isinstance(value, str) and "." in value and not constant.startswith(("METRIC_", "LOG_", "SCHEMA_"))


def tables(found: Exported) -> dict[str, str]:
    """The tables of the page. Raises ``LookupError`` if what is described is not what was emitted."""
    known = constants()
    described = {value: text for name, (value, text) in known.items() if is_attribute(name, value)}
    _match("attributes", set(described), set(found.types))
    _match("metrics", {value for name, (value, _) in known.items() if name.startswith("METRIC_")}, set(found.metrics))
    spans = {value: text for name, (value, text) in known.items() if name.startswith("SPAN_")}
    _match("spans", set(spans), found.spans)
    events = {known[name][0] for name in ("EVENT_TRIP", "LOG_TRIP")}
    _match("events", events, found.events)
    attributes = [_attribute(name, text, found) for name, text in described.items()]
    return {
        "spans": _table("span", "is", rows=((f"`{name} ...`", _markdown(text)) for name, text in spans.items())),
        "attributes": _table("attribute", "on", "is", "can hold", rows=attributes),
        "metrics": _table(
            "metric",
            "kind, unit",
            "counts",
            "labels",
            rows=(
                (f"`{name}`", f"{one.kind}, `{one.unit}`", one.description, _listed(one.labels))
                for name, one in sorted(found.metrics.items())
            ),
        ),
    }


def _match(what: str, described: set[str], emitted: set[str]) -> None:
    if described != emitted:
        raise LookupError(
            f"{what} without a constant: {sorted(emitted - described)}; never emitted: {sorted(described - emitted)}"
        )


def _attribute(name: str, text: str, found: Exported) -> tuple[str, ...]:
    description, _, holds = text.partition("Holds: ")
    (kind,) = found.types[name]
    if not description or (kind == "text") is not bool(holds):
        raise LookupError(f"{name} ({kind}): no description, or none of what it can hold")
    places = ", ".join(place for place in _PLACES if place in found.places[name])
    return f"`{name}`", places, _markdown(description), _markdown(holds) or kind


def _listed(labels: frozenset[str]) -> str:
    return ", ".join(f"`{label}`" for label in sorted(labels)) or "-"


def _markdown(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _table(*heads: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def page(text: str, made: Mapping[str, str]) -> str:
    """The page with these tables in it."""
    return _TABLE.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", text)


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` return 1 if it would change."""
    logging.disable()
    old = PAGE.read_text("utf-8")
    new = page(old, tables(exported()))
    if arguments == ["--check"]:
        if new != old:
            print("docs/telemetry.md is not up to date: run `python -m benchmarks.telemetry` and commit")
        return int(new != old)
    PAGE.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
