"""Anthropic's tool runner: its own features."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="the tool runner is tested in an environment of its own")

import anthropic
from anthropic import beta_tool

from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.testing import Ask, guarded
from otel_loopguard.turns.scope import current_scope
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted.anthropic_runner import (
    WAYS,
    AsyncUnread,
    Script,
    Unread,
    async_tool,
    runner_of,
    stream,
    stream_async,
    until_done,
)

pytestmark = pytest.mark.filterwarnings("ignore")

over_each = pytest.mark.parametrize("way", WAYS)
makes_spans = hasattr(anthropic.Anthropic, "_tracer")
"""True for versions that make spans, and that can run tools while a stream is read."""


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script(calls(paths, name), answer)


def run(way: str, model: Script, *functions: Any, read: bool = False, **options: Any) -> str:
    """Run a loop in one of the ways. ``read``: the requests of its client are read, too."""
    go, make_tools, client = WAYS[way]
    tools = make_tools({function.__name__: function for function in functions})
    message = go(model, tools, **({"kind": client} if read else {}), **options)
    return "".join(block.text for block in message.content if block.type == "text")


@over_each
def test_a_call_is_judged_once_although_the_requests_are_read(way: str) -> None:
    """The executor judges each call; the reader takes over its judgements, and sends the last request without tools."""
    model = script(*["a"] * 40)
    with guarded(clock=lambda: 0.0) as recording:
        assert run(way, model, look, read=True) == "Done."
    assert model.server.rejected == []
    assert len(model.seen) == 10
    assert recording.outcomes == ["executed", "nudged", *["blocked"] * 7]
    assert recording.counted(semconv.METRIC_TOOL_CALLS) == 9
    assert len(set(attribute(recording, semconv.TURN_ID))) == 1
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0
    assert recording.runtime.guard.live == 0


@over_each
def test_a_working_run_sends_the_same_bytes(way: str) -> None:
    """With the guard and without it; made-up tools are answered as before, too."""
    steps = [[Ask("look", {"path": "a"})], [Ask("look", {"path": "b"}), Ask("nope", {})], [Ask("look", {"path": "c"})]]
    alone, under_guard = Script(steps), Script(steps)
    run(way, alone, look, read=True)
    with guarded(clock=lambda: 0.0) as recording:
        run(way, under_guard, look, read=True)
    assert sorted(recording.outcomes) == ["executed"] * 3 + ["failed"]
    assert recording.counted(semconv.METRIC_TOOL_CALLS) == 4
    assert under_guard.server.bodies() == alone.server.bodies()


@over_each
def test_made_up_names_are_refused_and_not_told(way: str) -> None:
    """A refusal tells which tools exist; spans and counters have neither the made-up name nor an argument."""
    model = Script([[Ask("SECRETTOOL", {"SECRET": 1})]] * 4)
    with guarded() as recording:
        run(way, model, look)
        assert "tool_loop_detected" in model.read[-1]
        assert "look" in model.read[-1]
        assert {span.name for span in recording.spans} == {"execute_tool _unknown"}
        exported = [span.to_json() for span in recording.spans]
        for metric in (semconv.METRIC_TRIPS, semconv.METRIC_TOOL_TRIPS, semconv.METRIC_TOOL_CALLS):
            exported += [str(point) for point in recording.points(metric)]
        assert "SECRET" not in "".join(exported)


def test_a_tool_that_the_program_runs_itself_is_no_made_up_one() -> None:
    """The runner has only its definition, and answers that it was not found; the program sends its own result."""
    definition = {"name": "ask", "description": "Ask.", "input_schema": {"type": "object", "properties": {}}}
    model = Script([[Ask("ask", {})]] * 2)
    with guarded() as recording:
        runner = runner_of(model.client(), [beta_tool(look), definition])
        for message in runner:
            uses = [block for block in message.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": use.id, "content": "yes"} for use in uses]
            if results:
                runner.append_messages(message, {"role": "user", "content": results})
        assert model.read == ["yes", "yes"]
        assert recording.spans == []


def test_a_sentence_leaves_json_as_it_is() -> None:
    """The sentence is a block of its own, so that the first block can be parsed."""

    def read_rows(path: str) -> str:
        """Read the rows."""
        return json.dumps({"rows": [path]})

    model = script("a", "a", name="read_rows")
    with guarded() as recording:
        until_done(model, [beta_tool(read_rows)])
        assert recording.outcomes == ["executed", "nudged"]
        blocks = model.server.exchanges[-1].json["messages"][-1]["content"][0]["content"]
        assert json.loads(blocks[0]["text"]) == {"rows": ["a"]}
        assert len(blocks) == 2


def traced(kind: Any, provider: Any) -> Any:
    """A client that makes spans with this provider; older versions make none."""
    options = {"open_telemetry": {"tracer_provider": provider, "conversation_id": "talk-1"}} if makes_spans else {}
    return type("Traced", (kind,), {"__init__": lambda self, **given: kind.__init__(self, **options, **given)})


@over_each
def test_beside_its_own_spans_each_call_has_one(way: str) -> None:
    """Each call has one ``execute_tool`` span: the client's own, with our attributes, and ours for a made-up name."""
    model = Script([*[[Ask("look", {"path": "a"})]] * 4, [Ask("nope", {})]])
    go, make_tools, kind = WAYS[way]
    with guarded() as recording:
        go(model, make_tools({"look": look}), kind=traced(kind, recording.tracer_provider))
        spans = [span for span in recording._spans.get_finished_spans() if is_execution(span)]
        outcomes = [span.attributes[semconv.OUTCOME] for span in spans]
        assert outcomes == ["executed", "nudged", "blocked", "blocked", "failed"]
        word = "anthropic.custom_tool_use" if makes_spans else "execute_tool"
        assert [span.name for span in spans] == [f"{word} look"] * 4 + ["execute_tool _unknown"]
        assert len({span.attributes[semconv.TOOL_CALL_ID] for span in spans}) == 5
        conversations = {span.attributes.get(semconv.CONVERSATION_ID) for span in spans}
        assert conversations == {"talk-1" if makes_spans else None}
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 5


def is_execution(span: Any) -> bool:
    return bool((span.attributes or {}).get(semconv.OPERATION_NAME) == semconv.OPERATION_EXECUTE_TOOL)


def test_tools_that_run_while_a_stream_is_read_are_of_its_turn() -> None:
    """``run_tools_eagerly`` runs them in the program's own loop; they are refused and abort there, too."""
    options = {"run_tools_eagerly": True} if makes_spans else {}
    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            stream(script(*["a"] * 9), [beta_tool(look)], Unread, **options)
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1


@pytest.mark.skipif(not makes_spans, reason="an older version has no run_tools_eagerly")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_equal_calls_of_one_message_that_run_while_it_is_read_are_no_repeats(kind: str) -> None:
    """``run_tools_eagerly`` runs them one after the other, but the model has read no result in between."""
    model = Script([[Ask("look", {"path": "a"})] * 4, [Ask("look", {"path": "b"})]])
    with guarded() as recording:
        if kind == "sync":
            stream(model, [beta_tool(look)], Unread, run_tools_eagerly=True)
        else:
            stream_async(model, [async_tool(look)], AsyncUnread, run_tools_eagerly=True)
        assert recording.outcomes == ["executed"] * 5
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_the_block_around_a_run_is_nobodys() -> None:
    """No scope is bound in the loop's body, and a run that is left early leaves no turn."""
    with guarded() as recording:
        runner = runner_of(script(*"abcdefgh").client(), [beta_tool(look)])
        for number, _ in enumerate(runner):
            assert current_scope() is None
            if number == 3:
                break
        assert len(recording.spans) == 3
        runner._iterator.close()
        assert recording.runtime.guard.live == 0
