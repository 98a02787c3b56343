"""The turn decides as the turn of an earlier commit did, to the last field, on drawn traces."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.compare.drawn import POLICIES
from tests.engine.compare.driver import WAYS, Trace
from tests.engine.compare.sides import OLD, ROOT, Side, difference, extract, seen, smallest

TRACES = int(os.environ.get("LOOPGUARD_COMPARED_TRACES", "1200"))
"""The gate draws few. More: LOOPGUARD_COMPARED_TRACES=100000, or ``python -m tests.engine.compare``."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """The old package and the present one."""
    folder = tmp_path_factory.mktemp("old")
    if not extract(folder):
        pytest.skip(f"this clone has no commit {OLD}: fetch all of the history")
    sides = Side(folder), Side(ROOT)
    yield sides
    for side in sides:
        side.close()


traces = st.builds(Trace, st.sampled_from(POLICIES), st.sampled_from(WAYS), st.integers(0, 2**32))


@settings(max_examples=TRACES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(trace=traces)
def test_a_drawn_trace_is_judged_as_before(sides, trace):
    """Each decision, text and field of a record; calls, refusals, ticks, and what becomes of messages."""
    old, new = seen(sides, trace)
    assert not any('"raised"' in text[:20] for text in old), old[-3:]
    if old != new:
        small = smallest(trace, lambda fewer: len(set(map(tuple, seen(sides, fewer)))) > 1)
        pytest.fail(f"{small}\n{difference(*seen(sides, small))}")
