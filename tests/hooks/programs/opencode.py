"""opencode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.hooks.programs.agent import ECHO, INSTALLED, CodingAgent
from tests.models.scripts import call

if TYPE_CHECKING:
    from tests.models.conversation import Call
    from tests.models.scripts import Script, Step


class OpenCode(CodingAgent):
    """The plugin aborts its session."""

    name, executable = "opencode", "opencode"
    ended = "Aborted"

    def configure(self, url: str) -> dict[str, str]:
        """As the base class says."""
        provider = {
            "npm": "@ai-sdk/openai-compatible",  # it is in the program
            "options": {"baseURL": f"{url}/v1", "apiKey": "local"},
            "models": {"local": {"tool_call": True}},
        }
        settings = {
            "model": "local/local",
            "provider": {"local": provider},
            "mcp": {"echo": {"type": "local", "command": ECHO}},
            "autoupdate": False,
        }
        self.write(".config/opencode/opencode.json", settings)
        for installed in (INSTALLED / "opencode").iterdir():  # it would be downloaded at the first start with a plugin
            (self.home / ".config/opencode" / installed.name).symlink_to(installed)
        return {"OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def command(self, question: str) -> list[str]:
        """As the base class says."""
        return ["opencode", "run", question]

    def read(self, name: str = "a.txt") -> Call:
        """As the base class says."""
        return call("read", filePath=str(self.work / name))

    def shell(self, command: str) -> Call:
        """As the base class says."""
        return call("bash", command=command)

    def note(self, text: str) -> Call:
        """As the base class says."""
        return call("echo_read_note", text=text)

    def delegate(self, question: str) -> tuple[Step | Script, ...]:
        """As the base class says."""
        return (call("task", description="Look", prompt=question, subagent_type="general"),)
