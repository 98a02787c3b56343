"""Programs over a client whose model loops in words: told in the next request, then ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.testing import guarded
from tests.models.conversation import Reply
from tests.models.scripts import call, written
from tests.models.server import Server
from tests.models.test_ledger import TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.models.conversation import Asked

openai = pytest.importorskip("openai")

ANSWER = "I have done all that was asked, and nothing is left to do."
HOOK = "Stop hook, round {}: the tests do not pass. Go on."
TOLD = "You have given this answer 3 times, and nothing new came in between."


def stuck(asked: Asked) -> Reply:
    """A model that always gives the same answer."""
    del asked
    return Reply(ANSWER)


def harness(
    server: Server, hook: Callable[[int], str] = HOOK.format, rounds: int = 12, tools: list[Any] = TOOLS
) -> int:
    """Send the hook's text after each answer. Return the number of answers."""
    messages: list[Any] = [{"role": "user", "content": "task-1: make the tests pass"}]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
        for number in range(1, rounds + 1):
            options: Any = {"model": "gpt-4.1", "messages": messages, **({"tools": tools} if tools else {})}
            reply = client.chat.completions.create(**options).choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            messages.append({"role": "user", "content": hook(number)})
    return rounds


@pytest.mark.parametrize("tools", [TOOLS, []], ids=["tools", "no tools"])
def test_a_stop_hook_and_a_model_that_answer_each_other_are_ended(tools: list[Any]) -> None:
    """The hook's first text is new, so the second answer is the first of the loop. The 3rd is told, the 5th ends it."""
    with guarded() as recording, Server(stuck).running() as server:
        with pytest.raises(ToolLoopError, match="The same answer was given 5 times, and nothing new") as raised:
            harness(server, tools=tools)
        asked = [one.asked for one in server.exchanges if one.asked is not None]
    assert (raised.value.mode, raised.value.repeats, raised.value.limit) == ("text_repeat", 5, 5)
    assert [one.reads(TOLD) for one in asked] == [False] * 4 + [True] * 2
    assert recording.counted(semconv.METRIC_TRIPS, loopguard__mode="text_repeat") == 2
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def test_a_chat_without_tools_has_no_turn_before_it_loops() -> None:
    """It has no span, its requests are equal in every byte, and an agent's message list is never taken for its own."""

    def answers(asked: Asked) -> Reply:
        return Reply(f"{ANSWER} That was part {'x' * asked.number}.")

    bodies = []
    for policy in (Policy(action="off"), Policy()):
        with guarded(policy) as recording, Server(answers).running() as server:
            harness(server, hook=lambda number: f"and part {'y' * number}?", tools=[])
            assert len(recording.runtime.reader.lists) == 0
        bodies.append(server.bodies())
    assert bodies[0] == bodies[1]
    assert (list(recording.trips), list(recording.spans)) == ([], [])


def test_an_agent_in_plain_text_may_poll() -> None:
    """Its calls are in no message, but a guarded tool runs them: the call detectors judge what it repeats."""

    @loopguard.tool(kind="poll")
    def job_state() -> str:
        return "pending"

    with guarded() as recording, Server(stuck).running() as server, loopguard.turn():
        harness(server, hook=lambda _: f"Observation: {job_state()}", rounds=9, tools=[])
    assert [(trip.mode, str(trip.action)) for trip in recording.trips] == [("text_repeat", "observe")] * 2


def test_a_harness_that_goes_on_is_ended_at_each_request() -> None:
    """No model is asked again until something new is said."""
    with guarded(), Server(stuck).running() as server:
        messages: list[Any] = [{"role": "user", "content": "task-1: go on"}]
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:

            def ask(text: str) -> None:
                messages.append({"role": "user", "content": text})
                reply = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS)
                messages.append({"role": "assistant", "content": reply.choices[0].message.content})

            for _ in range(5):
                ask("Go on.")
            for _ in range(3):
                with pytest.raises(ToolLoopError):
                    ask("Go on.")
            ask("Why do you not go on?")
    assert len(server.exchanges) == 6


def test_the_policy_says_what_is_done(caplog: pytest.LogCaptureFixture) -> None:
    """A mode that observes changes no byte, and is reported at its limits alone. The log has what would be done."""
    bodies = []
    for modes in ({"text_repeat": {"action": "off"}}, {"text_repeat": {"action": "observe"}}):
        with guarded(Policy(modes=modes)) as recording, Server(stuck).running() as server:
            assert harness(server) == 12
        bodies.append(server.bodies())
        found = [(trip.count, str(trip.verdict), str(trip.action)) for trip in recording.trips]
    assert bodies[0] == bodies[1]
    assert "Would have ended the run: the same answer again, for the 5th time" in caplog.text
    assert found == [(3, "nudge", "observe"), (5, "abort", "observe"), (10, "abort", "observe")]


def test_a_hook_that_is_answered_in_other_words_is_observed() -> None:
    """Work may go on without calls. With limits for it, the policy has the run ended."""

    def talks(asked: Asked) -> Reply:
        return Reply(f"{ANSWER} I tried it {asked.number} times in another way.")

    with guarded() as recording, Server(talks).running() as server:
        harness(server)
    assert [(trip.count, str(trip.action)) for trip in recording.trips] == [
        (3, "observe"), (6, "observe"),
    ]  # fmt: skip
    limits = {"text_repeat": {"hook_nudge": 5, "hook_block": 8}}
    with guarded(Policy(modes=limits)), Server(talks).running() as server, pytest.raises(ToolLoopError):
        harness(server)
    assert len(server.exchanges) == 8


def test_a_run_that_works_sends_the_same_bytes() -> None:
    """Words beside calls, answers to new questions and a question that comes twice are no loop."""

    def works(asked: Asked) -> Reply:
        if asked.number % 2:
            return Reply("Let me look at the next file of the list, now.", written(call("read_file", path="x")).calls)
        return Reply(ANSWER)

    def program(server: Server) -> None:
        messages: list[Any] = [{"role": "user", "content": "task-1: read all files"}]
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
            for number in range(16):
                reply = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS)
                message = reply.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                messages += [
                    {"role": "tool", "tool_call_id": one.id, "content": f"the text of {number}"}
                    for one in message.tool_calls or ()
                ]
                if not message.tool_calls:
                    messages.append({"role": "user", "content": "And the next file?"})

    bodies = []
    for policy in (Policy(action="off"), Policy()):
        with guarded(policy) as recording, Server(works).running() as server:
            program(server)
        bodies.append(server.bodies())
    assert bodies[0] == bodies[1]
    assert [trip for trip in recording.trips if trip.mode == "text_repeat"] == []


def test_an_answer_that_repeats_itself_is_observed_in_the_next_request() -> None:
    """Nothing is changed: the model may go on."""

    def chants(asked: Asked) -> Reply:
        return Reply("The line. " * 90 if asked.number == 2 else f"This is the answer with the number {asked.number}.")

    with guarded() as recording, Server(chants).running() as server:
        harness(server, hook=lambda number: f"and now part {'x' * number}, please", rounds=4)
    assert [(trip.mode, trip.count, str(trip.action)) for trip in recording.trips] == [("text_run", 90, "observe")]
    assert not any(b"loopguard" in body for body in server.bodies())


@pytest.mark.parametrize("works", [True, False])
def test_a_history_that_is_replaced_for_nothing_ends_in_an_answer(*, works: bool) -> None:
    """The program summarises after each round of reading; one that reads something new each time goes on."""

    def reads(asked: Asked) -> Reply:
        path = f"{asked.number if works else asked.number % 2}.txt"
        return written(call("read_file", path=path) if asked.may_call else "I have read the two files.")

    with guarded() as recording, Server(reads).running() as server, loopguard.turn() as turn:
        answer = summarises(server)
    actions = [(trip.mode, trip.count, str(trip.action)) for trip in recording.trips if trip.mode == "context_loop"]
    if works:
        assert (answer, actions, turn.ledger.compactions) == (None, [], 11)
    else:
        assert answer == "I have read the two files."
        assert [one[1:] for one in actions] == [(3, "nudge"), (5, "conclude")]
        assert (turn.ended_as, turn.ledger.compactions) == ("concluded", 5)
        asked = [one.asked for one in server.exchanges if one.asked is not None]
        assert sum(one.reads("Write down what you need from what you read") for one in asked) >= 1
        assert asked[-1].reads("was replaced 5 times, and nothing new was done in between. No tool can be called")
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


def summarises(server: Server) -> str | None:
    """Read files, and replace the history after each two of them. Return the answer; None if there is none."""
    system, task = {"role": "system", "content": "You read."}, {"role": "user", "content": "task-1: read the files"}
    messages: list[Any] = [system, task]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
        for number in range(24):
            reply = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS).choices[0].message
            if not reply.tool_calls:
                return reply.content
            (one,) = reply.tool_calls
            messages.append(reply.model_dump(exclude_none=True))
            messages.append({"role": "tool", "tool_call_id": one.id, "content": one.function.arguments * 9})
            if number % 2:
                messages = [system, {"role": "user", "content": f"task-1: summary {'x' * number}"}]
    return None


def chants(asked: Asked) -> Reply:
    """A model that gets stuck in its words when it is asked for the second time."""
    return Reply("The line goes on. " * 2_000 if asked.number == 2 else "I will look at it, and then tell all of it.")


def streams(server: Server, rounds: int = 2, tools: list[Any] = TOOLS) -> list[int]:
    """Ask for streamed answers. Return the number of chunks of each."""
    messages: list[Any] = [{"role": "user", "content": "task-1: tell me all"}]
    read = []
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
        for number in range(rounds):
            read.append(0)
            options: Any = {"model": "gpt-4.1", "messages": messages, **({"tools": tools} if tools else {})}
            said = ""
            for chunk in client.chat.completions.create(stream=True, **options):
                read[-1] += 1
                said += chunk.choices[0].delta.content or "" if chunk.choices else ""
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": f"Part {'x' * number}?"}]
    return read


def test_an_answer_that_repeats_itself_is_observed_while_it_is_written() -> None:
    """Once, and not again in the next request. The program gets all of it."""
    with guarded() as recording, Server(chants).running() as server:
        assert streams(server, rounds=3)[1] > 3_000
    assert [(trip.mode, str(trip.action)) for trip in recording.trips] == [("text_run", "observe")]
    assert recording.trips[0].count < 60
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@pytest.mark.parametrize("tools", [TOOLS, []], ids=["tools", "no tools"])
def test_a_stream_is_cut_if_the_policy_says_so(tools: list[Any]) -> None:
    """The run is ended after about 2,000 of 36,000 characters, and the connection is closed."""
    policy = Policy(modes={"text_run": {"action": "abort"}})
    with guarded(policy) as recording, Server(chants).running() as server:
        with pytest.raises(ToolLoopError, match=r"ended in .* equal blocks") as raised:
            streams(server, tools=tools)
        ended = loopguard.last_turn()
    assert raised.value.mode == "text_run"
    assert ended is not None
    assert ended.ended_as == "aborted"
    assert [(trip.mode, str(trip.action)) for trip in recording.trips] == [
        ("text_run", "observe"),
        ("text_run", "abort"),
    ]
    assert recording.trips[-1].count * 18 < 2_600
    assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_that_is_cut_is_closed(*, is_async: bool) -> None:
    """Nothing reads on, and the client can ask again."""
    policy = Policy(modes={"text_run": {"action": "abort"}})
    messages: list[Any] = [{"role": "user", "content": "task-1: tell me all"}]
    options: Any = {"model": "gpt-4.1", "messages": messages, "tools": TOOLS, "stream": True}
    stuck_at_once = Server(lambda _: Reply("The line goes on. " * 2_000))

    async def reads(server: Server) -> Any:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
            stream = await client.chat.completions.create(**options)
            with pytest.raises(ToolLoopError):
                async for _ in stream:
                    pass
            return stream.response.is_closed

    with guarded(policy), stuck_at_once.running() as server:
        if is_async:
            assert asyncio.run(reads(server))
        else:
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0) as client:
                stream = client.chat.completions.create(**options)
                with pytest.raises(ToolLoopError):
                    list(stream)
                assert stream.response.is_closed


def test_a_whole_answer_that_repeats_itself_is_observed_when_it_comes() -> None:
    """The last one of a run has no request after it."""
    with guarded() as recording, Server(chants).running() as server:
        harness(server, hook=lambda number: f"and now part {'x' * number}, please", rounds=2)
    assert [(trip.mode, str(trip.action)) for trip in recording.trips] == [("text_run", "observe")]
