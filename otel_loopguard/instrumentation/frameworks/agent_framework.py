"""Microsoft Agent Framework: the function calls of chat clients, which agents and plain requests go through.

A chat client returns a coroutine or a stream that calls functions until the model answers: that is the run. An agent's
session is its conversation.
"""

from __future__ import annotations

import copy
import inspect
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.agent_run import AgentRun, async_generator_of_run, run_async
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.model_messages import calls_of_one_message, message_tick
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import (
    MARK,
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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Original, Target

_MODULE: Final = "agent_framework._tools"
_SIGNALS: Final = ("MiddlewareFailure", "MiddlewareTermination", "UserInputRequiredException")


@cache
def _error() -> type[RunStopped]:
    """Return the class of a ``RunStopped`` after which the framework leaves no call open.

    If the service keeps the conversation, it gives the calls of the message results. Older versions do that for none.
    """
    base = getattr(import_module("agent_framework"), "MiddlewareFailure", None)
    if base is None:
        return RunStopped
    return type(
        "RunStopped",
        (RunStopped, base),
        {"__doc__": "The run was ended, in a class after which calls are settled."},
    )


# --- a call ------------------------------------------------------------------------------------------------------


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    content = args[0] if args else kwargs["function_call_content"]
    tools = kwargs["tool_map"]
    call = content if content.type == "function_call" else content.function_call  # of the user's approval
    tool = None if call is None else tools.get(call.name)
    if call is None or (tool is None and call is not content):
        return None  # a hosted tool
    arguments = arguments_of(call.arguments)
    return Reading(
        ToolCall(call.name or "", arguments, call.call_id, tools.keys(), written=message_tick()),
        conversation_id=getattr(kwargs.get("invocation_session"), "session_id", None),
        native_span=_native_span(tool, arguments),
        note=call,
    )


def _native_span(tool: Any, arguments: Any) -> NativeSpan:
    """Return the position of its own span: none if it is switched off, or if the call has no function that can run."""
    observability: Any = sys.modules.get("agent_framework.observability")
    if tool is None or observability is None or not observability.OBSERVABILITY_SETTINGS.ENABLED:
        return NativeSpan.NONE
    required = tool.parameters().get("required") or ()
    if not isinstance(arguments, dict) or not arguments.keys() >= set(required):
        return NativeSpan.NONE
    return if_recorded(observability.get_tracer(), NativeSpan.INNER)


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make a result without ``exception``: a few of those in a row would end the run."""
    call = reading.note
    result = import_module("agent_framework").Content.from_function_result(
        call.call_id, result=content, additional_properties=call.additional_properties
    )
    result.id = getattr(call, "id", None)
    return result


def _outcome(reading: Reading, result: Any) -> Outcome:
    if result.type != "function_result":
        return Outcome(cancelled=True)  # a request for an approval
    if result.exception is not None:
        return Outcome(error=str(result.exception))
    items = result.items or []
    if all(item.type == "text" for item in items):
        return Outcome(result=result.result, is_error=False)
    return Outcome(result=[item.to_dict() for item in items], is_error=False, keep=items)


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Return a copy with the sentence in its last text, and in the text of all items."""
    items = list(getattr(result, "items", None) or ())
    longer = appended(items[-1].text, text) if items and items[-1].type == "text" else None
    if longer is None:
        return None
    changed, last = copy.copy(result), copy.copy(items[-1])
    last.text = longer
    changed.items = [*items[:-1], last]
    changed.result = f"{result.result}{longer[len(items[-1].text) :]}"
    return changed


def _mark(reading: Reading, answer: Any, mark: str) -> Any:
    answer.additional_properties = {**(answer.additional_properties or {}), MARK: mark}
    return answer


def _signals(error: BaseException) -> bool:
    """Return True for the signals that a middleware ends the loop, or that a tool waits for the user."""
    return not isinstance(error, RunStopped) and any(kind.__name__ in _SIGNALS for kind in type(error).__mro__)


CALL = ToolAdapter(
    read=_read,
    answer=_answer,
    outcome=_outcome,
    annotate=_annotate,
    mark=_mark,
    signals=_signals,
    error=_error,
)

# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(client: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    session = (kwargs.get("client_kwargs") or {}).get("session")
    messages = (args[0] if args else kwargs.get("messages")) or [None]
    return RunInfo(
        conversation_id=getattr(session, "session_id", None),
        resumes=_has(messages[-1], "function_approval_response"),
        can_continue=False,
    )


def _has(message: Any, kind: str) -> bool:
    return any(content.type == kind for content in getattr(message, "contents", None) or ())


def _unfinished(result: Any) -> bool:
    """Return True if a response, or an update of a stream, asks the user to approve a call."""
    return any(_has(message, "function_approval_request") for message in getattr(result, "messages", [result]))


RUN: Final = RunTarget(_MODULE, "FunctionInvocationLayer.get_response", _read_run, CallStyle.ASYNC, _unfinished)


def _get_response(original: Original) -> Callable[..., Any]:
    """Wrap the plain function that returns the coroutine or the stream of a run."""

    def get_response(*given: Any, **kwargs: Any) -> Any:
        wrapped, instance, args = original.bind(given)
        runtime, response = active_runtime.instrumented, wrapped(*args, **kwargs)
        if runtime is None:
            return response
        source = getattr(response, "_stream_source", None)
        if source is not None and not inspect.isasyncgen(source):
            return response  # a stream that calls no functions

        def opened(*_: Any) -> tuple[AgentRun, Callable[[], Any]]:
            return AgentRun(runtime, RUN, instance, args, kwargs), lambda: response if source is None else source

        async def run() -> Any:
            return await run_async(*opened())

        if source is None:
            return run()
        response._stream_source = async_generator_of_run(opened)()  # noqa: SLF001 - hooks are on the response itself
        return response

    return get_response


_TARGETS: tuple[Target, ...] = (
    ToolTarget(_MODULE, "_auto_invoke_function", CALL, CallStyle.ASYNC),
    CallTarget(_MODULE, "FunctionInvocationLayer.get_response", _get_response),
    CallTarget(_MODULE, "_try_execute_function_call_groups", calls_of_one_message),
    CallTarget(_MODULE, "_try_execute_function_calls", calls_of_one_message),  # its name before
)

FRAMEWORK = Framework(
    "agent_framework",
    _TARGETS,
    native_scopes=("agent_framework",),
    title="Microsoft Agent Framework",
    turns="runs: an agent's, or a request to a chat client that calls functions",
    notes="each agent of a workflow has turns of its own; hosted tools, and agents whose loop is in another process,"
    " are not guarded",
    modules=("agent_framework",),
    versions={
        "oldest": ("agent-framework-core==1.0.0",),
        "newest": ("agent-framework-core",),
    },
    tested={"agent-framework-core": "1.23.0"},
    limits=(
        FrameworkLimit(
            "Agent Framework FunctionTool(max_invocations)", _MODULE, "FunctionTool.__init__", "max_invocations"
        ),
    ),
)
