"""Labels and time series are bounded, and exist before the first trip."""

from __future__ import annotations

import pytest

from otel_loopguard import semconv
from otel_loopguard.core.model import Action
from otel_loopguard.core.policy.policy import Policy, Rule, ToolContract
from otel_loopguard.telemetry.meters import Labels, combinations
from otel_loopguard.testing import ScriptedAgent, guarded
from tests.telemetry.agents import look, stuck


def test_labels_are_bounded() -> None:
    """The first two hundred names are labels, and all others share one label."""
    label = Labels()
    names = {label[f"tool_{number}"] for number in range(10_000)}
    assert len(names) == 201
    assert "_other" in names
    assert label["tool_3"] == "tool_3"
    assert label["_unknown"] == "_unknown"


def test_exemplars_link_counts_to_their_traces() -> None:
    """The exemplar of a trip's count names the call's span."""
    with guarded() as recording:
        stuck()
        spans = {span.context.span_id for span in recording.spans if span.events}
        exemplars = {
            exemplar.span_id for point in recording.points(semconv.METRIC_TRIPS) for exemplar in point.exemplars
        }
        assert exemplars == spans


def test_every_possible_trip_is_counted_zero_at_start() -> None:
    """Every series starts at zero, because ``increase()`` does not see a series that starts at one."""
    with guarded() as recording:
        points = {
            tuple(sorted(point.attributes.items())): point.value for point in recording.points(semconv.METRIC_TRIPS)
        }
        assert set(points.values()) == {0}
        stuck()
        after = {tuple(sorted(point.attributes.items())) for point in recording.points(semconv.METRIC_TRIPS)}
        assert after == set(points)


POLICIES = {
    **{action: {"action": action} for action in ("off", "observe", "nudge", "reuse", "block", "abort")},
    "a mode's own": {"modes": {"generic_repeat": Rule(action=Action.NUDGE)}},
    "a tool's own": {"tools": {"lo*": ToolContract(action=Action.OBSERVE)}},
    "a tool's own for a mode": {"tools": {"look": ToolContract(modes={"generic_repeat": Rule(action=Action.NUDGE)})}},
    "asked": {"on_trip": lambda trip: Action.BLOCK if trip.action is Action.NUDGE else None},
}


@pytest.mark.parametrize("name", POLICIES)
def test_no_trip_falls_outside_of_the_series_that_were_named(name: str) -> None:
    """Every trip is counted in a series that started at zero, for each ceiling."""
    policy = Policy(abort_after=1, **POLICIES[name])  # type: ignore[arg-type]
    named = set(combinations(policy))
    with guarded(policy) as recording:
        for tools in ({"look": look}, {}):
            ScriptedAgent(tools, [("look", {"path": "a"})] * 9).run()
        look("outside of a turn")
        assert {(trip.mode, trip.verdict, trip.action) for trip in recording.trips} <= named
        assert bool(named) == bool(recording.trips) == (name != "off")


def test_a_recovery_is_counted() -> None:
    """A trip is followed by a recovery when the agent gets a new result again."""
    with guarded() as recording:
        paths = ["a", "a", "a", "b"]
        ScriptedAgent({"look": look}, [("look", {"path": path}) for path in paths]).run()
        assert recording.counted(semconv.METRIC_RECOVERIES, loopguard__action="block") == 1
