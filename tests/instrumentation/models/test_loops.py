"""Each way of asking a model: a hand-written loop over each installed client, and what holds for all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import otel_loopguard as loopguard
from otel_loopguard import Policy, ToolLoopError
from otel_loopguard.testing import guarded
from tests.instrumentation.models.recording import Exchange, nudge, recorded
from tests.instrumentation.processes import NOTHING_EXPORTED, clean_environment
from tests.models.loops import installed, run
from tests.models.scripts import Failing, Looping, Obedient, Slow, Working, call
from tests.models.server import Server
from tests.models.toolbox import Toolbox
from tests.two_figures import done, said, watched

LOOPS = installed()
if not LOOPS:
    pytest.skip("no client of a model is installed", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")
EACH = pytest.mark.parametrize("name", LOOPS)
FIRST = next(iter(LOOPS))
"""A loop that is there whatever clients are installed."""
OF_EACH_API = (
    "openai.chat", "openai.responses", "openai.responses_stream", "openai.responses_kept", "anthropic.messages",
    "google_genai.generate", "litellm.completion", "litellm.responses",
)  # fmt: skip

QUESTION = "task-1: who owns the files?"
ANSWER = "The owner is Ada."
READ = call("read_file", path="a.txt")
SEARCH = call("search", query="Ada")
STEPS = (READ, (call("read_file", path="b.txt"), SEARCH), call("write_file", path="c.txt", text='{"quoted": "text"}'))
CALLS = [(one.name, one.arguments) for one in (STEPS[0], *STEPS[1], STEPS[2])]
SOON = Policy(conclude_after=1, abort_after=2)
"""A policy that ends a loop after a few requests."""

WITHOUT_USAGE = {"openai.chat_stream", "openai.chat_stream_helper", "litellm.completion_stream"}
"""Loops that do not ask for the usage of a stream."""


def reads_no_reply(name: str) -> bool:
    """True where the reply cannot be watched: the helper of the first anthropic reads it through a second stream."""
    return name.startswith("anthropic.messages_stream") and version("anthropic").startswith("0.")


def drops_none(name: str) -> bool:
    """True where the client does not pass the withdrawal on: the first litellm knows no ``none`` for Anthropic."""
    return name == "litellm.completion_anthropic" and version("litellm").startswith("1.61.")


def worked(name: str) -> tuple[list[Any], list[bytes]]:
    """The tools that a working loop runs, and the bodies that it sends."""
    tools = Toolbox()
    with Server(Working(*STEPS, answer=ANSWER)).running() as server:
        assert run(LOOPS[name], server.url, QUESTION, tools) == ANSWER
    assert server.rejected == []
    assert len(server.exchanges) == len(STEPS) + 1
    return tools.runs, server.bodies()


@EACH
def test_a_working_run_is_read_and_left_as_it_is(name: str) -> None:
    """Each request and reply is read once; tools, answer and bytes are as without the guard, and nothing trips."""
    plain = worked(name)
    assert plain[0] == CALLS
    with recorded() as exchanges:
        assert worked(name) == plain
    with guarded() as recording:
        assert worked(name) == plain
    assert recording.trips == []
    assert len(exchanges) == len(STEPS) + 1
    assert_requests_read(exchanges)
    if reads_no_reply(name):
        assert [one.reply for one in exchanges] == [None] * len(exchanges)
    else:
        assert_replies_read(exchanges, usage=name not in WITHOUT_USAGE)


def assert_requests_read(exchanges: list[Exchange]) -> None:
    """The last request has all calls and results, and the entries before it keep their marks."""
    last = exchanges[-1]
    results = [result for message in last.messages for result in message.results]
    if last.previous is not None:
        assert len(results) == 1, "the provider keeps the others"
        return
    assert all(last.marks[: len(one.marks)] == one.marks for one in exchanges), "marks do not change"
    assert [(one.name, one.arguments) for message in last.messages for one in message.calls] == CALLS
    assert len(results) == len(CALLS)
    assert [message.by_user for message in last.messages].count(True) == 1
    assert exchanges[0].tools == frozenset(Toolbox().functions())


def assert_replies_read(exchanges: list[Exchange], *, usage: bool) -> None:
    """The calls of each reply are those of the script, with the ids under which their results come."""
    replies = [one.reply for one in exchanges if one.reply is not None]
    assert len(replies) == len(exchanges)
    written = [one for reply in replies for one in reply.calls]
    assert [(one.name, one.arguments) for one in written] == CALLS
    answered = [result.id for one in exchanges for message in one.messages for result in message.results]
    assert {one.id for one in written} == set(answered)
    assert {one.input_tokens is not None and one.output_tokens is not None for one in replies} == {usage}


@EACH
def test_a_changed_request_is_sent_changed(name: str) -> None:
    """The model reads the sentence and may not call tools, and the service rejects nothing."""
    if drops_none(name):
        pytest.skip("this litellm drops the withdrawal")
    with recorded(nudge), Server(Working(*STEPS, answer=ANSWER)).running() as server:
        assert run(LOOPS[name], server.url, QUESTION, Toolbox()) == ANSWER
    assert server.rejected == []
    asked = [one.asked for one in server.exchanges]
    assert [(one.reads("[loopguard] Stop."), one.choice) for one in asked if one] == [(True, "none")]


def annotate_results(sent: Any) -> Any:
    """Add a sentence to each result, and leave the rest."""
    dialect, entries = sent.dialect, []
    for entry in dialect.messages(sent.body):
        places = range(len(dialect.read(entry).results))
        entries.append(dialect.annotate(entry, dict.fromkeys(places, "[loopguard] Stop.")) if places else entry)
    return dialect.replace(sent.body, entries)


@EACH
def test_each_result_takes_a_sentence_in_a_copy(name: str) -> None:
    """The model reads it with each result; the program's own list has none."""
    with recorded(annotate_results) as exchanges, Server(Working(*STEPS, answer=ANSWER)).running() as server:
        assert run(LOOPS[name], server.url, QUESTION, Toolbox()) == ANSWER
    assert server.rejected == []
    last = server.exchanges[-1].asked
    assert last is not None
    assert ["[loopguard] Stop." in result.text for result in last.results] == [True] * len(CALLS)
    assert all("[loopguard]" not in str(one.sent.body) for one in exchanges)


@EACH
@pytest.mark.parametrize("stubborn", [False, True], ids=["obeys", "stubborn"])
def test_a_loop_is_ended(name: str, *, stubborn: bool) -> None:
    """The model is told, then asked for an answer without tools; if it calls on, the run ends with ToolLoopError."""
    withdrawn = not drops_none(name)
    with Server(Looping(READ, answer=ANSWER, stubborn=stubborn)).running() as server, guarded(SOON) as recording:
        if withdrawn and not stubborn:
            assert run(LOOPS[name], server.url, QUESTION, Toolbox()) == ANSWER
        else:
            with pytest.raises(ToolLoopError):
                run(LOOPS[name], server.url, QUESTION, Toolbox())
    assert recording.runtime is not None
    assert recording.runtime.shield.seen == set()
    assert server.rejected == []
    asked = [one.asked for one in server.exchanges if one.asked]
    assert [one.choice for one in asked] == [*["auto"] * 3, "none" if withdrawn else "auto"]
    assert [one.reads("[loopguard]") for one in asked] == [False, False, True, True]


class GuardedToolbox(Toolbox):
    """The same tools as guarded functions."""

    def __init__(self) -> None:
        super().__init__()
        self._guarded = {name: loopguard.tool(one) for name, one in super().functions().items()}

    def functions(self) -> dict[str, Any]:
        """The tools by name."""
        return self._guarded


def trips_of_a_loop(name: str, tools: Toolbox, seconds: float) -> list[Any]:
    """The trips of an agent that reads one file again and again, at a model that thinks so long."""
    model = Slow(Looping(READ, answer=ANSWER), seconds=seconds)
    with (
        Server(model).running() as server,
        guarded(SOON, clock=model.clock) as recording,
        suppress(ToolLoopError),
        loopguard.turn(),
    ):
        run(LOOPS[name], server.url, QUESTION, tools)
    assert recording.runtime is not None
    assert recording.runtime.shield.seen == set()
    return [(trip.mode, trip.count, trip.verdict, trip.action) for trip in recording.trips]


@EACH
def test_a_loop_over_a_slow_model_is_told_and_ended_as_over_a_quick_one(name: str) -> None:
    """Forty seconds of thought before each read are no wait: the third is a loop."""
    slow, quick = (trips_of_a_loop(name, Toolbox(), seconds) for seconds in (40.0, 0.0))
    assert slow == quick
    assert [trip[1] for trip in slow][:2] == [2, 3]
    assert slow[1][2] == "conclude"


@pytest.mark.parametrize("name", [name for name in LOOPS if not reads_no_reply(name)])
def test_a_guarded_function_is_refused_over_a_slow_model_as_over_a_quick_one(name: str) -> None:
    """The file is read twice, however long the model thinks."""
    slow, quick = GuardedToolbox(), GuardedToolbox()
    assert trips_of_a_loop(name, slow, 40.0) == trips_of_a_loop(name, quick, 0.0)
    assert len(slow.runs) == len(quick.runs) == 2


@pytest.mark.parametrize("name", [name for name in OF_EACH_API if name in LOOPS])
def test_calls_of_one_message_are_judged_alike_on_every_api(name: str) -> None:
    """Two messages with two calls each, in turn, are a loop, also where each call is an item of its own."""
    script = Looping((READ, SEARCH), (call("read_file", path="b.txt"), SEARCH), answer=ANSWER)
    with guarded(clock=lambda: 0.0) as recording, Server(script).running() as server:
        assert run(LOOPS[name], server.url, QUESTION, Toolbox()) == ANSWER
    assert server.rejected == []
    assert len(server.exchanges) == 11
    assert recording.outcomes == [*["executed"] * 5, *["nudged"] * 15]


def looped(name: str, script: Any) -> tuple[int, bool]:
    """Run a loop. Return how often its tools ran, and whether ``ToolLoopError`` ended it."""
    tools, is_ended = Toolbox(), True
    with Server(script).running() as server, suppress(ToolLoopError):
        run(LOOPS[name], server.url, QUESTION, tools)
        is_ended = False
    return len(tools.runs), is_ended


@pytest.mark.parametrize("name", [name for name in (*OF_EACH_API, "openai.chat_stream") if name in LOOPS])
@pytest.mark.parametrize("step", [READ, (READ, SEARCH)], ids=["one", "two"])
@pytest.mark.parametrize("stubborn", [False, True], ids=["answers", "stubborn"])
def test_a_guarded_program_does_what_a_watch_has_said(name: str, step: Any, *, stubborn: bool) -> None:
    """As many calls run, and it ends where the watch has said, whether the model answers without tools or calls on."""
    turn = watched(lambda: looped(name, Looping(step, rounds=12)))
    with guarded() as recording:
        ran, ended = looped(name, Looping(step, rounds=12, stubborn=stubborn))
        did = done(recording, ran, ended=ended)
    assert did == said(turn, calls_on=stubborn)
    assert turn.is_concluded
    assert (did.end is not None) == stubborn


@pytest.mark.parametrize("name", [name for name in OF_EACH_API if name in LOOPS])
def test_a_model_that_heeds_the_guard_makes_fewer_calls_than_a_watch_has_said(name: str) -> None:
    """The figures cannot agree: the observed model was told nothing, so it went on, and that is what is recorded."""

    def script() -> Any:
        return Obedient(Looping(READ, rounds=12))

    turn = watched(lambda: looped(name, script()))
    with guarded() as recording:
        ran, ended = looped(name, script())
        did = done(recording, ran, ended=ended)
    assert did == (2, 0, None)
    assert said(turn, calls_on=False).ran > did.ran


def test_requests_that_are_tried_again_are_no_loop() -> None:
    """The client asks an overloaded service again by itself: the calls count once."""
    with Server(Failing(Working(READ))).running() as server, guarded() as recording:
        assert run(LOOPS[FIRST], server.url, QUESTION, Toolbox()) == "Done."
    assert len(server.rejected) == 2
    assert (recording.trips, recording.outcomes) == ([], ["executed"])


def test_an_unchanged_program_is_guarded_from_its_start() -> None:
    """Under ``opentelemetry-instrument`` the loop of a plain program ends with the model's answer."""
    launcher = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    with Server(Looping(READ, answer=ANSWER)).running() as server:
        program = subprocess.run(
            [launcher, sys.executable, "-m", "tests.models.loops", FIRST, server.url, QUESTION],
            env=clean_environment({"PYTHONPATH": os.getcwd(), **NOTHING_EXPORTED}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ANSWER in program.stdout, program.stderr
    assert [one.asked.choice for one in server.exchanges if one.asked] == [*["auto"] * 9, "none"]
