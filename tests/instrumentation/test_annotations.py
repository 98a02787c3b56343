"""A server's annotations of its tools, in the forms in which frameworks pass them on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from otel_loopguard.core.model import Hints
from otel_loopguard.instrumentation.annotations import hints_of


@pytest.mark.parametrize(
    "annotations",
    [
        {"readOnlyHint": True, "title": "Look"},
        {"read_only_hint": True, "destructive_hint": None},
        SimpleNamespace(readOnlyHint=True, destructiveHint=None, idempotentHint=None),
        SimpleNamespace(read_only_hint=True),
    ],
)
def test_annotations_are_understood_by_either_name(annotations: Any) -> None:
    """Annotations are read from an object or a mapping, by the names of the protocol or of Python."""
    assert hints_of(annotations) == Hints(read_only=True)


@pytest.mark.parametrize("annotations", [None, {}, {"title": "Look"}, SimpleNamespace(title="Look"), "read only"])
def test_a_server_that_says_nothing_gives_no_hints(annotations: Any) -> None:
    """Without annotations there are no hints: the protocol's defaults would make every tool destructive."""
    assert hints_of(annotations) is None
