"""Copilot CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hooks.programs.agent import ECHO, CodingAgent
from tests.models.scripts import call

if TYPE_CHECKING:
    from tests.models.conversation import Call
    from tests.models.scripts import Script, Step


class Copilot(CodingAgent):
    """A signal ends its run."""

    name, executable = "copilot", "copilot"
    ended = "Exiting"

    def configure(self, url: str) -> dict[str, str]:
        """As the base class says."""
        server = {"type": "local", "command": ECHO[0], "args": ECHO[1:], "tools": ["*"]}
        self.write(".copilot/mcp-config.json", {"mcpServers": {"echo": server}})
        return {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "local",
            "COPILOT_MODEL": "gpt-5",
        }

    def command(self, question: str) -> list[str]:
        """As the base class says."""
        return ["copilot", "--allow-all-tools", "-p", question]

    def read(self, name: str = "a.txt") -> Call:
        """As the base class says."""
        return call("view", path=str(self.work / name))

    def shell(self, command: str) -> Call:
        """As the base class says."""
        return call("bash", command=command, description="Run it")

    def note(self, text: str) -> Call:
        """As the base class says."""
        return call("echo-read_note", text=text)

    def delegate(self, question: str) -> tuple[Step | Script, ...]:
        """As the base class says."""
        return (
            call("task", name="look", description="Look", prompt=question, agent_type="general-purpose", mode="sync"),
        )
