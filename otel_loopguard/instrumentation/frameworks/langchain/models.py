"""LangChain's chat models, whatever client is below: their requests have LangChain's messages.

The methods that each integration defines are replaced, and not those that programs call: every way of asking a model
leads through one of them, and a reply that comes from LangChain's cache through none, as it is no request.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard import semconv
from otel_loopguard.instrumentation.content import arguments_of
from otel_loopguard.instrumentation.model_api import Dialect, Sent, as_body
from otel_loopguard.instrumentation.model_request import (
    async_generator_request_wrapper,
    async_request_wrapper,
    generator_request_wrapper,
    request_wrapper,
)
from otel_loopguard.instrumentation.models.anthropic import MESSAGES
from otel_loopguard.instrumentation.models.error_classes import error_class
from otel_loopguard.instrumentation.models.fields import count, demands_call, field, sequence
from otel_loopguard.instrumentation.models.openai_chat import CallPieces
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from otel_loopguard.instrumentation.models.streams import tapped
from otel_loopguard.instrumentation.targets import CallTarget, OverrideTarget
from otel_loopguard.turns.messages import NO_MESSAGE, Message, Reply, WrittenCall, WrittenResult, plain_text, unmarked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_loopguard.instrumentation.model_api import Body

# --- messages ----------------------------------------------------------------------------------------------------


def _mark(message: Any) -> int:
    """Return a hash of what the model reads, without the id that LangChain gives to a message later."""
    get = vars(message).get  # looking for an attribute that a pydantic object does not have is slow
    content = get("content")
    keys = [get("tool_call_id") or get("type"), content if type(content) is str else unmarked(content)]
    for call in (*get("tool_calls", ()), *get("invalid_tool_calls", ())):
        keys += (call.get("id"), call["name"], unmarked(call["args"]))
    return hash(tuple(keys))


def _read(message: Any) -> Message:
    kind = message.type
    if kind == "tool":
        failed = True if message.status == "error" else None
        return Message(results=(WrittenResult(message.tool_call_id, message.content, failed, message.name),))
    if kind in _BY_MODEL:
        content = message.content
        own = [one for block in sequence(content) for one in _of_provider(block)]
        calls = (*_calls(message), *(call for one in own for call in one.calls))
        return Message(calls, tuple(result for one in own for result in one.results), said=content)
    if kind == "function":
        return Message(results=(WrittenResult(None, message.content, name=message.name),))
    return Message(by_user=True, text=message.content) if kind in _BY_USER else NO_MESSAGE


_BY_MODEL: Final = ("ai", "AIMessageChunk")
_BY_USER: Final = ("human", "HumanMessageChunk")


def _calls(message: Any) -> Iterator[WrittenCall]:
    for call in (*message.tool_calls, *message.invalid_tool_calls):
        yield WrittenCall(call.get("id"), call["name"], arguments_of(call["args"]))
    function = message.additional_kwargs.get("function_call")  # deprecated, and without ids
    if function is not None:
        yield WrittenCall(None, field(function, "name"), arguments_of(field(function, "arguments")))


def _of_provider(block: Any) -> Iterator[Message]:
    """Read a block of a call that the provider itself ran, in the form of its API."""
    kind = str(field(block, "type"))
    if kind != "tool_use" and kind.endswith(("tool_use", "tool_result")):
        yield MESSAGES.read({"role": "assistant", "content": [block]})
    elif kind != "function_call" and kind.endswith("_call"):
        yield RESPONSES.read(block)


def _annotate(message: Any, texts: Mapping[int, str]) -> Any:
    content = message.content
    if message.type not in ("tool", *_BY_USER):
        return message
    if isinstance(content, str):
        longer: Any = f"{content}\n\n{texts[0]}" if content else texts[0]
    else:
        longer = [*content, {"type": "text", "text": texts[0]}]
    return message.model_copy(update={"content": longer})


# --- tools -------------------------------------------------------------------------------------------------------


def _tools(body: Body) -> frozenset[str] | None:
    declared = (*sequence(body.get("tools")), *sequence(body.get("functions")))
    names = {name for tool in declared for name in _names(tool)}
    if not declared and getattr(body["messages"][-1], "type", None) == "tool":
        return None  # the agent goes on: its model keeps the tools in itself
    return None if "" in names else frozenset(names)


def _names(tool: Any) -> list[str]:
    """Return the names that a declaration has, in the format of its provider: "" for one that cannot be read."""
    functions = field(tool, "function_declarations")
    if functions:
        return [name for function in functions for name in _names(function)]
    function = field(tool, "function") or field(tool, "toolSpec") or tool
    name, kind = field(function, "name") or getattr(tool, "__name__", None), field(tool, "type")
    if name is None and kind not in _STAND_FOR_OTHERS:
        name = kind  # what the provider itself defines
    return [name if isinstance(name, str) else ""]


_STAND_FOR_OTHERS: Final = ("mcp", "mcp_toolset", "namespace", "tool_search")


def _withdraw(provider: str, body: Body) -> Body:
    """Ask for no call, as the integration can say it.

    Anthropic rejects results of tools if none is declared, so its declarations stay. Integrations of other providers
    may ignore or reject a choice of ``none``, but none of them calls a tool that is not declared; that for Bedrock then
    writes the calls of the messages as text.
    """
    kept = {name: value for name, value in body.items() if name not in _CHOICES}
    tools = sequence(body.get("tools"))
    if tools and (provider == "anthropic" or any(field(tool, "input_schema") is not None for tool in tools)):
        return {**kept, "tools": tools, "tool_choice": {"type": "none"}}
    if tools and provider in _TAKE_NONE:
        return {**body, "tool_choice": "none"}
    return kept


_CHOICES: Final = (
    "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "tool_config", "toolChoice",
    "toolConfig",
)  # fmt: skip
"""What the integrations of all providers say about tools."""
_TAKE_NONE: Final = ("openai", "azure.ai.openai", "gcp.gen_ai", "gcp.vertex_ai")
"""The providers whose integrations know ``tool_choice="none"``."""


def _demands(body: Body) -> bool:
    choice = body.get("tool_choice")
    if isinstance(choice, str):
        return choice not in ("", "auto", "none", "validated")
    return choice is True or (not (isinstance(choice, dict) and "auto" in choice) and demands_call(body))


def _only(provider: str, body: Body, tool: str) -> Body:
    choice: Any = body.get("tool_choice")
    if provider.startswith("gcp."):
        chosen: Any = tool
    elif isinstance(choice, dict) and "type" not in choice:  # Bedrock's
        chosen = {"tool": {"name": tool}}
    elif isinstance(choice, dict) and choice["type"] in ("any", "tool"):  # Anthropic's
        chosen = {"type": "tool", "name": tool}
    else:
        chosen = {"type": "function", "function": {"name": tool}}
    return {**body, "tool_choice": chosen}


# --- replies -----------------------------------------------------------------------------------------------------


def _reply(result: Any) -> Reply | None:
    messages = [one.message for one in result.generations]
    told = messages[0].response_metadata or result.llm_output or {}
    # A fake may answer with any message.
    calls = tuple(call for message in messages if message.type in _BY_MODEL for call in _calls(message))
    return _told(Reply(calls, model=told.get("model_name") or told.get("model")), messages[0])


def _told(reply: Reply, message: Any) -> Reply:
    """Add the tokens that a message tells, also a piece of one."""
    usage = getattr(message, "usage_metadata", None)
    if not usage:
        return reply
    read, written = count(usage, "input_tokens"), count(usage, "output_tokens")
    cached = count(field(usage, "input_token_details"), "cache_read")
    return reply._replace(
        input_tokens=_sum(reply.input_tokens, read),
        output_tokens=_sum(reply.output_tokens, written),
        cached_tokens=_sum(reply.cached_tokens, cached),
    )


def _sum(one: int | None, more: int | None) -> int | None:
    return one if more is None else more + (one or 0)


def _text(reply: Any) -> str:
    """Read a whole reply, or a chunk of one."""
    whole = getattr(reply, "generations", None)
    return plain_text((whole[0] if whole else reply).message.content)


class _Chunks:
    """A streamed reply. Its tokens come in one chunk, or in several that are to be added."""

    def __init__(self) -> None:
        self._pieces = CallPieces()
        self._reply = Reply()

    def add(self, chunk: Any) -> None:
        message = chunk.message
        for piece in getattr(message, "tool_call_chunks", ()):
            index = piece.get("index")
            function = {"name": piece.get("name"), "arguments": piece.get("args")}
            self._pieces.piece(object() if index is None else index, piece.get("id"), function)
        told = message.response_metadata
        model = told.get("model_name") or told.get("model") or self._reply.model
        self._reply = _told(self._reply._replace(model=model), message)

    def reply(self) -> Reply:
        return self._reply._replace(calls=tuple(self._pieces.calls()))


# --- the methods of a model --------------------------------------------------------------------------------------

_PROVIDERS: Final = {
    "amazon_bedrock": "aws.bedrock",
    "anthropic-bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google_genai": "gcp.gen_ai",
    "google_vertexai": "gcp.vertex_ai",
    "ibm": "ibm.watsonx.ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""LangChain's names of providers whose names in the GenAI conventions differ."""

CHAT_MODEL = Dialect(
    messages=lambda body: body["messages"],
    marks=lambda messages: [*map(_mark, messages)],
    read=_read,
    tools=_tools,
    previous=lambda body: None,
    annotate=_annotate,
    replace=lambda body, messages: {**body, "messages": messages},
    withdraw=partial(_withdraw, semconv.UNKNOWN_PROVIDER),
    demands=_demands,
    only=partial(_only, semconv.UNKNOWN_PROVIDER),
    reply=_reply,
    collector=_Chunks,
    text=_text,
)


@cache
def _dialect_of(provider: str) -> Dialect:
    return replace(
        CHAT_MODEL,
        withdraw=partial(_withdraw, provider),
        only=partial(_only, provider),
        provider=provider,
        operation=semconv.OPERATION_GENERATE_CONTENT if provider.startswith("gcp.") else semconv.OPERATION_CHAT,
    )


def _request(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sent:
    body, arguments = as_body(("messages", "stop", "run_manager"), args, kwargs)
    known = model._get_ls_params(**kwargs)  # noqa: SLF001 - LangChain has no public way to ask for the provider
    named = known.get("ls_provider") or semconv.UNKNOWN_PROVIDER
    dialect = _dialect_of(_PROVIDERS.get(named, named))
    return Sent(dialect, body, known.get("ls_model_name") or "", arguments, tapped)


def _targets(name: str, wrapper: Callable[..., Any], *, of_base: bool) -> Sequence[CallTarget]:
    """Return the targets of a method in each class of models, and in the base if it has one, which asks the other."""
    path = f"BaseChatModel.{name}"
    kinds = (OverrideTarget, CallTarget) if of_base else (OverrideTarget,)
    return [kind("langchain_core.language_models.chat_models", path, wrapper(_request, error_class)) for kind in kinds]


MODELS = (
    *_targets("_generate", request_wrapper, of_base=False),
    *_targets("_agenerate", async_request_wrapper, of_base=True),
    *_targets("_stream", generator_request_wrapper, of_base=False),
    *_targets("_astream", async_generator_request_wrapper, of_base=True),
)
