"""Show the arguments of calls in loops on one's own screen, by choice: in the test that runs, or through a pipe.

They never get into a span, a metric, a log record or a recording. The pipe is inherited from a command of this package,
and its number and identity are in an environment variable, so that nothing is ever written to another file.
"""

from __future__ import annotations

import json
import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.quoting import clean_name, escaped
from otel_loopguard.interrupts import pass_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.engine.vocabulary import Trip

PIPE: Final = "_OTEL_LOOPGUARD_ARGUMENTS"
"""The environment variable with the pipe, as ``pipe_name`` names it."""
LONGEST: Final = 80
"""The characters of arguments that are shown."""
_LONGEST_PARSED: Final = 10_000


class ShownCall(NamedTuple):
    """A call of a loop, as it is shown: texts without control characters."""

    tool: str
    mode: str
    verdict: str
    """The action that the rules want, such as ``block``."""
    arguments: str
    had_run: str = ""
    """``had run`` if it was read in a model request: then nothing can be refused, and the model is told."""

    def __str__(self) -> str:
        words = filter(None, (self.mode, self.verdict, self.had_run))
        return f"{self.tool}({self.arguments}): {', '.join(words)}"


def shown_call(trip: Trip, tool: str, arguments: Any, *, has_run: bool = False) -> ShownCall:
    """Return a call as it is shown. ``tool`` is its name as it may be shown; the arguments are cut to 80 characters.

    ``has_run``: it was read in a model request.
    """
    mode, had_run = clean_name(str(trip.mode)), "had run" if has_run else ""
    return ShownCall(clean_name(tool), mode, str(trip.verdict), _shown(arguments), had_run)


def _shown(arguments: Any) -> str:
    """Return arguments as ``name=value, ...``, or as JSON. An object that is no JSON is shown as its type."""
    if isinstance(arguments, str) and len(arguments) <= _LONGEST_PARSED:
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    parts = [""]
    if isinstance(arguments, dict):
        parts = [f"{', ' if number else ''}{_name(key)}=" for number, key in enumerate(arguments)]
    text = ""
    for part, value in zip(parts, arguments.values() if parts != [""] else [arguments], strict=False):
        text += part + _json(value)
        if len(text) > LONGEST:
            break
    text = escaped(text).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _name(key: Any) -> str:
    return key[: LONGEST + 1] if isinstance(key, str) else _type_of(key)


def _json(value: Any) -> str:
    if isinstance(value, str):
        value = value[: LONGEST + 1]
    try:
        return json.dumps(value, ensure_ascii=False, skipkeys=True, default=_type_of)
    except (ValueError, RecursionError) as error:  # it contains itself
        pass_interrupt(error)
        return _type_of(value)


def _type_of(value: Any) -> str:
    return f"<{type(value).__name__}>"


def pipe_name(file: int) -> str:
    """Return the number and the identity of an open pipe, for the environment of a program that inherits it."""
    status = os.fstat(file)
    return f"{file}:{status.st_dev}:{status.st_ino}"


def pipe_of(name: str) -> Callable[[ShownCall], None] | None:
    """Return a function that writes a call to the pipe of this name; None if this process has not inherited it.

    A call is written in one piece or not at all, without waiting. Nothing is written if the reader is gone, or if the
    program has closed the pipe and opened something else in its place.
    """
    try:
        file = int(name.partition(":")[0])
        is_inherited = pipe_name(file) == name
    except (OSError, ValueError, OverflowError) as error:
        pass_interrupt(error)
        return None
    if not is_inherited:
        return None

    def write(call: ShownCall) -> None:
        line = ("\t".join(call) + "\n").encode("utf-8", "backslashreplace")
        with suppress(OSError):  # it is full, or closed
            if len(line) <= select.PIPE_BUF and pipe_name(file) == name and _is_read(file):
                os.write(file, line)

    return write


def _is_read(file: int) -> bool:
    """Return False if nobody reads the pipe: a write would send SIGPIPE, which ends programs that do not ignore it."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return poll.poll(0) == [(file, select.POLLOUT)]
