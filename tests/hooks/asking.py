"""Sessions of coding agents, which ask the judge as the programs do: the forms are those of their real hooks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from otel_loopguard.hooks.programs import programs

if TYPE_CHECKING:
    from otel_loopguard.hooks.judge import Judge


class Made(NamedTuple):
    """A call that the model has made."""

    ran: bool
    read: str
    """What the model reads."""
    is_end: bool = False


class Asker:
    """A session. A call is asked for, runs if it may, and is told."""

    name: ClassVar[str]
    before: ClassVar[str] = "PreToolUse"
    after: ClassVar[str] = "PostToolUse"
    failed: ClassVar[str] = "PostToolUseFailure"
    prompted: ClassVar[str] = "UserPromptSubmit"
    stopped: ClassVar[str] = "Stop"
    turn: ClassVar[str] = ""
    """The key of the id of the user's message."""

    def __init__(self, judge: Judge, session: str, *, interrupts: bool = False) -> None:
        self.program = programs()[self.name]
        self.judge = judge
        self._session = session
        self._interrupts = interrupts
        self._numbers = itertools.count()
        self._prompt = 0

    def prompt(self) -> None:
        """Send a message of the user."""
        self._prompt += 1
        self.ask(self.prompted, {})

    def stop(self, text: str = "", *, again: bool = False) -> dict[str, Any]:
        """Answer; ``again``, because a hook of the user did not accept the answer before. Return what is told."""
        return self.ask(self.stopped, {"last_assistant_message": text, "stop_hook_active": again})

    def call(self, tool: str, arguments: dict[str, Any], result: str | None, *, error: str = "") -> Made:
        """Make a call. Return what became of it."""
        told = self.begun(tool, arguments)
        made = self._made(told, self.ask(self.before, told), result, error)
        self.end_message()
        return made

    def begun(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a new call in a hook."""
        return self.asked(tool, arguments, f"call {next(self._numbers)}")

    def end_message(self) -> None:
        """Tell that all calls of a message of the model have ended, if the program does."""

    def _made(self, told: dict[str, Any], answer: dict[str, Any], result: str | None, error: str) -> Made:
        refusal = self.refusal(answer)
        if refusal:
            return Made(ran=False, read=refusal, is_end=answer.get("continue") is False or bool(answer.get("ends")))
        name = self.failed if error else self.after
        answer = self.ask(name, {**told, **(self.failure(error) if error else self.result(result or ""))})
        sentence = self.sentence(answer)
        return Made(ran=True, read="\n".join(filter(None, (result or error, sentence))))

    def begin(self, tool: str, arguments: dict[str, Any]) -> None:
        """Begin a call that runs while others do."""
        self.ask(self.before, self.asked(tool, arguments, tool))

    def end(self, tool: str, arguments: dict[str, Any], result: str) -> None:
        """End a call that was begun."""
        self.ask(self.after, {**self.asked(tool, arguments, tool), **self.result(result)})

    def ask(self, name: str, told: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a hook."""
        told = {**self.common(name), **told}
        return self.judge.answer(self.program, name, told, interrupts=self._interrupts).body

    def common(self, name: str) -> dict[str, Any]:
        """What every hook has."""
        turn = {self.turn: f"prompt {self._prompt}"} if self.turn else {}
        return {"session_id": self._session, "hook_event_name": name, "cwd": "/work", **turn}

    def asked(self, tool: str, arguments: dict[str, Any], number: str) -> dict[str, Any]:
        """The call in a hook."""
        return {"tool_name": tool, "tool_input": arguments, "tool_use_id": number}

    def result(self, text: str) -> dict[str, Any]:
        """A result in a hook."""
        return {"tool_response": {"content": text}}

    def failure(self, text: str) -> dict[str, Any]:
        """An error in a hook."""
        return {"error": text}

    def refusal(self, answer: dict[str, Any]) -> str:
        """The reason of a refusal."""
        specific = answer.get("hookSpecificOutput", {})
        return str(specific.get("permissionDecisionReason", "")) if specific.get("permissionDecision") == "deny" else ""

    def sentence(self, answer: dict[str, Any]) -> str:
        """The text beside a result."""
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


class ClaudeCode(Asker):
    """Claude Code."""

    name, turn = "claude-code", "prompt_id"

    def end_message(self) -> None:
        """Tell it, without calls that had no hook after them."""
        self.ask("PostToolBatch", {"tool_calls": []})


class Codex(Asker):
    """Codex CLI, whose results are bare text."""

    name, turn = "codex", "turn_id"

    def result(self, text: str) -> dict[str, Any]:
        """A result in a hook."""
        return {"tool_response": text}


class Qwen(Asker):
    """Qwen Code, with an id of its own beside the model's."""

    name, turn = "qwen", "prompt_id"

    def asked(self, tool: str, arguments: dict[str, Any], number: str) -> dict[str, Any]:
        """The call in a hook."""
        return {"tool_name": tool, "tool_input": arguments, "tool_call_id": number, "tool_use_id": f"own {number}"}

    def result(self, text: str) -> dict[str, Any]:
        """A result in a hook."""
        return {"tool_response": {"llmContent": text}}


class Gemini(Asker):
    """Gemini CLI, without any ids but the session's."""

    name = "gemini"
    before, after, failed, prompted, stopped = "BeforeTool", "AfterTool", "AfterTool", "BeforeAgent", "AfterAgent"

    def prompt(self) -> None:
        """Send a message of the user."""
        self._so_far = ""
        super().prompt()

    def stop(self, text: str = "", *, again: bool = False) -> dict[str, Any]:
        """Answer. The words of a hook come as a message of the user, and the answers add up."""
        if again:
            super().prompt()
        self._so_far = f"{self._so_far}\n{text}" if self._so_far else text
        return self.ask(self.stopped, {"prompt_response": self._so_far, "stop_hook_active": again})

    def asked(self, tool: str, arguments: dict[str, Any], number: str) -> dict[str, Any]:
        """The call in a hook."""
        return {"tool_name": tool, "tool_input": arguments}

    def result(self, text: str) -> dict[str, Any]:
        """A result in a hook, with a number that is new each time."""
        return {"tool_response": {"llmContent": f"{text}\nProcess Group PGID: {next(self._numbers)}"}}

    def failure(self, text: str) -> dict[str, Any]:
        """An error in a hook."""
        return {"tool_response": {"error": {"message": text}}}

    def refusal(self, answer: dict[str, Any]) -> str:
        """The reason of a refusal."""
        return str(answer.get("reason", "")) if answer.get("decision") == "deny" else ""


class Copilot(Asker):
    """Copilot CLI, in camelCase and without ids of calls."""

    name = "copilot"
    before, after, failed = "preToolUse", "postToolUse", "postToolUseFailure"
    prompted, stopped = "userPromptSubmitted", "agentStop"

    def common(self, name: str) -> dict[str, Any]:
        """What every hook has."""
        return {"sessionId": self._session, "cwd": "/work"}

    def asked(self, tool: str, arguments: dict[str, Any], number: str) -> dict[str, Any]:
        """The call in a hook."""
        return {"toolName": tool, "toolArgs": arguments}

    def result(self, text: str) -> dict[str, Any]:
        """A result in a hook, with a number that is new each time."""
        shown = f"{text}\n<shellId: {next(self._numbers)} completed>"
        return {"toolResult": {"resultType": "success", "textResultForLlm": shown}}

    def refusal(self, answer: dict[str, Any]) -> str:
        """The reason of a refusal."""
        return str(answer.get("permissionDecisionReason", "")) if answer.get("permissionDecision") == "deny" else ""

    def sentence(self, answer: dict[str, Any]) -> str:
        """The text beside a result."""
        return str(answer.get("additionalContext", ""))


class OpenCode(Asker):
    """opencode, through the plugin of this package."""

    name, turn = "opencode", "messageID"
    before, after, failed = "tool.execute.before", "tool.execute.after", "tool.execute.failed"
    prompted, stopped = "chat.message", "session.idle"

    def common(self, name: str) -> dict[str, Any]:
        """What every hook has."""
        return {"sessionID": self._session, self.turn: f"prompt {self._prompt}"}

    def asked(self, tool: str, arguments: dict[str, Any], number: str) -> dict[str, Any]:
        """The call in a hook."""
        return {"tool": tool, "args": arguments, "callID": number}

    def result(self, text: str) -> dict[str, Any]:
        """A result in a hook."""
        return {"output": text}

    def refusal(self, answer: dict[str, Any]) -> str:
        """The reason of a refusal."""
        return str(answer.get("refusal", ""))

    def sentence(self, answer: dict[str, Any]) -> str:
        """The text beside a result."""
        return str(answer.get("sentence", ""))


ASKERS: dict[str, type[Asker]] = {one.name: one for one in (ClaudeCode, Codex, Copilot, Gemini, OpenCode, Qwen)}
