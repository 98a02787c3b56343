"""Hand-written loops over ``anthropic``."""

from __future__ import annotations

import json
from typing import Any

from anthropic import Anthropic, AsyncAnthropic
from anthropic.resources.beta.messages import Messages as BetaMessages

from tests.models.loops import SYSTEM
from tests.models.toolbox import Toolbox, described

MODEL = "claude-sonnet-4-5"
TOKENS = 1024


def functions(tools: Toolbox) -> list[Any]:
    """The tools as the API wants them."""
    return [{"name": name, "description": text, "input_schema": schema} for name, text, schema in described(tools)]


def answered(tools: Toolbox, content: list[Any]) -> Any:
    """Run the calls of a message, and return the user's message with their results; None if there are no calls."""
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": tools.run(block.name, block.input)}
        for block in content
        if block.type == "tool_use"
    ]
    return {"role": "user", "content": results} if results else None


def text_of(content: list[Any]) -> str:
    """The text of a message."""
    return "".join(block.text for block in content if block.type == "text")


def talk(create: Any, question: str, tools: Toolbox) -> str:
    """Ask until the model answers without a call."""
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        response = create(model=MODEL, max_tokens=TOKENS, system=SYSTEM, messages=messages, tools=functions(tools))
        results = answered(tools, response.content)
        if results is None:
            return text_of(response.content)
        messages += [{"role": "assistant", "content": response.content}, results]


def messages(url: str, question: str, tools: Toolbox) -> str:
    """``messages.create``."""
    return talk(Anthropic(base_url=url, api_key="local").messages.create, question, tools)


def messages_beta(url: str, question: str, tools: Toolbox) -> str:
    """``beta.messages.create``."""
    return talk(Anthropic(base_url=url, api_key="local").beta.messages.create, question, tools)


def messages_raw(url: str, question: str, tools: Toolbox) -> str:
    """``with_raw_response.create(...).parse()``."""
    client = Anthropic(base_url=url, api_key="local")
    return talk(lambda **request: client.messages.with_raw_response.create(**request).parse(), question, tools)


async def messages_async(url: str, question: str, tools: Toolbox) -> str:
    """``AsyncAnthropic``."""
    messages: list[Any] = [{"role": "user", "content": question}]
    async with AsyncAnthropic(base_url=url, api_key="local") as client:
        while True:
            response = await client.messages.create(
                model=MODEL, max_tokens=TOKENS, messages=messages, tools=functions(tools)
            )
            results = answered(tools, response.content)
            if results is None:
                return text_of(response.content)
            messages += [{"role": "assistant", "content": response.content}, results]


def messages_stream(url: str, question: str, tools: Toolbox) -> str:
    """``messages.stream()``, the helper that puts the message together."""
    client = Anthropic(base_url=url, api_key="local")

    def create(**request: Any) -> Any:
        with client.messages.stream(**request) as stream:
            return stream.get_final_message()

    return talk(create, question, tools)


async def messages_stream_async(url: str, question: str, tools: Toolbox) -> str:
    """``messages.stream()`` of the asynchronous client, read event by event."""
    messages: list[Any] = [{"role": "user", "content": question}]
    async with AsyncAnthropic(base_url=url, api_key="local") as client:
        while True:
            text = ""
            async with client.messages.stream(
                model=MODEL, max_tokens=TOKENS, messages=messages, tools=functions(tools)
            ) as stream:
                async for piece in stream.text_stream:
                    text += piece
                response = await stream.get_final_message()
            results = answered(tools, response.content)
            if results is None:
                return text
            messages += [{"role": "assistant", "content": response.content}, results]


def messages_events(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True``, with the blocks put together from the events."""
    client = Anthropic(base_url=url, api_key="local")
    messages: list[Any] = [{"role": "user", "content": question}]
    while True:
        blocks: list[Any] = []
        for event in client.messages.create(
            model=MODEL, max_tokens=TOKENS, messages=messages, tools=functions(tools), stream=True
        ):
            if event.type == "content_block_start":
                blocks.append(event.content_block)
                written = ""
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                blocks[event.index].text += event.delta.text
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                written += event.delta.partial_json
            elif event.type == "content_block_stop" and blocks[event.index].type == "tool_use":
                blocks[event.index].input = json.loads(written)
        results = answered(tools, blocks)
        if results is None:
            return text_of(blocks)
        messages += [{"role": "assistant", "content": blocks}, results]


def tool_runner(url: str, question: str, tools: Toolbox) -> str:
    """``beta.messages.tool_runner``, which runs the tools itself."""
    from anthropic import beta_tool

    runner = Anthropic(base_url=url, api_key="local").beta.messages.tool_runner(
        model=MODEL,
        max_tokens=TOKENS,
        messages=[{"role": "user", "content": question}],
        tools=[beta_tool(one) for one in tools.functions().values()],
    )
    return text_of(runner.until_done().content)


LOOPS = [
    messages, messages_beta, messages_raw, messages_async, messages_stream, messages_stream_async, messages_events,
]  # fmt: skip
if hasattr(BetaMessages, "tool_runner"):
    LOOPS.append(tool_runner)
