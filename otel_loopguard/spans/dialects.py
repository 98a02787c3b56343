"""Read tool calls from the spans of other instrumentations, by one table: a row for each dialect.

A span may match several rows: an ``execute_tool`` span of OpenLLMetry has the attributes of OpenTelemetry, too. The
matching rows are read in the order of the table, and the first one that has a value wins.

Live spans and ``otel-loopguard replay`` are read by this table, so both get the same verdicts. Values stay in the
process: they are fingerprinted like the arguments and results of a guarded call.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from otel_loopguard import semconv
from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class SpanView(NamedTuple):
    """The parts of a span that the dialects read, whether it comes from the SDK or from OTLP."""

    name: str
    attributes: Mapping[str, Any]
    events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """The name and the attributes of each event."""
    failed: bool = False
    description: str | None = None
    """The description of the span's status, or None."""
    is_server: bool = False


class SpanCall(NamedTuple):
    """A tool call, read from the span of another instrumentation."""

    call: ToolCall
    outcome: Outcome
    has_arguments: bool
    """False if the span has no arguments: then no mode can judge the call."""
    has_result: bool
    """False if the span has no result: then the outcome has a text that equals no other result."""


# --- envelopes ---------------------------------------------------------------------------------------------------


def _function_arguments(value: Any) -> Any:
    """Return the keyword arguments of ``{"args": [], "kwargs": {...}}``; any other value as it is."""
    if isinstance(value, dict) and value and value.keys() <= {"args", "kwargs"}:
        return value if value.get("args") else value.get("kwargs") or {}
    return value


def _callback_arguments(value: Any) -> Any:
    """Return the tool's arguments from the input of a LangChain callback, which also has tags, metadata and ids."""
    if isinstance(value, dict) and ("input_str" in value or ("inputs" in value and "tags" in value)):
        inputs = value.get("inputs")
        return inputs if isinstance(inputs, dict) else value.get("input_str") or None
    return _function_arguments(value)


def _callback_result(value: Any) -> Any:
    """Return the tool's result from the output of a LangChain callback; any other value as it is."""
    return value["output"] if isinstance(value, dict) and value.keys() == {"output", "kwargs"} else value


def _run_outputs(value: Any) -> Any:
    """Return the result from the outputs of a LangSmith run; any other value as it is."""
    return value["output"] if isinstance(value, dict) and value.keys() == {"output"} else value


def _gemini_arguments(value: Any) -> Any:
    """Return the tool's arguments from a request of Gemini CLI; any other value as it is."""
    return value.get("args", value) if isinstance(value, dict) else value


def _gemini_response(value: Any) -> Any:
    """Return what the model reads from a call of Gemini CLI, without the call's id; any other value as it is."""
    try:
        return [part["functionResponse"]["response"] for part in value["response"]["responseParts"]]
    except (KeyError, TypeError):
        return value


# --- the table ---------------------------------------------------------------------------------------------------


class SpanDialect(NamedTuple):
    """One row: where the spans of an instrumentation have the parts of a tool call.

    If a row names several attributes for one part, the first one that has a value is read.
    """

    name: str
    sign: tuple[str, tuple[str, ...]]
    """An attribute, and the values of it that make a span a tool call."""
    span_names: tuple[str, ...] = ()
    """What span names have before the name of the tool."""
    suffix: str = ""
    """What span names have after the name of the tool."""
    tool: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    arguments_hash: str | None = None
    result_hash: str | None = None
    arguments_event: tuple[str, str] | None = None
    """The name of an event, and the attribute of the event that has the arguments."""
    result_event: tuple[str, str] | None = None
    open_arguments: Callable[[Any], Any] | None = None
    """Returns the arguments from the value of the attribute, which has more than these."""
    open_result: Callable[[Any], Any] | None = None
    hidden: frozenset[str] = frozenset()
    """Texts that stand for a hidden value in this dialect only."""
    hides_as_empty: bool = False
    """True if ``{}`` stands for hidden arguments, too. It is a value where the span shows the result."""
    in_logs: bool = False
    """True if the program's calls are read in its log records (``otlp_logs``), and these spans are none."""
    not_tools: frozenset[str] = frozenset()
    """Names in place of a tool's that mean: this span is no tool call."""


_GENAI_SIGN: Final = (semconv.OPERATION_NAME, (semconv.OPERATION_EXECUTE_TOOL,))

DIALECTS: Final = (
    SpanDialect(  # LangChain, MCP, ``@tool``. Its packages for other frameworks write the attributes of OpenTelemetry.
        "OpenLLMetry",
        ("traceloop.span.kind", ("tool",)),
        suffix=".tool",
        tool=("traceloop.entity.name",),
        arguments=("traceloop.entity.input",),
        results=("traceloop.entity.output",),
        open_arguments=_callback_arguments,
        open_result=_callback_result,
    ),
    SpanDialect(  # ``tool.parameters`` is the schema in some of its packages and the arguments in others: not read.
        "OpenInference",
        ("openinference.span.kind", ("TOOL",)),
        tool=("tool.name",),
        arguments=("input.value",),
        results=("output.value",),
        open_arguments=_function_arguments,
    ),
    SpanDialect(
        "Langfuse",
        ("langfuse.observation.type", ("tool",)),
        arguments=("langfuse.observation.input",),
        results=("langfuse.observation.output",),
        open_arguments=_function_arguments,
    ),
    SpanDialect(
        "LangSmith",
        ("langsmith.span.kind", ("tool",)),
        tool=("langsmith.trace.name",),
        arguments=("gen_ai.prompt",),
        results=("gen_ai.completion",),
        open_result=_run_outputs,
        hides_as_empty=True,
    ),
    SpanDialect(
        "MLflow",
        ("mlflow.spanType", ('"TOOL"', "TOOL")),
        tool=("mlflow.spanFunctionName",),
        arguments=("mlflow.spanInputs",),
        results=("mlflow.spanOutputs",),
    ),
    SpanDialect(  # The client of the MCP SDK writes neither arguments nor results.
        "MCP SDK client",
        ("mcp.method.name", ("tools/call",)),
        span_names=("MCP send tools/call ", "tools/call "),
    ),
    SpanDialect(  # Of JavaScript.
        "Vercel AI SDK",
        ("ai.operationId", ("ai.toolCall",)),
        tool=("ai.toolCall.name",),
        arguments=("ai.toolCall.args",),
        results=("ai.toolCall.result",),
        call_id=("ai.toolCall.id",),
    ),
    SpanDialect("Claude Code", ("span.type", ("tool",)), in_logs=True),
    SpanDialect(
        "Gemini CLI",
        (semconv.OPERATION_NAME, ("tool_call",)),
        tool=(semconv.TOOL_NAME,),
        arguments=("gen_ai.input.messages",),
        results=("gen_ai.output.messages",),
        call_id=("gen_ai.tool.call_id",),
        open_arguments=_gemini_arguments,
        open_result=_gemini_response,
    ),
    SpanDialect(
        "Vertex AI and ADK",
        _GENAI_SIGN,
        arguments=("gcp.vertex.agent.tool_call_args",),
        results=("gcp.vertex.agent.tool_response",),
        hidden=frozenset({"N/A"}),
        hides_as_empty=True,
        not_tools=frozenset({"(merged tools)"}),
    ),
    SpanDialect("Logfire and Pydantic AI", _GENAI_SIGN, arguments=("tool_arguments",), results=("tool_response",)),
    SpanDialect(
        "Strands",
        _GENAI_SIGN,
        arguments_event=("gen_ai.tool.message", "content"),
        result_event=("gen_ai.choice", "message"),
    ),
    # Also Semantic Kernel, Agent Framework, AG2, and AutoGen, which writes neither arguments nor results.
    SpanDialect(
        "OpenTelemetry GenAI",
        _GENAI_SIGN,
        span_names=(f"{semconv.SPAN_EXECUTE_TOOL} ",),
        tool=(semconv.TOOL_NAME,),
        arguments=("gen_ai.tool.call.arguments",),
        results=("gen_ai.tool.call.result",),
        call_id=(semconv.TOOL_CALL_ID,),
        arguments_hash="gen_ai.tool.call.arguments_hash",
        result_hash="gen_ai.tool.call.result_hash",
    ),
)

AGENTS: Final = {
    semconv.OPERATION_NAME: ("invoke_agent", "invoke_workflow", "agent_call"),
    "traceloop.span.kind": ("workflow", "agent"),
    "openinference.span.kind": ("AGENT",),
    "langfuse.observation.type": ("agent",),
    "mlflow.spanType": ('"AGENT"', "AGENT"),
    "ai.operationId": ("ai.generateText", "ai.streamText"),
}
"""Attributes, and the values of each that make a span an agent's run."""
CONVERSATIONS: Final = {
    "openinference.span.kind": "session.id",
    "langfuse.observation.type": "session.id",
    "ai.operationId": "ai.telemetry.metadata.sessionId",
}
"""The attribute with the conversation's id, by the attribute that marks a dialect. Others use OpenTelemetry's."""

_HIDDEN: Final = frozenset(
    {"", "[]", "null", "None", '""', "__REDACTED__", "[REDACTED]", "<not specified>", "<not serializable>"}
)
"""Texts in place of a value that was not exported."""
_SCRUBBED: Final = "[Scrubbed due to "
"""The beginning of the text that Logfire writes in place of a secret."""
_EXCEPTION_EVENT: Final = ("exception", "exception.message")

_LONGEST_HIDDEN = 256
_LONGEST_PARSED = 1 << 20
_DEEPEST = 4
_ADDED = re.compile(
    r"(?<=<shellId: )\d+|(?<=Process Group PGID: )\d+|(?<=Chunk ID: )\w+|(?<=Wall time: )[\d.]+(?= seconds)"
)
_BEFORE_ADDED = ("shellId: ", "PGID: ", "Chunk ID: ", "Wall time: ")
_NO_DIGITS = str.maketrans("0123456789", "ghijklmnop")
_numbers = itertools.count()


# --- recognise ---------------------------------------------------------------------------------------------------

SIGNS: Final = frozenset(row.sign[0] for row in DIALECTS)
"""The attributes that mark tool calls. An ended span without any of them is none."""
_SPAN_NAMES: Final = tuple(start for row in DIALECTS for start in row.span_names)


def _by_sign() -> dict[str, dict[str, tuple[SpanDialect, ...]]]:
    found: defaultdict[str, dict[str, tuple[SpanDialect, ...]]] = defaultdict(dict)
    for row in DIALECTS:
        sign, values = row.sign
        for value in values:
            found[sign][value] = (*found[sign].get(value, ()), row)
    return dict(found)


_ROWS = _by_sign()
CONTENT: Final = frozenset(key for row in DIALECTS for key in (*row.arguments, *row.results))
"""The attributes with arguments and results. They may be long, so only those of tool calls are decoded."""
READ: Final = frozenset(
    {
        semconv.ERROR_TYPE, semconv.CONVERSATION_ID, semconv.AGENT_NAME, *SIGNS, *AGENTS, *CONVERSATIONS.values(),
        *CONTENT, *(key for row in DIALECTS for key in (*row.tool, *row.call_id)),
        *(key for row in DIALECTS for key in (row.arguments_hash, row.result_hash) if key is not None),
    }
)  # fmt: skip
"""All attributes that this file reads. No others have to be decoded."""
_NOT_TOOLS = frozenset().union(*(row.not_tools for row in DIALECTS))


def _matching(attributes: Mapping[str, Any]) -> tuple[SpanDialect, ...]:
    """Return the rows that a span matches, in the order of the table."""
    found: tuple[SpanDialect, ...] = ()
    for sign, rows in _ROWS.items():
        if sign in attributes:
            value = attributes[sign]
            found += rows.get(value, ()) if isinstance(value, str) else ()
    return found


def conversation(attributes: Mapping[str, Any]) -> str | None:
    """Return the id of the conversation that a span has; None if it has none."""
    found = attributes.get(semconv.CONVERSATION_ID)
    for sign, key in CONVERSATIONS.items() if not found else ():
        if sign in attributes:
            found = found or attributes.get(key)
    return found if isinstance(found, str) and found else None


def agent_name(attributes: Mapping[str, Any]) -> str | None:
    """Return the name of the agent whose run a span is, empty if it is not known; None if it is no agent's run."""
    for sign, values in AGENTS.items():
        if attributes.get(sign) in values:
            name = attributes.get(semconv.AGENT_NAME)
            return name if isinstance(name, str) else ""
    return None


def tool_name(name: str, attributes: Mapping[str, Any], *, is_server: bool = False) -> str | None:
    """Return the tool that a span is a call of; None if it is no tool call, or the server's side of a call."""
    rows = () if is_server else _matching(attributes)
    return _tool(rows, name, attributes) if rows else None


def open_tool_name(name: str, attributes: Mapping[str, Any]) -> str | None:
    """Return the tool of an open span, or None. Many get their attributes at the end: until then the name decides."""
    found = tool_name(name, attributes)
    if found is None and name.startswith(_SPAN_NAMES) and SIGNS.isdisjoint(attributes):
        return next(name[len(start) :] for start in _SPAN_NAMES if name.startswith(start))
    return found


def _tool(rows: tuple[SpanDialect, ...], name: str, attributes: Mapping[str, Any]) -> str | None:
    for row in rows:
        if row.in_logs:
            return None
        found = ""
        for key in row.tool:
            if isinstance(value := attributes.get(key), str):
                found = found or value.strip('"')
        for start in () if found else row.span_names:
            if name.startswith(start):
                found = name[len(start) :]
        if not found and row.suffix and name.endswith(row.suffix):
            found = name[: -len(row.suffix)]
        if found:
            return None if found in _NOT_TOOLS else found
    return name


def same_tool(one: str, other: str | None) -> bool:
    """Return True if two names mean one tool: ``search`` and ``docs__search`` (with its server's name) do."""
    if other is None or one == other:
        return one == other
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer.endswith(tuple(separator + shorter for separator in ("__", ".", "/", ":")))


# --- read --------------------------------------------------------------------------------------------------------


def read(span: SpanView) -> SpanCall | None:
    """Read the tool call of an ended span; None if it is no tool call."""
    rows = () if span.is_server else _matching(span.attributes)
    tool = _tool(rows, span.name, span.attributes) if rows else None
    if tool is None:
        return None
    result = _result(rows, span)
    arguments = _arguments(rows, span, shows_result=result is not None)
    message = _tool_message(result)
    call_id = _call_id(rows, span.attributes) or (None if message is None else message["tool_call_id"])
    outcome = _outcome(span, result, message)
    known = arguments is not None
    call = ToolCall(tool, arguments if known else unique_text(), call_id)
    return SpanCall(call, outcome or Outcome(unique_text()), known, outcome is not None)


def _arguments(rows: tuple[SpanDialect, ...], span: SpanView, *, shows_result: bool) -> Any:
    """Return the arguments; None if they are unknown."""
    for row in rows:
        if row.arguments_hash is not None and (given := span.attributes.get(row.arguments_hash)) is not None:
            return {"hash": given}
        value = _value(row, row.arguments, row.arguments_event, span)
        if value is not None and row.open_arguments is not None:
            value = row.open_arguments(value)
        if value is not None and (value != {} or shows_result or not row.hides_as_empty):
            return value
    return None


def _result(rows: tuple[SpanDialect, ...], span: SpanView) -> Any:
    """Return the result; None if it is unknown."""
    for row in rows:
        if row.result_hash is not None and (given := span.attributes.get(row.result_hash)) is not None:
            # Words with digits are masked as ids when results are compared, but this word is all of the result.
            return str(given).translate(_NO_DIGITS)
        value = _value(row, row.results, row.result_event, span)
        if value is not None and value != {}:
            return value if row.open_result is None else row.open_result(value)
    return None


def _call_id(rows: tuple[SpanDialect, ...], attributes: Mapping[str, Any]) -> str | None:
    for row in rows:
        for key in row.call_id:
            value = attributes.get(key)
            if isinstance(value, str) and value not in _HIDDEN:
                return value
    return None


def _outcome(span: SpanView, result: Any, message: Mapping[str, Any] | None) -> Outcome | None:
    """Return the outcome; None if it is unknown."""
    if message is not None:
        result = message["content"]
    kind = span.attributes.get(semconv.ERROR_TYPE)
    if span.failed:
        # The exception comes first: the description may be a traceback, or repeat the type.
        text = _event(_EXCEPTION_EVENT, span) or (span.description if span.description != kind else None)
        if text is None and result is not None:
            return Outcome(result, is_error=True)
        return Outcome(error=": ".join(str(part) for part in (kind, text) if part is not None) or "failed")
    if result is None:
        return None
    is_error = message is not None and message.get("status") == "error"
    return Outcome(result, is_error=True if is_error else None)


def _value(row: SpanDialect, keys: tuple[str, ...], event: tuple[str, str] | None, span: SpanView) -> Any:
    attributes = span.attributes
    for key in keys:
        if key in attributes and (value := _parsed(attributes[key], row.hidden)) is not None:
            return value
    return _parsed(_event(event, span), row.hidden) if event is not None and span.events else None


def _event(event: tuple[str, str], span: SpanView) -> Any:
    """Return the attribute of the last event of this name; None without one."""
    name, key = event
    return next((found.get(key) for called, found in reversed(span.events) if called == name), None)


def _parsed(value: Any, hidden: frozenset[str] = frozenset()) -> Any:
    """Return the value, parsed if it is a text of JSON; None if it is hidden or an empty list or text."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_HIDDEN:
            text = value.strip()
            if text in _HIDDEN or text in hidden or text.startswith(_SCRUBBED):
                return None
        value = without_added(value)
        if value[:1] in "{[" and len(value) <= _LONGEST_PARSED:
            try:
                return orjson.loads(value)
            except orjson.JSONDecodeError as error:
                pass_interrupt(error)
                return value  # a text that only begins like an object
        return value
    return None if isinstance(value, (list, tuple)) and not value else value


def without_added(text: str) -> str:
    """Return a text without the numbers that coding agents write into each result anew: Copilot's, Gemini's, Codex'."""
    return _ADDED.sub("", text) if any(one in text for one in _BEFORE_ADDED) else text


def _tool_message(value: Any, depth: int = 0) -> Any:
    """Return LangChain's tool message from a result, up to four levels deep; None without one."""
    if isinstance(value, str) and depth:
        value = _parsed(value)
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None
    if "content" in value and "tool_call_id" in value:
        return value
    found = (_tool_message(value.get(key), depth + 1) for key in ("output", "kwargs", "data"))
    return next((one for one in found if one is not None), None)


def unique_text() -> str:
    """Return a text that equals no other. It has no digits, which are masked when results are compared."""
    return f"unknown {str(next(_numbers)).translate(_NO_DIGITS)}"
