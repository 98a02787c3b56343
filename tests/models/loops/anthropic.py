"""Hand-written loops over ``anthropic``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anthropic import Anthropic, AsyncAnthropic
from anthropic.resources.beta.messages import Messages as BetaMessages

from tests.models.conversation import Call
from tests.models.loops import SYSTEM, atalk, declared, talk
from tests.models.wire import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.loops import Step
    from tests.models.toolbox import Toolbox

MODEL = "claude-sonnet-4-5"
TOKENS = 1024


def client_of(url: str) -> Anthropic:
    """A client of the local service."""
    return Anthropic(base_url=url, api_key="local")


def async_client_of(url: str) -> AsyncAnthropic:
    """An asynchronous client of the local service."""
    return AsyncAnthropic(base_url=url, api_key="local")


def read(content: list[Any]) -> Step:
    """Read the blocks of a message, which are sent back as the objects that they are."""
    calls = [Call(one.name, one.input, one.id) for one in content if one.type == "tool_use"]
    return [{"role": "assistant", "content": content}], calls, text_of(content)


def text_of(content: list[Any]) -> str:
    """The text of a message."""
    return "".join(block.text for block in content if block.type == "text")


def request(sent: list[Any], tools: Toolbox, **more: Any) -> Any:
    """The parameters of a request."""
    return {
        "model": MODEL, "max_tokens": TOKENS, "system": SYSTEM, "messages": sent, "tools": declared(MESSAGES, tools),
        **more,
    }  # fmt: skip


def talk_messages(create: Callable[..., Any], question: str, tools: Toolbox) -> str:
    """Ask by a function that returns a message."""
    return talk(
        MESSAGES.results, [MESSAGES.user(question)], tools, lambda sent: read(create(**request(sent, tools)).content)
    )


def messages(url: str, question: str, tools: Toolbox) -> str:
    """``messages.create``."""
    return talk_messages(client_of(url).messages.create, question, tools)


def messages_beta(url: str, question: str, tools: Toolbox) -> str:
    """``beta.messages.create``."""
    return talk_messages(client_of(url).beta.messages.create, question, tools)


def messages_raw(url: str, question: str, tools: Toolbox) -> str:
    """``with_raw_response.create(...).parse()``."""
    client = client_of(url)
    return talk_messages(lambda **given: client.messages.with_raw_response.create(**given).parse(), question, tools)


def messages_stream(url: str, question: str, tools: Toolbox) -> str:
    """``messages.stream()``, the helper that puts the message together."""
    client = client_of(url)

    def create(**given: Any) -> Any:
        with client.messages.stream(**given) as stream:
            return stream.get_final_message()

    return talk_messages(create, question, tools)


def messages_events(url: str, question: str, tools: Toolbox) -> str:
    """``stream=True``, with the blocks put together from the events."""
    client = client_of(url)

    def ask(sent: list[Any]) -> Step:
        stream = client.messages.create(**request(sent, tools, stream=True))
        return MESSAGES.read_events(event.model_dump(exclude_none=True) for event in stream)

    return talk(MESSAGES.results, [MESSAGES.user(question)], tools, ask)


async def messages_async(url: str, question: str, tools: Toolbox) -> str:
    """``AsyncAnthropic``."""
    async with async_client_of(url) as client:

        async def ask(sent: list[Any]) -> Step:
            return read((await client.messages.create(**request(sent, tools))).content)

        return await atalk(MESSAGES.results, [MESSAGES.user(question)], tools, ask)


async def messages_stream_async(url: str, question: str, tools: Toolbox) -> str:
    """``messages.stream()`` of the asynchronous client, read event by event."""
    async with async_client_of(url) as client:

        async def ask(sent: list[Any]) -> Step:
            async with client.messages.stream(**request(sent, tools)) as stream:
                text = "".join([piece async for piece in stream.text_stream])
                written, calls, whole = read((await stream.get_final_message()).content)
            assert text == whole
            return written, calls, text

        return await atalk(MESSAGES.results, [MESSAGES.user(question)], tools, ask)


def tool_runner(url: str, question: str, tools: Toolbox) -> str:
    """``beta.messages.tool_runner``, which runs the tools itself."""
    from anthropic import beta_tool

    runner = client_of(url).beta.messages.tool_runner(
        model=MODEL,
        max_tokens=TOKENS,
        messages=[MESSAGES.user(question)],
        tools=[beta_tool(one) for one in tools.functions().values()],
    )
    return text_of(runner.until_done().content)


LOOPS = [
    messages, messages_beta, messages_raw, messages_async, messages_stream, messages_stream_async, messages_events,
]  # fmt: skip
if hasattr(BetaMessages, "tool_runner"):
    LOOPS.append(tool_runner)
