"""The shield stops faults of the package, and nothing else."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.errors import ToolLoopError
from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_the_shield_takes_faults_in_and_tells_no_value(caplog: pytest.LogCaptureFixture) -> None:
    """Counted each time, logged once a site, with type and place."""
    counted: list[str] = []
    shield = Shield(counted.append)
    for _ in range(3):
        with shield("here"):
            raise KeyError("a value")
    with shield("there"):
        pass
    assert counted == ["here"] * 3
    assert len(caplog.records) == 1
    assert "KeyError in test_shield.py" in caplog.text
    assert "a value" not in caplog.text


class Handler(logging.Handler):
    """A log handler of the program. It does what it is given, or keeps the line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.act: Any = None

    def emit(self, record: logging.LogRecord) -> None:
        """Raise, signal, or keep the line."""
        if self.act is not None:
            self.act()
        self.lines.append(record.getMessage())


@pytest.fixture(name="handler")
def _handler() -> Iterator[Handler]:
    handler, logger = Handler(), logging.getLogger("otel_loopguard")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def fail(*_: object) -> None:
    """Raise, as a counter, as a log handler and as a signal handler."""
    raise RecursionError


@pytest.mark.parametrize("count", [None, fail])
def test_a_fault_whose_line_cannot_be_written_is_logged_at_the_next_one(handler: Handler, count: Any) -> None:
    """Neither the counter's exception nor that of the log handler leaves the shield."""
    shield = Shield(count)
    for act in (fail, fail, None, None):
        handler.act = act
        with shield("here"):
            raise KeyError
    assert [line.partition(" (")[0] for line in handler.lines] == ["otel_loopguard had a fault of its own at here"]


def test_a_log_handler_may_have_a_fault_at_the_same_site(handler: Handler) -> None:
    """A handler that calls guarded functions does not make the shield log without end."""
    counted: list[str] = []
    shield = Shield(counted.append)

    def guarded() -> None:
        with shield("here"):
            raise KeyError

    handler.act = guarded
    guarded()
    assert (len(counted), len(handler.lines)) == (2, 1)


def test_the_exception_of_a_signal_handler_passes_while_the_line_is_written(handler: Handler) -> None:
    """A time limit that strikes in logging reaches the program, and the next fault is logged."""
    shield, before = Shield(), signal.signal(signal.SIGUSR1, fail)
    try:
        handler.act = lambda: signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(RecursionError), shield("here"):
            raise KeyError
    finally:
        signal.signal(signal.SIGUSR1, before)
    handler.act = None
    with shield("here"):
        raise KeyError
    assert len(handler.lines) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), SystemExit(1)])
def test_what_is_no_fault_passes_the_shield(error: BaseException) -> None:
    """Interrupts and the end of a run are no faults, and pass."""
    with pytest.raises(type(error)), Shield()("here"):
        raise error


def test_the_end_of_a_run_passes_the_shield() -> None:
    """``ToolLoopError`` is raised on purpose."""
    error = ToolLoopError("over", tool_name="look", mode="m", repeats=1, limit=1)
    with pytest.raises(ToolLoopError), Shield()("here"):
        raise error
