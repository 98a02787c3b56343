"""The description of a coding agent: how its hooks are read and answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_loopguard.hooks.events import Answer, Event

Told: TypeAlias = "Mapping[str, Any]"
"""The JSON that a hook gets."""


@dataclass(frozen=True)
class Registration:
    """The place and the form of a program's own settings for hooks."""

    user: str
    """The file of the user, below the home directory."""
    project: str
    """The file of a project, below its folder."""
    events: tuple[str, ...] = ()
    """The events that the guard needs."""
    entry: Callable[[str, str], Any] = lambda event, command: command  # noqa: ARG005 - the signature
    """Return the item of ``hooks.EVENT`` that runs a command: given the event and the command."""
    empty: str = "{}\n"
    """A file of settings without anything."""
    starts: tuple[str, ...] = ()
    """The events at which a judge is started if none answers: of a session, and of a message of the user."""
    shows_messages: bool = False
    """True if the program shows its user the ``systemMessage`` of a hook at the first of ``starts``."""
    http_entry: Callable[[str], Any] | None = None
    """Return the item that asks at a URL without a command; None if the program has no such hooks."""
    still: str = ""
    """The rest that the user has to do; empty if nothing."""
    whole: Callable[[str, list[str], float], str] | None = None
    """Return a file that is ours alone, where a program has no settings for hooks: given the judge's socket, the
    command that starts the judge, and the seconds to wait for an answer."""


def command_hook(timeout: int, **more: str) -> Callable[[str, str], Any]:
    """Return the entry of Claude Code's form, with this timeout in the program's unit."""

    def entry(_: str, command: str) -> Any:
        return {**more, "hooks": [{"type": "command", "command": command, "timeout": timeout}]}

    return entry


@dataclass(frozen=True)
class Program:
    """A coding agent whose hooks are known. The functions may raise: the caller holds the shield."""

    name: str
    """As in ``otel-loopguard hooks install NAME``."""
    title: str
    read: Callable[[str, Told], Event | None]
    """Return what the hook of this name tells; None if the guard does not need it."""
    write: Callable[[str, Answer], dict[str, Any]]
    """Return the JSON that the program understands as this answer to the hook of this name. A key that it does not know
    may make it run the call."""
    registration: Registration
    """The way to register its hooks."""
    ends_by_answer: bool = True
    """True if an answer ends the run; else only a signal does, as Ctrl-C sends it."""
    tells_messages: bool = False
    """True if a ``MessageOver`` comes when all calls of one message of the model have ended."""
    delegating: frozenset[str] = frozenset()
    """The tools that run a sub-agent whose hooks do not tell it from its parent: while one runs, the calls are its."""
