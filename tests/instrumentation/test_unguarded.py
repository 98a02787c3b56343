"""One line in the log for each framework without a patch that the program imports."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

import otel_loopguard as loopguard
from otel_loopguard.instrumentation import unguarded
from otel_loopguard.instrumentation.frameworks import PATCHED_MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Modules of the temporary folder can be imported, and none of them is known from another test."""
    monkeypatch.syspath_prepend(tmp_path)
    yield
    loopguard.uninstrument()
    for one in unguarded.UNGUARDED:
        sys.modules.pop(one.module, None)
    unguarded._warned.clear()


def package(folder: Path, distribution: str, module: str) -> None:
    """Write an empty distribution with a module."""
    info = folder / f"{distribution.replace('-', '_')}-1.26.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.26.0\n")
    (folder / f"{module}.py").touch()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines about frameworks."""
    return [record.getMessage() for record in caplog.records if "has no patch" in record.getMessage()]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_framework_without_a_patch_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_first: bool
) -> None:
    """The line comes whether the framework is imported before the guard is switched on or after, and comes once."""
    package(tmp_path, "swarms", "swarms")
    if is_first:
        import_module("swarms")
    loopguard.instrument()
    import_module("swarms")
    loopguard.instrument()
    (line,) = lines(caplog)
    assert line.startswith("swarms 1.26.0 has no patch: its tools are guarded only with @otel_loopguard.tool, or if")
    assert "openai" in line


def test_other_modules_are_not_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No line comes for the program's own module of such a name, and none for a client."""
    (tmp_path / "swarms.py").touch()
    package(tmp_path, "groq", "groq")
    loopguard.instrument()
    import_module("swarms")
    import_module("groq")
    assert lines(caplog) == []


def test_no_line_where_no_call_is_judged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A program that has switched the guard off misses nothing."""
    package(tmp_path, "swarms", "swarms")
    loopguard.instrument(loopguard.Policy(action="off"))  # type: ignore[arg-type]
    loopguard.uninstrument()
    import_module("swarms")
    loopguard.instrument(loopguard.Policy(action="off"))  # type: ignore[arg-type]
    assert lines(caplog) == []


def test_what_an_adapter_patches_is_not_listed() -> None:
    """A framework with an adapter has no line that it is not guarded; its neighbours by name may have one."""
    patched = [one for modules in PATCHED_MODULES.values() for one in modules]
    for one in unguarded.UNGUARDED:
        assert not [module for module in patched if f"{module}.".startswith(f"{one.module}.")], one.distribution
