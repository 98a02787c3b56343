"""The scripted model of each framework, one file a framework. The demo, the doctor and the tests share them.

A file has a model that follows a script, ``DRIVERS`` for every way to run an agent with it, and ``run``: the driver of
the demo and the doctor, whose tools may raise ``ToolFailedError``. It imports its framework, so it is imported by name.
Its vendor's own tracing is switched off: a scripted run sends nothing to anyone.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_loopguard.testing.agent import Ask

    Tools = Mapping[str, Callable[..., Any]]
    Steps = Sequence[Sequence[Ask]] | Callable[[Sequence[str]], Sequence[Ask]]
    """The calls of each model message; or a function from the tool results so far to the calls of the next one."""

AGENT_NAME = "demo"


class ToolFailedError(Exception):
    """A tool could not do its work. ``run`` reports it as the tools of the framework report a failure."""


def failing_as(tool: Callable[..., str], answer: Callable[[str], str]) -> Callable[..., str]:
    """The tool; ``answer`` turns the text of a failure into a result, or raises the framework's own exception."""

    @functools.wraps(tool)
    def run(**arguments: Any) -> str:
        try:
            return tool(**arguments)
        except ToolFailedError as error:
            return answer(str(error))

    return run


def next_calls(steps: Steps, step: int, read: Sequence[str]) -> Sequence[Ask]:
    """The calls of the next model message; none: it answers."""
    if callable(steps):
        return steps(read)
    return steps[step] if step < len(steps) else ()
