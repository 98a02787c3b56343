"""Hand-written loops over ``litellm``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import litellm

from tests.models.loops import SYSTEM
from tests.models.toolbox import Toolbox, described

if TYPE_CHECKING:
    from collections.abc import Callable


def functions(tools: Toolbox) -> list[Any]:
    """The tools as chat completions want them."""
    return [
        {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
        for name, text, schema in described(tools)
    ]


def answered(tools: Toolbox, message: Any) -> list[Any]:
    """Run the calls of a message, and return a message for each."""
    return [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": tools.run(call.function.name, json.loads(call.function.arguments)),
        }
        for call in message.tool_calls
    ]


def talk(complete: Callable[..., Any], question: str, tools: Toolbox) -> str:
    """Ask until the model answers without a call."""
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    while True:
        message = complete(messages=messages, tools=functions(tools)).choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages += [message.model_dump(exclude_none=True), *answered(tools, message)]


def completion(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.completion`` of a model of OpenAI."""

    def complete(**request: Any) -> Any:
        return litellm.completion("openai/gpt-4.1", api_base=f"{url}/v1", api_key="local", **request)

    return talk(complete, question, tools)


def completion_anthropic(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.completion`` of a model of Anthropic, which it asks with its own HTTP client."""

    def complete(**request: Any) -> Any:
        return litellm.completion("anthropic/claude-sonnet-4-5", api_base=url, api_key="local", **request)

    return talk(complete, question, tools)


def completion_stream(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True``, with the chunks put together by litellm."""

    def complete(**request: Any) -> Any:
        chunks = litellm.completion("openai/gpt-4.1", api_base=f"{url}/v1", api_key="local", stream=True, **request)
        return litellm.stream_chunk_builder(list(chunks), messages=request["messages"])

    return talk(complete, question, tools)


def router(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.Router``, which tries again and falls back."""
    deployment = {"model": "openai/gpt-4.1", "api_base": f"{url}/v1", "api_key": "local"}
    balanced = litellm.Router(model_list=[{"model_name": "main", "litellm_params": deployment}], num_retries=2)
    return talk(lambda **request: balanced.completion("main", **request), question, tools)


async def acompletion(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.acompletion``."""
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    while True:
        response = await litellm.acompletion(
            "openai/gpt-4.1", api_base=f"{url}/v1", api_key="local", messages=messages, tools=functions(tools)
        )
        message = response.choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages += [message.model_dump(exclude_none=True), *answered(tools, message)]


def responses(url: str, question: str, tools: Toolbox) -> str:
    """``litellm.responses``."""
    items: list[Any] = [{"role": "user", "content": question}]
    declared = [
        {"type": "function", "name": name, "description": text, "parameters": schema, "strict": True}
        for name, text, schema in described(tools)
    ]
    while True:
        response = litellm.responses(
            model="openai/gpt-4.1", api_base=f"{url}/v1", api_key="local", input=items, tools=declared
        )
        output = [item if isinstance(item, dict) else item.model_dump(exclude_none=True) for item in response.output]
        calls = [item for item in output if item["type"] == "function_call"]
        if not calls:
            return "".join(part["text"] for item in output for part in item["content"])
        items += output
        items += [
            {
                "type": "function_call_output",
                "call_id": call["call_id"],
                "output": tools.run(call["name"], json.loads(call["arguments"])),
            }
            for call in calls
        ]


LOOPS = [completion, completion_anthropic, completion_stream, router, acompletion]
if hasattr(litellm, "responses"):
    LOOPS.append(responses)
