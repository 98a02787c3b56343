"""Hand-written loops over ``google-genai``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google import genai
from google.genai import types

from tests.models.conversation import Call
from tests.models.loops import SYSTEM, atalk, talk
from tests.models.toolbox import described

if TYPE_CHECKING:
    from tests.models.loops import Step
    from tests.models.toolbox import Toolbox

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


def responded(*results: tuple[Call, str]) -> list[Any]:
    """Write the content with the responses of calls."""
    parts = [types.Part.from_function_response(name=one.name, response={"result": text}) for one, text in results]
    return [types.Content(role="user", parts=parts)]


def asked(question: str) -> list[Any]:
    """The contents that a conversation begins with."""
    return [types.Content(role="user", parts=[types.Part(text=question)])]


def read(content: types.Content) -> Step:
    """Read the parts of a reply, which is sent back as the object that it is."""
    functions = [part.function_call for part in content.parts if part.function_call]
    calls = [Call(one.name, one.args) for one in functions]
    return [content], calls, "".join(part.text for part in content.parts if part.text)


def generate(url: str, question: str, tools: Toolbox) -> str:
    """``generate_content``, with the calls run by the program."""
    service = client(url)  # it is closed when it is collected

    def ask(sent: list[Any]) -> Step:
        return read(
            service.models.generate_content(model=MODEL, contents=sent, config=config(tools)).candidates[0].content
        )

    return talk(responded, asked(question), tools, ask)


async def generate_async(url: str, question: str, tools: Toolbox) -> str:
    """The asynchronous client."""
    service = client(url)

    async def ask(sent: list[Any]) -> Step:
        response = await service.aio.models.generate_content(model=MODEL, contents=sent, config=config(tools))
        return read(response.candidates[0].content)

    return await atalk(responded, asked(question), tools, ask)


def generate_stream(url: str, question: str, tools: Toolbox) -> str:
    """``generate_content_stream``."""
    service = client(url)  # it is closed when it is collected

    def ask(sent: list[Any]) -> Step:
        chunks = service.models.generate_content_stream(model=MODEL, contents=sent, config=config(tools))
        parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
        return read(types.Content(role="model", parts=parts))

    return talk(responded, asked(question), tools, ask)


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
