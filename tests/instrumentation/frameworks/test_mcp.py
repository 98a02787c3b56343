"""The MCP client, over each transport, with real servers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from opentelemetry import trace

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolContract, ToolLoopError, semconv
from otel_loopguard.policy_files.load import load_preset
from otel_loopguard.testing import SCENARIOS, Ask, Recording, Scenario, assert_no_trip, assert_trips, guarded
from tests.scripted.mcp import (
    DRIVERS,
    Client,
    Image,
    agent,
    failed,
    over_http,
    over_memory,
    over_stdio,
    server_of,
    structured,
    text_of,
    tool_annotations,
)

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("driver", DRIVERS)
def test_scenario(driver: str, scenario: Scenario) -> None:
    """A hand-written loop over a session passes the shared scenarios with each transport."""
    scenario.run(DRIVERS[driver])


async def results(server: Any, tool: str, times: int, **arguments: Any) -> list[Any]:
    """A stuck agent's results."""
    async with over_memory(server) as session:
        await session.list_tools()
        with loopguard.turn():
            return [await session.call_tool(tool, arguments) for _ in range(times)]


def kinds(recording: Recording) -> set[Any]:
    return {(span.attributes or {})[semconv.TOOL_KIND] for span in recording.spans}


async def test_a_server_that_is_a_program() -> None:
    """Over stdio the refused call never reaches the server."""
    with guarded() as recording:
        async with over_stdio() as session:
            read = await agent(session, [[Ask("count", {})]] * 5 + [[Ask("often", {})]])
        assert read.refused == [2, 3, 4]
        assert read.read[-1] == "count ran 2 times"
        assert recording.outcomes == ["executed", "nudged", "blocked", "blocked", "blocked", "executed"]


async def test_the_tools_of_a_server_are_extensions() -> None:
    """On the span and in the metric, as other instrumentations say it. A function of the program is none."""

    def ping() -> str:
        return "pong"

    with guarded() as recording:
        await results(server_of({"ping": ping}), "ping", 1)
        loopguard.call("look", {}, str)
        of_type = {"ping": semconv.TYPE_EXTENSION, "look": semconv.TYPE_FUNCTION}
        seen = [span.attributes or {} for span in recording.spans]
        seen += [point.attributes for point in recording.points(semconv.METRIC_EXECUTE_TOOL_DURATION)]
        assert len(seen) == 4
        assert all(one[semconv.TOOL_TYPE] == of_type[one[semconv.TOOL_NAME]] for one in seen)


async def test_arguments_by_position_and_by_keyword_are_the_same_call() -> None:
    """A client may write the same call in several ways."""

    def look(path: str) -> str:
        return "text"

    with guarded() as recording:
        async with over_memory(server_of({"look": look})) as session:
            with loopguard.turn():
                await session.call_tool("look", {"path": "a"})
                await session.call_tool("look", arguments={"path": "a"})
                assert failed(await session.call_tool(name="look", arguments={"path": "a"}))
        assert recording.outcomes == ["executed", "nudged", "blocked"]


async def test_without_a_turn_calls_are_only_watched() -> None:
    """A session is a connection: a program that calls in a loop is never refused."""

    def ping() -> str:
        return "pong"

    with guarded() as recording:
        async with over_memory(server_of({"ping": ping})) as session:
            assert {text_of(await session.call_tool("ping")) for _ in range(6)} == {"pong"}
        assert set(recording.outcomes) == {"executed"}
        assert_trips(recording, "generic_repeat", action="observe")


async def test_what_a_server_says_of_its_tools_is_heard() -> None:
    """A tool with the read-only hint is a reading tool, whatever its name; a tool without hints is not."""

    def frobnicate(x: int) -> str:
        return "ok"

    def quux(x: int) -> str:
        return "ok"

    def grep(x: int) -> str:
        return "ok"

    server = server_of(
        {"frobnicate": frobnicate, "quux": quux, "grep": grep},
        frobnicate=tool_annotations(readOnlyHint=True),
        quux=tool_annotations(title="Quux"),
        grep=tool_annotations(destructiveHint=True),
    )
    with guarded() as recording:
        async with over_memory(server) as session:
            await session.list_tools()
            for name in ("frobnicate", "quux", "grep"):
                await session.call_tool(name, {"x": 1})
        seen = {(span.attributes or {})[semconv.TOOL_NAME]: span.attributes for span in recording.spans}
        assert {name: (attributes or {})[semconv.TOOL_KIND] for name, attributes in seen.items()} == {
            "frobnicate": "read",
            "quux": "unknown",
            "grep": "write",
        }


async def test_an_effect_that_must_not_be_repeated() -> None:
    """A tool with the hints destructive and not idempotent is nudged at its second call, even if results differ."""
    orders = []

    def place_order(item: str) -> str:
        orders.append(item)
        return f"order number {len(orders) * 7919} placed"

    hints = tool_annotations(destructiveHint=True, idempotentHint=False)
    with guarded() as recording:
        await results(server_of({"place_order": place_order}, place_order=hints), "place_order", 6, item="a")
        assert_trips(recording, "repeated_effect", action="nudge")
        assert_trips(recording, "repeated_effect", action="block")
        assert len(orders) < 6


async def test_tools_that_were_not_listed_are_not_unknown() -> None:
    """A tool is unknown only if the server's listing is complete."""
    with guarded() as recording:
        async with over_memory(server_of({})) as session:
            with loopguard.turn():
                await session.call_tool("nope", {})
        assert semconv.TOOL_REGISTERED not in (recording.spans[0].attributes or {})
        assert recording.outcomes == ["failed"]


async def test_errors_inside_the_text() -> None:
    """A server that reports its errors as successes does not make them news."""

    def look(path: str) -> str:
        return f"Error: no such file: {path}"

    def fetch(path: str) -> str:
        return '{"isError": true, "content": "gone"}'

    with guarded() as recording:
        server = server_of({"look": look, "fetch": fetch})
        await results(server, "look", 2, path="a")
        await results(server, "fetch", 2, path="a")
        assert recording.outcomes == ["failed"] * 4


async def test_an_exception_of_a_tool_is_an_error() -> None:
    """An exception of a tool is a result with the error flag; its text is not exported."""

    def look(path: str) -> str:
        raise ValueError(f"secret {path}")

    with guarded() as recording:
        assert all(failed(result) for result in await results(server_of({"look": look}), "look", 3, path="hidden"))
        assert recording.outcomes[0] == "failed"
        assert not any("secret" in span.to_json() or "hidden" in span.to_json() for span in recording.spans)


async def test_a_program_that_reads_the_first_block_reads_the_sentence() -> None:
    """The sentence is at the end of the text; the server's structured copy of the text stays as it is."""

    def look(path: str) -> str:
        return "nothing new here"

    with guarded():
        first, second, _ = await results(server_of({"look": look}), "look", 3, path="a")
        assert len(second.content) == 1
        assert second.content[0].text.startswith("nothing new here\n\n[loopguard] ")
        assert first.content[0].text == "nothing new here"
        assert structured(second) == structured(first)


async def test_a_structured_result_stays_as_it_is() -> None:
    """The sentence for the model is one more block of text; the structured content is the server's own."""

    def look(path: str) -> dict[str, int]:
        return {"rows": 2}

    with guarded():
        first, second, third = await results(server_of({"look": look}), "look", 3, path="a")
        assert second.content[:-1] == first.content
        assert second.content[-1].type == "text"
        assert structured(second) == structured(first)
        assert failed(third)
        assert structured(third) is None


async def test_new_structured_content_is_news() -> None:
    """Results whose text is the same and whose structured content moves are no loop."""
    count = []

    def look(path: str) -> list[str]:
        count.append(path)
        return ["same", "abcdefgh"[len(count)]]

    with guarded() as recording:
        assert not any(failed(result) for result in await results(server_of({"look": look}), "look", 6, path="a"))
        assert_no_trip(recording)


async def test_an_image_is_compared_and_left_alone() -> None:
    """An equal image is no news; the nudge is a separate block of text."""

    def screenshot() -> Any:
        return Image(data=b"\x89PNG same", format="png")

    with guarded() as recording:
        first, second, third = await results(server_of({"screenshot": screenshot}), "screenshot", 3)
        assert [block.type for block in second.content] == ["image", "text"]
        assert second.content[0] == first.content[0]
        assert recording.outcomes == ["executed", "nudged", "blocked"]
        assert failed(third)


@pytest.mark.parametrize("value", ["plain text", {"rows": 2}], ids=["text", "structured"])
async def test_an_earlier_result_again(value: Any) -> None:
    """With reuse in the contract, the client gets the earlier result, in the same form and with a note."""
    ran = []

    def text(path: str) -> str:
        ran.append(path)
        return str(value)

    def rows(path: str) -> dict[str, int]:
        ran.append(path)
        return dict(value)

    look = text if isinstance(value, str) else rows
    look.__name__ = "look"
    policy = Policy(tools={"look": ToolContract(kind="read", reuse=True)})
    with guarded(policy) as recording:
        first, _, third = await results(server_of({"look": look}), "look", 3, path="a")
        assert recording.outcomes[2] == "reused"
        assert len(ran) == 2
        assert not failed(third)
        assert structured(third) == structured(first)
        assert text_of(third).split() != text_of(first).split()
        assert value if isinstance(value, str) else '"rows"' in text_of(third)


async def test_an_abort_is_seen_outside_of_the_session() -> None:
    """``except ToolLoopError`` around the turn catches it, although the session's tasks wrap it in a group."""

    def look(path: str) -> str:
        return "text"

    async def run() -> None:
        with loopguard.turn():
            async with over_memory(server_of({"look": look})) as session:
                for _ in range(9):
                    await session.call_tool("look", {"path": "a"})

    with guarded(Policy(abort_after=1)) as recording:
        with pytest.raises(ToolLoopError):
            await run()
        assert recording.outcomes == ["executed", "nudged", "blocked", "aborted"]


async def test_a_call_from_within_a_tool_is_a_layer_of_it() -> None:
    """A guarded function that calls a server is one call, not two."""

    def look(path: str) -> str:
        return "text"

    with guarded() as recording:
        async with over_memory(server_of({"look": look})) as session:

            @loopguard.tool
            async def peek(path: str) -> str:
                return text_of(await session.call_tool("look", {"path": path}))

            with loopguard.turn():
                await peek("a")
        assert [(span.attributes or {})[semconv.TOOL_NAME] for span in recording.spans] == ["peek"]
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 1


async def test_a_cancelled_call_leaves_nothing() -> None:
    """A cancelled call ends its span, and the turn continues."""
    running = asyncio.Event()

    async def wait_long(path: str) -> str:
        running.set()
        await asyncio.sleep(30)
        return path

    with guarded() as recording:
        async with over_memory(server_of({"wait_long": wait_long})) as session:
            with loopguard.turn():
                call = asyncio.ensure_future(session.call_tool("wait_long", {"path": "a"}))
                await running.wait()
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
        assert recording.outcomes == ["cancelled"]


@pytest.mark.skipif(Client is None, reason="version 2")
async def test_a_call_whose_server_asks_back_is_one_call() -> None:
    """A call for which the server requests input is one span, with the final result."""
    from mcp.server.mcpserver import Context
    from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

    form = ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})

    async def read_secret(path: str, ctx: Any) -> Any:
        if ctx.input_responses is None:
            return InputRequiredResult(input_requests={"sure": ElicitRequest(params=form)})
        return f"text of {path}"

    read_secret.__annotations__ = {"path": str, "ctx": Context, "return": str | InputRequiredResult}

    async def answer(context: Any, params: Any) -> Any:
        return ElicitResult(action="accept", content={})

    with guarded() as recording:
        async with Client(server_of({"read_secret": read_secret}), elicitation_callback=answer) as client:
            with loopguard.turn():
                read = [text_of(await client.call_tool("read_secret", {"path": "a"})) for _ in range(3)]
        assert read[0] == "text of a"
        assert recording.outcomes == ["executed", "nudged", "blocked"]


@pytest.mark.skipif(Client is None, reason="version 2 makes spans of its own")
async def test_spans_of_the_sdk_are_not_counted() -> None:
    """The SDK's client and server spans belong to one call, which has one loopguard span and is counted once."""

    def look(path: str) -> str:
        return "text"

    with guarded() as recording:
        tracer = recording.tracer_provider.get_tracer("app")
        before = trace._TRACER_PROVIDER
        trace._TRACER_PROVIDER = recording.tracer_provider
        try:
            with tracer.start_as_current_span("request"):
                async with over_http(server_of({"look": look})) as session:
                    await agent(session, [[Ask("look", {"path": "a"})]] * 5)
        finally:
            trace._TRACER_PROVIDER = before
        assert recording.counted(semconv.METRIC_TOOL_CALLS) == 5
        assert len(recording.spans) == 5
        others = {span.name for span in recording._spans.get_finished_spans()}
        assert {"MCP send tools/call look", "tools/call look"} <= others, "the SDK made no spans: this shows nothing"


@pytest.mark.parametrize(("option", "consulted"), [(None, 2), ("--working", 3), ("--stubborn", 2)])
def test_the_example_started_as_users_start_it(option: str | None, consulted: int) -> None:
    """``opentelemetry-instrument`` guards a client over stdio, although its server is not guarded."""
    root = Path(__file__).resolve().parents[3]
    tool = Path(sys.executable).parent / "opentelemetry-instrument"
    nowhere = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
    command = [str(tool), sys.executable, str(root / "examples" / "mcp_agent.py"), *filter(None, [option])]
    done = subprocess.run(
        command, env={**os.environ, **nowhere}, capture_output=True, text=True, timeout=120, check=False
    )
    assert f"Pages were consulted {consulted} times." in done.stdout, done.stderr
    assert ("tool_loop_detected" in done.stdout) is (option != "--working")
    assert ("no answer: The agent called consult" in done.stdout) is (option == "--stubborn")


async def test_a_refusal_is_marked_in_the_meta_of_its_result() -> None:
    """The preset's mark is in ``_meta``, for programs that read results; the structured content has none."""

    def look(path: str) -> str:
        return "text"

    with guarded(load_preset("repeat_hint").policy) as recording:
        answers = await results(server_of({"look": look}), "look", 4, path="a")
        assert [(answer.meta or {}).get("loopguard.mark") for answer in answers] == [None, None, None, "loop-detected"]
        assert answers[3].model_dump(by_alias=True)["_meta"] == {"loopguard.mark": "loop-detected"}
        assert text_of(answers[3]).startswith("[loop-detected]")
        assert structured(answers[3]) is None
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


async def test_without_another_turn_the_session_is_one() -> None:
    """Calls that are made in tasks of their own are one loop; two sessions are two turns. They are only observed."""

    def look(path: str) -> str:
        return f"there is {path}"

    with guarded() as recording:
        for _ in range(2):
            async with over_memory(server_of({"look": look})) as session:
                for _ in range(3):
                    await asyncio.create_task(session.call_tool("look", {"path": "a"}))
        assert_trips(recording, "generic_repeat", action="observe", times=4)
        attributes = [span.attributes or {} for span in recording.spans]
        assert {one[semconv.TURN_SOURCE] for one in attributes} == {"session"}
        assert len({one[semconv.TURN_ID] for one in attributes}) == 2
        assert recording.outcomes == ["executed"] * 6
