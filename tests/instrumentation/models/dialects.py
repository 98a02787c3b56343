"""The description of each API for its tests: how we read it, how clients write it, and how the service answers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from otel_loopguard.instrumentation.models.anthropic import MESSAGES
from otel_loopguard.instrumentation.models.google_genai import GENERATE_CONTENT
from otel_loopguard.instrumentation.models.openai_chat import CHAT
from otel_loopguard.instrumentation.models.openai_responses import RESPONSES
from tests.models import wire
from tests.models.apis import chat, gemini, messages, responses

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.instrumentation.model_api import Dialect
    from tests.models.apis import Api as Service


class Api(NamedTuple):
    """One API."""

    name: str
    dialect: Dialect
    wire: wire.Wire
    service: Service
    client: Callable[[Any], Any]
    """Make a reply or a chunk the object that the client returns."""

    def __str__(self) -> str:
        return self.name


def objects(value: Any) -> Any:
    """The same JSON as the objects of a client; arguments stay as they are."""
    if isinstance(value, dict):
        own = {key: part if key in ("input", "args", "response") else objects(part) for key, part in value.items()}
        return SimpleNamespace(**own)
    return [objects(part) for part in value] if isinstance(value, list) else value


def text_of(value: Any) -> Any:
    """A reply as newer versions of Google's client return it."""
    return SimpleNamespace(body=json.dumps(value))


APIS = {
    "chat": Api("chat", CHAT, wire.CHAT, chat.Chat(), objects),
    "responses": Api("responses", RESPONSES, wire.RESPONSES, responses.Responses(), objects),
    "messages": Api("messages", MESSAGES, wire.MESSAGES, messages.Messages(), objects),
    "gemini": Api("gemini", GENERATE_CONTENT, wire.GEMINI, gemini.Gemini(ids=True), text_of),
}
EACH = pytest.mark.parametrize("api", APIS.values(), ids=str)


def each(names: str, table: dict[str, list[Any]]) -> pytest.MarkDecorator:
    """Run a test for each row of a table with rows of each API. ``names``: of the row, behind ``api``."""
    rows = [
        pytest.param(APIS[api], *(row if "," in names else (row,)), id=f"{api}{number}")
        for api, some in table.items()
        for number, row in enumerate(some)
    ]
    return pytest.mark.parametrize(f"api,{names}", rows)
