"""AG2: the tool calls of an agent's turn. Its stream is the conversation.

A call is an event, so nothing at the call knows the agent's tools. They are remembered when the agent registers them on
its stream, until the turn is over.
"""

from __future__ import annotations

import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.model_messages import ends_the_others, message_tick, one_message
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import (
    MARK,
    CallStyle,
    CallTarget,
    Framework,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.telemetry.call_span import NativeSpan, if_recorded
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Original, Target

_EXECUTOR: Final = "ag2.tools.executor"
_TELEMETRY: Final = "ag2.middleware.builtin.telemetry"

# --- the tools of a turn -----------------------------------------------------------------------------------------


class _Registered(NamedTuple):
    tools: frozenset[str]
    native_span: NativeSpan
    """``INNER`` if a middleware of the turn makes spans of the calls."""


_turns: Final[dict[Any, _Registered]] = {}
"""By the id of the stream, which has one turn at a time."""


def _register(original: Original) -> Callable[..., Any]:
    def register(*given: Any, **kwargs: Any) -> Any:
        wrapped, _, args = original.bind(given)
        runtime = active_runtime.instrumented
        if runtime is not None:
            with runtime.shield("adapter.tools"):
                _remember(*args, **kwargs)
        return wrapped(*args, **kwargs)

    return register


def _remember(stack: Any, context: Any, *, known_tools: Any = (), middleware: Any = (), **_: Any) -> None:
    spans = [one for one in middleware if type(one).__module__ == _TELEMETRY]
    native_span = if_recorded(getattr(spans[0], "_tracer", None), NativeSpan.INNER) if spans else NativeSpan.NONE
    _turns[context.stream.id] = _Registered(frozenset(known_tools), native_span)
    stack.callback(_turns.pop, context.stream.id, None)


# --- a call ------------------------------------------------------------------------------------------------------


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    context, call = args
    registered = _turns.get(context.stream.id)
    tools = None if registered is None else registered.tools
    return Reading(
        ToolCall(call.name, arguments_of(call.arguments), call.id, tools, written=message_tick()),
        conversation_id=str(context.stream.id),
        native_span=registered.native_span if registered and call.name in registered.tools else NativeSpan.NONE,
        note=call,
    )


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    return import_module("ag2.events").ToolResultEvent.from_call(reading.note, content)


def _outcome(reading: Reading, result: Any) -> Outcome:
    if not hasattr(result, "result"):
        return Outcome(cancelled=True)  # a call of the client's own tool, which runs elsewhere
    error = getattr(result, "error", None)
    if error is not None:
        return Outcome(error=error)
    parts = [getattr(part, "content", getattr(part, "data", part)) for part in result.result.parts]
    return Outcome(result=parts[0] if len(parts) == 1 else parts, is_error=False, keep=result.result)


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Return a copy with the sentence in its last part, if that is a text that the model reads."""
    parts = [] if not hasattr(result, "result") or result.result.final else result.result.parts
    content = getattr(parts[-1], "content", None) if parts else None
    longer = appended(content, text) if isinstance(content, str) else None
    if longer is None:
        return None
    changed, outcome, last = copy.copy(result), copy.copy(result.result), copy.copy(parts[-1])
    last.content, outcome.parts, changed.result = longer, [*parts[:-1], last], outcome
    return changed


def _mark(reading: Reading, answer: Any, mark: str) -> Any:
    answer.result.metadata = {**answer.result.metadata, MARK: mark}
    return answer


def _signals(error: BaseException) -> bool:
    """Return True if nobody answered the question of a tool or of an approval: that ends the turn."""
    return any(kind.__name__ == "HumanInputError" for kind in type(error).__mro__)


CALL = ToolAdapter(
    read=_read,
    answer=_answer,
    outcome=_outcome,
    annotate=_annotate,
    mark=_mark,
    signals=_signals,
    error=lambda: RunStopped,
)

# --- the calls of one message ------------------------------------------------------------------------------------


def _execute_tools(original: Original) -> Callable[..., Any]:
    """Give each call of the message a result when one of them ends the run, so that the stream can be used again."""

    async def execute_tools(*given: Any, **kwargs: Any) -> Any:
        wrapped, _, args = original.bind(given)
        try:
            with one_message():
                return await wrapped(*args, **kwargs)
        except RunStopped as error:
            runtime = active_runtime.instrumented
            if runtime is not None:
                with runtime.shield("adapter.results"):
                    context = args[1] if len(args) > 1 else kwargs["context"]
                    module = import_module("ag2.history")
                    close = getattr(module, "close_unanswered_tool_calls", _close_unanswered)
                    await close(context.stream.history, result=str(error))
            raise

    return execute_tools


async def _close_unanswered(history: Any, *, result: str) -> None:
    """Do what the framework's function of this name does in newer versions, for the last calls."""
    events, known = import_module("ag2.events"), list(await history.get_events())
    calls = next(event.calls for event in reversed(known) if isinstance(event, events.ToolCallsEvent))
    done = {event.parent_id: event for event in known if isinstance(event, events.ToolResultEvent)}
    results = [done.get(call.id) or events.ToolResultEvent.from_call(call, result) for call in calls]
    await history.replace([*known, events.ToolResultsEvent(results)])


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    context = args[1] if len(args) > 1 else kwargs["context"]
    return RunInfo(conversation_id=str(context.stream.id), can_continue=False)


_TARGETS: tuple[Target, ...] = (
    ToolTarget(_EXECUTOR, "_execute_call", CALL, CallStyle.ASYNC, around=ends_the_others),
    CallTarget(_EXECUTOR, "ToolExecutor.execute_tools", _execute_tools),
    CallTarget(_EXECUTOR, "ToolExecutor.register", _register),
    RunTarget("ag2.agent", "_execute_turn", _read_run, CallStyle.ASYNC),
)

FRAMEWORK = Framework(
    "ag2",
    _TARGETS,
    native_scopes=("opentelemetry.instrumentation.ag2",),
    title="AG2",
    notes="tools of the provider and of the client are not guarded; the agents of before 1.0 (`autogen`) are not",
    modules=("ag2",),
    versions={
        "oldest": ("ag2==1.0.0",),
        "newest": ("ag2",),
    },
    tested={"ag2": "1.2.1"},
)
