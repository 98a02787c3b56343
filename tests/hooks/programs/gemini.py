"""Gemini CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hooks.programs.agent import ECHO, CodingAgent
from tests.models.scripts import call

if TYPE_CHECKING:
    from tests.models.conversation import Call
    from tests.models.scripts import Script, Step


class Gemini(CodingAgent):
    """The hooks withdraw its tools, so that the model answers."""

    name, executable = "gemini", "gemini"
    tells_unknown = False
    stop_event = "AfterAgent"

    def configure(self, url: str) -> dict[str, str]:
        """As the base class says."""
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "model": {
                "name": "gemini-2.5-flash",
                "disableLoopDetection": True,
            },  # it would end the run before the guard
            "mcpServers": {"echo": {"command": ECHO[0], "args": ECHO[1:], "trust": True}},
            "privacy": {"usageStatisticsEnabled": False},
        }
        self.write(".gemini/settings.json", settings)
        return {"GEMINI_API_KEY": "local", "GOOGLE_GEMINI_BASE_URL": url}

    def command(self, question: str) -> list[str]:
        """As the base class says."""
        return ["gemini", "-y", "-p", question]

    def read(self, name: str = "a.txt") -> Call:
        """As the base class says."""
        return call("read_file", file_path=str(self.work / name))

    def shell(self, command: str) -> Call:
        """As the base class says."""
        return call("run_shell_command", command=command)

    def note(self, text: str) -> Call:
        """As the base class says."""
        return call("mcp_echo_read_note", text=text)

    def delegate(self, question: str) -> tuple[Step | Script, ...]:
        """As the base class says."""
        return (call("invoke_agent", agent_name="generalist", prompt=question),)

    def hand_over(self) -> tuple[Step, ...]:
        """As the base class says."""
        return (call("complete_task", result={"response": "I looked."}),)
