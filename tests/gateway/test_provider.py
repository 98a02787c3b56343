"""The provider follows the script that the first message names, whatever the API."""

from __future__ import annotations

import httpx
import pytest

from tests.gateway.provider import DONE, LOOKED, SCRIPTS, WORKING, provider, scripted
from tests.models.conversation import Asked, Message, Result


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_ends_with_its_answer(name):
    """Without a guard the loops go on to the end of their patience, and what works needs a few calls."""
    entries, runs = [Message("user", f"task-{name}1: who owns it?")], 0
    while True:
        reply = scripted(Asked(tuple(entries), frozenset({"read_file"}), number=len(entries) // 2 + 1))
        if not reply.calls:
            break
        runs += len(reply.calls)
        entries.append(Message("assistant", calls=reply.calls))
        entries.append(Message("tool", results=tuple(Result("", "text") for _ in reply.calls)))
    assert (reply.text, runs >= 40) == ((DONE, False) if name in WORKING else (LOOKED, True))


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
