"""The end of a turn that is known by the requests to its model alone."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import openai
import pytest

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolLoopError
from otel_loopguard.testing import guarded
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.models.scripts import Script

TOOLS: Any = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]
READ = call("read_file", path="a.txt")


class Agent:
    """A loop over ``openai``, and the ends that ``on_end`` is told."""

    def __init__(self, server: Server) -> None:
        self.client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
        self.messages: list[Any] = []

    def send(self, **options: Any) -> Any:
        """Send the messages, and return the reply."""
        return self.client.chat.completions.create(model="gpt-4.1", messages=self.messages, tools=TOOLS, **options)

    def ask(self, *, most: int = 50, **options: Any) -> None:
        """Ask until the model answers, or this number of requests is made."""
        self.messages.append({"role": "user", "content": f"question {len(self.messages)}"})
        for _ in range(most):
            reply = self.send(**options)
            message = reply.choices[0].message
            self.messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return
            for one in message.tool_calls:
                self.messages.append({"role": "tool", "tool_call_id": one.id, "content": "the same old text"})


class Session:
    """An agent, its server, and the ends of its turns."""

    def __init__(self, script: Script) -> None:
        self.ended: list[loopguard.EndedTurn] = []
        self._guarded = guarded(Policy(on_end=self.ended.append), clock=lambda: 0.0)
        self._server = Server(script).running()

    @property
    def ends(self) -> list[str]:
        """How the turns ended."""
        return [one.ended_as for one in self.ended]

    def __enter__(self) -> Self:
        self.recording = self._guarded.__enter__()
        server = self._server.__enter__()
        self.url, self.agent = server.url, Agent(server)
        return self

    def __exit__(self, *error: object) -> None:
        self.agent.client.close()
        self._server.__exit__(*error)
        self._guarded.__exit__(*error)


def test_a_turn_is_answered_when_the_model_replies_without_a_call() -> None:
    """At once, and not again when the user's next message begins another turn."""
    with Session(Working(READ)) as session:
        session.agent.ask()
        assert session.ends == ["answered"]
        assert loopguard.last_turn() == session.ended[0]
        session.agent.ask()
        assert session.ends == ["answered", "answered"]
        assert len({one.id for one in session.ended}) == 2


def test_a_turn_whose_model_answers_without_tools_is_concluded() -> None:
    """The guard has withdrawn them."""
    with Session(Looping(READ)) as session:
        session.agent.ask()
        assert session.ends == ["concluded"]


def test_a_turn_that_the_guard_ends_is_aborted_and_a_program_that_catches_the_error_changes_nothing() -> None:
    """The error comes again for each request of the turn, and is told once."""
    with Session(Looping(READ, stubborn=True)) as session:
        with pytest.raises(ToolLoopError):
            session.agent.ask()
        with pytest.raises(ToolLoopError):
            session.agent.send()
        assert session.ends == ["aborted"]
        last = loopguard.last_turn()
        assert last is not None
        assert last.ended_as == "aborted"


def test_a_block_around_a_client_that_was_ended_is_aborted_though_its_program_answers() -> None:
    """Nothing was answered after the error that the program has caught."""
    with Session(Looping(READ, stubborn=True)) as session:
        with loopguard.turn() as turn, contextlib.suppress(ToolLoopError):
            session.agent.ask()
        assert turn.ended_as == "aborted"
        assert session.ends == ["aborted"]


@pytest.mark.parametrize(
    ("options", "end"), [({}, "cancelled"), ({"tool_choice": "required"}, "answered")], ids=["auto", "required"]
)
def test_a_turn_that_its_program_leaves_ends_when_it_is_forgotten(options: dict[str, Any], end: str) -> None:
    """It has no answer, unless the request demanded a call: that may be the answer."""
    with Session(Working(READ, READ)) as session:
        session.agent.ask(most=1, **options)
        assert session.ends == []
        assert loopguard.last_turn() is None
        assert session.recording.runtime is not None
        session.recording.runtime.reader.end_turns()
        assert session.ends == [end]


def test_a_turn_whose_last_request_failed_is_failed() -> None:
    """The program has not tried again when its next turn begins."""
    with Session(Working(READ)) as session:
        session.agent.ask(most=1)
        with pytest.raises(openai.APIConnectionError):
            session.agent.client.with_options(base_url="http://127.0.0.1:9/v1").chat.completions.create(
                model="gpt-4.1", messages=session.agent.messages, tools=TOOLS
            )
        session.agent.ask(most=1)
        assert session.ends[0] == "failed"


def test_a_stream_that_is_read_to_its_end_answers_the_turn() -> None:
    """While it is read, the turn goes on."""
    with Session(Working("Done.")) as session:
        asked: list[Any] = [{"role": "user", "content": "a question"}]
        ends = [
            session.ends
            for _ in session.agent.client.chat.completions.create(
                model="gpt-4.1", messages=asked, tools=TOOLS, stream=True
            )
        ]
        assert ends[0] == []
        assert session.ends == ["answered"]


AT_EXIT = """
import sys
import openai
import otel_loopguard as loopguard
loopguard.instrument(policy=loopguard.Policy(on_end=lambda ended: print(ended.ended_as)))
client = openai.OpenAI(base_url=sys.argv[1], api_key="local", max_retries=0)
tools = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]
client.chat.completions.create(model="gpt-4.1", messages=[{"role": "user", "content": "a"}], tools=tools)
"""


def test_a_turn_that_is_open_at_the_exit_of_the_process_is_cancelled() -> None:
    """The program has got a call, and made no further request."""
    with Server(Working(READ)).running() as server:
        done = subprocess.run(
            [sys.executable, "-c", AT_EXIT, f"{server.url}/v1"], capture_output=True, text=True, check=True, timeout=120
        )
    assert done.stdout.split() == ["cancelled"]


def test_a_turn_that_turns_out_to_be_part_of_an_agents_run_has_no_end() -> None:
    """The end of the run is that of the last turn, also for the code that began the other one."""
    with Session(Working(READ)) as session:
        session.agent.ask(most=1)
        runtime = session.recording.runtime
        assert runtime is not None
        (one,) = list(runtime.reader.lists)
        with runtime.guard.turn() as run:
            runtime.reader.join_turn(one, run)
        assert session.ends == ["answered"]
        assert loopguard.last_turn() == session.ended[0]
