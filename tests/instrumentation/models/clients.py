"""The description of each client for its tests: how a program makes one request through it, in each way."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.models.wire import CHAT, MESSAGES

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Client:
    """A client of the service at a URL. Each request has one tool, ``look``."""

    package: str
    methods: tuple[str, ...]
    """Paths in the package, each of a function that is patched."""
    others: tuple[str, ...]
    """Requests that ask no model for calls."""

    def __init__(self, url: str) -> None:
        self.module = pytest.importorskip(self.package, reason="the clients are tested in environments of their own")
        self.url = url
        self.begin()

    def begin(self) -> None:
        """Make what the requests need."""

    def ask(self) -> Any:
        """Make a request, and return the reply."""
        raise NotImplementedError

    def stream(self) -> Any:
        """Make a request, and return the stream of its reply."""
        raise NotImplementedError

    async def astream(self) -> Any:
        """Make a request in async code, and return the stream of its reply."""
        raise NotImplementedError

    def streams(self) -> tuple[type, type]:
        """The types of the two streams."""
        raise NotImplementedError

    def other(self, name: str) -> Exception:
        """Make one of the other requests, and return the exception that the client raises."""
        raise NotImplementedError

    def patched(self) -> list[Any]:
        """The functions that are patched, as they are now."""
        return [self.at(path) for path in self.methods]

    def at(self, path: str) -> Any:
        """An object of the package, in a module if the path has a colon."""
        module, _, name = path.rpartition(":")
        found = import_module(f"{self.package}.{module}") if module else self.module
        for part in name.split("."):
            found = getattr(found, part, None)
        return found

    async def aclose(self) -> None:
        """Close the connections."""


class Stainless(Client):
    """What the clients of OpenAI and Anthropic have in common."""

    methods = ("_base_client:SyncAPIClient.request", "_base_client:AsyncAPIClient.request")
    names: ClassVar[tuple[str, str]]
    request: ClassVar[dict[str, Any]]
    base = ""

    def begin(self) -> None:
        """Make both clients."""
        options: Any = {"base_url": self.url + self.base, "api_key": "local", "max_retries": 0}
        self.client, self.async_client = (getattr(self.module, name)(**options) for name in self.names)

    def resource(self, client: Any) -> Any:
        """The part of the client that asks a model."""
        raise NotImplementedError

    def ask(self) -> Any:
        """``create``."""
        return self.resource(self.client).create(**self.request)

    def stream(self) -> Any:
        """``create(stream=True)``."""
        return self.resource(self.client).create(**self.request, stream=True)

    async def astream(self) -> Any:
        """``create(stream=True)`` of the async client."""
        return await self.resource(self.async_client).create(**self.request, stream=True)

    def raw(self, **more: Any) -> Any:
        """``with_raw_response``."""
        return self.resource(self.client).with_raw_response.create(**self.request, **more)

    def streamed_body(self) -> AbstractContextManager[Any]:
        """``with_streaming_response``."""
        return self.resource(self.client).with_streaming_response.create(**self.request)  # type: ignore[no-any-return]

    def streams(self) -> tuple[type, type]:
        """Classes of the package."""
        return self.module.Stream, self.module.AsyncStream

    def other(self, name: str) -> Exception:
        """Post to another path."""
        with pytest.raises(self.module.NotFoundError) as raised:
            self.client.post(name, cast_to=object, body=self.request)
        return raised.value

    async def aclose(self) -> None:
        """Close both clients."""
        self.client.close()
        await self.async_client.close()


class OpenAI(Stainless):
    """Over chat completions."""

    package, names, base = "openai", ("OpenAI", "AsyncOpenAI"), "/v1"
    others = ("/responses/compact", "/responses/input_tokens", "/embeddings", "/chat/completions/7")
    request = CHAT.body([CHAT.user("task-1")], [CHAT.tool("look")], model="gpt-4.1")

    def resource(self, client: Any) -> Any:
        """Chat completions."""
        return client.chat.completions


class Anthropic(Stainless):
    """Over messages."""

    package, names = "anthropic", ("Anthropic", "AsyncAnthropic")
    others = ("/v1/messages/count_tokens", "/v1/messages/batches", "/v1/complete")
    request = MESSAGES.body([MESSAGES.user("task-1")], [MESSAGES.tool("look")], model="claude-sonnet-4-5")

    def resource(self, client: Any) -> Any:
        """Messages."""
        return client.messages


class Google(Client):
    """``google-genai``."""

    package = "google.genai"
    others = ("count_tokens",)
    methods = tuple(
        f"_api_client:{owner}.{method}"
        for owner in ("BaseApiClient", "ApiClient")
        for method in ("request", "request_streamed", "async_request", "async_request_streamed")
    )
    look = {"name": "look", "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}}
    request: ClassVar[dict[str, Any]] = {
        "model": "gemini-2.5-pro", "contents": "task-1", "config": {"tools": [{"function_declarations": [look]}]},
    }  # fmt: skip

    def begin(self) -> None:
        """Make the client."""
        options = self.module.types.HttpOptions(base_url=self.url)
        self.client = self.module.Client(api_key="local", http_options=options)

    def ask(self) -> Any:
        """``generate_content``."""
        return self.client.models.generate_content(**self.request)

    def stream(self) -> Any:
        """``generate_content_stream``."""
        return self.client.models.generate_content_stream(**self.request)

    async def astream(self) -> Any:
        """``aio.models.generate_content_stream``."""
        return await self.client.aio.models.generate_content_stream(**self.request)

    def streams(self) -> tuple[type, type]:
        """Generators."""

        async def generator() -> Any:
            yield

        return type(_ for _ in ()), type(generator())

    def other(self, name: str) -> Exception:
        """Call a method of ``models``."""
        with pytest.raises(self.module.errors.ClientError) as raised:
            getattr(self.client.models, name)(model="gemini-2.5-pro", contents="task-1")
        return raised.value


class LiteLLM(Client):
    """Over a model of OpenAI."""

    package, others = "litellm", ()
    methods = ("completion", "acompletion", "responses", "aresponses", "anthropic_messages")
    messages = [CHAT.user("task-1")]

    def begin(self) -> None:
        """Name the service."""
        self.keywords = {"api_base": f"{self.url}/v1", "api_key": "local", "tools": [CHAT.tool("look")]}

    def ask(self, **more: Any) -> Any:
        """``litellm.completion``."""
        return self.module.completion("openai/gpt-4.1", list(self.messages), **self.keywords, **more)

    def stream(self) -> Any:
        """``litellm.completion(stream=True)``."""
        return self.ask(stream=True)

    async def astream(self) -> Any:
        """``litellm.acompletion(stream=True)``."""
        return await self.module.acompletion("openai/gpt-4.1", list(self.messages), stream=True, **self.keywords)

    def streams(self) -> tuple[type, type]:
        """One class for both."""
        return (self.module.CustomStreamWrapper,) * 2


CLIENTS: tuple[type[Client], ...] = (OpenAI, Anthropic, Google, LiteLLM)
