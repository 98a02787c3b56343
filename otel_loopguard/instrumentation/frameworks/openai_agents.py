"""The OpenAI Agents SDK: function tools, agents as tools, names that do not exist, and the run as the turn.

Hand-offs are no tool calls, and hosted tools run at the provider. Guardrails and hooks see refusals as any result.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.core.model import Outcome, ToolCall
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.annotations import hints_of
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    CallTarget,
    Framework,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Target

_FAILURE: Final = "_loopguard_failure"
"""Where the exception of a tool is noted on its context: what becomes of it says nothing of it."""
_FAILED_TEXT: Final = "An error occurred while running the tool"


@cache
def _error() -> type[ToolLoopError]:
    """Anything but its own exceptions the SDK wraps in a ``UserError``, and a stream would lose a ``BaseException``."""
    base = import_module("agents.exceptions").AgentsException
    return type("ToolLoopError", (ToolLoopError, base), {"__doc__": "The run was ended, in a class the SDK lets out."})


# --- a function tool ---------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    tool: Any
    context: Any

    @property
    def final(self) -> bool:
        """Whether the output may be the run's answer, and no model reads it."""
        return getattr(getattr(self.context, "agent", None), "tool_use_behavior", "run_llm_again") != "run_llm_again"


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:  # noqa: ARG001
    tool, context = kwargs["function_tool"], kwargs["context"]
    hints = hints_of(getattr(tool, "_mcp_annotations", None))
    return Reading(
        ToolCall(tool.name, arguments_of(kwargs["arguments"]), context.tool_call_id, (tool.name,), hints),
        agent_name=getattr(getattr(context, "agent", None), "name", None),
        note=_Place(tool, context),
    )


def _answer(reading: Reading, content: Any, error: bool) -> Any:  # noqa: ARG001, FBT001 - the signature of the table
    """With the flag, a tool that declares its output's schema is not held to it."""
    result = import_module("agents.tool")._FunctionToolInvocationResult  # noqa: SLF001 - what the patched place returns
    return result(output=content, is_sdk_generated_error=error)


def _plain_answer(reading: Reading, content: Any, error: bool) -> Any:  # noqa: ARG001, FBT001
    """Before 0.19, and in realtime sessions: the bare output."""
    return content


def _outcome(reading: Reading, result: Any) -> Outcome:
    wrapped = hasattr(result, "is_sdk_generated_error")
    output = result.output if wrapped else result
    failed = wrapped and result.is_sdk_generated_error
    return Outcome(
        result=output,
        error=getattr(reading.note.context, _FAILURE, None),
        is_error=True if failed or (isinstance(output, str) and output.startswith(_FAILED_TEXT)) else None,
        cancelled=_waits(reading.note.context),
    )


def _waits(context: Any) -> bool:
    """Whether an agent that is a tool was interrupted: the same call runs again when somebody has approved."""
    if context.tool_call is None:
        return False
    nested = import_module("agents.agent_tool_state")
    run = nested.peek_agent_tool_run_result(context.tool_call, scope_id=nested.get_agent_tool_state_scope(context))
    return bool(getattr(run, "interruptions", None))


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    tool = reading.note.tool
    if reading.note.final or getattr(tool, "output_json_schema", None) is not None:
        return None
    wrapped = hasattr(result, "is_sdk_generated_error")
    output = _longer(result.output if wrapped else result, text)
    return replace(result, output=output) if output is not None and wrapped else output


def _longer(output: Any, text: str) -> Any:
    """Text, or a list of content parts; of any other list the model reads what ``str()`` makes of it."""
    if isinstance(output, str) or (isinstance(output, list) and output and all(map(_is_part, output))):
        return appended(output, text)
    return None


def _is_part(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("text", "image", "file")


FUNCTION = ToolAdapter(read=_read, answer=_answer, outcome=_outcome, annotate=_annotate, error=_error)
PLAIN_FUNCTION = replace(FUNCTION, answer=_plain_answer)


async def _failing(wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG001
    """By default the model, and we with it, would read the same sentence of every failure."""
    context, error = kwargs.get("context"), kwargs.get("error")
    if hasattr(context, "tool_call_id"):
        setattr(context, _FAILURE, error)
    return await wrapped(*args, **kwargs)


# --- a call that a guardrail turns down --------------------------------------------------------------------------


def _read_guarded(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    tool, context = kwargs["func_tool"], kwargs["tool_context"]
    return _read(instance, args, {"function_tool": tool, "context": context, "arguments": context.tool_arguments})


def _turned_down(result: Any) -> bool:
    return result is not None


GUARDED = ToolAdapter(
    read=_read_guarded,
    answer=_plain_answer,
    outcome=lambda reading, result: Outcome(result=result, is_error=True),  # noqa: ARG005
    annotate=lambda reading, result, text: appended(result, text),  # noqa: ARG005
    error=_error,
)


# --- names that do not exist -------------------------------------------------------------------------------------


def _each_unknown(kwargs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [{**kwargs, "calls": [call]} for call in kwargs["calls"]]


def _read_unknown(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:  # noqa: ARG001
    (missing,), agent = kwargs["calls"], kwargs["agent"]
    return _unknown(missing.tool_name, missing.tool_call, agent, agent.tools)


def _unknown(name: str, call: Any, agent: Any, tools: Any) -> Reading:
    names = {tool.name for tool in tools} - {name}
    called = ToolCall(name, arguments_of(call.arguments), call.call_id, names)
    return Reading(called, agent_name=agent.name, note=(agent, call))


def _answer_unknown(reading: Reading, content: Any, error: bool) -> Any:  # noqa: ARG001, FBT001
    items, (agent, call) = import_module("agents.items"), reading.note
    raw_item = items.ItemHelpers.tool_call_output_item(call, content)
    return [items.ToolCallOutputItem(output=content, raw_item=raw_item, agent=agent)]


def _outcome_unknown(reading: Reading, result: Any) -> Outcome:  # noqa: ARG001
    return Outcome(result=[item.output for item in result], is_error=True)


def _annotate_unknown(reading: Reading, result: Any, text: str) -> Any:
    return _answer_unknown(reading, appended(result[0].output, text), error=True)


UNKNOWN = ToolAdapter(
    read=_read_unknown, answer=_answer_unknown, outcome=_outcome_unknown, annotate=_annotate_unknown, error=_error
)


def _read_fatal(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:  # noqa: ARG001
    """The call for which the SDK has ended the run, as it does by default; None if that was for something else."""
    if getattr(kwargs.get("run_config"), "tool_not_found_behavior", None) == "return_error_to_model":
        return None
    tools, known = kwargs["all_tools"], {"json_tool_call"}
    known.update(tool.name for tool in tools)
    known.update(handoff.tool_name for handoff in kwargs["handoffs"])
    for item in kwargs["response"].output:
        is_plain_call = getattr(item, "type", None) == "function_call" and not getattr(item, "namespace", None)
        if is_plain_call and item.name not in known:
            return _unknown(item.name, item, kwargs["agent"], tools)
    return None


FATAL = replace(UNKNOWN, read=_read_fatal)


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:  # noqa: ARG001
    agent = args[0] if args else kwargs.get("starting_agent")
    given = args[1] if len(args) > 1 else kwargs.get("input")
    return RunInfo(
        conversation_id=_conversation(kwargs),
        agent_name=getattr(agent, "name", None),
        resumes=not isinstance(given, (str, list)),  # a RunState: somebody has approved something
        survives=False,
    )


def _conversation(kwargs: Mapping[str, Any]) -> str | None:
    config = kwargs.get("run_config")
    group = config.get("group_id") if isinstance(config, dict) else getattr(config, "group_id", None)
    found = (
        kwargs.get("conversation_id")
        or getattr(kwargs.get("session"), "session_id", None)
        or group
        or getattr(import_module("agents.tracing").get_current_trace(), "group_id", None)
    )
    return None if found is None else str(found)


def _unfinished(result: Any) -> bool:
    return bool(getattr(result, "interruptions", None))


def _over(result: Any, over: Callable[[], None]) -> None:
    result.run_loop_task.add_done_callback(lambda task: over())  # noqa: ARG005


_EXECUTION: Final = "agents.run_internal.tool_execution"
_RESOLUTION: Final = "agents.run_internal.turn_resolution"

_TARGETS: tuple[Target, ...] = (
    # Imported by name from the first module into the second: whichever is patched first, each call meets one patch.
    *(
        ToolTarget(module, name, adapter, CallStyle.ASYNC)
        for module in ("agents.tool", _EXECUTION)
        for name, adapter in (
            ("_invoke_function_tool_with_metadata", FUNCTION),
            ("invoke_function_tool", PLAIN_FUNCTION),  # before 0.19, and in realtime sessions
        )
    ),
    ToolTarget(
        _EXECUTION, "_execute_tool_input_guardrails", GUARDED, CallStyle.ASYNC, turned_down=_turned_down, optional=True
    ),
    CallTarget("agents.tool", "maybe_invoke_function_tool_failure_error_function", _failing),
    ToolTarget(
        _RESOLUTION, "_build_tool_not_found_output_items", UNKNOWN, CallStyle.ASYNC, each=_each_unknown, optional=True
    ),
    ToolTarget(_RESOLUTION, "process_model_response", FATAL, fatal=True),
    RunTarget("agents.run", "AgentRunner.run", _read_run, CallStyle.ASYNC, _unfinished),
    RunTarget("agents.run", "AgentRunner.run_streamed", _read_run, CallStyle.BACKGROUND, _unfinished, _over),
)

FRAMEWORK = Framework(
    "openai_agents",
    _TARGETS,
    title="OpenAI Agents SDK",
    modules=("agents",),
    versions={
        # Before 0.10.5 nothing reports the failure of a tool. 0.10 to 0.13 do not import with the newest openai 2.x.
        "oldest": ("openai-agents==0.10.5", "openai<2.31"),
        "newest": ("openai-agents",),
    },
    loggers=("openai.agents",),
)
