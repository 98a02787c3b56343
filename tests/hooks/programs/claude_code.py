"""Claude Code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hooks.programs.agent import ECHO, CodingAgent
from tests.models.scripts import call

if TYPE_CHECKING:
    from tests.models.conversation import Call
    from tests.models.scripts import Script, Step


class ClaudeCode(CodingAgent):
    """The hooks end its run."""

    name, executable = "claude-code", "claude"
    ended = '"terminal_reason":"hook_stopped"'

    def configure(self, url: str) -> dict[str, str]:
        """As the base class says."""
        self.write("mcp.json", {"mcpServers": {"echo": {"command": ECHO[0], "args": ECHO[1:]}}})
        return {
            "ANTHROPIC_API_KEY": "sk-local",
            "ANTHROPIC_BASE_URL": url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "IS_SANDBOX": "1",  # root may skip its questions in a sandbox only
        }

    def command(self, question: str) -> list[str]:
        """As the base class says."""
        flags = [
            "--output-format",
            "json",
            "--dangerously-skip-permissions",
            "--mcp-config",
            str(self.home / "mcp.json"),
        ]
        return ["claude", "-p", question, *flags]

    def read(self, name: str = "a.txt") -> Call:
        """As the base class says."""
        return call("Read", file_path=str(self.work / name))

    def shell(self, command: str) -> Call:
        """As the base class says."""
        return call("Bash", command=command, description="Run it")

    def note(self, text: str) -> Call:
        """As the base class says."""
        return call("mcp__echo__read_note", text=text)

    def delegate(self, question: str) -> tuple[Step | Script, ...]:
        """As the base class says."""
        return (
            call(
                "Agent", description="Look", prompt=question, subagent_type="general-purpose", run_in_background=False
            ),
        )
