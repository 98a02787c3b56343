"""Claude Agent SDK: the hooks of Claude Code, which it starts, as a function in this process.

Claude Code runs the tools. Where a connection to it begins, our hook is put in beside those of the user; it is read and
answered as that of Claude Code is (``hooks/programs/claude_code.py``). Hooks that the user has installed as well ask
the resident judge, which leaves a session alone that is judged here.
"""

from __future__ import annotations

import os
import sys
from asyncio import CancelledError
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from otel_loopguard.hooks.judge import Judge
from otel_loopguard.hooks.programs import snake_case
from otel_loopguard.hooks.programs.claude_code import PROGRAM
from otel_loopguard.instrumentation.runtime import active_runtime
from otel_loopguard.instrumentation.targets import CallTarget, Framework

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from otel_loopguard.errors import RunStopped
    from otel_loopguard.hooks.events import Place
    from otel_loopguard.instrumentation.runtime import Runtime
    from otel_loopguard.instrumentation.targets import Original, Target

_CONNECTION: Final = "_loopguard_connection"
"""The attribute of the SDK's connection that keeps ours."""
_EVENTS: Final = (*snake_case.CALLS, "PostToolBatch", "UserPromptSubmit", *snake_case.STOPS)


class _Connection:
    """The judge of one connection, with the error that ends its run."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._judge = Judge(runtime, on_end=self._note)
        self._error: RunStopped | None = None
        self._claims: dict[str, Callable[[], None] | None] = {}
        """The sessions, each with what gives it back to the resident judge; None if no hooks ask one."""

    async def answer(self, told: Any, *_: Any) -> dict[str, Any]:
        """Answer a hook."""
        if active_runtime.instrumented is self.runtime:
            with self.runtime.shield("hook.claim"):
                self._claim(told["session_id"])
            with self.runtime.shield("hook.answer"):
                return self._judge.answer(PROGRAM, told["hook_event_name"], told).body
        return {}

    def _claim(self, session: str) -> None:
        if session not in self._claims and sys.platform != "win32":
            from otel_loopguard.hooks.home import Home  # noqa: PLC0415 - it locks files, as Unix does

            self._claims[session] = None
            self._claims[session] = Home.of(os.environ).claim(session)

    def _note(self, place: Place, error: RunStopped) -> None:
        """Keep the error of the run. A sub-agent whose run ends has failed, and the agent around it goes on."""
        if not place.agent:
            self._error = error

    def over(self, result: Mapping[str, Any]) -> RunStopped | None:
        """End the turn with the program's message of the result. Return the error that is raised in its place."""
        error, self._error = self._error, None
        self._judge.end_turn(PROGRAM, result["session_id"], error or _error_in(result))
        return error

    def close(self) -> None:
        """End what is left."""
        releases = [*filter(None, self._claims.values())]
        self._claims.clear()
        for release in releases:
            release()
        self._judge.close()


def _error_in(result: Mapping[str, Any]) -> BaseException | None:
    """Return what has ended a turn; None if the agent has answered. Old versions give no reason."""
    reason = result.get("terminal_reason") or "completed"
    if reason.startswith("aborted") or reason == "hook_stopped":  # by the program, or by a hook of the user
        return CancelledError()
    return RuntimeError(reason) if result.get("is_error") or reason != "completed" else None


def _initialize(original: Original) -> Callable[..., Any]:
    """Put our hook in where a connection begins. The options of the user stay as they are."""

    async def initialize(*given: Any, **kwargs: Any) -> Any:
        wrapped, query, args = original.bind(given)
        runtime = active_runtime.instrumented
        if runtime is not None:
            with runtime.shield("adapter.hooks"):
                connection = _Connection(runtime)
                ours = {"matcher": None, "hooks": [connection.answer]}
                query.hooks = {**query.hooks, **{event: [*query.hooks.get(event, ()), ours] for event in _EVENTS}}
                setattr(query, _CONNECTION, connection)
        return await wrapped(*args, **kwargs)

    return initialize


def _receive(original: Original) -> Callable[..., Any]:
    """Raise the error of a run in place of its result."""

    async def receive_messages(*given: Any, **kwargs: Any) -> AsyncIterator[Any]:
        wrapped, query, args = original.bind(given)
        async with aclosing(wrapped(*args, **kwargs)) as messages:
            async for message in messages:
                connection, error = getattr(query, _CONNECTION, None), None
                if connection is not None:
                    with connection.runtime.shield("adapter.result"):
                        error = connection.over(message) if message["type"] == "result" else None
                if error is not None:
                    raise error
                yield message

    return receive_messages


def _close(original: Original) -> Callable[..., Any]:
    """End the turns with their connection."""

    async def close(*given: Any, **kwargs: Any) -> Any:
        wrapped, query, args = original.bind(given)
        connection = getattr(query, _CONNECTION, None)
        if connection is not None:
            with connection.runtime.shield("adapter.close"):
                connection.close()
        return await wrapped(*args, **kwargs)

    return close


_MODULE: Final = "claude_agent_sdk._internal.query"

_TARGETS: tuple[Target, ...] = (
    CallTarget(_MODULE, "Query.initialize", _initialize),
    CallTarget(_MODULE, "Query.receive_messages", _receive),
    CallTarget(_MODULE, "Query.close", _close),
)

FRAMEWORK = Framework(
    "claude_agent_sdk",
    _TARGETS,
    title="Claude Agent SDK",
    turns="messages of the user; a sub-agent's run",
    notes="`query()` and `ClaudeSDKClient`, with all tools of Claude Code, and of MCP servers in the process and "
    "outside; an abort is raised in place of the `ResultMessage`; `on_trip` cannot be async",
    modules=("claude_agent_sdk",),
    versions={
        "oldest": ("claude-agent-sdk==0.2.121",),  # until 0.2.116 Claude Code ends no run when a hook says so
        "newest": ("claude-agent-sdk",),
    },
    tested={"claude-agent-sdk": "0.2.189"},
)
