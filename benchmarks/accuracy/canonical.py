"""Figures of the default policy on canonical traces, by naming scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.accuracy.markdown import table
from tests.engine.judges import runner, traces
from tests.engine.judges.real import EnforcedTurn

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.judges.corpus import Judged

    NewTurn = Callable[[traces.Trace, Callable[[], float]], Judged]

SEEDS = range(5)
NAMED = {"named": "as named", "prefixed": "prefixed", "camel": "camelCase", "opaque": "opaque (`tool_71`)"}

HEAD = """## Canonical traces

Drawn from {seeds} seeds. A kind counts as stopped if it was so under every seed, and as refused if it was so under any.
"""


def section() -> str:
    """Return the section of the page."""
    rows = [[shown, *counts(naming)] for naming, shown in NAMED.items()]
    return "\n".join([HEAD.format(seeds=len(SEEDS)), table(["tools", "stuck, stopped", "legitimate, refused"], rows)])


def counts(naming: str, new_turn: NewTurn | None = None) -> list[str]:
    """Count the stuck kinds that are stopped, and the legitimate ones that are refused a call."""
    found = []
    for stuck, of_all in ((True, all), (False, any)):
        names = traces.kinds(stuck=stuck, canonical=True)
        refused = [
            of_all(bool(runner.run(traces.trace(name, naming, seed), new_turn or guarded).refused) for seed in SEEDS)
            for name in names
        ]
        found.append(f"{sum(refused)} of {len(names)}")
    return found


def guarded(trace: traces.Trace, clock: Callable[[], float]) -> Judged:
    """A turn of the guard under the default policy and the trace's contracts."""
    return EnforcedTurn(trace.contracts, clock)
