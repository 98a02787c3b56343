"""The coding agents themselves, each in its newest version, over a model that follows a script.

Required where LOOPGUARD_REQUIRE_CODING_AGENTS is 1; .ci/coding_agents installs them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.hooks import registration
from tests.hooks.programs import AGENTS
from tests.hooks.programs.agent import ANSWER, DELEGATED, CodingAgent, Steps, need, requests
from tests.hooks.programs.claude_code import ClaudeCode
from tests.hooks.programs.codex import Codex
from tests.hooks.programs.gemini import Gemini
from tests.models.scripts import written
from tests.stack.harness.process import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.conversation import Asked, Reply

REFUSED = "tool_loop_detected"
ENDED = "The run was ended"
NOTE = "the note"
UNKNOWN = re.compile(r"""tool_loop_detected\W+mode\W+(unknown_tool_repeat|generic_repeat)\W+tool\W+frobnicate""")
"""What the model reads of the third call of a tool that does not exist."""
TOLD = "[loopguard]"


@contextmanager
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="agent-", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name, scope="module")
def agent(request: Any) -> Iterator[CodingAgent]:
    """A program, and a judge that runs."""
    need(request.param)
    with folder() as path:
        found = request.param(path)
        hooks(found, "serve", "--background")
        yield found
        hooks(found, "stop")


def hooks(agent: CodingAgent, *arguments: str) -> str:
    """Run a command of ``hooks``, and return its output."""
    command = [sys.executable, "-m", "otel_loopguard.cli.main", "hooks", *arguments]
    return subprocess.run(command, env=agent.environment({}), capture_output=True, text=True, check=True).stdout


def test_a_stubborn_model_is_refused_and_ended(agent: CodingAgent) -> None:
    """Two calls run, the model reads the reason, and the run ends, by an answer or by a signal.

    A program that is slow makes a slow loop, in which a look after a pause may run.
    """
    done = agent.run(Steps([agent.read()] * 20))
    kinds = [kind_of(result, agent.has_run) for result in done.results()]
    assert kinds[:2] == ["ran"] * 2
    assert set(kinds[2:]) <= {"ran", "refused"}
    assert kinds.count("ran") <= 4
    assert done.reads(REFUSED)
    assert re.search(agent.ended, done.output), done.output


def kind_of(result: str, has_run: str) -> str:
    """``ran`` or ``refused``; else the result itself, which fails a test with a good message."""
    if re.search(has_run, result):
        return "ran"
    return "refused" if REFUSED in result or ENDED in result else result


@pytest.mark.parametrize("agent", [ClaudeCode, Codex, Gemini], indirect=True, ids=lambda agent: agent.name)
def test_a_stop_hook_that_never_lets_go_is_overruled(agent: CodingAgent) -> None:
    """The hook of a user says no to the same answer again and again: the fourth one is the last."""
    done = agent.run(Steps([agent.read()]), stop_hook="""echo '{"decision": "block", "reason": "go on"}'""")
    assert len(done.asked()) == 2 + 4
    assert done.status == 0


def test_a_normal_run_is_the_same(agent: CodingAgent) -> None:
    """The model reads what it reads without hooks: each request is equal, but for ids and times."""
    append = agent.shell("echo more >> a.txt")
    work = [
        agent.read(), append, agent.read(), agent.read("b.txt"), agent.note("one"), append, agent.read(),
        agent.read("c.txt"), agent.read("b.txt"), agent.note("two"), agent.read(),
    ]  # fmt: skip
    alone, guarded = (agent.run(Steps(work), guarded=guarded) for guarded in (False, True))
    assert requests(guarded.asked()) == requests(alone.asked())
    assert (guarded.status, ANSWER in guarded.output) == (0, True)
    assert len(guarded.results()) == len(work)


def test_calls_of_each_kind_are_judged(agent: CodingAgent) -> None:
    """Those of one message, of an MCP server, and of tools that do not exist; and those of a sub-agent, apart."""
    both = (agent.note("one"), agent.note("two"))
    delegated = [*[agent.note("one")] * 3, *agent.hand_over()]
    done = agent.run(Steps([*[both] * 5, *[agent.unknown()] * 3, *agent.delegate(DELEGATED)], delegated))
    kinds = [kind_of(result, NOTE) for result in done.results()]
    assert kinds[:4] == ["ran"] * 4
    assert kinds[8:10] == ["refused"] * 2
    assert bool(UNKNOWN.search(str(done.asked()[-1].messages))) == agent.tells_unknown
    assert [kind_of(result, NOTE) for result in done.results(DELEGATED)[:3]] == ["ran", "ran", "refused"]


@pytest.mark.parametrize("agent", [ClaudeCode, Codex, Gemini], indirect=True, ids=lambda agent: agent.name)
def test_a_judge_that_cannot_be_started_is_told_to_the_user(
    agent: CodingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model does not read it, and the run is as ever. Only Gemini shows it where no person is, too."""
    monkeypatch.setattr(registration, "STARTING", ["/nowhere/otel-loopguard"])
    with folder() as path:
        alone = type(agent)(path)
        done = alone.run(Steps([alone.note("one")]))
    assert (done.status, ANSWER in done.output) == (0, True)
    assert not done.reads("no judge could be started")
    assert ("no judge could be started" in done.output) == (agent.name == "gemini")


def test_a_run_goes_on_without_its_judge(agent: CodingAgent) -> None:
    """The hook at the start of a session has started it. When it is killed all calls run, and the run ends as alone."""
    with folder() as path:
        alone = type(agent)(path)
        note = alone.note("one")

        def when_it_serves(asked: Asked) -> Reply:
            wait_until("the judge serves", lambda: alone.judge.running)
            return written(note)

        def when_it_is_killed(asked: Asked) -> Reply:
            wait_until("no judge runs", no_judge_after_a_kill)
            return written(note)

        def no_judge_after_a_kill() -> bool:
            running = alone.judge.running
            if running is not None:  # the next one may be there at once: the hook at a message starts one, too
                with suppress(ProcessLookupError):
                    os.kill(running.process, signal.SIGKILL)
            return running is None

        done = alone.run(Steps([when_it_serves, note, when_it_is_killed, note]))
        hooks(alone, "stop")  # a later hook may have started another one
    assert [kind_of(result, NOTE) for result in done.results()] == ["ran"] * 4
    assert done.reads(TOLD)
    assert (done.status, ANSWER in done.output) == (0, True)
