"""Laps: the lap that is refused depends on what the results in it prove, for two calls as for more."""

from __future__ import annotations

from hashlib import md5

import pytest

from .driver import LONG, Driven

JOB = {"result": "The job is still running."}
DOWN = {"error": "503 Service Unavailable"}
UNKNOWN = {"tool": "frobnicate", "result": "ok"}
ACT = {"tool": "update_record", "result": "ok"}


@pytest.mark.parametrize(
    ("lap", "refused"),
    [
        pytest.param([{}, {}], 3, id="two answers"),
        pytest.param([JOB, {}], 20, id="one waits"),
        pytest.param([JOB, JOB, JOB], 20, id="three jobs wait"),
        pytest.param([DOWN, {}], 3, id="one failed for now"),
        pytest.param([UNKNOWN, UNKNOWN], 9, id="one acknowledgement of unknown effects"),
        pytest.param([ACT, ACT], 4, id="one acknowledgement of acts"),
    ],
)
def test_the_lap_that_is_refused_depends_on_what_the_results_prove(lap, refused):
    """The first call of that lap is refused."""
    driven = Driven("ping_pong", "cycle")
    for _ in range(22):
        for step, given in enumerate(lap):
            driven(**{"path": f"file {step}", "result": f"{LONG} {step}", **given})
    assert (driven.refused()[0] - 1) / len(lap) + 1 == refused


def test_a_lap_of_receipts_with_new_ids_has_no_patience():
    """Two tools of unknown kind are called in turn; each time their receipts say "queued" about another thing."""
    driven = Driven("ping_pong")
    for number in range(44):
        key = md5(bytes([number])).hexdigest()
        driven("t17" if number % 2 else "t18", {"sid": f"SM{key}", "status": "queued"}, to="a")
    assert driven.refused()[0] <= 12
