"""Semantic Kernel: the functions that models call by themselves, in chat completions, agents and other services.

The kernel adds the result of a call to the chat history, and returns nothing. So a refusal is added there, too, and a
sentence is added to the message that is there already.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.errors import RunStopped
from otel_loopguard.instrumentation.aborts import wrapped_error
from otel_loopguard.instrumentation.content import appended, arguments_of
from otel_loopguard.instrumentation.model_messages import ends_the_others, tick_of_message
from otel_loopguard.instrumentation.targets import (
    IN_PLACE,
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
    from collections.abc import Callable

    from otel_loopguard.instrumentation.targets import Original, Target

_FUNCTIONS: Final = "semantic_kernel.functions.kernel_function"
_FAILED: Final = "An error occurred"
"""The beginning of the result of a function that raised."""

# --- a call ------------------------------------------------------------------------------------------------------


def _read(kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Reading:
    call = args[0] if args else kwargs["function_call"]
    history = args[1] if len(args) > 1 else kwargs["chat_history"]
    filters = getattr(kwargs.get("function_behavior"), "filters", None)
    known = {one.fully_qualified_name: one for one in kernel.get_list_of_function_metadata(filters or {})}
    if not filters:  # without a filter the kernel finds a function by its bare name, too
        known.update({one.name: one for one in known.values() if one.name not in known})
    function = known.get(call.name)
    tracer = getattr(sys.modules.get(_FUNCTIONS), "tracer", None)
    runs = function is not None and _is_accepted(function, call)
    request = kwargs.get("request_index")  # only chat completions count their requests
    written = None if request is None else tick_of_message((id(history), request))
    return Reading(
        ToolCall(call.name or "", arguments_of(call.arguments), call.id, known.keys(), written=written),
        native_span=if_recorded(tracer, NativeSpan.INNER) if runs else NativeSpan.NONE,
        note=(call, history),
    )


def _is_accepted(function: Any, call: Any) -> bool:
    """Return True if the kernel accepts the arguments. A call with others has no span of its own."""
    given = arguments_of(call.arguments) or {}
    required = {one.name for one in function.parameters if one.is_required}
    return isinstance(given, Mapping) and required <= set(given) <= {one.name for one in function.parameters}


def _result(reading: Reading) -> Any:
    """Return the result of this call in the chat history; None if there is none."""
    call, history = reading.note
    for message in reversed(history.messages):
        for item in message.items:
            if hasattr(item, "result") and item.id == (call.id or "unknown"):
                return item
    return None


def _answer(reading: Reading, content: Any, error: bool) -> None:
    """Add the answer to the chat history, as the kernel does. In a stream, messages are of another type."""
    call, history = reading.note
    results = import_module("semantic_kernel.contents.function_result_content").FunctionResultContent
    result = results.from_function_call_content_and_result(call, content)
    streaming = any(type(message).__name__.startswith("Streaming") for message in history.messages)
    history.add_message(
        message=result.to_streaming_chat_message_content() if streaming else result.to_chat_message_content()
    )


def _outcome(reading: Reading, result: Any) -> Outcome:
    """Read the result from the chat history. A rejected call has a text there that is not a function's result."""
    found = _result(reading)
    if found is None:
        return Outcome()
    content = found.result
    failed = isinstance(content, str) and (content.startswith(_FAILED) or isinstance(found.inner_content, str))
    return Outcome(result=content, is_error=failed)


def _annotate(reading: Reading, result: Any, text: str) -> Any:
    found = _result(reading)
    longer = appended(found.result, text) if found is not None and isinstance(found.result, str) else None
    if longer is None:
        return None
    found.result = longer
    return IN_PLACE


def _mark(reading: Reading, answer: Any, mark: str) -> Any:
    """Put the mark into the metadata of the result, which no request contains."""
    _result(reading).metadata[MARK] = mark
    return answer


CALL = ToolAdapter(
    read=_read,
    answer=_answer,
    outcome=_outcome,
    annotate=_annotate,
    mark=_mark,
    error=lambda: RunStopped,
)

# --- a run -------------------------------------------------------------------------------------------------------


def _read_run(agent: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo:
    thread = kwargs.get("thread")
    return RunInfo(
        conversation_id=getattr(thread, "_id", None),  # the property ``id`` raises if the thread was deleted
        agent_name=getattr(agent, "name", None),
        can_continue=False,
    )


def _read_chat(service: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RunInfo | None:
    """Read a chat completion that calls functions by itself until the model answers."""
    settings = args[1] if len(args) > 1 else kwargs.get("settings")
    behavior = getattr(settings, "function_choice_behavior", None)
    if kwargs.get("kernel") is None or not getattr(behavior, "auto_invoke_kernel_functions", False):
        return None
    return RunInfo(can_continue=False)


def _let_out(original: Original) -> Callable[..., Any]:
    """Let a ``RunStopped`` out of a function of a prompt, and of the kernel: both wrap each exception."""

    async def invoke(*given: Any, **kwargs: Any) -> Any:
        wrapped, _, args = original.bind(given)
        try:
            return await wrapped(*args, **kwargs)
        except Exception as error:
            abort = wrapped_error(error, import_module("semantic_kernel.exceptions").KernelException)
            if abort is not None:
                raise abort from None
            raise

    return invoke


_AGENTS: Final = (
    ("semantic_kernel.agents.azure_ai.azure_ai_agent", "AzureAIAgent"),
    ("semantic_kernel.agents.bedrock.bedrock_agent", "BedrockAgent"),
    ("semantic_kernel.agents.chat_completion.chat_completion_agent", "ChatCompletionAgent"),
    ("semantic_kernel.agents.open_ai.openai_assistant_agent", "OpenAIAssistantAgent"),
    ("semantic_kernel.agents.open_ai.openai_responses_agent", "OpenAIResponsesAgent"),
)
_CHAT: Final = "semantic_kernel.connectors.ai.chat_completion_client_base"

_TARGETS: tuple[Target, ...] = (
    ToolTarget("semantic_kernel.kernel", "Kernel.invoke_function_call", CALL, CallStyle.ASYNC, around=ends_the_others),
    CallTarget("semantic_kernel.kernel", "Kernel.invoke", _let_out),
    CallTarget(_FUNCTIONS, "KernelFunction.invoke", _let_out),
    *(
        RunTarget(module, f"{agent}.{name}", _read_run, style)
        for module, agent in _AGENTS
        for name, style in (
            ("get_response", CallStyle.ASYNC),
            ("invoke", CallStyle.ASYNC_GENERATOR),
            ("invoke_stream", CallStyle.ASYNC_GENERATOR),
        )
    ),
    RunTarget(_CHAT, "ChatCompletionClientBase.get_chat_message_contents", _read_chat, CallStyle.ASYNC),
    RunTarget(
        _CHAT, "ChatCompletionClientBase.get_streaming_chat_message_contents", _read_chat, CallStyle.ASYNC_GENERATOR
    ),
)

FRAMEWORK = Framework(
    "semantic_kernel",
    _TARGETS,
    native_scopes=(_FUNCTIONS,),
    title="Semantic Kernel",
    turns="runs: an agent's, or a chat completion that calls functions",
    notes="each agent of a group chat or an orchestration has turns of its own; functions that the program calls by"
    " `kernel.invoke` are not guarded; the calls of realtime clients are observed only",
    modules=("semantic_kernel",),
    versions={
        "oldest": ("semantic-kernel==1.37.1",),
        "newest": ("semantic-kernel",),
    },
    tested={"semantic-kernel": "1.45.0"},
    limits=(
        FrameworkLimit(
            "Semantic Kernel FunctionChoiceBehavior(maximum_auto_invoke_attempts)",
            "semantic_kernel.connectors.ai.function_choice_behavior",
            "FunctionChoiceBehavior.Auto",
            "maximum_auto_invoke_attempts",
        ),
    ),
)
