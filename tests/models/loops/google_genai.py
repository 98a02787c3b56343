"""Hand-written loops over ``google-genai``."""

from __future__ import annotations

from typing import Any

from google import genai
from google.genai import types

from tests.models.loops import SYSTEM
from tests.models.toolbox import Toolbox, described

MODEL = "gemini-2.5-flash"


def client(url: str) -> genai.Client:
    """A client of the local service."""
    return genai.Client(api_key="local", http_options=types.HttpOptions(base_url=url))


def config(tools: Toolbox) -> types.GenerateContentConfig:
    """The tools as declarations, which the program runs itself."""
    declarations = [
        {
            "name": name,
            "description": text,
            "parameters": {
                "type": "OBJECT",
                "properties": {one: {"type": "STRING"} for one in schema["properties"]},
                "required": schema["required"],
            },
        }
        for name, text, schema in described(tools)
    ]
    return types.GenerateContentConfig(
        system_instruction=SYSTEM, tools=[types.Tool.model_validate({"function_declarations": declarations})]
    )


def responded(tools: Toolbox, calls: list[Any]) -> types.Content:
    """Run the calls of a message, and return the content with their responses."""
    parts = [
        types.Part.from_function_response(name=call.name, response={"result": tools.run(call.name, call.args)})
        for call in calls
    ]
    return types.Content(role="user", parts=parts)


def asked(question: str) -> types.Content:
    """The user's message."""
    return types.Content(role="user", parts=[types.Part(text=question)])


def generate(url: str, question: str, tools: Toolbox) -> str:
    """``generate_content``, with the calls run by the program."""
    contents: list[Any] = [asked(question)]
    service = client(url)
    while True:
        response = service.models.generate_content(model=MODEL, contents=contents, config=config(tools))
        if not response.function_calls:
            return str(response.text)
        contents += [response.candidates[0].content, responded(tools, response.function_calls)]


async def generate_async(url: str, question: str, tools: Toolbox) -> str:
    """The asynchronous client."""
    contents: list[Any] = [asked(question)]
    service = client(url)
    while True:
        response = await service.aio.models.generate_content(model=MODEL, contents=contents, config=config(tools))
        if not response.function_calls:
            return str(response.text)
        contents += [response.candidates[0].content, responded(tools, response.function_calls)]


def generate_stream(url: str, question: str, tools: Toolbox) -> str:
    """``generate_content_stream``."""
    contents: list[Any] = [asked(question)]
    service = client(url)
    while True:
        parts: list[Any] = []
        for chunk in service.models.generate_content_stream(model=MODEL, contents=contents, config=config(tools)):
            parts += chunk.candidates[0].content.parts
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return "".join(part.text for part in parts)
        contents += [types.Content(role="model", parts=parts), responded(tools, calls)]


def automatic(url: str, question: str, tools: Toolbox) -> str:
    """Functions as tools: the client runs them itself."""
    service = client(url)
    response = service.models.generate_content(model=MODEL, contents=question, config=functions(tools))
    return str(response.text)


async def automatic_async(url: str, question: str, tools: Toolbox) -> str:
    """The same with the asynchronous client."""
    service = client(url)
    response = await service.aio.models.generate_content(model=MODEL, contents=question, config=functions(tools))
    return str(response.text)


def chat(url: str, question: str, tools: Toolbox) -> str:
    """A chat, which keeps the history and runs the functions."""
    service = client(url)
    return str(service.chats.create(model=MODEL, config=functions(tools)).send_message(question).text)


def functions(tools: Toolbox) -> types.GenerateContentConfig:
    """Functions as tools, and a limit that is higher than the client's own of ten calls."""
    return types.GenerateContentConfig(
        tools=list(tools.functions().values()),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(maximum_remote_calls=60),
    )


LOOPS = [generate, generate_async, generate_stream, automatic, automatic_async, chat]
