"""Qwen Code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hooks.programs.agent import ECHO, CodingAgent
from tests.models.scripts import call

if TYPE_CHECKING:
    from tests.models.conversation import Call
    from tests.models.scripts import Script, Step


class Qwen(CodingAgent):
    """Its own detector ends a run of five equal calls, and cannot be switched off."""

    name, executable = "qwen", "qwen"
    ended = "Loop detection halted the run"
    has_run = "the text of a|File a.txt unchanged"

    def configure(self, url: str) -> dict[str, str]:
        """As the base class says."""
        settings = {
            "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
            "mcpServers": {"echo": {"command": ECHO[0], "args": ECHO[1:], "trust": True}},
            "privacy": {"usageStatisticsEnabled": False},
        }
        self.write(".qwen/settings.json", settings)
        return {"OPENAI_API_KEY": "local", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "local"}

    def command(self, question: str) -> list[str]:
        """As the base class says."""
        return ["qwen", "-y", "-p", question]

    def read(self, name: str = "a.txt") -> Call:
        """As the base class says."""
        return call("read_file", file_path=str(self.work / name))

    def shell(self, command: str) -> Call:
        """As the base class says."""
        return call("run_shell_command", command=command, is_background=False)

    def note(self, text: str) -> Call:
        """As the base class says."""
        return call("mcp__echo__read_note", text=text)

    def delegate(self, question: str) -> tuple[Step | Script, ...]:
        """As the base class says."""
        return (
            call(
                "agent", description="Look", prompt=question, subagent_type="general-purpose", run_in_background=False
            ),
        )
