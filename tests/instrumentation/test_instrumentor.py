"""Switching the guard on and off in code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import otel_loopguard as loopguard
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.instrumentation.process_start import process_start
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.testing import ScriptedAgent

from .processes import run_code

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    """The guard is off before and after, and nothing made from the environment is left."""
    loopguard.uninstrument()
    yield
    loopguard.uninstrument()
    active_runtime.put(None)


def refused() -> list[int]:
    """Return the positions of the refused ones among five equal calls."""
    return ScriptedAgent({"look": lambda path: "text"}, [("look", {"path": "a"})] * 5).run().refused


def test_on_and_off_and_on_again() -> None:
    """Each ``instrument()`` applies its own policy."""
    loopguard.instrument(loopguard.Policy(action="observe"))  # type: ignore[arg-type]
    assert refused() == []
    loopguard.uninstrument()
    assert active_runtime.instrumented is None
    loopguard.instrument(loopguard.Policy())
    assert refused() == [2, 3, 4]


def test_instrumenting_where_it_is_on_replaces_the_policy() -> None:
    """A program under ``opentelemetry-instrument`` can have its own policy in code."""
    LoopGuardInstrumentor().instrument()
    loopguard.instrument(loopguard.Policy(action="observe"))  # type: ignore[arg-type]
    assert refused() == []


def test_switching_off_what_is_off_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """``uninstrument()`` without ``instrument()`` logs no warning."""
    loopguard.uninstrument()
    assert caplog.text == ""


def test_a_start_that_fails_is_quiet_in_zero_code_mode_and_loud_in_code(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed start is logged under the entry point, and raised by ``instrument()``."""

    def boom(*_: object, **__: object) -> None:
        raise OSError("no such thing")

    monkeypatch.setattr(Runtime, "__init__", boom)
    LoopGuardInstrumentor().instrument()
    for _ in range(2):
        process_start.wake()
        assert active_runtime.instrumented is None
    assert caplog.text.count("OSError") == 1
    with pytest.raises(OSError, match="no such thing"):
        loopguard.instrument()


@pytest.mark.parametrize("names", ["loopguard", "requests , loopguard", "*"])
def test_disabled_by_the_environment_it_is_off_until_the_program_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    """While the environment disables it, functions run unguarded; ``instrument()`` in code takes precedence."""
    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", names)
    active_runtime.put(None)  # a runtime from before was made in another environment
    assert refused() == []
    loopguard.instrument()
    assert refused() == [2, 3, 4]


def test_what_else_is_disabled_is_not_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of other disabled instrumentations does not disable this one."""
    monkeypatch.setenv("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "requests,urllib3")
    active_runtime.put(None)
    assert refused() == [2, 3, 4]


def test_a_misspelt_option_is_an_error() -> None:
    """A misspelt option in code raises."""
    with pytest.raises(TypeError, match="tracer_providr"):
        loopguard.instrument(tracer_providr=None)  # type: ignore[call-arg]


def test_everything_public_is_there() -> None:
    """Each public name can be imported, is listed, and has a docstring."""
    for name in loopguard.__all__:
        assert getattr(loopguard, name) is not None
        assert name in dir(loopguard)
        if not name.startswith("__"):
            assert getattr(loopguard, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        loopguard.nothing  # noqa: B018


def test_the_face_is_complete_in_a_fresh_process() -> None:
    """Each public name can be the first one that is used."""
    for name in ("turn", "tool", "call", "say", "instrument", "Guard", "ToolLoopError", "Policy"):
        code = f"import otel_loopguard; print(otel_loopguard.{name}.__name__)"
        ended = run_code(code)
        assert ended.stdout.strip() == name, ended.stderr
