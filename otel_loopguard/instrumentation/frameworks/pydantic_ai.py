"""Pydantic AI: function tools of any toolset, names that do not exist, and the run as the turn.

Output tools are the agent's answer, and are not guarded. A run is found by the id that each of its calls carries: its
context manager may be an ``async with`` of the program, in which no context variable may be set.
"""

from __future__ import annotations

import sys
from dataclasses import is_dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.annotations import hints_of
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.model_messages import tick_of_message
from otel_loopguard.instrumentation.models.pydantic_messages import models
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import (
    MARK,
    CallStyle,
    Framework,
    FrameworkLimit,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.telemetry.call_span import NativeSpan, if_recorded
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.instrumentation.targets import Target

_DEFERRALS: Final = ("CallDeferred", "ApprovalRequired")
_KEY: Final = "loopguard"
"""The key of a sentence in the structured result of an MCP tool."""

# --- a call ------------------------------------------------------------------------------------------------------


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    validated = args[0] if args else kwargs["validated"]
    runs = validated.args_valid and getattr(validated, "deferral", None) is None
    inner = runs or hasattr(instance, "_execute_function_tool_call")  # until 1.90, for every call
    native_span = NativeSpan.INNER if inner else _invalid(validated)
    return _reading(instance, validated.call, validated.tool, validated.ctx, native_span)


def _invalid(validated: Any) -> NativeSpan:
    """Return the position of the span of a rejected call: newer versions make one, for known tools only."""
    known = validated.tool is not None and not validated.args_valid
    return NativeSpan.BESIDE if known and _has_span_if_invalid() else NativeSpan.NONE


def _has_span_if_invalid() -> bool:
    capability = getattr(sys.modules.get("pydantic_ai.capabilities"), "Instrumentation", None)
    return "on_tool_validate_error" in vars(capability or object)


def _reading(manager: Any, call: Any, tool: Any, context: Any, native_span: NativeSpan) -> Reading | None:
    if tool is not None and tool.tool_def.kind == "output":
        return None
    answers = [name for name, one in manager.tools.items() if one.tool_def.kind == "output"]
    if answers:
        active_runtime.add_answer_tools(answers)
    metadata = (None if tool is None else getattr(tool.tool_def, "metadata", None)) or {}
    of_mcp = "annotations" in metadata
    hints = hints_of(metadata.get("annotations"))
    return Reading(
        ToolCall(call.tool_name, arguments_of(call.args), call.tool_call_id, manager.tools, hints, _written(context)),
        conversation_id=getattr(context, "conversation_id", None),
        agent_name=getattr(getattr(context, "agent", None), "name", None),
        run_id=context.run_id,
        # Its own instrumentation is optional, and set for each agent.
        native_span=if_recorded(context.tracer, native_span),
        note=of_mcp,
        of_mcp=of_mcp,
    )


def _written(context: Any) -> int | None:
    """Return the turn's tick when the model wrote the message of this step."""
    runtime = active_runtime.instrumented
    scope = None if runtime is None else runtime.runs.known(context.run_id)
    return None if scope is None else tick_of_message(context.run_step, scope)


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make a denial, which is neither a success nor a failure to retry. Versions without denials get the content."""
    if error and hasattr(sys.modules.get("pydantic_ai._tool_execution"), "build_tool_return_part"):
        return import_module("pydantic_ai.tools").ToolDenied(content)
    return content


def _mark(reading: Reading, answer: Any, mark: str) -> Any:
    """Make a ToolReturn, whose metadata the program gets. A denial has no such field."""
    content = getattr(answer, "message", answer)
    return import_module("pydantic_ai.messages").ToolReturn(return_value=content, metadata={MARK: mark})


def _outcome(reading: Reading, result: Any) -> Outcome:
    return Outcome(result=result, is_error=False)


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    if not is_dataclass(result) or not hasattr(result, "return_value"):
        return _longer(reading, result, text)
    longer = _longer(reading, result.return_value, text)
    return None if longer is None else replace(result, return_value=longer)  # type: ignore[type-var]  # a ToolReturn


def _longer(reading: Reading, value: Any, text: str) -> Any:
    """Append to a text. The value of an MCP tool is for models: an object gets one more key, a list one more item."""
    longer = appended(value, text) if isinstance(value, str) else None
    if longer is not None or not reading.note:
        return longer
    if isinstance(value, dict):
        return None if _KEY in value else {**value, _KEY: text}
    return [*value, text] if isinstance(value, list) else [value, text]


def _signals(error: BaseException) -> bool:
    """Return True for the signal that a call waits for an approval, or runs elsewhere."""
    return any(kind.__name__ in _DEFERRALS for kind in type(error).__mro__)


def _error() -> type[RunStopped]:
    return RunStopped


CALL = ToolAdapter(
    read=_read,
    answer=_answer,
    outcome=_outcome,
    annotate=_annotate,
    mark=_mark,
    signals=_signals,
    by_run=True,
    error=_error,
)

# --- a call that ends the run, because there are no retries left -------------------------------------------------


def _read_fatal(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    call = args[0] if args else kwargs["call"]
    tool = instance.tools.get(call.tool_name)
    native_span = NativeSpan.BESIDE if tool is not None and _has_span_if_invalid() else NativeSpan.NONE
    return _reading(instance, call, tool, instance.ctx, native_span)


FATAL = replace(CALL, read=_read_fatal)

# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(run: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    agent = getattr(getattr(getattr(run, "ctx", None), "deps", None), "agent", None)
    return RunInfo(
        conversation_id=getattr(run, "conversation_id", None),
        agent_name=getattr(agent, "name", None),
        resumes=kwargs.get("deferred_tool_results") is not None,
        can_continue=False,
        run_id=_run_id(run),
    )


def _run_id(run: Any) -> str:
    found = getattr(run, "run_id", None)
    return str(found if found is not None else run.ctx.state.run_id)


def _unfinished(run: Any) -> bool:
    """Return True if the run ended with calls that wait for an approval or an external result."""
    result = getattr(run, "result", None)
    return type(getattr(result, "output", None)).__name__ == "DeferredToolRequests"


_TARGETS: tuple[Target, ...] = (
    *(
        target
        for module in ("pydantic_ai.tool_manager", "pydantic_ai._tool_manager")  # the second: before 1.90
        for target in (
            ToolTarget(module, "ToolManager.execute_tool_call", CALL, CallStyle.ASYNC),
            ToolTarget(module, "ToolManager.validate_tool_call", FATAL, CallStyle.ASYNC, fatal=True),
        )
    ),
    *models(_error),
    RunTarget("pydantic_ai.agent", "Agent.iter", _read_run, CallStyle.CONTEXT, _unfinished),
)

FRAMEWORK = Framework(
    "pydantic_ai",
    _TARGETS,
    native_scopes=("pydantic-ai",),
    title="Pydantic AI",
    notes="the requests of every `Model` are read; "
    "its own instrumentation makes the `execute_tool` span while it is on",
    modules=("pydantic_ai",),
    versions={
        # Calls are guarded from 1.63 on; the last made-up call of a run has its span from 1.90 on.
        "oldest": ("pydantic-ai-slim==1.90.0",),
        "newest-1": ("pydantic-ai-slim<2",),
        "newest": ("pydantic-ai-slim",),
    },
    tested={"pydantic-ai-slim": "2.68.0"},
    limits=(
        FrameworkLimit(
            "Pydantic AI UsageLimits(tool_calls_limit)", "pydantic_ai.usage", "UsageLimits.__init__", "tool_calls_limit"
        ),
    ),
)
