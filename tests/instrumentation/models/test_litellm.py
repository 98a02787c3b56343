"""LiteLLM: its functions are read, whatever provider they ask, and are the same for the program."""

from __future__ import annotations

import inspect
import os
from importlib.metadata import version
from typing import Any

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would be fetched at import
pytest.importorskip("litellm", reason="litellm is tested in environments of its own")

import litellm

from otel_loopguard import ToolLoopError
from tests.instrumentation.models import ways
from tests.instrumentation.models.recording import recorded
from tests.models.loops import loops_of
from tests.models.scripts import Working, call
from tests.models.server import Server

LOOPS = loops_of("litellm")
pytestmark = pytest.mark.filterwarnings("ignore")
of_each_way = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
WITHOUT_USAGE = ("completion_stream",)
"""The loops that do not ask for the usage of a stream."""
IGNORES_NONE = "completion_anthropic" if version("litellm").startswith("1.61.") else None
"""Litellm 1.61 leaves out a tool_choice of none for Anthropic: the model calls on, and its run is ended."""


@of_each_way
def test_each_way_is_read_once_and_sends_the_same_bytes(loop):
    """The client below, if there is one, is not read again."""
    exchanges = ways.assert_read_and_untouched(loop)
    ways.assert_replies_read(exchanges, usage=loop.__name__ not in WITHOUT_USAGE)


@pytest.mark.parametrize("loop", [one for one in LOOPS.values() if one.__name__ != IGNORES_NONE])
def test_a_changed_request_is_sent_changed(loop):
    """The sentence and the withdrawn tools reach the model."""
    ways.assert_changes_reach_the_model(loop)


@of_each_way
def test_a_loop_is_ended(loop):
    """With an answer, or with ToolLoopError if the model does not obey."""
    ways.assert_a_loop_is_ended(loop, obeys=loop.__name__ != IGNORES_NONE)


@of_each_way
def test_results_can_be_annotated(loop):
    """Each result takes a sentence, in a copy."""
    ways.assert_results_can_be_annotated(loop)


@pytest.fixture
def server():
    with Server(Working(call("look", path="a"))).running() as server:
        yield server


TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
MESSAGES = [{"role": "user", "content": "task-1"}]


@pytest.fixture
def request_of(server):
    return {"api_base": f"{server.url}/v1", "api_key": "local", "tools": TOOLS}


def test_positional_arguments_stay_positional(request_of, server):
    """Model and messages may be either; the rest of the positional ones stay where they are."""
    with recorded(ways.nudge) as exchanges:
        litellm.completion("openai/gpt-4.1", list(MESSAGES), 9.0, **request_of)
        litellm.completion(model="openai/gpt-4.1", messages=list(MESSAGES), **request_of)
    assert [one.sent.model for one in exchanges] == ["openai/gpt-4.1"] * 2
    first, second = (one.json for one in server.exchanges)
    assert first == second
    assert first["messages"][0]["content"] == "task-1\n\n[loopguard] Stop."


def test_a_message_of_litellm_is_read_as_its_dict(request_of):
    """Programs append the object of the reply, or its dict."""
    with recorded() as exchanges:
        message = litellm.completion("openai/gpt-4.1", list(MESSAGES), **request_of).choices[0].message
    dialect = exchanges[0].sent.dialect
    assert dialect.read(message).calls == exchanges[0].reply.calls != ()
    assert len(set(dialect.marks([message, message.model_dump()]))) == 1


def test_a_stream_keeps_its_type(request_of):
    """Chunks are counted as the program reads them, sync."""
    with recorded() as exchanges:
        stream = litellm.completion("openai/gpt-4.1", list(MESSAGES), stream=True, **request_of)
        assert type(stream) is litellm.CustomStreamWrapper
        chunks = list(stream)
    assert exchanges[0].chunks == len(chunks)
    assert [call.name for call in exchanges[0].reply.calls] == ["look"]


async def test_an_async_stream_keeps_its_type(request_of):
    """And async."""
    with recorded() as exchanges:
        stream = await litellm.acompletion("openai/gpt-4.1", list(MESSAGES), stream=True, **request_of)
        assert type(stream) is litellm.CustomStreamWrapper
        chunks = [chunk async for chunk in stream]
    assert exchanges[0].chunks == len(chunks)
    assert [call.name for call in exchanges[0].reply.calls] == ["look"]


def test_the_error_that_ends_a_run_is_one_that_litellm_does_not_retry(request_of, server):
    """It is a ToolLoopError and a PermissionDeniedError, its text is our sentence, and no request is sent."""
    with recorded(ends=True), pytest.raises(litellm.exceptions.PermissionDeniedError) as ended:
        litellm.completion("openai/gpt-4.1", list(MESSAGES), num_retries=2, **request_of)
    error: Any = ended.value
    assert isinstance(error, ToolLoopError)
    assert (str(error), error.message, error.args) == ("The loop is over.",) * 2 + (("The loop is over.",),)
    assert (error.tool_name, error.mode, error.status_code) == ("look", "generic_repeat", 403)
    assert server.exchanges == []


def test_the_router_does_not_retry_it(request_of, server):
    """Its own retries and fallbacks end with the sentence."""
    parameters = {"model": "openai/gpt-4.1", "api_base": request_of["api_base"], "api_key": "local"}
    router = litellm.Router([{"model_name": "main", "litellm_params": parameters}], num_retries=2)
    with recorded(ends=True) as exchanges, pytest.raises(ToolLoopError, match="The loop is over"):
        router.completion("main", list(MESSAGES), tools=TOOLS)
    assert len(exchanges) <= 3
    assert server.exchanges == []


def test_an_iterator_of_the_program_is_left_to_litellm(request_of):
    """Whatever litellm makes of it, the guard has not read it."""
    messages = iter(MESSAGES)
    with recorded() as exchanges, pytest.raises(Exception):  # noqa: B017, PT011 - it differs by version
        litellm.completion("openai/gpt-4.1", messages, **{**request_of, "api_base": "http://127.0.0.1:9"})
    assert exchanges[0].messages == []


def test_the_functions_are_of_the_same_sort_while_they_are_patched():
    """Programs ask whether a function is a coroutine function."""
    names = ("completion", "acompletion", "responses", "aresponses", "anthropic_messages")

    def sorts() -> list[bool]:
        return [inspect.iscoroutinefunction(getattr(litellm, name, None)) for name in names]

    plain, function = sorts(), litellm.completion
    with recorded():
        assert litellm.completion is not function
        assert sorts() == plain
    assert litellm.completion is function
