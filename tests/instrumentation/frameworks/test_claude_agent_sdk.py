"""Claude Agent SDK, with the Claude Code that it brings, over a model that follows a script."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="the SDK is tested in an environment of its own")

from claude_agent_sdk import ClaudeSDKClient, HookMatcher, ResultMessage, UserMessage

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolLoopError, semconv
from otel_loopguard.hooks.judge import Judge
from otel_loopguard.instrumentation.instrumentor import LoopGuardInstrumentor
from otel_loopguard.testing import guarded
from tests.hooks.programs.agent import DELEGATED, ECHO, QUESTION, requests
from tests.instrumentation.frameworks.looking import assert_nothing_left, attribute, look
from tests.models.scripts import call
from tests.scripted.claude_agent_sdk import PREFIX, by_client, by_query, session

if TYPE_CHECKING:
    from otel_loopguard.guard.ending import EndedTurn
    from tests.models.conversation import Call
    from tests.scripted.claude_agent_sdk import Session

pytestmark = pytest.mark.filterwarnings("ignore")

each_way = pytest.mark.parametrize("go", [by_query, by_client])
ABORTS = Policy(abort_after=1)
STOPPED = ["executed", "nudged", "blocked", "aborted"]


def looks(paths: str) -> list[Call]:
    """Look at each of these, one call a message."""
    return [call(f"{PREFIX}look", path=path) for path in paths]


@each_way
def test_a_stubborn_model_is_stopped(go: Any) -> None:
    """It reads a sentence, then a refusal, then the program gets the error in place of a result."""
    with guarded(ABORTS) as recording, session(lambda _: looks("a" * 9)) as one:
        with pytest.raises(ToolLoopError) as caught:
            asyncio.run(go(one.options(look)))
        assert caught.value.tool_name == f"{PREFIX}look"
        assert recording.outcomes == STOPPED
        assert len(one.asked()) == 4
        assert one.asked()[-1].reads("[loopguard]")
        assert "tool_loop_detected" in one.read()[2]
        assert_nothing_left(recording)


@each_way
def test_a_normal_run_is_the_same(go: Any) -> None:
    """The model reads what it reads without the guard, and the program gets the same messages."""

    def work(program: Any) -> list[Any]:
        append = program.shell("echo more >> a.txt")
        return [program.read(), append, program.read(), *looks("ab"), (*looks("c"), program.read("b.txt")), append]

    with session(work) as alone:
        messages = asyncio.run(go(alone.options(look)))
    with guarded() as recording, session(work) as one:
        assert [type(message) for message in asyncio.run(go(one.options(look)))] == [type(one) for one in messages]
        assert requests(one.asked()) == [
            text.replace(str(alone.program.home), str(one.program.home)) for text in requests(alone.asked())
        ]
    assert recording.outcomes == ["executed"] * 8
    assert_nothing_left(recording)


def test_calls_of_each_kind_are_judged() -> None:
    """Those of one message, of a server outside of the process, of tools that do not exist; a sub-agent's, apart."""
    both = tuple(call(f"mcp__echo__{name}", text="one") for name in ("read_note", "read_note"))
    steps = [both, both[0], both[0], *[call("frobnicate", path="a")] * 3, *looks("aa")]
    with (
        guarded(Policy(abort_after=0)) as recording,
        session(lambda program: [*steps, *program.delegate(DELEGATED)], looks("aaa")) as one,
    ):
        options = one.options(look)
        options.mcp_servers["echo"] = {"type": "stdio", "command": ECHO[0], "args": ECHO[1:]}
        asyncio.run(by_query(options))
        refused = ["tool_loop_detected" in text for text in one.read()]
        assert refused[:4] == [False, False, False, True]
        assert "unknown_tool_repeat" in attribute(recording, semconv.MODE)
        assert ["tool_loop_detected" in text for text in one.read(DELEGATED)[:3]] == [False, False, True]


def test_a_sub_agent_that_is_aborted_has_failed() -> None:
    """The agent around it goes on, and answers."""
    with (
        guarded(ABORTS) as recording,
        session(lambda program: [*program.delegate(DELEGATED), *looks("b")], looks("a" * 9)) as one,
    ):
        assert isinstance(asyncio.run(by_query(one.options(look)))[-1], ResultMessage)
        assert recording.outcomes[-5:] == [*STOPPED, "executed"]
        assert len(one.asked(DELEGATED)) == 4
        assert_nothing_left(recording)


def test_a_client_goes_on_after_an_abort() -> None:
    """The next message is a turn of its own in the same conversation."""

    async def talk(one: Session) -> list[Any]:
        async with ClaudeSDKClient(one.options(look)) as client:
            await client.query(QUESTION)
            with pytest.raises(ToolLoopError):
                [_ async for _ in client.receive_response()]
            await client.query("And now?")
            return [message async for message in client.receive_response()]

    with guarded(ABORTS) as recording, session(lambda _: looks("a" * 5)) as one:
        assert isinstance(asyncio.run(talk(one))[-1], ResultMessage)
        assert recording.outcomes == [*STOPPED, "executed"]
        first, *_, last = attribute(recording, semconv.TURN_ID)
        assert first != last
        assert_nothing_left(recording)


def test_a_turn_of_the_program_holds_the_calls() -> None:
    """Those of two runs, and what the program does between them, are one turn; also where an agent has to go on."""
    again: list[bool] = []

    async def go_on_once(told: Any, call_id: Any, context: Any) -> Any:
        again.append(told["stop_hook_active"])
        return {} if told["stop_hook_active"] else {"decision": "block", "reason": "go on"}

    async def twice(one: Session) -> None:
        with loopguard.turn():
            for _ in range(2):
                await by_query(one.options(look, hooks={"Stop": [HookMatcher(hooks=[go_on_once])]}))

    with guarded() as recording, session(lambda _: looks("ab")) as one:
        asyncio.run(twice(one))
        assert again == [False, True] * 2
        assert len(set(attribute(recording, semconv.TURN_ID))) == 1
        assert [span.name for span in recording.spans].count(f"execute_tool {PREFIX}look") == 4
        assert_nothing_left(recording)


def test_hooks_of_the_user_are_called() -> None:
    """They get each call, may deny one, and are the only ones in the options."""
    seen = []

    async def deny_the_second(told: Any, call_id: Any, context: Any) -> Any:
        seen.append(told["tool_input"]["path"])
        denied = {"permissionDecision": "deny", "permissionDecisionReason": "not this one"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **denied}} if len(seen) == 2 else {}

    with guarded() as recording, session(lambda _: looks("abc")) as one:
        own = {"PreToolUse": [HookMatcher(hooks=[deny_the_second])]}
        options = one.options(look, hooks=own)
        asyncio.run(by_query(options))
        assert seen == ["a", "b", "c"]
        assert options.hooks == {"PreToolUse": own["PreToolUse"]}
        assert len(own["PreToolUse"]) == 1
        assert "not this one" in one.read()[1]
        assert_nothing_left(recording)


@pytest.mark.parametrize(
    ("policy", "fault"), [(Policy(action="observe"), None), (None, "answer"), (None, "end_turn"), (None, "close")]
)
def test_nothing_is_refused(policy: Policy | None, fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a policy that observes, nor after a fault of ours, which is counted."""

    def broken(*_: Any) -> None:
        raise ArithmeticError

    if fault is not None:
        monkeypatch.setattr(Judge, fault, broken)
    steps = looks("aaaa" if fault in (None, "answer") else "ab")
    with guarded(policy) as recording, session(lambda _: steps) as one:
        assert isinstance(asyncio.run(by_client(one.options(look)))[-1], ResultMessage)
        assert one.read()[-1].startswith(f"there is {steps[-1].arguments['path']}")
        assert not one.asked()[-1].reads("loopguard")
        assert (recording.counted(semconv.METRIC_INTERNAL_ERRORS) > 0) is (fault is not None)


def test_a_connection_goes_on_unguarded_when_the_guard_is_switched_off() -> None:
    """Our hooks stay in it, and do nothing."""

    def switch_off(path: str) -> str:
        LoopGuardInstrumentor().uninstrument()
        return path

    with guarded(), session(lambda _: [call(f"{PREFIX}switch_off", path="a"), *looks("aaaa")]) as one:
        asyncio.run(by_query(one.options(look, switch_off)))
        assert not one.asked()[-1].reads("loopguard")


async def _answered(one: Session) -> None:
    await by_query(one.options(look))


async def _interrupted(one: Session) -> None:
    async with ClaudeSDKClient(one.options(look)) as client:
        await client.query(QUESTION)
        async for message in client.receive_response():
            if isinstance(message, UserMessage):
                await client.interrupt()


async def _left(one: Session) -> None:
    async with ClaudeSDKClient(one.options(look)) as client:
        await client.query(QUESTION)
        async for message in client.receive_response():
            if isinstance(message, UserMessage):
                break


async def _limited(one: Session) -> None:
    with pytest.raises(Exception, match="maximum number of turns"):
        await by_query(one.options(look, max_turns=2))


@pytest.mark.parametrize(
    ("go", "ends"),
    [
        (_answered, ("answered",)),
        (_interrupted, ("cancelled", "failed")),  # old versions do not say why
        (_left, ("cancelled",)),
        (_limited, ("failed",)),
    ],
)
def test_how_a_turn_ends(go: Any, ends: tuple[str, ...]) -> None:
    """By the program's own words for it."""
    ended: list[EndedTurn] = []
    with guarded(Policy(on_end=ended.append)) as recording, session(lambda _: looks("abcd")) as one:
        asyncio.run(go(one))
        assert [turn.ended_as in ends for turn in ended] == [True]
        assert_nothing_left(recording)


def test_the_resident_judge_leaves_its_session_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the connection is open, hooks in the user's own settings are not judged once more."""
    claimed = []
    with guarded(), session(lambda _: looks("a")) as one:
        home = one.program.judge
        home.make()
        monkeypatch.setenv("XDG_STATE_HOME", str(home.folder.parents[1]))

        async def ask(told: Any, call_id: Any, context: Any) -> Any:
            claimed.append(home.is_claimed(told["session_id"]))
            return {}

        own = {"PostToolUse": [HookMatcher(hooks=[ask])]}
        asyncio.run(by_query(one.options(look, hooks=own)))
        assert claimed == [True]
        assert list((home.folder / "claimed").iterdir()) == []
