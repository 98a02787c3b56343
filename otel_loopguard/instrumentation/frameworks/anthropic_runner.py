"""Anthropic's tool runner, ``client.beta.messages.tool_runner``: its tools, names that do not exist, the turn.

The runner's client is patched, too: ``models/anthropic.py`` reads its requests, and knows by their ids the calls that
are judged here. A program may run the tools of a reply itself, and streams may run them while they are read. So a run
is found by its runner, and not only by the scope.
"""

# What is read of a runner has no public name.
# ruff: noqa: SLF001

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.aborts import LoopAbort
from otel_loopguard.instrumentation.content import appended
from otel_loopguard.instrumentation.model_messages import message_tick, tick_of_message
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
from otel_loopguard.telemetry.call_span import NativeSpan
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope, in_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Original, Target

# --- a call ------------------------------------------------------------------------------------------------------


def _read(runner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    tool_use = args[1] if len(args) > 1 else kwargs["tool_use"]
    traced = hasattr(runner, "_tool_use_span") and runner._client._tracer is not None
    return Reading(
        ToolCall(tool_use.name, tool_use.input, tool_use.id, (tool_use.name,), written=_written(runner)),
        run_id=_run_id(runner),
        native_span=NativeSpan.OUTER if traced else NativeSpan.NONE,
    )


def _run_id(runner: Any) -> str:
    return f"anthropic-{id(runner)}"


def _written(runner: Any = None) -> int | None:
    """Return the turn's tick when the model wrote the message whose tools run now. They run one after the other.

    With ``run_tools_eagerly``, some run while the program reads the message: the runner has an object for each message.
    """
    reply, runtime = getattr(runner, "_eager_tool_calls", None), active_runtime.instrumented
    if reply is not None and runtime is not None:
        return tick_of_message(reply, runtime.runs.known(_run_id(runner)))
    return message_tick()


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    block = {"type": "tool_result", "tool_use_id": reading.call.call_id, "content": content}
    return {**block, "is_error": True} if error else block


def _outcome(reading: Reading, result: Any) -> Outcome:
    return Outcome(result=result.get("content"), is_error=bool(result.get("is_error")))


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    return {**result, "content": _longer(result.get("content"), text)}


def _longer(content: Any, text: str) -> Any:
    """Append to a text or to blocks. A text that a program may parse stays as it is, in a block of its own."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
    return appended(content or [], text) or [*blocks, {"type": "text", "text": text}]


CALL = ToolAdapter(
    read=_read, answer=_answer, outcome=_outcome, annotate=_annotate, by_run=True, error=lambda: RunStopped
)

# --- a call before 1.10, where no function of the runner runs one call -------------------------------------------

_unanswered: ContextVar[list[Any] | None] = ContextVar("loopguard_anthropic_unanswered", default=None)
"""The calls of the message whose tools run now; None in newer versions, and outside of a runner."""


def _read_function(tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    given, waiting = args[0] if args else kwargs["input"], _unanswered.get() or []
    for place, tool_use in enumerate(waiting):
        if tool_use.name == tool.name and tool_use.input is given:
            del waiting[place]
            return Reading(ToolCall(tool.name, given, tool_use.id, (tool.name,), written=_written()))
    return None  # called by the program itself, or inside of the call above


# Without ``error``: a runner takes any ``Exception`` from there for an error of the tool.
FUNCTION = ToolAdapter(
    read=_read_function,
    answer=lambda reading, content, error: content,
    annotate=lambda reading, result, text: _longer(result, text),
)

# --- names that do not exist -------------------------------------------------------------------------------------


def _read_unknown(runner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    tool_use, names = args
    return Reading(
        ToolCall(tool_use.name, tool_use.input, tool_use.id, names, written=_written(runner)), run_id=_run_id(runner)
    )


UNKNOWN = replace(CALL, read=_read_unknown)


def _unknown(runner: Any, response: Any, content: Any) -> list[tuple[int, Any, frozenset[str]]]:
    """Return the calls of a message that no tool has answered, each with its place among the results.

    A tool that the model was given as a plain definition is one that the program runs itself.
    """
    if response is None or runner._messages_modified:  # then the results are the program's own
        return []
    tools = runner._runnable_tools() if hasattr(runner, "_runnable_tools") else runner._tools_by_name
    declared = (tool.get("name") for tool in runner._params.get("tools") or ())
    names = frozenset((*tools, *filter(None, declared)))
    calls = {block.id: block for block in content if block.type == "tool_use"}
    found = [(place, calls[result["tool_use_id"]]) for place, result in enumerate(response["content"])]
    return [
        (place, tool_use, names)
        for place, tool_use in found
        if tool_use.name not in names and not getattr(tool_use, "toolset_name", None)
    ]


@contextmanager
def _in_turn(runtime: Runtime, runner: Any, content: Any) -> Iterator[None]:
    """Run the tools of a message in the turn of their run, even if the program calls the runner's function itself."""
    outer = scope = current_scope()
    calls = None if hasattr(runner, "_run_tool") else [block for block in content or () if block.type == "tool_use"]
    with runtime.shield("adapter.turn"):
        scope = runtime.runs.known(_run_id(runner)) or outer
        scope = scope if scope is None else scope.of_message(scope.turn.tick)
    with in_scope(scope):
        token = _unanswered.set(calls)
        try:
            yield
        except LoopAbort as abort:
            raise (abort.error.with_traceback(None) if outer is None else abort) from None
        finally:
            _unanswered.reset(token)


def _respond(original: Original) -> Callable[..., Any]:
    """Run the tools of a message in their turn, and judge its calls of tools that do not exist."""

    def respond(*given: Any, **kwargs: Any) -> Any:
        wrapped, runner, args = original.bind(given)
        runtime, content, unknown = active_runtime.instrumented, None, []
        if runtime is None:
            return wrapped(*args, **kwargs)
        with runtime.shield("adapter.content"):
            content = runner._get_last_assistant_message_content()
        try:
            with _in_turn(runtime, runner, content):
                response = wrapped(*args, **kwargs)
                with runtime.shield("adapter.unknown"):
                    unknown = _unknown(runner, response, content)
                for place, tool_use, names in unknown:
                    call, results = open_call(runtime, UNKNOWN, runner, (tool_use, names), {}), response["content"]
                    if call is not None:
                        with call:
                            results[place] = call.answer if call.answered else call.result(results[place])
        except RunStopped:
            if not runner._iterator.gi_running:  # the program runs the tools itself: this is the end of the run
                runner._iterator.close()
            raise
        return response

    return respond


def _respond_async(original: Original) -> Callable[..., Any]:
    """Do the same for the async runner."""

    async def respond(*given: Any, **kwargs: Any) -> Any:
        wrapped, runner, args = original.bind(given)
        runtime, content, unknown = active_runtime.instrumented, None, []
        if runtime is None:
            return await wrapped(*args, **kwargs)
        with runtime.shield("adapter.content"):
            content = await runner._get_last_assistant_message_content()
        try:
            with _in_turn(runtime, runner, content):
                response = await wrapped(*args, **kwargs)
                with runtime.shield("adapter.unknown"):
                    unknown = _unknown(runner, response, content)
                for place, tool_use, names in unknown:
                    call, results = open_call(runtime, UNKNOWN, runner, (tool_use, names), {}), response["content"]
                    if call is not None:
                        async with call:
                            results[place] = call.answer if call.answered else await call.aresult(results[place])
        except RunStopped:
            if not runner._iterator.ag_running:
                await runner._iterator.aclose()
            raise
        return response

    return respond


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(runner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    tracing = getattr(runner._client, "_otel", None)  # the option ``open_telemetry``
    return RunInfo(getattr(tracing, "conversation_id", None), can_continue=False, run_id=_run_id(runner))


_MODULE = "anthropic.lib.tools._beta_runner"
_FUNCTIONS = "anthropic.lib.tools._beta_functions"
_SCOPE = "com.anthropic.sdk.python"

_TARGETS: tuple[Target, ...] = (
    ToolTarget(_MODULE, "BaseSyncToolRunner._run_tool", CALL, optional=True),
    ToolTarget(_MODULE, "BaseAsyncToolRunner._run_tool", CALL, CallStyle.ASYNC, optional=True),
    ToolTarget(_FUNCTIONS, "BetaFunctionTool.call", FUNCTION),
    ToolTarget(_FUNCTIONS, "BetaAsyncFunctionTool.call", FUNCTION, CallStyle.ASYNC),
    CallTarget(_MODULE, "BaseSyncToolRunner._generate_tool_call_response", _respond),
    CallTarget(_MODULE, "BaseAsyncToolRunner._generate_tool_call_response", _respond_async),
    RunTarget(_MODULE, "BaseSyncToolRunner.__run__", _read_run, CallStyle.GENERATOR),
    RunTarget(_MODULE, "BaseAsyncToolRunner.__run__", _read_run, CallStyle.ASYNC_GENERATOR),
)

FRAMEWORK = Framework(
    "anthropic_runner",
    _TARGETS,
    native_scopes=(
        _SCOPE,
        *(f"{_SCOPE}.{platform}" for platform in ("aws", "bedrock", "foundry", "google_cloud", "vertex")),
    ),
    title="Anthropic tool runner",
    notes="members of toolsets, and tools that the program runs itself, are read in the requests of its client; "
    "the runner of managed sessions is not guarded",
    modules=(_MODULE,),
    versions={
        "oldest": ("anthropic==0.76.0",),
        "newest": ("anthropic",),
    },
    tested={"anthropic": "2.14.0"},
)
