"""Hand-written loops over ``openai``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from openai import AsyncOpenAI, AzureOpenAI, OpenAI

from tests.models.conversation import Call
from tests.models.loops import SYSTEM, atalk, declared, talk
from tests.models.wire import CHAT, RESPONSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.loops import Step
    from tests.models.toolbox import Toolbox

MODEL = "gpt-4.1"


def client_of(url: str) -> OpenAI:
    """A client of the local service."""
    return OpenAI(base_url=f"{url}/v1", api_key="local")


def async_client_of(url: str) -> AsyncOpenAI:
    """An asynchronous client of the local service."""
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="local")


# --- chat completions --------------------------------------------------------------------------------------------


def started(question: str) -> list[Any]:
    """The messages that a conversation begins with."""
    return [{"role": "system", "content": SYSTEM}, CHAT.user(question)]


def read(response: Any) -> Step:
    """Read a message, which is sent back as the object that it is."""
    message = response.choices[0].message
    calls = [Call(one.function.name, json.loads(one.function.arguments), one.id) for one in message.tool_calls or ()]
    return [message], calls, message.content or ""


def talk_chat(create: Callable[..., Any], question: str, tools: Toolbox) -> str:
    """Ask by a function that returns a completion."""
    functions = declared(CHAT, tools)
    return talk(
        CHAT.results, started(question), tools, lambda sent: read(create(model=MODEL, messages=sent, tools=functions))
    )


def chat(url: str, question: str, tools: Toolbox) -> str:
    """``chat.completions.create``."""
    return talk_chat(client_of(url).chat.completions.create, question, tools)


def chat_azure(url: str, question: str, tools: Toolbox) -> str:
    """``chat.completions.create`` of Azure's client."""
    client = AzureOpenAI(azure_endpoint=url, api_key="local", api_version="2024-10-21")
    return talk_chat(client.chat.completions.create, question, tools)


def chat_raw(url: str, question: str, tools: Toolbox) -> str:
    """``with_raw_response.create(...).parse()``."""
    client = client_of(url)
    return talk_chat(
        lambda **request: client.chat.completions.with_raw_response.create(**request).parse(), question, tools
    )


def helper(url: str, name: str) -> Any:
    """A helper of chat completions, which was in ``beta`` at first."""
    client = client_of(url)
    return getattr(client.chat.completions, name, None) or getattr(client.beta.chat.completions, name)


def chat_parse(url: str, question: str, tools: Toolbox) -> str:
    """``chat.completions.parse``, with strict tools."""
    parse = helper(url, "parse")

    def create(*, tools: list[Any], **request: Any) -> Any:
        strict = [{**tool, "function": {**tool["function"], "strict": True}} for tool in tools]
        return parse(tools=strict, **request)

    return talk_chat(create, question, tools)


def chat_stream_helper(url: str, question: str, tools: Toolbox) -> str:
    """``chat.completions.stream()``."""
    begin = helper(url, "stream")

    def create(**request: Any) -> Any:
        with begin(**request) as stream:
            stream.until_done()
            return stream.get_final_completion()

    return talk_chat(create, question, tools)


async def chat_async(url: str, question: str, tools: Toolbox) -> str:
    """``AsyncOpenAI``."""
    async with async_client_of(url) as client:

        async def ask(sent: list[Any]) -> Step:
            return read(await client.chat.completions.create(model=MODEL, messages=sent, tools=declared(CHAT, tools)))

        return await atalk(CHAT.results, started(question), tools, ask)


def chat_stream(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True``, with the calls put together from the pieces."""
    client = client_of(url)

    def ask(sent: list[Any]) -> Step:
        stream = client.chat.completions.create(model=MODEL, messages=sent, tools=declared(CHAT, tools), stream=True)
        return CHAT.read_events(chunk.model_dump() for chunk in stream)

    return talk(CHAT.results, started(question), tools, ask)


async def chat_stream_async(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True`` with the asynchronous client, and the usage asked for."""
    async with async_client_of(url) as client:

        async def ask(sent: list[Any]) -> Step:
            stream = await client.chat.completions.create(
                model=MODEL, messages=sent, tools=declared(CHAT, tools), stream=True,
                stream_options={"include_usage": True},
            )  # fmt: skip
            chunks = [chunk.model_dump() async for chunk in stream]
            assert chunks[-1]["usage"]["total_tokens"] > 0
            return CHAT.read_events(chunks)

        return await atalk(CHAT.results, started(question), tools, ask)


# --- responses ---------------------------------------------------------------------------------------------------


def read_items(items: list[Any]) -> Step:
    """Read the items of a response, which are sent back as the objects that they are."""
    calls = [Call(one.name, json.loads(one.arguments), one.call_id) for one in items if one.type == "function_call"]
    return items, calls, "".join(part.text for one in items if one.type == "message" for part in one.content)


def strict(tools: Toolbox) -> list[Any]:
    """The tools for responses."""
    return [{**tool, "strict": True} for tool in declared(RESPONSES, tools)]


def responses(url: str, question: str, tools: Toolbox) -> str:
    """``responses.create`` with the whole conversation in each request."""
    client = client_of(url)

    def ask(sent: list[Any]) -> Step:
        return read_items(
            client.responses.create(model=MODEL, instructions=SYSTEM, input=sent, tools=strict(tools)).output
        )

    return talk(RESPONSES.results, [RESPONSES.user(question)], tools, ask)


def responses_kept(url: str, question: str, tools: Toolbox) -> str:
    """``previous_response_id``: the service keeps the conversation, and requests carry new outputs alone."""
    client = client_of(url)
    previous: dict[str, Any] = {}

    def ask(given: list[Any]) -> Step:
        response = client.responses.create(model=MODEL, input=[*given], tools=strict(tools), **previous)
        previous["previous_response_id"] = response.id
        given.clear()
        _, calls, text = read_items(response.output)
        return [], calls, text

    return talk(RESPONSES.results, [RESPONSES.user(question)], tools, ask)


async def responses_async(url: str, question: str, tools: Toolbox) -> str:
    """``AsyncOpenAI``, nothing stored at the service, and encrypted reasoning handed back."""
    async with async_client_of(url) as client:

        async def ask(sent: list[Any]) -> Step:
            response = await client.responses.create(
                model=MODEL, input=sent, tools=strict(tools), store=False, include=["reasoning.encrypted_content"]
            )
            return read_items(response.output)

        return await atalk(RESPONSES.results, [RESPONSES.user(question)], tools, ask)


def responses_stream(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True``."""
    client = client_of(url)

    def ask(sent: list[Any]) -> Step:
        stream = client.responses.create(model=MODEL, input=sent, tools=strict(tools), stream=True)
        return read_items([event.item for event in stream if event.type == "response.output_item.done"])

    return talk(RESPONSES.results, [RESPONSES.user(question)], tools, ask)


LOOPS = [chat, chat_azure, chat_raw, chat_parse, chat_async, chat_stream, chat_stream_async, chat_stream_helper]
if hasattr(OpenAI, "responses"):
    LOOPS += [responses, responses_kept, responses_async, responses_stream]
