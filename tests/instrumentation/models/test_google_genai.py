"""Google's client: what no other API or client has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.instrumentation.models.google_genai import GENERATE_CONTENT
from otel_loopguard.turns.messages import Message, WrittenCall, WrittenResult
from tests.instrumentation.models.clients import Google
from tests.instrumentation.models.recording import recorded
from tests.models.conversation import Call
from tests.models.scripts import Working, call
from tests.models.server import Server
from tests.models.wire import GEMINI

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def server() -> Iterator[Server]:
    """A model that looks once, in a service that gives calls ids."""
    with Server(Working(call("look", path="a")), gemini_ids=True).running() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Google:
    """A client of the service."""
    return Google(server.url)


def test_ids_that_the_server_gives_are_not_used(client: Google) -> None:
    """The client does not send them back, so calls and results are in order."""
    with recorded() as exchanges:
        assert client.ask().function_calls[0].name == "look"
    assert exchanges[0].reply is not None
    assert exchanges[0].reply.calls == (WrittenCall(None, "look", {"path": "a"}),)
    assert (exchanges[0].sent.model, exchanges[0].tools) == ("gemini-2.5-pro", {"look"})


def test_a_stream_sends_its_request_when_it_is_read(client: Google, server: Server) -> None:
    """So it does without the guard."""
    with recorded() as exchanges:
        client.stream()
        assert (server.exchanges, exchanges) == ([], [])


# --- entries -----------------------------------------------------------------------------------------------------


def result(response: Any) -> dict[str, Any]:
    """A part with a response."""
    return {"functionResponse": {"name": "look", "response": response}}


def user(*parts: Any) -> dict[str, Any]:
    """A content in the role of the user."""
    return {"role": "user", "parts": list(parts)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"role": "model", "parts": [{"text": "I look."}, GEMINI.calls(Call("look", {"path": "a"}))[0]["parts"][0]]},
            Message((WrittenCall(None, "look", {"path": "a"}),), said=[{"text": "I look."}]),
        ),
        ({"role": "model", "parts": [{"functionCall": {"name": "list"}}]}, Message((WrittenCall(None, "list", {}),))),
        (
            user(result({"error": "down"})),
            Message(results=(WrittenResult(None, {"error": "down"}, is_error=True, name="look"),)),
        ),
        ({"role": "function", "parts": [result({})]}, Message(results=(WrittenResult(None, {}, name="look"),))),
        (user({"inlineData": {"data": "x"}}), Message()),
        ({"role": "user"}, Message()),
        ({"parts": [{"text": "Who?"}]}, Message(by_user=True, text=[{"text": "Who?"}])),
    ],
)  # fmt: skip
def test_contents_are_read(content: Any, message: Message) -> None:
    """Calls and results by their order and names; a response with nothing but an error is one."""
    assert GENERATE_CONTENT.read(content)._replace(text=None) == message._replace(text=None)


def test_a_sentence_is_a_field_of_its_own_response() -> None:
    """There is no place for text. The other parts stay."""
    changed = GENERATE_CONTENT.annotate(user(result({"result": "ok"}), result({}), {"text": "Go on."}), {1: "Stop."})
    assert changed == user(result({"result": "ok"}), result({"loopguard": "Stop."}), {"text": "Go on."})


def test_the_names_that_a_call_was_restricted_to_are_withdrawn() -> None:
    """They are not allowed with the mode NONE; other settings stay."""
    calling = {"mode": "ANY", "allowedFunctionNames": ["look"]}
    body = {"tools": [GEMINI.tool("look")], "toolConfig": {"functionCallingConfig": calling, "retrievalConfig": {}}}
    settings = {"functionCallingConfig": {"mode": "NONE"}, "retrievalConfig": {}}
    assert GENERATE_CONTENT.withdraw(body) == {**body, "toolConfig": settings}
