"""CrewAI: native function calls and the actions of ReAct text, made-up names among them. A task is a turn.

Each task of a crew, each attempt of ``Agent.kickoff``, and each step of a plan has messages of its own. A coworker's
task is a child turn. CrewAI retries a failed task, and hands other errors to the model: an abort is its own
``HookAborted``, which it lets out. In versions without one it is carried to the end of the task.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.model_messages import last_message, note_message
from otel_loopguard.instrumentation.models.error_classes import error_class
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    CallTarget,
    Framework,
    FrameworkLimit,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Original, Target

_NAME: Final = "crewai"
_ERRORS: Final = ("I encountered an error", "I tried reusing the same input")
"""The beginnings of CrewAI's own answers to an action. It does not run one that equals the action before."""
_REMINDER: Final = "\n\n\nYou ONLY have access to the following tools"


def _note_message(original: Original) -> Callable[..., Any]:
    """Note when the model wrote a message, whose calls may be made in threads."""

    def noted(*given: Any, **kwargs: Any) -> Any:
        runtime = active_runtime.instrumented
        if runtime is not None:
            with runtime.shield("adapter.message"):
                note_message(_NAME)
        return original.unbound(*given, **kwargs)

    return noted


def _reading(name: str, arguments: Any, call_id: str | None, known: Any, agent: Any, *, note: Any = None) -> Reading:
    call = ToolCall(name, arguments_of(arguments), call_id, known, written=last_message(_NAME).tick)
    return Reading(call, agent_name=getattr(agent, "role", None), note=note)


def _error() -> type[RunStopped] | None:
    found = error_class()
    return None if found is RunStopped else found


# --- a native call: the result is a dictionary -------------------------------------------------------------------


def _read_native(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    if "func_name" in kwargs:  # the executor before 1.15
        info = kwargs["call_id"], kwargs["func_name"], kwargs["func_args"]
        return _native(info, kwargs["available_functions"], instance.agent)
    info = _utilities().extract_tool_call_info(args[0] if args else kwargs["tool_call"])
    return _native(info, instance._available_functions, instance.agent)  # noqa: SLF001 - it has no other list of names


def _native(info: Any, known: Any, agent: Any) -> Reading | None:
    if info is None:
        return None
    call_id, name, arguments = info
    return _reading(name, arguments, call_id, set(known), agent, note={"call_id": call_id, "func_name": name})


def _utilities() -> Any:
    return import_module("crewai.utilities.agent_utils")


def _answer_native(reading: Reading, content: Any, error: bool) -> Any:
    return {**reading.note, "result": str(content), "from_cache": False, "original_tool": None}


def _outcome_native(reading: Reading, result: Any) -> Outcome:
    failed = result.get("tool_failure") is not None or not reading.call.registered  # before 1.15 nothing else tells
    return Outcome(result=result["result"], is_error=True if failed else None)


def _annotate_native(reading: Reading, result: Any, text: str) -> Any:
    if getattr(result["original_tool"], "result_as_answer", False):
        return None  # no model reads it
    longer = appended(result["result"], text)
    return None if longer is None else {**result, "result": longer}


NATIVE = ToolAdapter(
    read=_read_native, answer=_answer_native, outcome=_outcome_native, annotate=_annotate_native, error=_error
)

# --- a native call in a step of a plan ---------------------------------------------------------------------------


def _read_planned(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    info = _utilities().extract_tool_call_info(args[0] if args else kwargs["tool_call"])
    return _native(info, kwargs["available_functions"], kwargs["agent"])


def _answer_planned(reading: Reading, content: Any, error: bool) -> Any:
    call_id, name = reading.note["call_id"], reading.note["func_name"]
    message = {"role": "tool", "tool_call_id": call_id, "name": name, "content": str(content)}
    return _utilities().NativeToolCallResult(call_id, name, str(content), tool_message=message)


def _annotate_text(reading: Reading, result: Any, text: str) -> Any:
    longer = None if result.result_as_answer else appended(result.result, text)
    if longer is None:
        return None
    message = getattr(result, "tool_message", None)
    return replace(result, result=longer, **({"tool_message": {**message, "content": longer}} if message else {}))


PLANNED = ToolAdapter(
    read=_read_planned,
    answer=_answer_planned,
    outcome=lambda reading, result: Outcome(result=result.result, is_error=None if reading.call.registered else True),
    annotate=_annotate_text,
    error=_error,
)

# --- an action in ReAct text -------------------------------------------------------------------------------------


def _read_action(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    action, plain_name = kwargs["agent_action"], import_module("crewai.utilities.string_utils").sanitize_tool_name
    known = {plain_name(tool.name) for tool in kwargs["tools"]}
    return _reading(plain_name(action.tool), action.tool_input, None, known, kwargs.get("agent"))


def _answer_action(reading: Reading, content: Any, error: bool) -> Any:
    return import_module("crewai.tools.tool_types").ToolResult(str(content), result_as_answer=False)


def _outcome_action(reading: Reading, result: Any) -> Outcome:
    """Leave out the reminder that CrewAI adds to every third result."""
    text = result.result.partition(_REMINDER)[0].strip()
    return Outcome(result=text, is_error=True if text.startswith(_ERRORS) else None)


ACTION = replace(PLANNED, read=_read_action, answer=_answer_action, outcome=_outcome_action)

# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return RunInfo(agent_name=getattr(instance, "role", None), can_continue=False)


def _read_step(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return _read_run(instance.agent, args, kwargs)._replace(apart=True)


_EXECUTORS: Final = (
    ("crewai.agents.agent_executor", "AgentExecutor", "_should_parallelize_native_tool_calls"),
    ("crewai.experimental.agent_executor", "AgentExecutor", "_should_parallelize_native_tool_calls"),  # before 1.15.6
    ("crewai.agents.crew_agent_executor", "CrewAgentExecutor", "_handle_native_tool_calls"),  # as above
)
_STEPS: Final = "crewai.agents.step_executor"
_ACTION_MODULES: Final = (*(module for module, _, _ in _EXECUTORS), _STEPS, "crewai.lite_agent")

_TARGETS: tuple[Target, ...] = (
    *(
        target
        for module, owner, beginning in _EXECUTORS
        for target in (
            CallTarget(module, f"{owner}.{beginning}", _note_message),
            ToolTarget(module, f"{owner}._execute_single_native_tool_call", NATIVE),
        )
    ),
    # These import the functions by name. In either order, each call passes one patch.
    *(
        ToolTarget(module, "execute_single_native_tool_call", PLANNED)
        for module in ("crewai.utilities.agent_utils", _STEPS)
    ),
    *(
        ToolTarget(module, "execute_tool_and_check_finality", ACTION)
        for module in ("crewai.utilities.tool_utils", *_ACTION_MODULES)
    ),
    *(
        ToolTarget(module, "aexecute_tool_and_check_finality", ACTION, CallStyle.ASYNC)
        for module in ("crewai.utilities.tool_utils", "crewai.agents.crew_agent_executor")
    ),
    *(
        RunTarget("crewai.agent.core", f"Agent.{name}", _read_run, style)
        for name, style in (
            ("execute_task", CallStyle.SYNC),
            ("aexecute_task", CallStyle.ASYNC),
            # one attempt of a kickoff: a retry for a guardrail begins with fresh messages
            ("_execute_and_build_output", CallStyle.SYNC),
            ("_execute_and_build_output_async", CallStyle.ASYNC),
        )
    ),
    RunTarget("crewai.lite_agent", "LiteAgent.kickoff", _read_run),
    RunTarget(_STEPS, "StepExecutor.execute", _read_step),
)

FRAMEWORK = Framework(
    _NAME,
    _TARGETS,
    title="CrewAI",
    turns="tasks of a crew, attempts of an agent alone, and steps of a plan",
    notes="native calls, ReAct text and steps of plans; a coworker's task is a child turn; CrewAI itself answers an "
    "equal ReAct action, and ends a task at the fifth; tools that `LLM.call` runs itself are not covered",
    modules=("crewai",),
    versions={
        # Before 1.11 no function runs one native call alone.
        "oldest": ("crewai==1.11.1",),
        "newest": ("crewai",),
    },
    tested={"crewai": "1.15.30"},
    limits=(
        FrameworkLimit(
            "CrewAI's check of repeated tool usage", "crewai.tools.tool_usage", "ToolUsage._check_tool_repeated_usage"
        ),
    ),
)
