"""AutoGen AgentChat: the tools of assistants, alone, as tools of others and in teams.

The members of a team do not see each other's results, so each message to a member is a turn. A team makes a
``RuntimeError`` of an exception of a member. So the error of an abort is kept in the state of the team's run, whose end
raises it.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.aborts import LoopAbort
from otel_loopguard.instrumentation.agent_run import AgentRun, async_generator_of_run
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.model_messages import ends_the_others
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
from otel_loopguard.telemetry.call_span import NativeSpan, if_recorded
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope, in_scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from otel_loopguard.instrumentation.targets import Original, Target
    from otel_loopguard.turns.scope import Scope

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
    error=lambda: RunStopped,
)


def _end_stream(guarded: Callable[..., Any]) -> Callable[..., Any]:
    """End the stream of a message's calls before the error of an abort leaves the call: the agent waits for its end.

    The other calls of the message are cancelled.
    """
    cancelling = ends_the_others(guarded)

    @wraps(guarded)
    async def execute(*given: Any, **kwargs: Any) -> Any:
        try:
            return await cancelling(*given, **kwargs)
        except (RunStopped, LoopAbort):
            kwargs["stream"].put_nowait(None)
            raise

    return execute


async def _add_results(assistant: Any, error: RunStopped) -> None:
    """Give each call of the model's last message a result, so that the next request of the assistant is accepted."""
    models, context = import_module("autogen_core.models"), assistant.model_context
    calls = (await context.get_messages())[-1].content
    if isinstance(calls, list) and all(hasattr(call, "arguments") for call in calls):
        results = [
            models.FunctionExecutionResult(content=str(error), call_id=call.id, is_error=True, name=call.name)
            for call in calls
        ]
        await context.add_message(models.FunctionExecutionResultMessage(content=results))


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(runner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo | None:
    """Read a run of an assistant or a team. A team in a team is a part of it, and passes exceptions on to it."""
    return None if _team() is not None else RunInfo(agent_name=getattr(runner, "name", None), can_continue=False)


def _team() -> Scope | None:
    """Return the scope of the team's run that this code is in; None if it is in none, or in a tool."""
    scope = current_scope()
    return scope if scope is not None and scope.run_state is not None and scope.call is None else None


RUN: Final = RunTarget(_ASSISTANT, "AssistantAgent.on_messages_stream", _read_run, CallStyle.ASYNC_GENERATOR)


def _on_messages_stream(original: Original) -> Callable[..., Any]:
    """Wrap the run of an assistant. That of a member is outside of the team's turn, unless the program has opened it.

    The team's run gets the error of an abort, and the assistant's calls get results.
    """

    def opened(given: Any, kwargs: Any) -> tuple[AgentRun | None, Callable[[], Any]]:
        wrapped, instance, args = original.bind(given)
        runtime = active_runtime.instrumented
        agent_run = None if runtime is None else AgentRun(runtime, RUN, instance, args, kwargs)
        return agent_run, partial(wrapped, *args, **kwargs)

    run = async_generator_of_run(opened)

    async def on_messages_stream(*given: Any, **kwargs: Any) -> AsyncIterator[Any]:
        runtime, team, stream = active_runtime.instrumented, None, run(*given, **kwargs)
        if runtime is not None:
            with runtime.shield("adapter.team"):
                team = _team()
        apart = nullcontext if team is None or team.turn.source == "explicit" else partial(in_scope, None)
        try:
            while True:
                with apart():
                    try:
                        event = await stream.__anext__()
                    except StopAsyncIteration:
                        return
                yield event
        except RunStopped as error:
            if runtime is not None:
                with runtime.shield("adapter.results"):
                    await _add_results(original.bind(given)[1], error)
            if team is not None and team.run_state is not None:
                team.run_state.abort_error = error
            raise
        finally:
            with apart():
                await stream.aclose()  # type: ignore[attr-defined]  # it is a generator

    return on_messages_stream


_TARGETS: tuple[Target, ...] = (
    ToolTarget(_ASSISTANT, "AssistantAgent._execute_tool_call", CALL, CallStyle.ASYNC, around=_end_stream),
    CallTarget(_ASSISTANT, "AssistantAgent.on_messages_stream", _on_messages_stream),
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
    turns="runs of an assistant: in a team, each message to a member",
    notes="hand-offs are not counted; a team whose runtime is the program's makes a `RuntimeError` of an abort;"
    " `ToolAgent` of `autogen-core` is not guarded",
    modules=("autogen_agentchat",),
    versions={
        "oldest": ("autogen-agentchat==0.7.1",),
        "newest": ("autogen-agentchat",),
    },
    tested={"autogen-agentchat": "0.7.5"},
    limits=(
        FrameworkLimit(
            "AutoGen AssistantAgent(max_tool_iterations)",
            _ASSISTANT,
            "AssistantAgent.__init__",
            "max_tool_iterations",
        ),
    ),
)
