"""The campaigns of faults and of secrets, under the drivers of each framework that is installed.

The matrix runs this in each environment of a framework; ``benchmarks.reliability`` runs the same at length.
"""

from __future__ import annotations

import secrets
from random import Random

import pytest

from benchmarks.reliability.faults import broken_under
from otel_loopguard.testing import Ask, Toolbox, guarded
from tests.instrumentation.frameworks.looking import fetch
from tests.scripted import frameworks

pytestmark = pytest.mark.filterwarnings("ignore")

DRIVERS = {name: framework.DRIVERS for name, framework in frameworks().items()}
EACH = pytest.mark.parametrize("name", DRIVERS)
SHARE = 0.03
"""The share of the functions that are broken in each run."""


@EACH
def test_a_fault_of_ours_is_not_theirs(name: str) -> None:
    """A function of the package that raises breaks no run of this framework."""
    seed = secrets.randbits(32)
    rows = list(broken_under([(name, DRIVERS[name])], Random(seed), SHARE))
    assert rows[0].tried
    assert [row for row in rows if row.broken] == [], f"seed {seed}"


@EACH
def test_no_value_and_no_made_up_name_leaves_the_process(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither is in a span, a metric or a log line of ours: of calls that run, repeat, fail or do not exist."""
    path, made_up = secrets.token_hex(12), f"tool_{secrets.token_hex(8)}"
    for driver in DRIVERS[name].values():
        with guarded() as recording:
            for tool, times in (("read_file", 4), ("fetch", 4), (made_up, 3)):  # one of these may end its run
                driver({**Toolbox().functions(), "fetch": fetch}, [[Ask(tool, {"path": path})]] * times)
        names = {span.name.replace(" mcp__test__", " ") for span in recording.spans}  # the server of Claude's tools
        assert names - {"execute_tool _unknown"} == {"execute_tool read_file", "execute_tool fetch"}
        told = [span.to_json() for span in recording.spans]
        told += [str(recording._metrics.get_metrics_data().to_json()), *map(str, recording.logs)]
        told += [record.getMessage() for record in caplog.records if record.name.startswith("otel_loopguard")]
        assert [text for text in told if path in text or made_up in text] == []
