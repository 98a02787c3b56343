"""A tool that looks and one that fails, calls of them, and what is asked of a recording: shared by the tests here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv
from otel_loopguard.testing import Ask
from otel_loopguard.turns.scope import current_scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_loopguard.testing import Recording


def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


def fetch(path: str) -> str:
    """Fetch something."""
    raise LookupError(f"there is no {path}")


def calls(paths: Iterable[str], tool: str = "look") -> list[list[Ask]]:
    """Make one call a message, with each path."""
    return [[Ask(tool, {"path": path})] for path in paths]


def attribute(recording: Recording, name: str) -> list[Any]:
    """Return this attribute of each span, in order."""
    return [(span.attributes or {}).get(name) for span in recording.spans]


def assert_nothing_left(recording: Recording) -> None:
    """Assert that there is no turn, no fault, and no scope in the code of the program."""
    assert recording.runtime is not None
    assert recording.runtime.guard.live == 0
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert current_scope() is None
