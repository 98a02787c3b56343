"""Labels are bounded, and a measurement may interrupt another one."""

from __future__ import annotations

import threading

from otel_loopguard import semconv
from otel_loopguard.telemetry.measurements import Labels
from otel_loopguard.testing import guarded


def test_labels_are_bounded() -> None:
    """The first two hundred names are labels, and all others share one label."""
    label = Labels()
    names = {label[f"tool_{number}"] for number in range(10_000)}
    assert len(names) == 201
    assert "_other" in names
    assert label["tool_3"] == "tool_3"
    assert label["_unknown"] == "_unknown"


def test_a_measurement_that_interrupts_another_one_waits_for_its_end() -> None:
    """A signal handler ends a turn where the SDK holds its lock, which does not let its own thread in."""
    with guarded() as recording:
        assert recording.runtime is not None
        meters = recording.runtime.providers.outlets().meters

        class Interrupted(int):
            """A number that is added up under the SDK's lock, where a handler strikes."""

            def __radd__(self, total: int) -> int:
                meters.turn("turn", 2)
                return total + int(self)

        thread = threading.Thread(target=meters.turn, args=("turn", Interrupted(1)), daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
        (point,) = recording.points(semconv.METRIC_TURN_TOOL_CALLS)
        assert (point.count, point.sum) == (2, 3)
