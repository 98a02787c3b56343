"""The scripted model of each framework, one file a framework. The demo, the doctor and the tests share them.

A file has a model that follows a script, ``DRIVERS`` for every way to run an agent with it, and ``run``: the driver of
the demo and the doctor, whose tools may raise ``ToolFailedError``. It imports its framework, so it is imported by name.
Its vendor's own tracing is switched off: a scripted run sends nothing to anyone.
"""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_loopguard.testing.agent import Ask, Transcript

    Tools = Mapping[str, Callable[..., Any]]
    Steps = Sequence[Sequence[Ask]] | Callable[[Sequence[str]], Sequence[Ask]]
    """The calls of each model message; or a function from the tool results so far to the calls of the next one."""
    ScriptedRun = Callable[[Tools, Steps], Transcript]

AGENT_NAME = "demo"
BY_HAND = "by-hand"
_FRAMEWORKS = {framework.command_name: framework for framework in FRAMEWORKS if framework.versions}


def installed() -> Iterator[str]:
    """The names of all frameworks that are installed, with ``by-hand`` for the loop without one."""
    yield BY_HAND
    for name, framework in _FRAMEWORKS.items():
        if _is_installed(framework.modules):
            yield name


def _is_installed(modules: Sequence[str]) -> bool:
    return all(find_spec(module) is not None for module in modules)


def load(name: str) -> ScriptedRun:
    """Import the ``run`` of a framework; raise an error with the command that installs it, if it is missing."""
    if name == BY_HAND:
        from otel_loopguard.testing.scripted import by_hand  # noqa: PLC0415 - it imports this module

        return by_hand.run
    framework = _FRAMEWORKS[name]
    packages = " ".join(framework.packages)
    if not _is_installed(framework.modules):
        raise LoopGuardError(f"{name} is not installed here; install it first: pip install {packages}")
    try:
        run: ScriptedRun = import_module(f"{__name__}.{framework.name}").run
    except ImportError as error:
        raise LoopGuardError(
            f"{name} is installed here, but not in a version that the demo can use ({error}); "
            f"install a newer one: pip install --upgrade {packages}"
        ) from error
    return run


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
