"""The judge of coding agents, asked as the hooks of each program ask it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest

from otel_loopguard import semconv
from otel_loopguard.hooks.judge import Judge
from otel_loopguard.hooks.programs import programs
from otel_loopguard.testing import guarded
from tests.hooks.asking import ASKERS, Asker, ClaudeCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard import ToolLoopError
    from otel_loopguard.hooks.events import Place
    from otel_loopguard.testing import Recording


@pytest.fixture
def recording() -> Iterator[Recording]:
    """The telemetry of a guard."""
    with guarded(clock=lambda: 0.0) as found:
        yield found


@pytest.fixture(params=sorted(programs()))
def agent(request: Any, recording: Recording) -> Asker:
    """A session of each program."""
    assert recording.runtime is not None
    return ASKERS[request.param](Judge(recording.runtime), "s1")


def test_every_program_is_asked() -> None:
    """A program without an asker would be tested by nothing."""
    assert ASKERS.keys() == programs().keys()


def test_an_agent_that_only_repeats_itself_is_told_refused_and_ended(agent: Asker) -> None:
    """The call runs twice; the second result has a sentence; then refusals, and the end."""
    agent.prompt()
    answers = [agent.call("read_file", {"path": "a.txt"}, "the text") for _ in range(13)]
    assert [answer.ran for answer in answers] == [True, True, *[False] * 11]
    assert "[loopguard]" in answers[1].read
    assert all("tool_loop_detected" in answer.read for answer in answers[2:12])
    assert answers[12].is_end or not agent.program.ends_by_answer


def test_a_run_that_nothing_ends_is_not_said_to_be_ended(agent: Asker, recording: Recording) -> None:
    """It is refused call by call, and counted so. With a signal it is ended, as where an answer ends it."""
    agent.prompt()
    reads = [agent.call("read_file", {"path": "a.txt"}, "the text").read for _ in range(14)]
    agent.stop()
    ends = agent.program.ends_by_answer
    assert any("The run was ended" in text for text in reads) == ends
    assert ("aborted" in recording.outcomes) == ends
    assert recording.counted(semconv.METRIC_TURNS_ENDED, loopguard__turn__end="aborted") == ends


@pytest.mark.parametrize("name", ["codex", "copilot", "qwen"])
def test_a_run_that_a_signal_ends_is_said_to_be_ended(name: str, recording: Recording) -> None:
    """The hooks of an installation with ``--interrupt`` say that they do it."""
    assert recording.runtime is not None
    agent = ASKERS[name](Judge(recording.runtime), "s1", interrupts=True)
    agent.prompt()
    reads = [agent.call("read_file", {"path": "a.txt"}, "the text").read for _ in range(13)]
    assert "The run was ended after 10 refusals in a row." in reads[-1]
    assert recording.outcomes[-1] == "aborted"


def test_new_work_is_left_alone(agent: Asker) -> None:
    """Different calls, a changed file that is read again, and the same call for another message of the user."""
    agent.prompt()
    texts = [agent.call("read_file", {"path": f"{number}.txt"}, f"text {number}").read for number in range(8)]
    assert texts == [f"text {number}" for number in range(8)]
    for number in range(6):
        assert agent.call("write_file", {"path": "a.txt", "text": f"{number}"}, "written").read == "written"
        assert agent.call("read_file", {"path": "a.txt"}, f"text {number}").read == f"text {number}"
    for _ in range(5):
        agent.prompt()
        assert agent.call("read_file", {"path": "b.txt"}, "the same").read == "the same"


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini", "qwen"])
def test_a_stop_hook_that_never_lets_go_is_a_loop(name: str, recording: Recording) -> None:
    """The user's hook says no to the same answer: the user is told, and the agent may stop. New calls are news."""
    assert recording.runtime is not None
    agent = ASKERS[name](Judge(recording.runtime), "s1")
    agent.prompt()
    agent.call("read_file", {"path": "a.txt"}, "the text")
    assert [agent.stop("Done."), *(agent.stop("Done.", again=True) for _ in range(2))] == [{}, {}, ANY]
    agent.call("read_file", {"path": "b.txt"}, "other text")
    assert agent.stop("Done now.", again=True) == {}
    told, again, over = (agent.stop("Done now.", again=True) for _ in range(3))
    assert "gave the same answer again" in told["systemMessage"]
    assert again == {}
    assert (over["continue"], "it may stop now" in over["stopReason"]) == (False, True)
    agent.prompt()
    assert agent.stop("Done now.") == {}


def test_an_agent_that_has_to_go_on_has_the_same_turn(recording: Recording) -> None:
    """The calls before a stop that was not accepted are not new after it."""
    assert recording.runtime is not None
    agent = ASKERS["claude-code"](Judge(recording.runtime), "s1")
    agent.prompt()
    ran = []
    for _ in range(4):
        ran.append(agent.call("read_file", {"path": "a.txt"}, "the text").ran)
        agent.stop("Done.")
    assert ran == [True, True, False, False]


def test_calls_have_spans_and_are_counted(agent: Asker, recording: Recording) -> None:
    """As those of an executor: by how they ended, in the trace of their turn."""
    agent.prompt()
    for _ in range(4):
        agent.call("read_file", {"path": "a.txt"}, "the text")
    agent.call("read_file", {"path": "b.txt"}, None, error="no such file")
    agent.stop()
    assert recording.outcomes == ["executed", "nudged", "blocked", "blocked", "failed"]
    assert len({span.context.trace_id for span in recording.spans}) == 1
    assert recording.counted(semconv.METRIC_TURNS_ENDED) == 1


def test_the_tools_of_mcp_servers_are_extensions(claude_code: ClaudeCode, recording: Recording) -> None:
    """They are known by their names."""
    claude_code.prompt()
    claude_code.call("mcp__echo__read_note", {"text": "a"}, "the text")
    claude_code.call("Read", {"path": "a.txt"}, "the text")
    types = [(span.attributes or {})[semconv.TOOL_TYPE] for span in recording.spans]
    assert types == [semconv.TYPE_EXTENSION, semconv.TYPE_FUNCTION]


def test_a_call_in_an_unknown_form_runs(recording: Recording) -> None:
    """The answer is empty, and the fault is counted."""
    assert recording.runtime is not None
    judge = Judge(recording.runtime)
    for program in programs().values():
        for name in ("PreToolUse", "BeforeTool", "preToolUse", "tool.execute.before", "Nothing"):
            for told in ({}, {"session_id": 7}, {"session_id": "s", "tool_name": None, "tool_input": 7}):
                assert not judge.answer(program, name, told).ends


@pytest.fixture
def claude_code(recording: Recording) -> ClaudeCode:
    """A session of the program that tells when all calls of a message have ended."""
    assert recording.runtime is not None
    return ClaudeCode(Judge(recording.runtime), "s1")


def test_equal_calls_of_one_message_are_no_repeats(claude_code: ClaudeCode, recording: Recording) -> None:
    """The model had read no result when it wrote them, though they run one after the other."""
    claude_code.prompt()
    for _ in range(4):
        told = claude_code.begun("read_file", {"path": "a.txt"})
        assert claude_code.ask("PreToolUse", told) == {}
        assert claude_code.ask("PostToolUse", {**told, "tool_response": "the text"}) == {}
    claude_code.end_message()
    assert recording.outcomes == ["executed"] * 4
    assert [claude_code.call("read_file", {"path": "a.txt"}, "the text").ran for _ in range(3)][-1] is False


def test_calls_are_judged_where_the_end_of_a_message_is_never_told(
    claude_code: ClaudeCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version has no such hook: after so many calls they are taken for those of several messages."""
    monkeypatch.setattr(claude_code, "end_message", lambda: None)
    claude_code.prompt()
    ran = [claude_code.call("read_file", {"path": "a.txt"}, "the text").ran for _ in range(20)]
    assert (all(ran[:16]), any(ran[17:])) == (True, False)


def test_a_call_that_somebody_else_has_refused_has_failed(claude_code: ClaudeCode, recording: Recording) -> None:
    """Another hook, or the user. It has no hook after it, and is among the calls of the message."""
    claude_code.prompt()
    for _ in range(3):
        told = claude_code.begun("read_file", {"path": "a.txt"})
        answer = claude_code.ask("PreToolUse", told)
        claude_code.ask("PostToolBatch", {"tool_calls": [{**told, "tool_response": "The user said no."}]})
    assert recording.outcomes == ["failed", "failed", "blocked"]
    assert "tool_loop_detected" in claude_code.refusal(answer)


def test_the_end_of_an_earlier_turn_does_not_end_this_one(claude_code: ClaudeCode, recording: Recording) -> None:
    """A program may tell it late."""
    claude_code.prompt()
    claude_code.call("read_file", {"path": "a.txt"}, "the text")
    claude_code.ask("Stop", {"prompt_id": "prompt 0"})
    claude_code.call("read_file", {"path": "a.txt"}, "the text")
    assert recording.outcomes == ["executed", "nudged"]


def test_a_judge_that_goes_on_opens_no_turn_before_its_next_call(recording: Recording) -> None:
    """An agent that has stopped would be shown as one that runs."""
    assert recording.runtime is not None
    before, idle, after = (Judge(recording.runtime) for _ in range(3))
    agent = ASKERS["codex"](before, "s1")
    agent.prompt()
    for _ in range(2):
        agent.call("read_file", {"path": "a.txt"}, "the text")
    agent.stop()
    for judge in (idle, after):
        judge.restore(before.state())
    idle.close()
    assert recording.counted(semconv.METRIC_TURNS_ENDED) == 1
    went_on = ASKERS["codex"](after, "s1")
    went_on._prompt = 1
    assert not went_on.call("read_file", {"path": "a.txt"}, "the text").ran


@pytest.mark.parametrize("state", [b"", b"[7]", b'[["codex", "s1", "", "prompt 1", "!"]]'])
def test_turns_that_cannot_be_read_begin_anew(state: bytes, recording: Recording) -> None:
    """Bytes of another key, of another version, or none."""
    assert recording.runtime is not None
    judge = Judge(recording.runtime)
    judge.restore(state)
    agent = ASKERS["codex"](judge, "s1")
    agent.prompt()
    assert [agent.call("read_file", {"path": "a.txt"}, "the text").ran for _ in range(3)] == [True, True, False]


def test_turns_that_are_open_when_the_judge_is_closed_were_broken_off(
    claude_code: ClaudeCode, recording: Recording
) -> None:
    """No answer was told of them."""
    claude_code.prompt()
    claude_code.call("read_file", {"path": "a.txt"}, "the text")
    claude_code.judge.close()
    assert recording.counted(semconv.METRIC_TURNS_ENDED, loopguard__turn__end="cancelled") == 1


def test_the_error_of_a_run_is_told_to_the_program(recording: Recording) -> None:
    """A program that has the judge in its own process ends its turn with it."""
    assert recording.runtime is not None
    told: list[tuple[Place, ToolLoopError]] = []
    judge = Judge(recording.runtime, on_end=lambda place, error: told.append((place, error)))
    agent = ASKERS["claude-code"](judge, "s1")
    agent.prompt()
    for _ in range(13):
        agent.call("read_file", {"path": "a.txt"}, "the text")
    ((place, error),) = told
    assert (place.session, place.agent, error.tool_name) == ("s1", "", "read_file")
    judge.end_turn(agent.program, "s1", error)
    assert recording.counted(semconv.METRIC_TURNS_ENDED, loopguard__turn__end="aborted") == 1


def test_a_session_that_another_process_judges_is_left_alone(recording: Recording) -> None:
    """Its calls run, and are not counted twice."""
    assert recording.runtime is not None
    agents = [ASKERS["claude-code"](Judge(recording.runtime, is_elsewhere="s1".__eq__), name) for name in ("s1", "s2")]
    ran = [agent.call("read_file", {"path": "a.txt"}, "the text").ran for agent in agents for _ in range(3)]
    assert ran == [True, True, True, True, True, False]
    assert len(recording.outcomes) == 3
