"""The class of the error that ends a run, by the frameworks that are loaded."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from otel_loopguard import RunStopped
from otel_loopguard.instrumentation.models.error_classes import error_class

FACTS: dict[str, Any] = {"tool_name": "look", "mode": "generic_repeat", "repeats": 4, "limit": 3}


def test_it_is_the_plain_class():
    """Most programs pass any exception on."""
    assert error_class() is RunStopped


@pytest.fixture
def aborted(monkeypatch):
    """CrewAI's own class, with its constructor."""

    class HookAborted(Exception):  # noqa: N818 - CrewAI's name
        def __init__(self, reason: str, source: Any = None) -> None:
            super().__init__(reason)
            self.reason = reason
            self.source = source

    module: Any = ModuleType("crewai.hooks.dispatch")
    module.HookAborted = HookAborted
    monkeypatch.setitem(sys.modules, "crewai.hooks.dispatch", module)
    return HookAborted


def test_with_crewai_it_is_also_the_class_that_crewai_does_not_retry(aborted):
    """Its fields are those of both, and the class is the same each time."""
    kind = error_class()
    error: Any = kind("The loop is over.", **FACTS)
    assert isinstance(error, RunStopped)
    assert isinstance(error, aborted)
    assert (str(error), error.reason, error.source, error.tool_name) == (
        "The loop is over.",
        "The loop is over.",
        None,
        "look",
    )
    assert error_class() is kind
