"""Hand-written loops over ``litellm``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import litellm

from tests.models.conversation import Call
from tests.models.loops import SYSTEM, atalk, declared, talk
from tests.models.wire import CHAT, RESPONSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.loops import Step
    from tests.models.toolbox import Toolbox

MODEL = "openai/gpt-4.1"


def started(question: str) -> list[Any]:
    """The messages that a conversation begins with."""
    return [{"role": "system", "content": SYSTEM}, CHAT.user(question)]


def of_service(url: str) -> dict[str, Any]:
    """The keywords by which litellm finds the local service."""
    return {"api_base": f"{url}/v1", "api_key": "local"}


def read(response: Any) -> Step:
    """Read a message, which is sent back as its dict."""
    message = response.choices[0].message
    calls = [Call(one.function.name, json.loads(one.function.arguments), one.id) for one in message.tool_calls or ()]
    return [message.model_dump(exclude_none=True)], calls, message.content or ""


def talk_chat(complete: Callable[..., Any], question: str, tools: Toolbox) -> str:
    """Ask by a function that returns a completion."""
    functions = declared(CHAT, tools)
    return talk(CHAT.results, started(question), tools, lambda sent: read(complete(messages=sent, tools=functions)))


def completion(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.completion`` of a model of OpenAI."""
    return talk_chat(lambda **request: litellm.completion(MODEL, **of_service(url), **request), question, tools)


def completion_anthropic(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.completion`` of a model of Anthropic, which it asks with its own HTTP client."""

    def complete(**request: Any) -> Any:
        return litellm.completion("anthropic/claude-sonnet-4-5", api_base=url, api_key="local", **request)

    return talk_chat(complete, question, tools)


def completion_stream(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True``, with the chunks put together by litellm."""

    def complete(**request: Any) -> Any:
        chunks = list(litellm.completion(MODEL, stream=True, **of_service(url), **request))
        return litellm.stream_chunk_builder(chunks, messages=request["messages"])

    return talk_chat(complete, question, tools)


def router(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.Router``, which tries again and falls back."""
    deployment = {"model": MODEL, **of_service(url)}
    balanced = litellm.Router(model_list=[{"model_name": "main", "litellm_params": deployment}], num_retries=2)
    return talk_chat(lambda **request: balanced.completion("main", **request), question, tools)


async def acompletion(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.acompletion``."""

    async def ask(sent: list[Any]) -> Step:
        return read(await litellm.acompletion(MODEL, messages=sent, tools=declared(CHAT, tools), **of_service(url)))

    return await atalk(CHAT.results, started(question), tools, ask)


def responses(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.responses``."""
    functions = [{**tool, "strict": True} for tool in declared(RESPONSES, tools)]

    def ask(sent: list[Any]) -> Step:
        output = litellm.responses(model=MODEL, input=sent, tools=functions, **of_service(url)).output
        items = [one if isinstance(one, dict) else one.model_dump(exclude_none=True) for one in output]
        _, calls, text = RESPONSES.read({"output": items})
        return items, calls, text

    return talk(RESPONSES.results, [RESPONSES.user(question)], tools, ask)


LOOPS = [completion, completion_anthropic, completion_stream, router, acompletion]
if hasattr(litellm, "responses"):
    LOOPS.append(responses)
