"""smolagents: the calls of a ``ToolCallingAgent``, those in the code of a ``CodeAgent``, and managed agents.

In code, a refusal is an exception, and a sentence for the model is printed: the code takes a result for a value, and
may write it to a file.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.content import appended, arguments_of
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
from otel_loopguard.instrumentation.wrappers import wrapper_of
from otel_loopguard.turns.runs import RunInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.instrumentation.targets import Original, Target

_NAME: Final = "smolagents"
_INTERPRETER: Final = "smolagents.local_python_executor"
_ANSWERS: Final = frozenset({"final_answer"})
_OPTIONS: Final = frozenset({"sanitize_inputs_outputs"})
"""Keywords of ``Tool.__call__`` that are no arguments of the tool."""

# --- a message of the model: calls, or code with the state of its interpreter, which has what the code printed -----


def _process_tool_calls(original: Original) -> Callable[..., Any]:
    def process_tool_calls(*given: Any, **kwargs: Any) -> Any:
        runtime = active_runtime.instrumented
        if runtime is not None:
            with runtime.shield("adapter.message"):
                note_message(_NAME)
        return (yield from original.unbound(*given, **kwargs))

    return process_tool_calls


def _run_code(original: Original) -> Callable[..., Any]:
    def run_code(*given: Any, **kwargs: Any) -> Any:
        runtime = active_runtime.instrumented
        if runtime is None:
            return original.unbound(*given, **kwargs)
        with runtime.shield("adapter.message"):
            note_message(_NAME, given[0].state)
        try:
            return original.unbound(*given, **kwargs)
        finally:
            with runtime.shield("adapter.message"):
                note_message(_NAME)  # a tool that is called between two messages is the program's own call

    return run_code


# --- a call of a ToolCallingAgent --------------------------------------------------------------------------------


def _read(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    name, arguments = (*args, *(kwargs[key] for key in ("tool_name", "arguments")[len(args) :]))
    if name in _ANSWERS:
        return None
    known = {*instance.tools, *instance.managed_agents}
    call = ToolCall(name, arguments_of(arguments), known_tools=known, written=last_message(_NAME).tick)
    return Reading(call, agent_name=getattr(instance, "name", None))


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    """Add the sentence to a text. The framework's own type of texts, which programs read, stays."""
    longer, kind = appended(result, text), import_module("smolagents.agent_types").AgentText
    return kind(longer) if type(result) is kind and longer is not None else longer


CALL = ToolAdapter(
    read=_read,
    answer=lambda reading, content, error: content,
    annotate=_annotate,
    error=lambda: RunStopped,
)

# --- a call in the code of a CodeAgent ---------------------------------------------------------------------------


class ToolCallRefused(Exception):  # noqa: N818 - the model reads its name in front of the refusal
    """A refused call in the code of a ``CodeAgent``: the code ends here, and the model reads the text."""


def _read_in_code(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    message = last_message(_NAME)
    if message.about is None or instance.name in _ANSWERS:
        return None
    arguments = {name: value for name, value in kwargs.items() if name not in _OPTIONS}
    if len(args) == 1 and not arguments and isinstance(args[0], dict) and set(args[0]) <= set(instance.inputs):
        arguments = args[0]  # as smolagents reads it
    else:
        arguments.update(zip(instance.inputs, args))  # noqa: B905 - too many fail in the tool
    call = ToolCall(instance.name, arguments, known_tools=(instance.name,), written=message.tick)
    return Reading(call, note=message.about)


def _answer_in_code(reading: Reading, content: Any, error: bool) -> Any:
    return ToolCallRefused(content) if error else content


def _print(reading: Reading, result: Any, text: str) -> Any:
    """Print the sentence as the code prints, and leave the result alone."""
    reading.note["_print_outputs"] += f"{text}\n"
    return result


def _is_unknown(call: Any, *places: Any) -> bool:
    """Return True for a call of a function that does not exist, as the interpreter looks for it."""
    name = getattr(call.func, "id", None)
    if name is None or any(name in place for place in places):
        return False
    return name not in import_module(_INTERPRETER).ERRORS


def _read_unknown(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading | None:
    call, _, static_tools, *_ = args
    message = last_message(_NAME)
    if message.about is None:
        return None
    tools = {name for name, one in static_tools.items() if hasattr(one, "inputs")}
    unknown = ToolCall(call.func.id, {"code": ast.unparse(call)}, known_tools=tools, written=message.tick)
    return Reading(unknown, note=message.about)


IN_CODE = ToolAdapter(read=_read_in_code, answer=_answer_in_code, annotate=_print)
UNKNOWN_IN_CODE = replace(IN_CODE, read=_read_unknown)


def _in_code(module: str, path: str, adapter: ToolAdapter = IN_CODE) -> CallTarget:
    def wrapper(original: Original) -> Callable[..., Any]:
        guarded = wrapper_of(ToolTarget(module, path, adapter), original)

        def call(*given: Any, **kwargs: Any) -> Any:
            result = guarded(*given, **kwargs)
            if type(result) is ToolCallRefused:
                raise result
            return result

        return call

    return CallTarget(module, path, wrapper)


_UNKNOWN: Final = _in_code(_INTERPRETER, "evaluate_call", UNKNOWN_IN_CODE)


def _evaluate_call(original: Original) -> Callable[..., Any]:
    """Guard the unknown calls only: any other one costs one frame, or deep recursion in the code would fail earlier."""
    guarded, function = _UNKNOWN.wrapper(original), original.unbound

    def evaluate_call(*given: Any, **kwargs: Any) -> Any:
        runtime, unknown = active_runtime.instrumented, False
        if runtime is not None:
            with runtime.shield("adapter.read"):
                unknown = _is_unknown(*given[:4])
        return guarded(*given, **kwargs) if unknown else function(*given, **kwargs)

    return evaluate_call


# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    return RunInfo(agent_name=getattr(instance, "name", None), can_continue=False)


_TARGETS: tuple[Target, ...] = (
    CallTarget("smolagents.agents", "ToolCallingAgent.process_tool_calls", _process_tool_calls),
    ToolTarget("smolagents.agents", "ToolCallingAgent.execute_tool_call", CALL),
    CallTarget(_INTERPRETER, "LocalPythonExecutor.__call__", _run_code),
    CallTarget(_INTERPRETER, "evaluate_call", _evaluate_call),
    _in_code("smolagents.tools", "Tool.__call__"),
    _in_code("smolagents.tools", "PipelineTool.__call__"),
    _in_code("smolagents.agents", "MultiStepAgent.__call__"),
    RunTarget("smolagents.agents", "MultiStepAgent._run_stream", _read_run, CallStyle.GENERATOR),
)

FRAMEWORK = Framework(
    _NAME,
    _TARGETS,
    title="smolagents",
    notes="in the code of a `CodeAgent` a refusal is an exception; code that runs remotely (E2B, Docker, ...) is not "
    "seen; managed agents are child turns",
    answer_tools=_ANSWERS,
    modules=("smolagents",),
    versions={"oldest": ("smolagents==1.22.0",), "newest": ("smolagents",)},
    tested={"smolagents": "1.26.0"},
)
