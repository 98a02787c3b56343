"""LlamaIndex: the tools of agents and workflows, hand-offs, names that do not exist, and the run as the turn.

A hand-off is a call of the tool ``handoff``. What an agent writes before it is a part of its result: a writer and a
critic bring news.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.agent_run import call_at_end
from otel_loopguard.instrumentation.content import appended
from otel_loopguard.instrumentation.model_messages import last_message, note_message
from otel_loopguard.instrumentation.runtime import active_runtime
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

    from otel_loopguard.instrumentation.targets import Original, Target

_NAME: Final = "llama_index"
_HAND_OFF: Final = "handoff"

# --- a message of the model, whose calls are made in tasks of their own --------------------------------------------


def _parse_agent_output(original: Original) -> Callable[..., Any]:
    async def parse_agent_output(*given: Any, **kwargs: Any) -> Any:
        runtime = active_runtime.instrumented
        if runtime is not None:
            with runtime.shield("adapter.message"):
                _, written = _step(given[1:], kwargs)
                note_message(_NAME, (written.current_agent_name, written.response.content or ""))
        wrapped, _, args = original.bind(given)
        return await wrapped(*args, **kwargs)

    return parse_agent_output


def _step(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the context and the event of a workflow's step."""
    context, event = (*args, *(kwargs[name] for name in ("ctx", "ev")[len(args) :]))
    return context, event


# --- a call ------------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    context: Any
    event: Any
    text: str
    """The text of the message that asks for the call."""


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    context, event = _step(args, kwargs)
    message, agents = last_message(_NAME), getattr(instance, "agents", None)
    agent_name, text = message.about or (None, "")
    agent = instance if agents is None else agents.get(agent_name)
    known = None if agent is None else {tool.metadata.name for tool in agent.tools or ()}
    if known is not None and agents is not None and len(agents) > 1:
        known.add(_HAND_OFF)
    call = ToolCall(
        event.tool_name,
        event.tool_kwargs,
        event.tool_id,
        known,
        written=message.tick,
        may_exist=getattr(agent, "tool_retriever", None) is not None or not _is_own(instance),
    )
    return Reading(call, agent_name=getattr(agent, "name", None), note=_Place(context, event, text))


def _is_own(instance: Any) -> bool:
    """Return True if the tools are those of the agent, and False if a subclass finds others."""
    module: str = type(instance).get_tools.__module__
    return module.startswith("llama_index.core.")


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make the events that the program reads of any call, too. A refusal is no answer of the run, and no hand-off."""
    events, (context, event, _) = import_module("llama_index.core.agent.workflow.workflow_events"), reading.note
    given = {"tool_name": event.tool_name, "tool_kwargs": event.tool_kwargs, "tool_id": event.tool_id}
    output = content if hasattr(content, "blocks") else _output(event, str(content), is_error=error)
    result = events.ToolCallResult(**given, tool_output=output, return_direct=False)
    context.write_event_to_stream(events.ToolCall(**given))
    context.write_event_to_stream(result)
    return result


def _output(event: Any, content: str, *, is_error: bool) -> Any:
    output = import_module("llama_index.core.tools.types").ToolOutput
    return output(
        content=content, tool_name=event.tool_name, raw_input=event.tool_kwargs, raw_output=content, is_error=is_error
    )


def _outcome(reading: Reading, result: Any) -> Outcome:
    output = result.tool_output
    content: Any = output.content if _is_text(output) else [block.model_dump() for block in output.blocks]
    if reading.call.tool == _HAND_OFF:
        return Outcome(result=[content, reading.note.text], is_error=output.is_error)
    exists = not (output.is_error and output.raw_output is None)
    error = getattr(output, "exception", None)
    return Outcome(result=content, error=error, is_error=output.is_error, exists=exists, keep=output)


def _is_text(output: Any) -> bool:
    return all(block.block_type == "text" for block in output.blocks)


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Append to the text that the model reads. The program reads ``raw_output``, and the event of the stream."""
    output = result.tool_output
    longer = appended(output.content, text) if _is_text(output) and not result.return_direct else None
    if longer is None:
        return None
    output = output.model_copy()
    output.content = longer
    return result.model_copy(update={"tool_output": output})


def _signals(error: BaseException) -> bool:
    """Return True for the signal that a tool waits for an event: its step runs again when there is one."""
    return type(error).__name__ == "WaitingForEvent"


CALL = ToolAdapter(
    read=_read,
    answer=_answer,
    outcome=_outcome,
    annotate=_annotate,
    signals=_signals,
    error=lambda: RunStopped,
)

# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return RunInfo(agent_name=getattr(instance, "name", None), can_continue=False)


def _call_at_end(handler: Any, callback: Callable[[BaseException | None], None]) -> None:
    """Call back at the end of the workflow. A handler is a future itself before workflows 2.12."""
    call_at_end(getattr(handler, "_result_task", handler), callback)


_BASE: Final = "llama_index.core.agent.workflow.base_agent"
_MULTI: Final = "llama_index.core.agent.workflow.multi_agent_workflow"

_TARGETS: tuple[Target, ...] = tuple(
    target
    for module, owner in ((_BASE, "BaseWorkflowAgent"), (_MULTI, "AgentWorkflow"))
    for target in (
        CallTarget(module, f"{owner}.parse_agent_output", _parse_agent_output),
        ToolTarget(module, f"{owner}.call_tool", CALL, CallStyle.ASYNC),
        RunTarget(module, f"{owner}.run", _read_run, CallStyle.BACKGROUND, over=_call_at_end),
    )
)

FRAMEWORK = Framework(
    _NAME,
    _TARGETS,
    title="LlamaIndex",
    notes="agents and `AgentWorkflow`; hand-offs are calls and stay in the turn, agents as tools are child turns; "
    "`predict_and_call` and tools that a program calls itself are not covered",
    modules=("llama_index.core",),
    versions={
        "oldest": ("llama-index-core==0.14.6", "llama-index-workflows==2.8.3"),
        "newest": ("llama-index-core",),
    },
    tested={"llama-index-core": "0.14.25"},
)
