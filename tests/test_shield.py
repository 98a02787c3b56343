"""The shield stops faults of the package, and nothing else."""

from __future__ import annotations

import pytest

from otel_loopguard.errors import ToolLoopError
from otel_loopguard.shield import Shield


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
