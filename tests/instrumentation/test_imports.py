"""Listening to the imports of the program."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from otel_loopguard.instrumentation.imports import when_imported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = "loopguard_imported_by_a_test"


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module that can be imported, and is not."""
    (tmp_path / f"{MODULE}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(MODULE, None)


def test_a_listener_hears_of_an_import_now_and_later() -> None:
    """It gets the module: at its import, or at once if it was imported before."""
    heard: list[object] = []
    when_imported(MODULE, heard.append)
    assert heard == []
    imported = import_module(MODULE)
    when_imported(MODULE, heard.append)
    assert heard == [imported, imported]


def test_a_fault_of_a_listener_never_reaches_the_import(caplog: pytest.LogCaptureFixture) -> None:
    """The program has its module, the other listeners hear of it, and the log has one line."""
    heard: list[object] = []

    def fault(_module: object) -> None:
        raise LookupError

    when_imported(MODULE, fault)
    when_imported(MODULE, heard.append)
    assert heard == [] == caplog.messages
    assert [import_module(MODULE)] == heard
    (line,) = caplog.messages
    assert f"a fault of its own at import.{MODULE} (LookupError" in line
