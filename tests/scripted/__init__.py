"""The scripted model of each framework, one file a framework. The tests and the benchmarks share them.

A file has a model that follows a script, and ``DRIVERS`` for every way to run an agent with it. It imports its
framework, so it is imported by name. Its vendor's own tracing is switched off: a scripted run sends nothing to anyone.

What else a framework can do is there under one name, for ``tests/instrumentation/frameworks/test_every_framework.py``:

- ``MORE_DRIVERS``: like ``DRIVERS``, and so slow or so like them that the campaigns leave them out
- ``has_scenario``: False for a scenario that the framework itself ends, or cannot have, with the reason
- ``READS_FAILURES``: False if the model does not read the exception of a tool, or the run ends
- ``MODEL``, ``TOOLS``: what makes a scripted model of steps, and tools of functions, also of async ones; what
  follows gets a model and tools
- ``IN_LOOP``: what runs an agent in the event loop of its caller; ``AT_ONCE``: also makes the calls of a message at
  once, and cancels them
- ``NESTED``: what makes the call of a helper for a task, and what runs an agent that can call this helper
- ``GROUPS``: like it, for several helpers at once, of which an abort is no failure of the call
- ``CONVERSATIONS``: what gives an agent so many messages in one conversation
- ``STREAMS``: what the program iterates over while an agent runs
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import tests.quiet_vendors  # noqa: F401 - before a framework
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.testing import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from otel_loopguard.testing import Ask

    Tools = Mapping[str, Callable[..., Any]]
    Steps = Sequence[Sequence[Ask]]
    """The calls of each model message."""


def installed() -> Iterator[str]:
    """The names of all frameworks that are installed, with ``by-hand`` for the loop without one."""
    yield "by-hand"
    for framework in FRAMEWORKS:
        if framework.versions and all(map(_is_there, framework.modules)):
            yield framework.hyphenated_name


def frameworks() -> dict[str, ModuleType]:
    """The file of each framework that is installed, by name.

    ``LOOPGUARD_TEST_FRAMEWORKS`` names those to test, with commas between; the others are tested in environments of
    their own.
    """
    tested = os.environ.get("LOOPGUARD_TEST_FRAMEWORKS", "").split(",")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the frameworks, at their import
        names = [name for name in installed() if name != "by-hand" and (tested == [""] or name in tested)]
        return {name: import_module(f"tests.scripted.{name.replace('-', '_')}") for name in names}


def _is_there(module: str) -> bool:
    if module in sys.modules:  # one that is lazy has no spec
        return True
    package = module.partition(".")[0]  # its own modules are looked for only if it is installed
    return find_spec(package) is not None and find_spec(module) is not None


def transcript_of(run: Callable[[], object], model: Any) -> Transcript:
    """Run an agent to its end. Return what its model has read, and the error that ended the run."""
    transcript = Transcript()
    try:
        run()
    except BaseException as error:
        transcript.error = error
    transcript.read = model.read
    return transcript


def next_calls(steps: Steps, step: int) -> Sequence[Ask]:
    """The calls of the model message of this number; none: it answers."""
    return steps[step] if step < len(steps) else ()
