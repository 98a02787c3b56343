"""Run coding agents without a person, against a model that follows a script: what is common to all of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest

from otel_loopguard.hooks.home import Home
from otel_loopguard.hooks.programs import programs
from otel_loopguard.hooks.registration import Choice, installed, write
from tests.environments import ENVIRONMENTS
from tests.instrumentation.processes import NOTHING_EXPORTED
from tests.models.conversation import KEY
from tests.models.scripts import call, written
from tests.models.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.models.conversation import Asked, Call, Reply
    from tests.models.scripts import Script, Step

INSTALLED = ENVIRONMENTS / "coding-agents"
REQUIRED = os.environ.get("LOOPGUARD_REQUIRE_CODING_AGENTS") == "1"
QUESTION, DELEGATED = "task-1: look at the files.", "task-2: look at them, too."
"""What the user asks, and what the agent asks of a sub-agent."""
ANSWER = "I looked."
TEXT = "the text of a"
"""What is in ``a.txt``."""
PATIENCE = 10.0
"""Seconds that a hook waits for the judge. On a busy machine the usual time is over sometimes, and the call runs."""
AT_MOST = 300
"""Seconds that a run may take. The programs have no limit."""
ECHO = [sys.executable, str(Path(__file__).with_name("echo.py"))]
"""The command of an MCP server with the tools ``read_note`` and ``fail``."""
_KEPT = re.compile(
    r"LANG|PYTHONPATH|TMPDIR|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|(?i:npm_config_\w+|https?_proxy|no_proxy)"
)
"""What the programs get of the environment."""

_VOLATILE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\dT[\d:.]+|\b\d{10,}\b|(?<=Process Group PGID: )\d+|(?<=Chunk ID: )\w+|(?<=Wall time: )[\d.]+"
)


class CodingAgent:
    """A coding agent in a home of its own. Each has its own words for the calls that a test asks for."""

    name: ClassVar[str]
    """As in ``otel-loopguard hooks install NAME``."""
    executable: ClassVar[str]
    ended: ClassVar[str] = ANSWER
    """What a run says, as a pattern, whose model goes on with a call that is refused."""
    has_run: ClassVar[str] = TEXT
    """What a result of ``read`` says if the call has run, as a pattern."""
    stop_event: ClassVar[str] = "Stop"
    """The event of a hook that may make it go on after its answer."""
    tells_unknown: ClassVar[bool] = True
    """True if its hooks tell of calls whose tool does not exist."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = self.home / "work"
        self.judge = Home.of({"XDG_STATE_HOME": str(folder / "state")})
        """The folder of the judge that its hooks ask."""

    def configure(self, url: str) -> dict[str, str]:
        """Write its settings: the model at this URL, and the MCP server. Return the environment that it needs."""
        raise NotImplementedError

    def command(self, question: str) -> list[str]:
        """The command that answers a question."""
        raise NotImplementedError

    def read(self, name: str = "a.txt") -> Call:
        """Read a file."""
        raise NotImplementedError

    def shell(self, command: str) -> Call:
        """Run a command."""
        raise NotImplementedError

    def note(self, text: str) -> Call:
        """Call the tool of the MCP server."""
        raise NotImplementedError

    def delegate(self, question: str) -> tuple[Step | Script, ...]:
        """Start a sub-agent, and wait for it. A step may be a function of the request."""
        raise NotImplementedError

    def hand_over(self) -> tuple[Step, ...]:
        """End the work of a sub-agent, where its answer does not."""
        return ()

    def unknown(self) -> Call:
        """Call a tool that does not exist."""
        return call("frobnicate", path="a.txt")

    def write(self, name: str, content: str | dict[str, Any]) -> None:
        """Write a file of its settings."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))

    def made(self) -> None:
        """Make an empty home, in which it works with two files."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.work.mkdir(parents=True)
        for name in "abc":
            (self.work / f"{name}.txt").write_text(f"the text of {name}\n")

    def run(self, script: Script, *, guarded: bool = True, stop_hook: str = "") -> Ran:
        """Let it answer the question in a new home, with our hooks in its settings, and a command of its user."""
        self.made()
        with Server(script, gemini_ids=True).running() as server:
            environment = self.environment(self.configure(server.url))
            program = programs()[self.name]
            if stop_hook:
                own = program.registration.entry(self.stop_event, stop_hook)
                path = self.home / program.registration.user
                there = json.loads(path.read_text()) if path.exists() else {}
                self.write(program.registration.user, {**there, "hooks": {self.stop_event: [own]}})
            if guarded:
                choice = Choice(interrupts=not program.ends_by_answer, seconds=PATIENCE)
                write(installed(program, self.home, self.judge, choice), self.judge)
            done = subprocess.run(
                self.command(QUESTION), env=environment, cwd=self.work, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=AT_MOST, check=False,
            )  # fmt: skip
        return Ran(done.returncode, done.stdout + done.stderr, server)

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        """The environment of the program, and of its hooks."""
        kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
        path = (INSTALLED / "node_modules/.bin", INSTALLED / "node/node_modules/.bin", os.environ["PATH"])
        kept |= {"HOME": str(self.home), "XDG_STATE_HOME": str(self.judge.folder.parents[1]), **NOTHING_EXPORTED}
        return {**kept, "PATH": os.pathsep.join(map(str, path)), "NO_COLOR": "1", **more}


class Ran(NamedTuple):
    """A run that has ended."""

    status: int
    output: str
    server: Server

    def asked(self, question: str = QUESTION) -> list[Asked]:
        """The requests of a conversation in which the model may call tools."""
        found = (one.asked for one in self.server.exchanges)
        return [asked for asked in found if asked and asked.tools and key_of(asked) == key_in(question)]

    def results(self, question: str = QUESTION) -> list[str]:
        """The results that the model has read in a conversation."""
        return [result.text for result in self.asked(question)[-1].results]

    def reads(self, text: str, question: str = QUESTION) -> bool:
        """True if the model has read the text in a conversation."""
        return self.asked(question)[-1].reads(text)


class Steps:
    """Makes the steps of each conversation one after the other, then answers.

    The requests tell how many steps were made: programs also ask for other things, as a title, in the same words.
    """

    def __init__(self, steps: Sequence[Step | Script], delegated: Sequence[Step] = ()) -> None:
        self._steps = {key_in(QUESTION): steps, key_in(DELEGATED): delegated}

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request."""
        steps = self._steps[key_of(asked)]
        made = rounds(asked)
        step = steps[made] if asked.may_call and made < len(steps) else ANSWER
        return step(asked) if callable(step) else written(step)


def requests(conversation: Sequence[Asked]) -> list[str]:
    """What the model has read in each request, without what is new in each run."""
    return [_VOLATILE.sub("…", f"{asked.messages} {sorted(asked.tools)} {asked.choice}") for asked in conversation]


def rounds(asked: Asked) -> int:
    """The messages with calls that the model has sent. Some APIs make a message of each call."""
    calling = [bool(one.calls) for one in asked.messages]
    return sum(now and not before for before, now in zip([False, *calling], calling, strict=False))


def key_of(asked: Asked) -> str:
    """The key of the conversation that a request is of. System prompts may have words like a key."""
    return next((found[0] for one in asked.messages if one.role == "user" and (found := KEY.search(one.text))), "")


def key_in(question: str) -> str:
    """The key in a question."""
    return question.partition(":")[0]


def need(agent: type[CodingAgent]) -> None:
    """Skip the test of a program that is not installed here, or fail where it is required."""
    if (INSTALLED / "installed.json").exists() and (INSTALLED / "node_modules/.bin" / agent.executable).exists():
        return
    reason = f"{agent.executable} is not installed here: .ci/coding_agents installs what these tests run"
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)
