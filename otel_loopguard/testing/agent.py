"""A scripted agent: a model that is a list of tool calls, and the loop around it. No framework, no network."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard.errors import ToolLoopError
from otel_loopguard.instrumentation.functions.decorator import call
from otel_loopguard.instrumentation.turn_api import turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Ask(NamedTuple):
    """One tool call that the model makes."""

    tool: str
    arguments: dict[str, Any]


class Transcript:
    """The calls that the model of a run asked for, and their results as it read them."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []
        """The calls, in order; refused ones, too."""
        self.read: list[str] = []
        """The text of each result, in order: that of the tool, perhaps with a sentence of the guard, or a refusal."""
        self.error: BaseException | None = None
        """The exception that ended the run; None if none did."""
        self.ended = ""
        """The framework's own words, if this version of it ends such a run without an error of the program."""

    @property
    def refused(self) -> list[int]:
        """The positions of the refusals in ``read``, from 0."""
        return [position for position, text in enumerate(self.read) if "tool_loop_detected" in text]


Script = Callable[[Transcript], "Ask | tuple[str, dict[str, Any]] | None"]
"""Takes the transcript so far; returns the next call, or None if the model answers the user."""


class ScriptedAgent:
    """Makes the calls of its script one after the other, each guarded as ``loopguard.call`` guards it.

    The script is a list of calls, each a tool and its arguments, or a ``Script``. After ``most`` calls it counts as
    endless, and ``AssertionError`` is raised.

    >>> agent = ScriptedAgent({"read_file": open_and_read}, [("read_file", {"path": "a.txt"})] * 5)
    """

    def __init__(
        self,
        tools: Mapping[str, Callable[..., Any]],
        script: Iterable[tuple[str, dict[str, Any]]] | Script,
        *,
        conversation_id: str | None = None,
        agent_name: str | None = None,
        most: int = 1_000,
    ) -> None:
        self._tools = tools
        self._script = script
        self._conversation_id = conversation_id
        self._agent_name = agent_name
        self._most = most

    def run(self) -> Transcript:
        """Run one turn. A ``ToolLoopError`` ends it, and is in the transcript; other exceptions are raised."""
        transcript = Transcript()
        with turn(self._conversation_id, agent_name=self._agent_name):
            try:
                for ask in self._asks(transcript):
                    transcript.read.append(str(self._call(ask)))
            except ToolLoopError as error:
                transcript.error = error
        return transcript

    async def arun(self) -> Transcript:
        """Run one turn as ``run`` does; its tools may be async."""
        transcript = Transcript()
        with turn(self._conversation_id, agent_name=self._agent_name):
            try:
                for ask in self._asks(transcript):
                    result = self._call(ask)
                    transcript.read.append(str(await result if inspect.isawaitable(result) else result))
            except ToolLoopError as error:
                transcript.error = error
        return transcript

    def _call(self, ask: Ask) -> Any:
        return call(ask.tool, ask.arguments, self._tools.get(ask.tool), known_tools=self._tools)

    def _asks(self, transcript: Transcript) -> Iterator[Ask]:
        if callable(self._script):
            script: Script = self._script
            following = iter(lambda: script(transcript), None)
        else:
            following = iter(self._script)
        for number, ask in enumerate(following):
            if number >= self._most:
                raise AssertionError(f"the script made more than {self._most} calls")
            if ask is not None:
                transcript.asked.append(Ask(*ask))
                yield transcript.asked[-1]
