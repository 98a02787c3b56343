"""Strands Agents: the tool uses of an agent's messages, and one stream of an agent or a swarm as the turn.

The agents of a swarm share a turn. Each node of a graph has messages of its own, so it is a turn of its own.
What a program calls by hand, as ``agent.tool.look()``, is no call of a model, and is not guarded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.annotations import hints_of
from otel_loopguard.instrumentation.model_messages import tick_of_message
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    Framework,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.telemetry.call_span import NativeSpan
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_loopguard.instrumentation.targets import Target


def _error() -> type[RunStopped]:
    """Make the class of a ``RunStopped`` that is also an exception of the event loop, which lets that out as it is.

    It wraps any other exception, and its parallel calls lose a ``BaseException``.
    """
    base = import_module("strands.types.exceptions").EventLoopException
    doc = "The run was ended, in a class that the event loop lets out."
    return type("RunStopped", (RunStopped, base), {"__doc__": doc, "__init__": _init_noted})


def _init_noted(self: Any, *args: Any, **kwargs: Any) -> None:
    """Note the error in the run's state: a swarm ends without an error, and makes a result of those of its agents."""
    RunStopped.__init__(self, *args, **kwargs)
    scope = current_scope()
    if scope is not None and scope.run_state is not None:
        scope.run_state.abort_error = self


# --- a call ------------------------------------------------------------------------------------------------------


def _read(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    agent, use, results, trace, span, _state, *rest = args
    if use["name"] == getattr(rest[0] if rest else None, "expected_tool_name", None):
        return None  # the structured answer
    registry = agent.tool_registry
    tools = {**registry.registry, **registry.dynamic_tools}
    tool = getattr(tools.get(use["name"]), "mcp_tool", None)
    return Reading(
        ToolCall(
            use["name"],
            use.get("input"),
            use.get("toolUseId"),
            tools,
            hints_of(getattr(tool, "annotations", None)),
            tick_of_message(trace.id),  # of one cycle; parallel nodes of a graph overwrite their common cycle id
        ),
        conversation_id=_session(agent),
        agent_name=getattr(agent, "name", None),
        native_span=NativeSpan.INNER if getattr(span, "is_recording", bool)() else NativeSpan.NONE,
        note=results,  # the framework's, for the model: in some versions of all calls of a message
        of_mcp=tool is not None,
    )


def _session(agent: Any) -> str | None:
    return getattr(getattr(agent, "_session_manager", None), "session_id", None)


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make a result, and put it among those for the model."""
    blocks = content if isinstance(content, list) else [{"text": content}]
    result = {"toolUseId": reading.call.call_id, "status": "error" if error else "success", "content": blocks}
    reading.note.append(result)
    return import_module("strands.types._events").ToolResultEvent(result)


def _place(reading: Reading) -> int | None:
    """Return the index of this call's result among those for the model; None if it has none yet."""
    own = (n for n, result in enumerate(reading.note) if result["toolUseId"] == reading.call.call_id)
    return max(own, default=None)


def _outcome(reading: Reading, _: Any) -> Outcome:
    """Read the result for the model; an interrupt has none yet."""
    place = _place(reading)
    if place is None:
        return Outcome(cancelled=True)
    result = reading.note[place]
    content = result["content"]
    texts = [block["text"] for block in content if set(block) == {"text"}]
    return Outcome(
        result="\n".join(texts) if len(texts) == len(content) else content, is_error=result["status"] == "error" or None
    )


def _annotate(reading: Reading, event: Any, text: str) -> Any:
    """Add a block of text to the result for the model. The other blocks stay as they are."""
    place = _place(reading)
    if place is None:
        return None
    result = reading.note[place]
    reading.note[place] = {**result, "content": [*result["content"], {"text": text}]}
    return event


CALL = ToolAdapter(read=_read, answer=_answer, outcome=_outcome, annotate=_annotate, error=_error)

# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(agent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    prompt = args[0] if args else kwargs.get("prompt", kwargs.get("task"))
    answers = isinstance(prompt, list) and any("interruptResponse" in block for block in prompt)
    return RunInfo(_session(agent), getattr(agent, "name", None), resumes=answers, can_continue=False)


def _read_node(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    node = args[0] if args else kwargs["node"]
    return RunInfo(agent_name=getattr(node.executor, "name", None), can_continue=False, apart=True)


def _unfinished(chunk: Any) -> bool:
    """Return True for the result of a run that waits for a person."""
    result = chunk.get("result") if isinstance(chunk, dict) else None
    return getattr(result, "stop_reason", None) == "interrupt"


_TARGETS: tuple[Target, ...] = (
    ToolTarget("strands.tools.executors._executor", "ToolExecutor._stream_with_trace", CALL, CallStyle.ASYNC_GENERATOR),
    RunTarget("strands.agent.agent", "Agent.stream_async", _read_run, CallStyle.ASYNC_GENERATOR, _unfinished),
    RunTarget("strands.multiagent.graph", "Graph.stream_async", _read_run, CallStyle.ASYNC_GENERATOR),
    RunTarget("strands.multiagent.graph", "Graph._execute_node", _read_node, CallStyle.ASYNC_GENERATOR),
    RunTarget("strands.multiagent.swarm", "Swarm.stream_async", _read_run, CallStyle.ASYNC_GENERATOR),
)

FRAMEWORK = Framework(
    "strands",
    _TARGETS,
    native_scopes=("strands.telemetry.tracer",),
    title="Strands Agents",
    turns="runs of an agent or a swarm, and each node of a graph",
    notes="agents, graphs and swarms; not `agent.tool.name()` and not bidirectional agents",
    modules=("strands",),
    versions={
        # Calls are guarded from 1.18 on, but before 1.29 the executor of parallel calls loses every exception.
        "oldest": ("strands-agents==1.29.0",),
        "newest": ("strands-agents",),
    },
    tested={"strands-agents": "1.62.0"},
)
