"""AutoGen AgentChat: the tools of assistants, alone, as tools of others and in teams.

A team runs its members in tasks of its runtime, and makes a ``RuntimeError`` of an exception of theirs. So the error of
an abort is kept in the state of the run, and the end of the outermost run raises it.
"""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.aborts import LoopAbort
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.native_spans import if_recorded
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    Framework,
    FrameworkLimit,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.telemetry.call_span import NativeSpan
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Target

_ASSISTANT: Final = "autogen_agentchat.agents._assistant_agent"
_SCOPE: Final = "autogen-core"

# --- a call ------------------------------------------------------------------------------------------------------


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    call = kwargs["tool_call"]
    if any(call.name == one.name for one in kwargs["handoff_tools"]):
        return None  # the hand-over is made whatever the call's result is
    registered = [_registered(workbench) for workbench in kwargs["workbench"]]
    known = None if None in registered else {name for names in registered for name in names or ()}
    arguments = arguments_of(call.arguments)
    # Only its own tools make spans: those of the workbenches that have them here.
    has_span = not isinstance(arguments, str) and any(call.name in (names or ()) for names in registered)
    return Reading(
        ToolCall(call.name, arguments, call.id, known),
        agent_name=kwargs["agent_name"],
        native_span=if_recorded(trace.get_tracer(_SCOPE), NativeSpan.INNER) if has_span else NativeSpan.NONE,
        note=call,
    )


def _registered(workbench: Any) -> set[str] | None:
    """Return the names of the tools of a workbench; None if it has to ask a server for them."""
    tools = getattr(workbench, "_tools", None)
    if not isinstance(tools, list):
        return None
    renamed = getattr(workbench, "_override_name_to_original", {})
    return {tool.name for tool in tools} - set(renamed.values()) | set(renamed)


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    call = reading.note
    result = import_module("autogen_core.models").FunctionExecutionResult
    return call, result(content=content, call_id=call.id, is_error=error, name=call.name)


def _outcome(reading: Reading, result: Any) -> Outcome:
    return Outcome(result=result[1].content, is_error=bool(result[1].is_error))


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    call, executed = result
    longer = appended(executed.content, text)
    return None if longer is None else (call, executed.model_copy(update={"content": longer}))


CALL = ToolAdapter(
    read=_read,
    answer=_answer,
    outcome=_outcome,
    annotate=_annotate,
    error=lambda: ToolLoopError,
)


def _end_stream(guarded: Callable[..., Any]) -> Callable[..., Any]:
    """End the stream of a message's calls before the error of an abort leaves the call: the agent waits for its end."""

    @wraps(guarded)
    async def execute(*given: Any, **kwargs: Any) -> Any:
        try:
            return await guarded(*given, **kwargs)
        except (ToolLoopError, LoopAbort) as error:
            scope = current_scope()
            if scope is not None and scope.run_state is not None and isinstance(error, ToolLoopError):
                scope.run_state.abort_error = error
            kwargs["stream"].put_nowait(None)
            raise

    return execute


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(runner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo | None:
    """Read a run of an agent or a team. One inside of a team's run is a part of it, and passes exceptions on to it."""
    scope = current_scope()
    if scope is not None and scope.run_state is not None and scope.call is None:
        return None
    return RunInfo(agent_name=getattr(runner, "name", None), can_continue=False)


_TARGETS: tuple[Target, ...] = (
    ToolTarget(_ASSISTANT, "AssistantAgent._execute_tool_call", CALL, CallStyle.ASYNC, around=_end_stream),
    RunTarget(_ASSISTANT, "AssistantAgent.on_messages_stream", _read_run, CallStyle.ASYNC_GENERATOR),
    RunTarget(
        "autogen_agentchat.teams._group_chat._base_group_chat",
        "BaseGroupChat.run_stream",
        _read_run,
        CallStyle.ASYNC_GENERATOR,
    ),
)

FRAMEWORK = Framework(
    "autogen",
    _TARGETS,
    native_scopes=(_SCOPE,),
    title="AutoGen",
    turns="runs: an assistant's, or a team's",
    notes="hand-offs are not counted; in a team whose runtime is the program's, each message to a member is a turn;"
    " `ToolAgent` of `autogen-core` is not guarded",
    modules=("autogen_agentchat",),
    versions={
        "oldest": ("autogen-agentchat==0.7.1",),
        "newest": ("autogen-agentchat",),
    },
    limits=(
        FrameworkLimit(
            "AutoGen AssistantAgent(max_tool_iterations)",
            _ASSISTANT,
            "AssistantAgent.__init__",
            "max_tool_iterations",
        ),
    ),
)
