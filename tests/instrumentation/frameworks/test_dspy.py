"""DSPy: the framework's own features."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("dspy", reason="dspy is tested in an environment of its own")

import dspy
from dspy.utils.exceptions import AdapterParseError

from otel_loopguard import semconv
from otel_loopguard.testing import Ask, guarded
from tests.instrumentation.frameworks.looking import attribute, calls, look
from tests.scripted.dspy import WAYS, WAYS_V2, Script, plain_tool, run

pytestmark = pytest.mark.filterwarnings("ignore")

ALL = {**WAYS, **WAYS_V2}
over_each = pytest.mark.parametrize("way", ALL)


def script(*paths: str, name: str = "look", answer: str = "Done.") -> Script:
    return Script(calls(paths, name), answer)


def go(way: str, model: Script, *functions: Any) -> Any:
    """Run an agent in one of the ways."""
    start, make_tool = ALL[way]
    return start(model, [make_tool(one) for one in functions])


@over_each
def test_the_answer_is_no_call(way: str) -> None:
    """``finish`` and ``submit`` are neither guarded nor counted."""
    with guarded() as recording:
        assert go(way, script("a"), look).answer == "Done."
        assert [span.name for span in recording.spans] == ["execute_tool look"]
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 1


def test_a_tool_of_the_program_may_have_that_name() -> None:
    """It is a call as any other."""

    def submit(path: str) -> str:
        """Submit a file."""
        return f"{path} is submitted"

    with guarded() as recording:
        run(script("a", name="submit"), [plain_tool(submit)])
        assert [span.name for span in recording.spans] == ["execute_tool submit"]


@over_each
def test_made_up_names_and_arguments_are_not_told(way: str) -> None:
    """Spans and counters have neither a made-up name nor an argument or a result. Each call has its id, if any."""

    def fetch(path: str) -> str:
        """Fetch."""
        return f"SECRET row of {path}"

    made_up = [Ask("SECRETTOOL", {"path": "SECRET"})] if way in WAYS_V2 else []
    model = Script([[*made_up, Ask("fetch", {"path": "SECRET"})]] * 4)
    with guarded() as recording:
        go(way, model, fetch)
        names = {"execute_tool fetch", *("execute_tool _unknown" for _ in made_up)}
        assert {span.name for span in recording.spans} == names
        assert any("tool_loop_detected" in text for text in model.read)
        assert len(set(attribute(recording, semconv.TOOL_CALL_ID))) == (8 if made_up else 1)
        exported = [span.to_json() for span in recording.spans]
        for metric in (semconv.METRIC_TRIPS, semconv.METRIC_TOOL_TRIPS, semconv.METRIC_TOOL_CALLS):
            exported += [str(point) for point in recording.points(metric)]
        assert "SECRET" not in "".join(exported)


@pytest.mark.parametrize("way", WAYS)
def test_a_made_up_name_ends_a_react_as_before(way: str) -> None:
    """The adapter rejects it, so that there is no call to judge, and no turn is left."""
    with guarded() as recording:
        with pytest.raises(AdapterParseError):
            go(way, script("a", name="nope"), look)
        assert recording.spans == []
        assert recording.runtime.guard.live == 0


def test_an_agent_that_is_streamed_from_a_thread_is_guarded() -> None:
    """``streamify`` runs a plain program in a thread, in the context of its caller."""

    async def main() -> None:
        agent = dspy.streamify(dspy.ReAct("question -> answer", tools=[look]))
        with dspy.context(lm=script(*["a"] * 3).model()):
            async for _ in agent(question="Go on."):
                pass

    with guarded() as recording:
        asyncio.run(main())
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert recording.runtime.guard.live == 0


def test_an_agent_inside_of_a_module_is_one_turn_a_run() -> None:
    """The program's own module may run it twice: the second run may read what the first one has read."""

    class Program(dspy.Module):
        def forward(self) -> Any:
            return [run(script("a", "a"), [plain_tool(look)]) for _ in range(2)]

    with guarded() as recording:
        Program()()
        assert recording.outcomes == ["executed", "nudged"] * 2
        assert len(set(attribute(recording, semconv.TURN_ID))) == 2
