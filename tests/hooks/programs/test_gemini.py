"""Gemini CLI, whose hooks do not tell a sub-agent from its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_loopguard.hooks.judge import Judge
from otel_loopguard.testing import guarded
from tests.hooks.asking import Gemini

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = {"file_path": "a.txt"}
DELEGATION = {"agent_name": "generalist", "prompt": "look"}


@pytest.fixture
def agent() -> Iterator[Gemini]:
    """A session."""
    with guarded(clock=lambda: 0.0) as recording:
        assert recording.runtime is not None
        yield Gemini(Judge(recording.runtime), "s")


def reads(agent: Gemini, times: int) -> list[bool]:
    """Read a file; return which of the calls ran."""
    return [agent.call("read_file", FILE, "the text").ran for _ in range(times)]


def test_the_calls_within_a_delegation_are_the_sub_agents(agent: Gemini) -> None:
    """It may read what its parent has read, is refused for its own repeats, and the next one begins anew."""
    agent.prompt()
    assert reads(agent, 1) == [True]
    for _ in range(2):
        agent.begin("invoke_agent", DELEGATION)
        assert reads(agent, 3) == [True, True, False]
        agent.end("invoke_agent", DELEGATION, "done")
    assert reads(agent, 1) == [True]


def test_a_delegation_that_was_never_ended_is_over_with_the_turn(agent: Gemini) -> None:
    """The user has interrupted it."""
    agent.prompt()
    agent.begin("invoke_agent", DELEGATION)
    assert reads(agent, 2) == [True, True]
    agent.prompt()
    assert reads(agent, 3) == [True, True, False]


def test_two_delegations_of_one_message_are_one_sub_agent(agent: Gemini) -> None:
    """Nothing tells them apart. The parent has its own calls again when both have ended."""
    agent.prompt()
    for _ in range(2):
        agent.begin("invoke_agent", DELEGATION)
    assert reads(agent, 2) == [True, True]
    agent.end("invoke_agent", DELEGATION, "done")
    assert reads(agent, 1) == [False]
    agent.end("invoke_agent", DELEGATION, "done")
    assert reads(agent, 1) == [True]
