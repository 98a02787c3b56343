"""Agno: the function calls of agents and teams, names that do not exist, and a run as the turn.

A member of a team runs in a generator that its leader's tool returns. So the call of such a tool lasts until its last
item, and the member's run is a child turn of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import (
    CallStyle,
    CallTarget,
    Framework,
    FrameworkLimit,
    Items,
    Original,
    Reading,
    RunTarget,
    ToolAdapter,
    ToolTarget,
)
from otel_loopguard.instrumentation.wrappers import wrapper_of
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Target

_SIGNALS: Final = ("StopAgentRun", "RunCancelledException")
_WRITTEN: Final = "_otel_loopguard_written"
"""The attribute of a call that says what was known when it was written."""


class _Written(NamedTuple):
    tick: int | None = None
    tools: Mapping[str, Any] | None = None


_NOT_WRITTEN: Final = _Written()
"""Of a call that waited for a person: it was written in an earlier run."""


# --- a call ------------------------------------------------------------------------------------------------------


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    function = instance.function
    written = instance.__dict__.get(_WRITTEN, _NOT_WRITTEN)
    context = getattr(function, "_run_context", None)
    owner = getattr(function, "_agent", None) or getattr(function, "_team", None)
    return Reading(
        ToolCall(
            function.name,
            instance.arguments,
            instance.call_id,
            (function.name,) if written.tools is None else written.tools,
            written=written.tick,
        ),
        conversation_id=getattr(context, "session_id", None),
        agent_name=getattr(owner, "name", None),
        note=instance,
    )


def _answer(reading: Reading, content: Any, error: bool) -> Any:
    """Make a failure, or a success with the earlier result. The model reads it from the call, or from the result.

    A failure has an empty result: the user of a tool with ``show_result`` reads that, and would read "None".
    """
    if error:
        reading.note.error = content
        if reading.note.result is None:  # else the tool is a generator, which has begun
            reading.note.result = ""
        return _result("failure", result="", error=content)
    reading.note.result = content
    return _result("success", result=content)


def _result(status: str, **fields: Any) -> Any:
    return import_module("agno.tools.function").FunctionExecutionResult(status=status, **fields)


def _outcome(reading: Reading, result: Any) -> Outcome:
    if result is None:
        return Outcome(cancelled=True)  # before 2.5, a cancelled call returns None
    if result.status == "failure":
        return Outcome(result=result.error, is_error=True)
    value = getattr(result.result, "content", result.result)  # of a ToolResult
    return Outcome(cancelled=True) if isinstance(value, Iterator) else Outcome(result=value)


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    function = reading.note.function
    if function.show_result or function.stop_after_tool_call:  # the result is the user's answer
        return None
    if result.status == "failure":
        reading.note.error = f"{result.error}\n\n{text}"
        return result.model_copy(update={"error": reading.note.error})
    value: Any = result.result
    longer: Any = None
    if isinstance(value, str):
        longer = appended(value, text)
    elif isinstance(getattr(value, "content", None), str):  # a ToolResult
        content = appended(value.content, text)
        longer = None if content is None else value.model_copy(update={"content": content})
    if longer is None:
        return None
    if reading.note.result is value:  # else that is the generator of the text
        reading.note.result = longer
    return result.model_copy(update={"result": longer})


def _signals(error: BaseException) -> bool:
    """Return True for the wish to stop the run, of a tool or of the program."""
    return any(kind.__name__ in _SIGNALS for kind in type(error).__mro__)


CALL = ToolAdapter(read=_read, answer=_answer, outcome=_outcome, annotate=_annotate, signals=_signals)


# --- a tool that is a generator ----------------------------------------------------------------------------------


def _put(instance: Any, result: Any, items: Any) -> None:
    instance.result = result.result = items


def _said(item: Any) -> str:
    """Return what the model reads of an item: of the events of a member's run, the content."""
    if not hasattr(item, "event"):
        return str(item)
    content = getattr(item, "content", None) if type(item).__name__.endswith("RunContentEvent") else None
    return content if isinstance(content, str) else ""


def _find(result: Any) -> Any:
    source = getattr(result, "result", None)
    return source if isinstance(source, (GeneratorType, AsyncGeneratorType)) else None


ITEMS = Items(
    find=_find,
    put=_put,
    said=_said,
    result_of=lambda text: _result("success", result=text),
    text_in=lambda result: str(result.result),
)

# --- calls that do not run: a name that does not exist, or arguments that are no JSON object -----------------------


def _read_failed(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    message, written, functions = args
    asked = written.get("function") or {}
    arguments = arguments_of(asked.get("arguments"))
    return Reading(ToolCall(asked.get("name") or "", arguments, message.tool_call_id, functions or {}), note=message)


def _answer_failed(reading: Reading, content: Any, error: bool) -> Any:
    reading.note.content = content
    return reading.note


def _outcome_failed(reading: Reading, result: Any) -> Outcome:
    return Outcome(result=result.content, is_error=True)


def _annotate_failed(reading: Reading, result: Any, text: str) -> Any:
    result.content = f"{result.content}\n\n{text}"
    return result


FAILED = ToolAdapter(read=_read_failed, answer=_answer_failed, outcome=_outcome_failed, annotate=_annotate_failed)


def _given_message(message: Any, written: Any, functions: Any) -> Any:
    return message


_failed = wrapper_of(ToolTarget("", "", FAILED), Original(_given_message, None))


def _calls_to_run(original: Original) -> Callable[..., Any]:
    """Judge the calls that get their error message here, and are not run. Note on the others when they were written."""
    function = original.unbound

    def get_function_calls_to_run(
        self: Any, assistant_message: Any, messages: Any, functions: Any = None, **kwargs: Any
    ) -> Any:
        before, runtime, scope = len(messages), active_runtime.instrumented, current_scope()
        calls = function(self, assistant_message, messages, functions, **kwargs)
        if runtime is not None:
            with runtime.shield("adapter.each"):
                written = _Written(None if scope is None else scope.turn.tick, functions)
                for call in calls:
                    call.__dict__[_WRITTEN] = written
                asked = iter(assistant_message.tool_calls or ())
                for message in messages[before:]:
                    _failed(message, next(one for one in asked if one.get("id") == message.tool_call_id), functions)
        return calls

    return get_function_calls_to_run


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    owner, context = args[0] if instance is None else instance, kwargs.get("run_context")
    return RunInfo(getattr(context, "session_id", None), agent_name=getattr(owner, "name", None), can_continue=False)


def _read_continued(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return _read_run(instance, args, kwargs)._replace(resumes=True)


def _unfinished(result: Any) -> bool:
    """Return True for a run, or the last event of its stream, that waits for a person."""
    return bool(getattr(result, "is_paused", False))


_STYLES: Final = {
    "run": CallStyle.SYNC,
    "run_stream": CallStyle.GENERATOR,
    "arun": CallStyle.ASYNC,
    "arun_stream": CallStyle.ASYNC_GENERATOR,
}

_TARGETS: tuple[Target, ...] = (
    ToolTarget("agno.tools.function", "FunctionCall.execute", CALL, items=ITEMS),
    ToolTarget("agno.tools.function", "FunctionCall.aexecute", CALL, CallStyle.ASYNC, items=ITEMS),
    CallTarget("agno.models.base", "Model.get_function_calls_to_run", _calls_to_run),
    *(
        RunTarget(module, path, read, style, _unfinished, optional=True)
        for module, owner in (
            ("agno.agent._run", ""),
            ("agno.team._run", ""),
            ("agno.agent.agent", "Agent."),  # before 2.5
            ("agno.team.team", "Team."),
        )
        for name, style in _STYLES.items()
        for path, read in (
            (f"{owner}_{name}", _read_run),
            (f"{owner}_{name.replace('run', 'continue_run')}", _read_continued),
        )
    ),
)

FRAMEWORK = Framework(
    "agno",
    _TARGETS,
    title="Agno",
    notes="agents and teams; a member of a team has a child turn; in a `Workflow` an abort fails the step",
    modules=("agno",),
    versions={"oldest": ("agno==2.3.4",), "newest": ("agno",)},
    tested={"agno": "3.1.10"},
    limits=tuple(
        FrameworkLimit(f"Agno {owner}(tool_call_limit)", module, f"{owner}.__init__", "tool_call_limit")
        for module, owner in (("agno.agent.agent", "Agent"), ("agno.team.team", "Team"))
    ),
)
