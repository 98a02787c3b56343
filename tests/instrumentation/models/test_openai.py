"""OpenAI's client: what no other client has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("openai", reason="openai is tested in environments of its own")

import openai

from tests.instrumentation.models.clients import OpenAI
from tests.instrumentation.models.recording import nudge, recorded
from tests.models.scripts import Working, call
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")
TOOLS = OpenAI.request["tools"]


@pytest.fixture
def server() -> Iterator[Server]:
    """A model that looks once."""
    with Server(Working(call("look", path="a"))).running() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    """A client of the service."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
        yield client


def test_tools_of_extra_body_are_read_and_stay(client: openai.OpenAI, server: Server) -> None:
    """``extra_body`` is merged as the client merges it, also in a changed request."""
    request: Any = {name: value for name, value in OpenAI.request.items() if name != "tools"}
    with recorded(nudge) as exchanges:
        client.chat.completions.create(**request, extra_body={"tools": TOOLS, "seed": 7, "tool_choice": "auto"})
    assert exchanges[0].tools == {"look"}
    sent = server.exchanges[0].json
    assert (sent["tools"], sent["seed"], sent["tool_choice"]) == (TOOLS, 7, "none")


def test_clones_and_plain_posts_are_read(client: openai.OpenAI) -> None:
    """``with_options`` makes another client, and ``post`` passes no resource."""
    with recorded() as exchanges:
        client.with_options(timeout=9).chat.completions.create(**OpenAI.request)
        answer = client.post("/chat/completions", cast_to=object, body=OpenAI.request)
    assert isinstance(answer, dict)
    assert [len(one.reply.calls) for one in exchanges if one.reply] == [1, 0]


@pytest.mark.parametrize("body", [None, [], {}, {"messages": None}, {"messages": "text"}, {"messages": [None, 1, "x"]}])
def test_odd_bodies_are_sent_as_they_are(client: openai.OpenAI, body: Any) -> None:
    """The service says what is wrong with them; the guard has no fault."""
    with recorded(), pytest.raises(openai.APIStatusError):
        client.post("/chat/completions", cast_to=object, body=body)
