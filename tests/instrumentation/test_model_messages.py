"""The calls of one message of the model, where the framework runs them one after the other."""

from __future__ import annotations

from otel_loopguard.engine.vocabulary import Outcome, ToolCall
from otel_loopguard.instrumentation.model_messages import one_message, tick_of_message
from otel_loopguard.testing import guarded
from otel_loopguard.turns.runs import RunInfo
from otel_loopguard.turns.scope import bind, current_scope, unbind


def test_the_calls_of_one_message_have_one_tick() -> None:
    """The second call of a message was written before the result of the first; the next message was not."""
    with guarded() as recording:
        run = recording.runtime.runs.open(RunInfo())
        token = bind(run.scope)
        first, call = tick_of_message(1), ToolCall("look", {"path": "a"}, "call-1")
        run.scope.turn.begin(call)
        run.scope.turn.end(call, Outcome(result="there"))
        assert first is not None
        assert tick_of_message(1) == first < tick_of_message(2)
        unbind(token, run.scope)
        recording.runtime.runs.close(run)


def test_without_a_run_it_is_not_known() -> None:
    """Outside of a run, there is nothing that could keep the tick."""
    assert tick_of_message(1) is None


def test_a_block_of_one_message_has_the_tick_of_its_beginning() -> None:
    """The results that come within the block do not change it, and the scope around it is restored."""
    with guarded() as recording:
        run = recording.runtime.runs.open(RunInfo())
        token = bind(run.scope)
        call = ToolCall("look", {"path": "a"}, "call-1")
        with one_message():
            before = current_scope().message_tick
            run.scope.turn.begin(call)
            run.scope.turn.end(call, Outcome(result="there"))
            assert before == current_scope().message_tick < run.scope.turn.tick
        assert current_scope() is run.scope
        unbind(token, run.scope)
        recording.runtime.runs.close(run)


def test_a_block_outside_of_a_run_binds_nothing() -> None:
    """Without a scope there is no turn whose tick could be read."""
    with one_message():
        assert current_scope() is None
