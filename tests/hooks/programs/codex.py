"""Codex CLI."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.hooks.programs.agent import ECHO, CodingAgent
from tests.models.scripts import call, written

if TYPE_CHECKING:
    from tests.models.conversation import Asked, Call, Reply
    from tests.models.scripts import Script, Step

CONFIG = """\
model = "gpt-5"
model_provider = "local"

[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"

[mcp_servers.echo]
command = "{echo[0]}"
args = ["{echo[1]}"]
"""


class Codex(CodingAgent):
    """A signal ends its run. Its hooks tell nothing of unknown tools."""

    name, executable = "codex", "codex"
    ended = "turn interrupted"
    tells_unknown = False

    def configure(self, url: str) -> dict[str, str]:
        """As the base class says."""
        self.write(".codex/config.toml", CONFIG.format(url=url, echo=ECHO))
        return {"OPENAI_API_KEY": "sk-local"}

    def command(self, question: str) -> list[str]:
        """As the base class says."""
        bypassed = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
        return ["codex", "exec", "--skip-git-repo-check", *bypassed, question]

    def read(self, name: str = "a.txt") -> Call:
        """As the base class says."""
        return self.shell(f"cat {name}")

    def shell(self, command: str) -> Call:
        """As the base class says."""
        return call("exec_command", cmd=command)

    def note(self, text: str) -> Call:
        """As the base class says."""
        return call("mcp__echo.read_note", text=text)

    def delegate(self, question: str) -> tuple[Step | Script, ...]:
        """As the base class says."""
        return call("multi_agent_v1.spawn_agent", message=question), waiting


def waiting(asked: Asked) -> Reply:
    """Wait for the sub-agent that was started last."""
    target = json.loads(asked.results[-1].text)["agent_id"]
    return written(call("multi_agent_v1.wait_agent", targets=[target], timeout_ms=60_000))
