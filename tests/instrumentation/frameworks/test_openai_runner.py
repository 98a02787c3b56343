"""OpenAI's tool runner: its own features."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("openai", reason="the tool runner is tested in an environment of its own")
pytest.importorskip("openai.lib.responses_tool_runner", reason="this version has no tool runner")

from openai.lib.responses_tool_runner import (
    AsyncResponsesToolRunner,
    RegisteredFunction,
    ResponsesToolRunner,
    ToolRunnerCancelledError,
    ToolRunnerError,
)

from otel_loopguard import semconv
from otel_loopguard.testing import Ask, guarded
from otel_loopguard.turns.scope import current_scope
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted import openai_runner
from tests.scripted.openai_runner import WAYS, AsyncUnread, Script, asked, async_tool, plain_tool

pytestmark = pytest.mark.filterwarnings("ignore")

over_each = pytest.mark.parametrize("way", WAYS)


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script(calls(paths, name), answer)


def run(way: str, model: Script, *functions: Any, read: bool = False, **options: Any) -> str:
    """Run a loop in one of the ways. ``read``: the requests of its client are read, too."""
    go, make_tool, client = WAYS[way]
    response = go(model, [make_tool(one) for one in functions], **({"kind": client} if read else {}), **options)
    return str(response.output_text)


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
    """With the guard and without it."""
    steps = [[Ask("look", {"path": "a"})], [Ask("look", {"path": "b"}), Ask("look", {"path": "c"})]]
    alone, under_guard = Script(steps), Script(steps)
    run(way, alone, look, read=True)
    with guarded(clock=lambda: 0.0) as recording:
        run(way, under_guard, look, read=True)
    assert recording.outcomes == ["executed"] * 3
    assert under_guard.server.bodies() == alone.server.bodies()


@over_each
def test_a_made_up_name_ends_the_run_as_before(way: str) -> None:
    """The runner raises its own error. The call has a span, without the made-up name and the arguments."""
    model = Script([[Ask("SECRETTOOL", {"SECRET": 1})]] * 4)
    with guarded() as recording:
        with pytest.raises(ToolRunnerError):
            run(way, model, look)
        assert len(model.seen) == 1
        assert [span.name for span in recording.spans] == ["execute_tool _unknown"]
        assert recording.outcomes == ["failed"]
        exported = [span.to_json() for span in recording.spans]
        exported += [str(point) for point in recording.points(semconv.METRIC_TOOL_CALLS)]
        assert "SECRET" not in "".join(exported)
        assert recording.runtime.guard.live == 0


@over_each
def test_a_failing_function_ends_the_run_as_before(way: str) -> None:
    """The runner raises its own error; the span has the type of the function's."""

    def fetch(path: str) -> str:
        """Fetch."""
        raise LookupError(path)

    with guarded() as recording:
        with pytest.raises(ToolRunnerError):
            run(way, script("a", name="fetch"), fetch)
        assert recording.outcomes == ["failed"]
        assert attribute(recording, semconv.ERROR_TYPE) == ["LookupError"]
        assert recording.runtime.guard.live == 0


def test_a_sentence_leaves_json_as_it_is() -> None:
    """The sentence is a part of its own, so that the first part can be parsed."""

    def read_rows(path: str) -> str:
        """Read the rows."""
        return json.dumps({"rows": [path]})

    model = script("a", "a", name="read_rows")
    with guarded() as recording:
        openai_runner.run(model, [plain_tool(read_rows)])
        assert recording.outcomes == ["executed", "nudged"]
        parts = model.server.exchanges[-1].json["input"][-1]["output"]
        assert json.loads(parts[0]["text"]) == {"rows": ["a"]}
        assert len(parts) == 2


def test_an_output_that_the_program_supplies_is_no_call_of_the_runner() -> None:
    """The function does not run, so no executor judges the call; the reader finds it in the next request."""
    tool = plain_tool(look)
    model = script("a", "b")
    with guarded(clock=lambda: 0.0) as recording:
        runner = ResponsesToolRunner(
            functions=[RegisteredFunction(tool.tool, tool.execute, allow_output_override=True)]
        )
        for turn in runner.iterate(model.client(openai_runner.openai.OpenAI), asked(), max_steps=9):
            calls = [item for item in turn.response.output if item.type == "function_call"]
            turn.supply_outputs(
                [{"type": "function_call_output", "call_id": one.call_id, "output": "yes"} for one in calls]
            )
        assert model.read == ["yes", "yes"]
        assert recording.outcomes == ["executed"] * 2
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1


def test_a_cancelled_run_leaves_no_turn() -> None:
    """A task that is cancelled while a function runs ends its call and its turn."""

    async def main() -> None:
        started = asyncio.Event()

        async def wait(path: str) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return path

        async with script("a", name="wait").client(AsyncUnread) as client:
            runner = AsyncResponsesToolRunner(functions=[async_tool(wait)])
            task = asyncio.create_task(runner.run(client, asked(), max_steps=9))
            await started.wait()
            task.cancel()
            with pytest.raises(ToolRunnerCancelledError):
                await task

    with guarded() as recording:
        asyncio.run(main())
        assert recording.outcomes == ["cancelled"]
        assert recording.runtime.guard.live == 0


def test_the_block_around_a_run_is_nobodys() -> None:
    """No scope is bound in the loop's body, and a run that is left early leaves no turn."""
    with guarded() as recording:
        runner = ResponsesToolRunner(functions=[plain_tool(look)])
        turns = runner.iterate(script(*"abcdefgh").client(), asked(), max_steps=99)
        for turn in turns:
            assert current_scope() is None
            if turn.step == 4:
                break
        assert len(recording.spans) == 3
        turns.close()
        assert recording.runtime.guard.live == 0
