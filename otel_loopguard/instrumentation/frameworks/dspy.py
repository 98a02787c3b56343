"""DSPy: the tools of ``ReAct`` and ``ReActV2``, names that do not exist, and the run of such a module as the turn.

An agent takes every ``Exception`` of a tool for an observation, so an abort is carried to the end of its run. A call
of ``finish`` or ``submit`` is the agent's answer.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.content import appended
from otel_loopguard.instrumentation.model_messages import message_tick, one_message
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
from otel_loopguard.instrumentation.wrappers import open_call
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_loopguard.guard.turn import Turn
    from otel_loopguard.instrumentation.targets import Original, Target

_ANSWER_TOOLS: Final = frozenset({"finish", "submit"})
_open_calls: ContextVar[tuple[Turn, list[Any]] | None] = ContextVar("loopguard_dspy_calls", default=None)
"""The turn and the calls of the message whose tools run now: the tools do not get the ids."""

# --- a call ------------------------------------------------------------------------------------------------------


def _read(tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    made_here = str(getattr(tool.func, "__module__", "")).startswith("dspy.predict.")
    if tool.name in _ANSWER_TOOLS and made_here:
        return None
    arguments = dict(kwargs)
    call_id = _call_id(tool.name, arguments)
    return Reading(ToolCall(tool.name, arguments, call_id, (tool.name,), written=message_tick()))


def _call_id(name: str, arguments: Any) -> str | None:
    scope, (turn, calls) = current_scope(), _open_calls.get() or (None, [])
    if scope is None or scope.turn is not turn:
        return None
    for place, call in enumerate(calls):
        if call.name == name and (call.args or {}) == arguments:
            del calls[place]
            found: str | None = call.id
            return found
    return None


CALL = ToolAdapter(
    read=_read,
    answer=lambda reading, content, error: content,
    annotate=lambda reading, result, text: appended(result, text) if isinstance(result, str) else None,
)

# --- names that do not exist -------------------------------------------------------------------------------------


def _read_unknown(agent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    (call,) = args
    return Reading(ToolCall(call.name, call.args, call.id, frozenset(agent.tools), written=message_tick()))


UNKNOWN = ToolAdapter(
    read=_read_unknown,
    answer=lambda reading, content, error: content,
    outcome=lambda reading, result: Outcome(result=result, is_error=True),
    annotate=lambda reading, result, text: f"{result}\n\n{text}",
)


def _calls_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    return list((args[0] if args else kwargs["tool_calls"]).tool_calls)


def _unknown(agent: Any, calls: list[Any], returned: Any) -> list[tuple[Any, Any]]:
    """Return the calls of tools that do not exist, each with its result."""
    pairs = zip(calls, returned[0].tool_call_results, strict=True)
    return [(call, result) for call, result in pairs if call.name not in agent.tools]


@contextmanager
def _message(calls: list[Any]) -> Iterator[None]:
    """Run the tools of one message, one after the other."""
    scope, token = current_scope(), None
    if scope is not None:
        token = _open_calls.set((scope.turn, list(calls)))
    try:
        with one_message():
            yield
    finally:
        if token is not None:
            _open_calls.reset(token)


def _execute(original: Original) -> Callable[..., Any]:
    def execute(*given: Any, **kwargs: Any) -> Any:
        wrapped, agent, args = original.bind(given)
        runtime, calls, unknown = active_runtime.instrumented, [], []
        if runtime is None:
            return wrapped(*args, **kwargs)
        with runtime.shield("adapter.message"):
            calls = _calls_of(args, kwargs)
        with _message(calls):
            returned = wrapped(*args, **kwargs)
            with runtime.shield("adapter.unknown"):
                unknown = _unknown(agent, calls, returned)
            for asked, result in unknown:
                call = open_call(runtime, UNKNOWN, agent, (asked,), {})
                if call is not None:
                    with call:
                        result.value = call.answer if call.answered else call.result(result.value)
        return returned

    return execute


def _execute_async(original: Original) -> Callable[..., Any]:
    async def execute(*given: Any, **kwargs: Any) -> Any:
        wrapped, agent, args = original.bind(given)
        runtime, calls, unknown = active_runtime.instrumented, [], []
        if runtime is None:
            return await wrapped(*args, **kwargs)
        with runtime.shield("adapter.message"):
            calls = _calls_of(args, kwargs)
        with _message(calls):
            returned = await wrapped(*args, **kwargs)
            with runtime.shield("adapter.unknown"):
                unknown = _unknown(agent, calls, returned)
            for asked, result in unknown:
                call = open_call(runtime, UNKNOWN, agent, (asked,), {})
                if call is not None:
                    async with call:
                        result.value = call.answer if call.answered else await call.aresult(result.value)
        return returned

    return execute


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(agent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return RunInfo(can_continue=False)


_TOOL: Final = "dspy.adapters.types.tool"
_REACT: Final = "dspy.predict.react"
_REACT_V2: Final = "dspy.predict.react_v2"

_TARGETS: tuple[Target, ...] = (
    ToolTarget(_TOOL, "Tool.__call__", CALL),
    ToolTarget(_TOOL, "Tool.acall", CALL, CallStyle.ASYNC),
    CallTarget(_REACT_V2, "ReActV2._execute_tool_calls", _execute),
    CallTarget(_REACT_V2, "ReActV2._aexecute_tool_calls", _execute_async),
    RunTarget(_REACT, "ReAct.forward", _read_run),
    RunTarget(_REACT, "ReAct.aforward", _read_run, CallStyle.ASYNC),
    RunTarget(_REACT_V2, "ReActV2.forward", _read_run),
    RunTarget(_REACT_V2, "ReActV2.aforward", _read_run, CallStyle.ASYNC),
)

FRAMEWORK = Framework(
    "dspy",
    _TARGETS,
    title="DSPy",
    turns="runs of `ReAct` and `ReActV2`",
    notes="tools that generated code calls, as in `CodeAct` and `RLM`, are not covered; "
    "until 3.3 `streamify` puts an abort, as any error, into an exception group",
    answer_tools=_ANSWER_TOOLS,
    modules=("dspy",),
    versions={
        "oldest": ("dspy==3.0.4",),
        "newest": ("dspy",),
    },
    tested={"dspy": "3.4.1"},
)
