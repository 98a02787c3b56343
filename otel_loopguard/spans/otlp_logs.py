"""Read tool calls from OTLP log records, by one table: a row for each program whose spans do not have the arguments.

A record becomes the span of a call with the attributes of OpenTelemetry, and is read and judged as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from otel_loopguard import semconv
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.spans import otlp
from otel_loopguard.spans.dialects import SpanView
from otel_loopguard.spans.otlp import ToolSpan, add_around
from otel_loopguard.spans.service_name import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from otel_loopguard.spans.ancestry import Ancestry
    from otel_loopguard.spans.otlp import ModelSpan

_MILLISECOND: Final = 1_000_000
_MOST_DIGITS: Final = 12


class LogDialect(NamedTuple):
    """One row: where the log records of a program have the parts of a tool call that has run."""

    name: str
    event: str
    """The value of ``event.name``."""
    tool: Callable[[Mapping[str, Any]], str]
    """Returns the name of the tool from the attributes."""
    arguments: str
    call_id: str
    conversation: tuple[str, ...]
    """The attributes that make the conversation's id: of the session, and of a sub-agent."""
    error: str
    """The attribute with the text of a call that failed."""
    result: str | None = None
    """The attribute with the result; None if the program writes none."""


def _tool_of_claude_code(attributes: Mapping[str, Any]) -> str:
    """A tool of an MCP server has its name among parameters, and that of all such tools in its place."""
    try:
        found = orjson.loads(attributes.get("tool_parameters") or "{}")
        return f"mcp__{found['mcp_server_name']}__{found['mcp_tool_name']}"
    except (ValueError, KeyError, TypeError) as error:
        pass_interrupt(error)
        return str(attributes["tool_name"])


def _tool_of_codex(attributes: Mapping[str, Any]) -> str:
    server, tool = attributes.get("tool_namespace"), str(attributes["tool_name"])
    return f"{server}__{tool}" if attributes.get("mcp_server") else tool


LOG_DIALECTS: Final = (
    LogDialect(
        "Claude Code",
        "tool_result",
        _tool_of_claude_code,
        arguments="tool_input",
        call_id="tool_use_id",
        conversation=("session.id", "agent_id"),
        error="error",
    ),
    LogDialect(
        "Codex CLI",
        "codex.tool_result",
        _tool_of_codex,
        arguments="arguments",
        call_id="call_id",
        conversation=("conversation.id",),
        error="output",
        result="output",
    ),
)
_ROWS: Final = {row.event: row for row in LOG_DIALECTS}


class LogRecord(NamedTuple):
    """The parts of a log record that are read here, whether it comes in JSON or in protobuf."""

    attributes: Mapping[str, Any]
    trace: str
    span: str
    """The span that it was written in, which is around the call."""
    time: int
    service: Service
    scope: str


def read_line(line: Mapping[str, Any], ancestry: Ancestry) -> Iterator[ToolSpan | ModelSpan]:
    """Yield the calls of one parsed line: those in its log records, or in its spans, with the model requests there."""
    return calls_in(_records(line), ancestry) if "resourceLogs" in line else otlp.spans_of(line, ancestry)


def calls_in(records: Iterable[LogRecord], ancestry: Ancestry) -> Iterator[ToolSpan]:
    """Yield the tool calls in log records. Add each to ``ancestry``."""
    for record in records:
        row = _ROWS.get(str(record.attributes.get("event.name")))
        if row is not None and row.call_id in record.attributes:
            yield _call(row, record, ancestry)


def _call(row: LogDialect, record: LogRecord, ancestry: Ancestry) -> ToolSpan:
    attributes, tool = record.attributes, row.tool(record.attributes)
    ids = str(attributes[row.call_id]), record.span
    conversation = "/".join(str(attributes[key]) for key in row.conversation if attributes.get(key)) or None
    trace = record.trace or conversation or ""
    found = {
        semconv.OPERATION_NAME: semconv.OPERATION_EXECUTE_TOOL,
        semconv.TOOL_NAME: tool,
        semconv.TOOL_CALL_ID: ids[0],
        "gen_ai.tool.call.arguments": attributes.get(row.arguments),
    }
    failed = str(attributes.get("success")).lower() == "false"
    if row.result is not None and not failed:
        found["gen_ai.tool.call.result"] = attributes.get(row.result)
    add_around(ancestry, trace, ids, found, conversation, tool)
    view = SpanView(f"{semconv.SPAN_EXECUTE_TOOL} {tool}", found, (), failed, attributes.get(row.error))
    end, scope = record.time, record.scope
    lasted = str(attributes.get("duration_ms"))
    start = max(0, end - int(lasted) * _MILLISECOND) if lasted.isdecimal() and len(lasted) < _MOST_DIGITS else end
    return ToolSpan(
        trace, tool, (0, start), start, end, False, trace, view, *ids, conversation, record.service, scope  # noqa: FBT003 - a field
    )  # fmt: skip


def _records(line: Mapping[str, Any]) -> Iterator[LogRecord]:
    for resource in line["resourceLogs"]:
        service = Service.of(otlp.attributes_of(resource.get("resource", {})))
        for scope in resource.get("scopeLogs", ()):
            name = str(scope.get("scope", {}).get("name", ""))
            for one in scope.get("logRecords", ()):
                time = otlp.time_of(one.get("timeUnixNano", 0)) or otlp.time_of(one.get("observedTimeUnixNano", 0))
                ids = str(one.get("traceId", "")), str(one.get("spanId", ""))
                yield LogRecord(otlp.attributes_of(one), *ids, time, service, name)
