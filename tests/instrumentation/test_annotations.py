"""A server's annotations of its tools, in the forms in which frameworks pass them on."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from otel_loopguard.engine.vocabulary import Hints
from otel_loopguard.instrumentation.annotations import either_name, hints_of


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


class Renamed:
    """An annotation object that warns of its old name, as those of FastMCP do."""

    read_only_hint = True

    def __getattr__(self, name: str) -> None:
        if name.endswith("Hint"):
            warnings.warn(f"{name} is deprecated", DeprecationWarning, stacklevel=2)
        raise AttributeError(name)


def test_a_name_that_is_deprecated_is_not_read_without_need() -> None:
    """No warning appears in the program if the new name is there."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert either_name(Renamed(), "read_only_hint", "readOnlyHint") is True
