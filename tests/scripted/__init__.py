"""The scripted model of each framework, one file a framework. The tests and the benchmarks share them.

A file has a model that follows a script, and ``DRIVERS`` for every way to run an agent with it. It imports its
framework, so it is imported by name. Its vendor's own tracing is switched off: a scripted run sends nothing to anyone.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from otel_loopguard.instrumentation.frameworks import FRAMEWORKS
from otel_loopguard.testing import Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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


def _is_there(module: str) -> bool:
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
