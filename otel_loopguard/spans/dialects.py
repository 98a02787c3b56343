"""Reads the tool spans of other instrumentations, each of which says in words of its own what was called.

What is read stays in the process: it is fingerprinted like the arguments and results of a guarded call.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from opentelemetry.trace import SpanKind, StatusCode

from otel_loopguard import semconv
from otel_loopguard.core.model import Outcome, ToolCall
from otel_loopguard.spans.open_spans import attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.sdk.trace import ReadableSpan

_TOOL_SIGNS: Final = {
    "gen_ai.operation.name": ("execute_tool",),  # OpenTelemetry, Pydantic AI, Agent Framework, ADK, Strands, ...
    "openinference.span.kind": ("TOOL",),
    "traceloop.span.kind": ("tool",),  # OpenLLMetry
    "langfuse.observation.type": ("tool",),
    "mlflow.spanType": ('"TOOL"', "TOOL"),
    "mcp.method.name": ("tools/call",),  # the client of the MCP SDK
}
"""The first of these that a span has says whether it is a tool call."""
SIGNS: Final = frozenset(_TOOL_SIGNS)

_NAMES = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "mlflow.spanFunctionName")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "traceloop.entity.input",
    "input.value",
    "gcp.vertex.agent.tool_call_args",
    "langfuse.observation.input",
    "mlflow.spanInputs",
)
_RESULTS = (
    "gen_ai.tool.call.result",
    "tool_response",
    "traceloop.entity.output",
    "output.value",
    "gcp.vertex.agent.tool_response",
    "langfuse.observation.output",
    "mlflow.spanOutputs",
)
_ARGUMENTS_EVENT = ("gen_ai.tool.message", "content")  # Strands tells both in events
_RESULT_EVENT = ("gen_ai.choice", "message")
_ARGUMENTS_HASH = "gen_ai.tool.call.arguments_hash"
_RESULT_HASH = "gen_ai.tool.call.result_hash"
_CALL_ID = "gen_ai.tool.call.id"

_UNTOLD = ("", "{}", "[]", "null", "None", '""', "__REDACTED__", "[REDACTED]", "<not specified>", "<not serializable>")
"""What stands where an exporter was told to keep a value back."""
_LONGEST_PARSED = 65_536
_DEEPEST = 4
_NO_DIGITS = str.maketrans("0123456789", "ghijklmnop")
_numbers = itertools.count()


class ForeignCall(NamedTuple):
    """A tool call as somebody else's span tells it, once it is over."""

    call: ToolCall
    outcome: Outcome


def tool_name(span: ReadableSpan) -> str | None:
    """The tool that this span is a call of; None where it is no tool call, or the server's half of one."""
    attributes = attributes_of(span)
    for sign, values in _TOOL_SIGNS.items():
        if sign in attributes:
            if attributes[sign] not in values or span.kind is SpanKind.SERVER:
                return None
            return _name(span, attributes)
    return None


def suspected_tool(span: ReadableSpan) -> str | None:
    """The tool of an open span. Some say only at their end that they are a tool call; their name tells it before."""
    name = tool_name(span)
    if name is None and span.name.startswith(semconv.SPAN_EXECUTE_TOOL + " "):
        name = span.name[len(semconv.SPAN_EXECUTE_TOOL) + 1 :]
    return name


def same_tool(one: str, other: str | None) -> bool:
    """Whether two spans tell of the same tool; one of them may put its server's name before it."""
    if other is None or one == other:
        return one == other
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.endswith(tuple(separator + shorter for separator in ("__", ".", "/", ":")))


def _name(span: ReadableSpan, attributes: Mapping[str, Any]) -> str:
    for key in _NAMES:
        if isinstance(name := attributes.get(key), str) and name:
            return name.strip('"')
    for prefix in ("execute_tool ", "MCP send tools/call ", "tools/call "):
        if span.name.startswith(prefix):
            return span.name[len(prefix) :]
    return span.name


def read(span: ReadableSpan) -> ForeignCall | None:
    """The call, with what is known of its arguments and its result."""
    attributes = attributes_of(span)
    if semconv.TURN_ID in attributes:  # ours, or one that we wrote on
        return None
    name = tool_name(span)
    if name is None:
        return None
    result = _first(attributes, _RESULTS) or _told_by_event(span, _RESULT_EVENT)
    message = _message(result)
    call_id = attributes.get(_CALL_ID) or (message and message["tool_call_id"])
    return ForeignCall(
        ToolCall(name, _arguments(span, attributes), call_id), _outcome(span, attributes, result, message)
    )


def _arguments(span: ReadableSpan, attributes: Mapping[str, Any]) -> Any:
    if (given := attributes.get(_ARGUMENTS_HASH)) is not None:
        return {"hash": given}
    value = _first(attributes, _ARGUMENTS) or _told_by_event(span, _ARGUMENTS_EVENT)
    if isinstance(value, dict) and "input_str" in value:  # OpenLLMetry hands on what LangChain's callback was given
        value = value.get("inputs") or value["input_str"]
    if isinstance(value, dict) and not any(value.values()) and value.keys() <= {"args", "kwargs"}:
        value = None
    return untold() if value in (None, {}, []) else value


def _outcome(span: ReadableSpan, attributes: Mapping[str, Any], result: Any, message: Any) -> Outcome:
    if span.status.status_code is StatusCode.ERROR:
        return Outcome(error=f"{attributes.get(semconv.ERROR_TYPE)}: {_description(span)}")
    if (given := attributes.get(_RESULT_HASH)) is not None:
        # Words with digits in them are taken for ids when results are compared, and this one is the answer itself.
        return Outcome(result=str(given).translate(_NO_DIGITS))
    if result is None:
        return Outcome(result=untold())
    if message is not None:
        return Outcome(result=message["content"], is_error=True if message.get("status") == "error" else None)
    enveloped = isinstance(result, dict) and result.keys() == {"output", "kwargs"}
    return Outcome(result=result["output"] if enveloped else result)


def _description(span: ReadableSpan) -> Any:
    return span.status.description or _told_by_event(span, ("exception", "exception.message"))


def _told_by_event(span: ReadableSpan, which: tuple[str, str]) -> Any:
    name, key = which
    told = [(event.attributes or {}).get(key) for event in span.events if event.name == name]
    return _parsed(told[-1]) if told else None


def untold() -> str:
    """Equal to nothing, and, without digits, like nothing: what is not told must not make a loop."""
    return f"untold {str(next(_numbers)).translate(_NO_DIGITS)}"


def _first(attributes: Mapping[str, Any], keys: Iterable[str]) -> Any:
    for key in keys:
        if key in attributes:
            value = _parsed(attributes[key])
            if value is not None:
                return value
    return None


def _parsed(value: Any) -> Any:
    """The object that a text stands for; None where the exporter kept it back."""
    if not isinstance(value, str):
        return value
    if value.strip() in _UNTOLD:
        return None
    if value[:1] in "{[" and len(value) <= _LONGEST_PARSED:
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value  # a text that only begins like an object
    return value


def _message(value: Any, depth: int = 0) -> Any:
    """The message in a result, under whatever envelope: LangChain's carry ids of their own, which differ each time."""
    if isinstance(value, str) and depth:
        value = _parsed(value)
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None
    if "content" in value and "tool_call_id" in value:
        return value
    found = (_message(value.get(key), depth + 1) for key in ("output", "kwargs", "data"))
    return next((one for one in found if one is not None), None)
