"""Haystack: the tools of an ``Agent``, names that do not exist, and the run of an agent as the turn.

A tool runs in a function that the patched one makes, in a thread or a task. The agents of a pipeline do not know what
the others have read, so each has its own turn.
"""

from __future__ import annotations

from contextvars import copy_context
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.aborts import wrapped_error
from otel_loopguard.instrumentation.content import appended
from otel_loopguard.instrumentation.model_messages import last_message, note_message
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    CallTarget,
    Framework,
    Original,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.instrumentation.wrappers import open_call, wrapper_of
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from otel_loopguard.instrumentation.targets import Target

_NAME: Final = "haystack"
_MODULE: Final = "haystack.components.agents.tool_calling"
_KEY: Final = "loopguard"
"""The key of a sentence in a tool's result."""


# --- a call ------------------------------------------------------------------------------------------------------


def _read(note: Any, call: Any, known: Any) -> Reading:
    written = last_message(_NAME).tick
    return Reading(ToolCall(call.tool_name, call.arguments, call.id, known, written=written), note=note)


def _read_sync(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    tool = args[0] if args else kwargs["tool"]
    return _read(tool, args[2] if len(args) > 2 else kwargs["tool_call"], (tool.name,))


def _read_async(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    tool = args[0] if args else kwargs["tool"]
    return _read(tool, args[3] if len(args) > 3 else kwargs["tool_call"], (tool.name,))


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make a failure of the tool; a plain result where a failure would end the run."""
    if error and not last_message(_NAME).about:
        return import_module("haystack.tools.errors").ToolInvocationError(content, reading.call.tool)
    return content


def _outcome(reading: Reading, result: Any) -> Outcome:
    if type(result).__name__ == "ToolInvocationError":
        return Outcome(result=str(result), error=result.__cause__ or result, is_error=True)
    return Outcome(result=result)


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Add to a result that the model alone reads, as text or as JSON."""
    tool = reading.note
    if getattr(tool, "outputs_to_string", None) or getattr(tool, "outputs_to_state", None):
        return None
    if isinstance(result, dict):
        return None if _KEY in result else {**result, _KEY: text}
    return [*result, text] if isinstance(result, list) else appended(result, text)


SYNC = ToolAdapter(read=_read_sync, answer=_answer, outcome=_outcome, annotate=_annotate, error=lambda: RunStopped)
ASYNC = replace(SYNC, read=_read_async)


def _make_invoke(original: Original) -> Callable[..., Any]:
    """Guard the function that is made. It runs in a thread, in the context of the code that makes it."""
    guarded = wrapper_of(
        ToolTarget(_MODULE, "", SYNC), Original(lambda *given, **kwargs: original.function(*given, **kwargs)(), None)
    )

    def make(*given: Any, **kwargs: Any) -> Any:
        if active_runtime.instrumented is None:
            return original.function(*given, **kwargs)
        return partial(copy_context().run, guarded, *given, **kwargs)

    return make


def _make_invoke_async(original: Original) -> Callable[..., Any]:
    """Guard the coroutine function that is made."""

    async def invoke(*given: Any, **kwargs: Any) -> Any:
        return await original.function(*given, **kwargs)()

    guarded = wrapper_of(ToolTarget(_MODULE, "", ASYNC, CallStyle.ASYNC), Original(invoke, None))

    def make(*given: Any, **kwargs: Any) -> Any:
        if active_runtime.instrumented is None:
            return original.function(*given, **kwargs)
        return partial(guarded, *given, **kwargs)

    return make


# --- names that do not exist -------------------------------------------------------------------------------------


def _read_unknown(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    message, _, known = args
    return _read(message, message.tool_call_result.origin, known)


def _answer_unknown(reading: Reading, content: Any, error: bool) -> Any:
    made = import_module("haystack.dataclasses").ChatMessage.from_tool
    return made(tool_result=content, origin=reading.note.tool_call_result.origin, error=True)


UNKNOWN = ToolAdapter(
    read=_read_unknown,
    answer=_answer_unknown,
    outcome=lambda reading, message: Outcome(result=message.tool_call_result.result, is_error=True),
    annotate=lambda reading, message, text: _answer_unknown(
        reading, f"{message.tool_call_result.result}\n\n{text}", error=True
    ),
    error=lambda: RunStopped,
)


def _read_fatal(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    messages, known = args
    made_up = (call for message in messages for call in message.tool_calls if call.tool_name not in known)
    call = next(made_up, None)
    return None if call is None else _read(None, call, known)


FATAL = ToolAdapter(read=_read_fatal, answer=_answer, error=lambda: RunStopped)


def _resolve(original: Original) -> Callable[..., Any]:
    """Judge the calls of tools that do not exist, and note if a failed call of this message ends the run."""
    resolve = wrapper_of(ToolTarget(_MODULE, "", FATAL, fatal=True), original)

    def resolved(*given: Any, **kwargs: Any) -> Any:
        runtime = active_runtime.instrumented
        if runtime is None:
            return original.function(*given, **kwargs)
        with runtime.shield("adapter.message"):
            note_message(_NAME, kwargs.get("raise_on_failure"))
        result = resolve(*given, **kwargs)
        _, _, errors = result
        for place, message in enumerate(errors):
            call = open_call(runtime, UNKNOWN, None, (message, *given), kwargs)
            if call is not None:
                with call:
                    errors[place] = call.answer if call.answered else call.result(message)
        return result

    return resolved


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(agent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return RunInfo(can_continue=False)


def _let_out(original: Original) -> Callable[..., Any]:
    """Let a ``RunStopped`` out of a pipeline, which wraps each exception of a component."""

    def run(*given: Any, **kwargs: Any) -> Any:
        wrapped, _, args = original.bind(given)
        try:
            return wrapped(*args, **kwargs)
        except import_module("haystack.core.errors").PipelineRuntimeError as error:
            abort = wrapped_error(error, type(error))
            if abort is not None:
                raise abort from None
            raise

    return run


def _let_out_async(original: Original) -> Callable[..., Any]:
    """Do the same for async pipelines."""

    async def run(*given: Any, **kwargs: Any) -> AsyncIterator[Any]:
        wrapped, _, args = original.bind(given)
        source = wrapped(*args, **kwargs)
        try:
            async for chunk in source:
                yield chunk
        except import_module("haystack.core.errors").PipelineRuntimeError as error:
            abort = wrapped_error(error, type(error))
            if abort is not None:
                raise abort from None
            raise
        finally:
            await source.aclose()

    return run


_AGENT: Final = "haystack.components.agents.agent"

_PIPELINE: Final = "haystack.core.pipeline.pipeline"

_TARGETS: tuple[Target, ...] = (
    CallTarget(_MODULE, "_make_context_bound_invoke", _make_invoke),
    CallTarget(_MODULE, "_make_bounded_invoke_async", _make_invoke_async),
    CallTarget(_MODULE, "_resolve_tool_calls", _resolve),
    RunTarget(_AGENT, "Agent.run", _read_run),
    RunTarget(_AGENT, "Agent.run_async", _read_run, CallStyle.ASYNC),
    CallTarget(_PIPELINE, "Pipeline.run", _let_out),
    CallTarget(_PIPELINE, "Pipeline.run_async_generator", _let_out_async),
)

FRAMEWORK = Framework(
    _NAME,
    _TARGETS,
    title="Haystack",
    notes="each agent of a pipeline has its own turn; the `ToolInvoker` of Haystack 2 is not covered",
    modules=("haystack.components.agents",),
    versions={
        "oldest": ("haystack-ai==3.0.0",),
        "newest": ("haystack-ai",),
    },
    tested={"haystack-ai": "3.4.1"},
)
