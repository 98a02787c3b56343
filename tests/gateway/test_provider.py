"""The provider follows the script that the first message names, whatever the API."""

from __future__ import annotations

import httpx
import pytest

from tests.gateway.provider import DONE, LOOKED, LOOPING, SCRIPTS, WORKING, provider
from tests.models.loops import openai as loops
from tests.models.loops import run
from tests.models.toolbox import Toolbox

ANSWERS = {**dict.fromkeys(LOOPING, LOOKED), **dict.fromkeys(WORKING, DONE), "stubborn": LOOKED, "obedient": LOOKED}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("loop", [loops.chat, loops.responses_stream], ids=["chat", "responses_stream"])
def test_each_script_ends_with_its_answer(name, loop):
    """Without a guard the loops go on to the end of their patience, and what works needs a few calls."""
    tools = Toolbox()
    with provider() as server:
        assert run(loop, server.url, f"task-{name}1: who owns it?", tools) == ANSWERS[name]
    assert (server.rejected, len(tools.runs) >= 40) == ([], name not in WORKING)


def test_a_request_that_is_sent_again_gets_the_same_step():
    """A client whose connection broke asks again; the work goes on where it was."""
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "task-working1"}],
        "tools": [{"type": "function", "function": {"name": "read_file"}}],
    }
    with provider() as server:
        sent = [
            httpx.post(f"{server.url}/v1/chat/completions", json=body, headers={"authorization": "Bearer k"}).json()
            for _ in range(2)
        ]
    calls = [one["choices"][0]["message"]["tool_calls"][0]["function"] for one in sent]
    assert calls[0] == calls[1] == {"name": "read_file", "arguments": '{"path": "a.txt"}'}


def test_a_conversation_without_a_script_is_rejected():
    """The error names the remedy."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    with provider() as server:
        sent = httpx.post(f"{server.url}/v1/chat/completions", json=body, headers={"authorization": "Bearer k"})
    assert sent.status_code == 400
    assert "task-" in sent.json()["error"]["message"]
