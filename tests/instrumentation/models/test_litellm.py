"""LiteLLM: what no other client has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be fetched at import
pytest.importorskip("litellm", reason="litellm is tested in environments of its own")

import litellm

from otel_loopguard import RunStopped
from tests.instrumentation.models.clients import LiteLLM
from tests.instrumentation.models.recording import nudge, recorded
from tests.models.scripts import Working, call
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")
MODEL, MESSAGES = "openai/gpt-4.1", LiteLLM.messages


@pytest.fixture
def server() -> Iterator[Server]:
    """A model that looks once."""
    with Server(Working(call("look", path="a"))).running() as server:
        yield server


@pytest.fixture
def client(server: Server) -> LiteLLM:
    """The functions with the keywords of the service."""
    return LiteLLM(server.url)


def test_positional_arguments_stay_positional(client: LiteLLM, server: Server) -> None:
    """Model and messages may be either; the rest of the positional ones stay where they are."""
    with recorded(nudge) as exchanges:
        litellm.completion(MODEL, list(MESSAGES), 9.0, **client.keywords)
        litellm.completion(model=MODEL, messages=list(MESSAGES), **client.keywords)
    assert [one.sent.model for one in exchanges] == [MODEL] * 2
    first, second = (one.json for one in server.exchanges)
    assert first == second
    assert first["messages"][0]["content"] == "task-1\n\n[loopguard] Stop."


def test_a_message_of_litellm_is_read_as_its_dict(client: LiteLLM) -> None:
    """Programs append the object of the reply, or its dict."""
    with recorded() as exchanges:
        message = client.ask().choices[0].message
    dialect = exchanges[0].sent.dialect
    assert dialect.read(message).calls == exchanges[0].reply.calls != ()
    assert len(set(dialect.marks([message, message.model_dump()]))) == 1


def test_the_error_that_ends_a_run_is_one_that_litellm_does_not_retry(client: LiteLLM, server: Server) -> None:
    """It is a RunStopped error and a PermissionDeniedError, its text is our sentence, and no request is sent."""
    with recorded(ends=True), pytest.raises(litellm.exceptions.PermissionDeniedError) as ended:
        client.ask(num_retries=2)
    error: Any = ended.value
    assert isinstance(error, RunStopped)
    assert (str(error), error.message, error.args) == ("The loop is over.",) * 2 + (("The loop is over.",),)
    assert (error.tool_name, error.mode, error.status_code) == ("look", "generic_repeat", 403)
    assert server.exchanges == []


def test_the_router_does_not_retry_it(client: LiteLLM, server: Server) -> None:
    """Its own retries and fallbacks end with the sentence."""
    parameters = {"model": MODEL, "api_base": client.keywords["api_base"], "api_key": "local"}
    router = litellm.Router([{"model_name": "main", "litellm_params": parameters}], num_retries=2)
    with recorded(ends=True) as exchanges, pytest.raises(RunStopped, match="The loop is over"):
        router.completion("main", list(MESSAGES), tools=client.keywords["tools"])
    assert len(exchanges) <= 3
    assert server.exchanges == []


def test_an_iterator_of_the_program_is_left_to_litellm(client: LiteLLM) -> None:
    """Whatever litellm makes of it, the guard has not read it."""
    messages = iter(MESSAGES)
    with recorded() as exchanges, pytest.raises(Exception):  # noqa: B017, PT011 - it differs by version
        litellm.completion(MODEL, messages, **{**client.keywords, "api_base": "http://127.0.0.1:9"})
    assert exchanges[0].messages == []
