"""Tool spans that other instrumentations made: OpenInference, OpenLLMetry, and those that follow the GenAI conventions.

They carry arguments and results as they are, if they carry them at all. What is redacted or switched off is not
known, and never taken as equal to anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from otel_loopguard import semconv
from otel_loopguard.core.model import Kind, ToolCall
from otel_loopguard.spans.dialects import untold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.core.tools.contracts import ResolvedCall
    from otel_loopguard.core.turn.compiled import CompiledPolicy

_OPENINFERENCE_KIND, _OPENLLMETRY_KIND = "openinference.span.kind", "traceloop.span.kind"
_NAMES = (semconv.TOOL_NAME, "tool.name", "traceloop.entity.name")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input", "tool_arguments")
_RESULTS = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output", "tool_response")
_UNKNOWN = frozenset({"", "__REDACTED__", "[REDACTED]", "None", "<not specified>", "<not serializable>"})
_LONGEST = 1 << 20
_PREFIX = f"{semconv.SPAN_EXECUTE_TOOL} "


def tool_name(attributes: Mapping[str, Any], name: str) -> str | None:
    """The tool that a span called; None if it is no tool span."""
    is_tool = (
        attributes.get(semconv.OPERATION_NAME) == semconv.OPERATION_EXECUTE_TOOL
        or attributes.get(_OPENINFERENCE_KIND) == "TOOL"
        or attributes.get(_OPENLLMETRY_KIND) == "tool"
    )
    if not is_tool and not (name.startswith(_PREFIX) and semconv.OPERATION_NAME not in attributes):
        return None
    for key in _NAMES:
        if isinstance(attributes.get(key), str) and attributes[key]:
            return str(attributes[key])
    return name.removeprefix(_PREFIX).removesuffix(".tool")


def knows_arguments(attributes: Mapping[str, Any]) -> bool:
    """Whether the span tells what the tool was called with."""
    return _first(attributes, _ARGUMENTS) is not None


def arguments(attributes: Mapping[str, Any]) -> Any:
    """The arguments, taken out of the envelope that OpenLLMetry puts around them."""
    found = _parsed(_first(attributes, _ARGUMENTS))
    if isinstance(found, dict):
        if isinstance(found.get("inputs"), dict):
            return found["inputs"]
        if "input_str" in found:
            return found["input_str"]
    return found


def knows_result(attributes: Mapping[str, Any]) -> bool:
    """Whether the span tells what came back."""
    return _first(attributes, _RESULTS) is not None


def result(attributes: Mapping[str, Any]) -> Any:
    """The result, taken out of its envelope and of the message that it stands in, whose ids differ each time.

    One that is not told is equal to nothing.
    """
    found = _first(attributes, _RESULTS)
    if found is None:
        return untold()
    parsed = _parsed(found)
    if isinstance(parsed, dict) and "output" in parsed:
        parsed = parsed["output"]
    if isinstance(parsed, dict) and isinstance(parsed.get("kwargs"), dict) and "content" in parsed["kwargs"]:
        parsed = parsed["kwargs"]
    if isinstance(parsed, dict) and "content" in parsed and ("tool_call_id" in parsed or parsed.get("type") == "tool"):
        return parsed["content"]
    return parsed


def resolve_call(
    attributes: Mapping[str, Any], tool: str, span: str, compiled: CompiledPolicy
) -> tuple[ResolvedCall, int]:
    """The call as it is judged, and the fingerprint of its arguments: one of its own where they are not known."""
    found = compiled.contracts.resolve(ToolCall(tool, arguments(attributes)))
    if not knows_arguments(attributes):
        return found, compiled.fingerprinter.of(b"unknown:" + span.encode())
    return found, compiled.fingerprinter.arguments(found.arguments, loose=found.kind is not Kind.WRITE)


def _first(attributes: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        value = attributes.get(name)
        if value is not None and not (isinstance(value, str) and value in _UNKNOWN):
            return value
    return None


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "[") and len(value) <= _LONGEST:
        try:
            return orjson.loads(value)
        except ValueError:
            return value  # text that only begins like JSON
    return value
