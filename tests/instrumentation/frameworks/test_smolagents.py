"""smolagents: the framework's own features."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="smolagents is tested in an environment of its own")

from smolagents import CodeAgent, ToolCallingAgent
from smolagents.agent_types import AgentText
from smolagents.agents import AgentError, ToolOutput
from smolagents.memory import ActionStep

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.testing import Ask, assert_no_trip, assert_trips, guarded
from otel_loopguard.turns.scope import current_scope
from tests.instrumentation.frameworks.looking import attribute, calls, fetch, look
from tests.scripted.smolagents import ScriptedModel, agent_of, run, run_stream, steps_of, tool_of

pytestmark = pytest.mark.filterwarnings("ignore")
KINDS = pytest.mark.parametrize("kind", [ToolCallingAgent, CodeAgent])


def script(*paths: str, name: str = "look", answer: str = "Done.") -> ScriptedModel:
    return ScriptedModel(calls(paths, name), answer)


class Coder(ScriptedModel):
    """Writes these pieces of code, one a request, and keeps the requests."""

    def __init__(self, *codes: str) -> None:
        super().__init__([])
        self.codes = codes

    def _next(self, messages: list[Any]) -> Any:
        super()._next(messages)
        return [self.codes[self.step]] if self.step < len(self.codes) else []

    def _code(self, asked: Any) -> str:
        return asked[0] if asked else super()._code(asked)


@KINDS
@pytest.mark.parametrize("go", [run, run_stream])
@pytest.mark.parametrize("stream_outputs", [True, False])
def test_an_aborted_run_reaches_the_caller(kind: Any, go: Any, stream_outputs: bool) -> None:
    """``except ToolLoopError`` catches an abort in each way of running an agent, and no turn is left."""
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError) as caught:
            go(agent_of(kind, script(*["a"] * 9), [look], stream_outputs=stream_outputs))
        assert caught.value.tool_name == "look"
        assert caught.value.turn_id == attribute(recording, semconv.TURN_ID)[0]
        assert recording.outcomes[-1] == "aborted"
        assert recording.runtime.guard.live == 0
        assert current_scope() is None


@KINDS
def test_an_agent_goes_on_after_an_abort(kind: Any) -> None:
    """The next message of the conversation has a turn of its own, and is answered."""
    with guarded(Policy(abort_after=1)) as recording:
        model = script(*["a"] * 9)
        agent = agent_of(kind, model, [look])
        with pytest.raises(ToolLoopError):
            run(agent)
        model.steps = [[Ask("look", {"path": "a"})]]
        assert agent.run("And now?", reset=False) == "Done."
        assert recording.outcomes[-1] == "executed"
        assert recording.runtime.guard.live == 0


@KINDS
def test_the_answer_is_no_call(kind: Any) -> None:
    """``final_answer`` is neither guarded nor counted."""
    with guarded() as recording:
        assert run(agent_of(kind, script("a", answer="it is there"), [look])) == "it is there"
        assert [span.name for span in recording.spans] == ["execute_tool look"]
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 1


@KINDS
def test_calls_of_one_message_are_no_loop(kind: Any) -> None:
    """A message may ask for the same six times: the model has read no result in between."""
    with guarded() as recording:
        run(agent_of(kind, ScriptedModel([[Ask("look", {"path": "a"})] * 6]), [look]))
        assert recording.outcomes == ["executed"] * 6
        assert_no_trip(recording)


@KINDS
def test_a_failing_tool_is_read_as_before(kind: Any) -> None:
    """The exception of a tool is an error that the model reads, and a call that repeats it is refused."""
    model = script("a", "b", "b", "b", name="fetch")
    with guarded() as recording:
        assert run(agent_of(kind, model, [fetch])) == "Done."
        assert "LookupError: there is no a" in model.read[0]
        assert recording.outcomes[:3] == ["failed"] * 3
        assert "tool_loop_detected" in model.read[-1]


@KINDS
@pytest.mark.parametrize("inner", [ToolCallingAgent, CodeAgent])
def test_an_abort_of_a_managed_agent_is_a_failure_for_its_manager(kind: Any, inner: Any) -> None:
    """The manager reads the abort as the result of its call, and goes on."""
    helper = agent_of(inner, script(*["shared"] * 9), [look], name="helper", description="Helps.")
    boss = ScriptedModel([[Ask("helper", {"task": "a question", "additional_args": {}})]])
    with guarded(Policy(abort_after=1)) as recording:
        assert run(agent_of(kind, boss, managed_agents=[helper])) == "Done."
        assert "The agent called look again and again" in boss.read[0]
        assert recording.outcomes == ["failed", "executed", "nudged", "blocked", "aborted"]
        assert recording.runtime.guard.live == 0


def test_a_refusal_in_code_is_an_exception_there() -> None:
    """The rest of the code does not run on a refusal: no program writes it to a file."""
    saved = []

    def save(text: str) -> str:
        """Save a text."""
        saved.append(text)
        return "saved"

    coder = Coder(*['text = look(path="a")\nsave(text=text)'] * 4)
    with guarded() as recording:
        run(agent_of(CodeAgent, coder, [look, save]))
        assert saved == ["there is a"] * 2
        assert "due to: ToolCallRefused:" in coder.read[-1]
        assert "tool_loop_detected" in coder.read[-1]
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_sentence_in_code_is_printed_and_the_value_stays() -> None:
    """A result is a value of the program: the sentence for the model goes to what the code prints."""
    coder = Coder(*['text = look(path="a")\nprint(len(text))'] * 2)
    with guarded() as recording:
        run(agent_of(CodeAgent, coder, [look]))
        assert recording.outcomes == ["executed", "nudged"]
        assert coder.read[0] == "10"
        assert coder.read[1].endswith("\n10")
        assert coder.read[1] != coder.read[0]


def test_code_may_catch_what_a_tool_raises_but_no_abort() -> None:
    """``except Exception`` in the code of the model does not stop an abort."""
    code = 'try:\n    print(look(path="a"))\nexcept Exception as error:\n    print("caught", error)'
    coder = Coder(*[code] * 9)
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            run(agent_of(CodeAgent, coder, [look]))
        assert coder.read[2].startswith("caught")
        assert recording.runtime.guard.live == 0


def test_arguments_by_position_by_name_and_as_a_dictionary_are_the_same() -> None:
    """The code of a model may write one call in three ways."""
    coder = Coder('look("a")', 'look(path="a")', 'look({"path": "a"})')
    with guarded() as recording:
        run(agent_of(CodeAgent, coder, [look]))
        assert len(set(attribute(recording, semconv.ARGUMENTS_HASH))) == 1
        assert_trips(recording, "generic_repeat", action="block", times=1)


def test_functions_that_are_no_tools_are_no_calls() -> None:
    """Builtins, methods, exceptions and functions of the code itself are not guarded."""
    code = (
        "def half(number):\n    return number / 2\n"
        'print(half(len(look("a").upper())), ValueError("no"), (lambda: 1)(), [max][0](1, 2))'
    )
    with guarded() as recording:
        coder = Coder(code)
        run(agent_of(CodeAgent, coder, [look]))
        assert coder.read[0] == "5.0 no 1 2"
        assert [span.name for span in recording.spans] == ["execute_tool look"]


def test_a_result_with_a_sentence_has_the_type_as_before() -> None:
    """The stream of an agent has its own type of texts, with a sentence or without."""
    with guarded() as recording:
        steps = steps_of(agent_of(ToolCallingAgent, script("a", "a"), [look]))
        outputs = [step.output for step in steps if isinstance(step, ToolOutput)]
        assert recording.outcomes == ["executed", "nudged"]
        assert outputs[1].to_raw().startswith("there is a\n")
        assert {type(output) for output in outputs[:2]} == {AgentText}


def test_a_call_in_code_costs_one_frame() -> None:
    """Deep recursion in the code of a model fails hardly earlier than without the guard."""

    def frames() -> int:
        """Count the frames."""
        frame, count = sys._getframe(), 0
        while frame.f_back is not None:
            frame, count = frame.f_back, count + 1
        return count

    def frames_of_ten_calls() -> int:
        code = "def f(n):\n    return frames() if n == 0 else f(n - 1)\nprint(f(10) - f(0))"
        coder = Coder(code)
        run(agent_of(CodeAgent, coder, [frames]))
        return int(coder.read[0])

    without = frames_of_ten_calls()
    with guarded():
        assert frames_of_ten_calls() - without == 10


@KINDS
def test_a_tool_that_the_program_calls_is_left_alone(kind: Any) -> None:
    """Calls outside of an agent, in a callback of its steps, and by another tool are no calls of the model."""
    inner = tool_of(look)

    def outer(path: str) -> str:
        """Look twice."""
        return str(inner(path=path)) and str(inner(path))

    with guarded() as recording:
        agent = agent_of(kind, script("a", "b", name="outer"), [outer], step_callbacks=[lambda *_, **__: inner("c")])
        run(agent)
        for _ in range(5):
            assert inner("d") == "there is d"
        assert [span.name for span in recording.spans] == ["execute_tool outer"] * 2
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 2


@KINDS
def test_an_interrupted_run_raises_as_before(kind: Any) -> None:
    """``agent.interrupt()`` ends the run with the framework's error, and no turn is left."""

    def stop(*_: Any, agent: Any) -> None:
        agent.interrupt()

    with guarded() as recording:
        with pytest.raises(AgentError, match="interrupted"):
            run(agent_of(kind, script(*"abc"), [look], step_callbacks=[stop]))
        assert recording.outcomes == ["executed"]
        assert recording.runtime.guard.live == 0


@KINDS
def test_a_stream_that_is_left_early_leaves_no_turn(kind: Any) -> None:
    """No scope is bound in the code that reads the stream, and the turn ends with the stream."""
    with guarded() as recording:
        steps = steps_of(agent_of(kind, script(*"abcdefgh"), [look]))
        for step in steps:
            assert current_scope() is None
            if isinstance(step, ActionStep):
                break
        assert recording.spans
        steps.close()
        assert recording.runtime.guard.live == 0
