"""Runs inside of runs."""

from __future__ import annotations

import otel_loopguard as loopguard
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import current_scope, in_scope


def test_a_run_whose_model_has_messages_of_its_own_is_a_turn_of_its_own() -> None:
    """Inside of another run, whose turn goes on when it is over; a part of a run shares its turn."""
    with guarded() as recording:
        runs = recording.runtime.runs
        outer = runs.open(RunInfo("a session"))
        with in_scope(outer.scope):
            part, apart = runs.open(RunInfo()), runs.open(RunInfo(apart=True))
            assert part.scope.turn is outer.scope.turn
            assert apart.scope.turn is not outer.scope.turn
            assert apart.scope.conversation_id == "a session"
            assert (part.owned, apart.owned) == (False, True)
            for run in (part, apart):
                runs.close(run)
            assert recording.runtime.guard.live == 1
        runs.close(outer)
        assert recording.runtime.guard.live == 0


def test_a_turn_that_the_program_has_opened_has_all_runs_in_it() -> None:
    """It says that they belong together, whatever their models have read."""
    with guarded() as recording, loopguard.turn():
        scope = current_scope()
        assert scope is not None
        apart = recording.runtime.runs.open(RunInfo(apart=True))
        assert apart.scope.turn is scope.turn
