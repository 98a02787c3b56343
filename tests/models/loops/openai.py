"""Hand-written loops over ``openai``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from openai import AsyncOpenAI, AzureOpenAI, OpenAI

from tests.models.loops import SYSTEM
from tests.models.toolbox import Toolbox, described

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = "gpt-4.1"
Json = dict[str, Any]


def started(question: str) -> list[Any]:
    """The messages that a conversation begins with."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def functions(tools: Toolbox) -> list[Any]:
    """The tools for chat completions."""
    described_tools = described(tools)
    return [
        {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
        for name, text, schema in described_tools
    ]


def answered(tools: Toolbox, calls: list[Any]) -> list[Any]:
    """Run the calls of a message, and return a message for each."""
    return [
        {
            "role": "tool",
            "tool_call_id": call.id,
            "content": tools.run(call.function.name, json.loads(call.function.arguments)),
        }
        for call in calls
    ]


def talk(create: Callable[..., Any], question: str, tools: Toolbox) -> str:
    """Ask until the model answers without a call."""
    messages = started(question)
    while True:
        message = create(model=MODEL, messages=messages, tools=functions(tools)).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return str(message.content)
        messages += answered(tools, message.tool_calls)


def chat(url: str, question: str, tools: Toolbox) -> str:
    """``chat.completions.create``."""
    return talk(OpenAI(base_url=f"{url}/v1", api_key="local").chat.completions.create, question, tools)


def chat_azure(url: str, question: str, tools: Toolbox) -> str:
    """The same through Azure's client."""
    client = AzureOpenAI(azure_endpoint=url, api_key="local", api_version="2024-10-21")
    return talk(client.chat.completions.create, question, tools)


def chat_raw(url: str, question: str, tools: Toolbox) -> str:
    """``with_raw_response.create(...).parse()``."""
    client = OpenAI(base_url=f"{url}/v1", api_key="local")

    def create(**request: Any) -> Any:
        return client.chat.completions.with_raw_response.create(**request).parse()

    return talk(create, question, tools)


def chat_parse(url: str, question: str, tools: Toolbox) -> str:
    """``chat.completions.parse``, which was in ``beta`` at first, with strict tools."""
    client = OpenAI(base_url=f"{url}/v1", api_key="local")
    completions = client.chat.completions if hasattr(client.chat.completions, "parse") else client.beta.chat.completions

    def create(*, tools: list[Any], **request: Any) -> Any:
        strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in tools]
        return completions.parse(tools=strict, **request)

    return talk(create, question, tools)


async def chat_async(url: str, question: str, tools: Toolbox) -> str:
    """``AsyncOpenAI``."""
    messages = started(question)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="local") as client:
        while True:
            response = await client.chat.completions.create(model=MODEL, messages=messages, tools=functions(tools))
            message = response.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                return str(message.content)
            messages += answered(tools, message.tool_calls)


def chat_stream(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True``, with the calls put together from the pieces."""
    client = OpenAI(base_url=f"{url}/v1", api_key="local")
    messages = started(question)
    while True:
        text, calls = "", Calls()
        for chunk in client.chat.completions.create(
            model=MODEL, messages=messages, tools=functions(tools), stream=True
        ):
            text += chunk.choices[0].delta.content or ""
            calls.take(chunk.choices[0].delta.tool_calls)
        if not calls.written:
            return text
        messages += [calls.message(text), *calls.answered(tools)]


async def chat_stream_async(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True`` with the asynchronous client, and the usage asked for."""
    messages = started(question)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="local") as client:
        while True:
            text, calls, usage = "", Calls(), 0
            stream = await client.chat.completions.create(
                model=MODEL, messages=messages, tools=functions(tools), stream=True,
                stream_options={"include_usage": True},
            )  # fmt: skip
            async for chunk in stream:
                usage += chunk.usage.total_tokens if chunk.usage else 0
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    calls.take(choice.delta.tool_calls)
            assert usage > 0
            if not calls.written:
                return text
            messages += [calls.message(text), *calls.answered(tools)]


def chat_stream_helper(url: str, question: str, tools: Toolbox) -> str:
    """``chat.completions.stream()``, which was in ``beta`` at first."""
    client = OpenAI(base_url=f"{url}/v1", api_key="local")
    completions = (
        client.chat.completions if hasattr(client.chat.completions, "stream") else client.beta.chat.completions
    )

    def create(**request: Any) -> Any:
        with completions.stream(**request) as stream:
            stream.until_done()
            return stream.get_final_completion()

    return talk(create, question, tools)


class Calls:
    """The calls of a message, from the pieces of a stream."""

    def __init__(self) -> None:
        self.written: list[Json] = []

    def take(self, given: list[Any] | None) -> None:
        """Take the pieces of one chunk."""
        for piece in given or ():
            if piece.index == len(self.written):
                begun = {"name": piece.function.name, "arguments": ""}
                self.written.append({"id": piece.id, "type": "function", "function": begun})
            self.written[piece.index]["function"]["arguments"] += piece.function.arguments or ""

    def message(self, text: str) -> Json:
        """The assistant's message."""
        return {"role": "assistant", "content": text or None, "tool_calls": self.written}

    def answered(self, tools: Toolbox) -> list[Json]:
        """Run the calls, and return a message for each."""
        called = [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in self.written
        ]
        return [{"role": "tool", "tool_call_id": one, "content": tools.run(name, given)} for one, name, given in called]


def flat_functions(tools: Toolbox) -> list[Any]:
    """The tools for responses."""
    return [
        {"type": "function", "name": name, "description": text, "parameters": schema, "strict": True}
        for name, text, schema in described(tools)
    ]


def outputs(tools: Toolbox, calls: list[Any]) -> list[Any]:
    """Run the calls of a response, and return an output item for each."""
    return [
        {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": tools.run(call.name, json.loads(call.arguments)),
        }
        for call in calls
    ]


def called(response: Any) -> list[Any]:
    """The calls of a response."""
    return [item for item in response.output if item.type == "function_call"]


def responses(url: str, question: str, tools: Toolbox) -> str:
    """``responses.create`` with the whole conversation in each request."""
    client = OpenAI(base_url=f"{url}/v1", api_key="local")
    items: list[Any] = [{"role": "user", "content": question}]
    while True:
        response = client.responses.create(model=MODEL, instructions=SYSTEM, input=items, tools=flat_functions(tools))
        if not called(response):
            return str(response.output_text)
        items += response.output
        items += outputs(tools, called(response))


def responses_kept(url: str, question: str, tools: Toolbox) -> str:
    """``previous_response_id``: the service keeps the conversation, and requests carry new outputs alone."""
    client = OpenAI(base_url=f"{url}/v1", api_key="local")
    given: list[Any] = [{"role": "user", "content": question}]
    previous: Json = {}
    while True:
        response = client.responses.create(model=MODEL, input=given, tools=flat_functions(tools), **previous)
        if not called(response):
            return str(response.output_text)
        given, previous = outputs(tools, called(response)), {"previous_response_id": response.id}


async def responses_async(url: str, question: str, tools: Toolbox) -> str:
    """``AsyncOpenAI``, nothing stored at the service, and encrypted reasoning handed back."""
    items: list[Any] = [{"role": "user", "content": question}]
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="local") as client:
        while True:
            response = await client.responses.create(
                model=MODEL,
                input=items,
                tools=flat_functions(tools),
                store=False,
                include=["reasoning.encrypted_content"],
            )
            if not called(response):
                return str(response.output_text)
            items += response.output
            items += outputs(tools, called(response))


def responses_stream(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True``."""
    client = OpenAI(base_url=f"{url}/v1", api_key="local")
    items: list[Any] = [{"role": "user", "content": question}]
    while True:
        text, output = "", []
        for event in client.responses.create(model=MODEL, input=items, tools=flat_functions(tools), stream=True):
            if event.type == "response.output_text.delta":
                text += event.delta
            elif event.type == "response.output_item.done":
                output.append(event.item)
        calls = [item for item in output if item.type == "function_call"]
        if not calls:
            return text
        items += [*output, *outputs(tools, calls)]


LOOPS = [chat, chat_azure, chat_raw, chat_parse, chat_async, chat_stream, chat_stream_async, chat_stream_helper]
if hasattr(OpenAI, "responses"):
    LOOPS += [responses, responses_kept, responses_async, responses_stream]
