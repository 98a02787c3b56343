"""The facts that hold for each way of asking a model: the hand-written loops of ``tests.models.loops``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import ToolLoopError
from otel_loopguard.testing import guarded
from tests.instrumentation.models.recording import recorded
from tests.models.loops import run
from tests.models.scripts import Looping, Working, call
from tests.models.server import Server
from tests.models.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.instrumentation.models.recording import Exchange

QUESTION = "task-1: who owns the files?"
ANSWER = "The owner is Ada."
STEPS = (
    call("read_file", path="a.txt"),
    (call("read_file", path="b.txt"), call("search", query="Ada")),
    call("write_file", path="c.txt", text='{"quoted": "text"}'),
)
CALLS = ["read_file", "read_file", "search", "write_file"]


def sent_by(loop: Callable[..., object]) -> list[bytes]:
    """Run a loop, and return the bodies that it sends."""
    with Server(Working(*STEPS, answer=ANSWER)).running() as server:
        assert run(loop, server.url, QUESTION, Toolbox()) == ANSWER
    return server.bodies()


def assert_read_and_untouched(loop: Callable[..., object]) -> list[Exchange]:
    """Each request is read once and leaves as it is without the guard; each call has its result in a later request."""
    plain = sent_by(loop)
    with recorded() as exchanges:
        assert sent_by(loop) == plain
    assert len(exchanges) == len(STEPS) + 1
    seen: dict[Any, Any] = {}
    for exchange in exchanges:
        seen.update({result.id: result for message in exchange.messages for result in message.results})
    results = [result for message in exchanges[-1].messages for result in message.results]
    if exchanges[-1].previous is None:
        marks = exchanges[-1].marks
        assert all(marks[: len(one.marks)] == one.marks for one in exchanges), "marks do not change"
        assert [call.name for message in exchanges[-1].messages for call in message.calls] == CALLS
        assert len(results) == len(CALLS)
        assert [message.by_user for message in exchanges[-1].messages].count(True) == 1
        assert exchanges[0].tools == frozenset(Toolbox().functions())
    else:
        assert len(results) == 1, "the provider keeps the others"
    return exchanges


def assert_replies_read(exchanges: list[Exchange], *, usage: bool = True) -> None:
    """The calls of each reply are those of the script, with the ids under which their results come."""
    replies = [one.reply for one in exchanges]
    assert all(reply is not None for reply in replies)
    written = [call for reply in replies if reply is not None for call in reply.calls]
    steps = [one for step in STEPS for one in (step if isinstance(step[0], tuple) else (step,))]
    assert [(call.name, call.arguments) for call in written] == [(one.name, one.arguments) for one in steps]
    answered = [result.id for one in exchanges for message in one.messages for result in message.results]
    assert {call.id for call in written} == set(answered)
    for reply in replies:
        assert reply is not None
        assert (reply.input_tokens is not None and reply.output_tokens is not None) == usage


def nudge(sent: Any) -> Any:
    """Change a request: add a sentence to the last entry, and withdraw the tools."""
    dialect, entries = sent.dialect, list(sent.dialect.messages(sent.body))
    entries[-1] = dialect.annotate(entries[-1], {0: "[loopguard] Stop."})
    return dialect.withdraw(dialect.replace(sent.body, entries))


def assert_changes_reach_the_model(loop: Callable[..., object]) -> None:
    """A sentence is read by the model, and it may not call tools; the service rejects nothing."""
    with recorded(nudge), Server(Working(*STEPS, answer=ANSWER)).running() as server:
        assert run(loop, server.url, QUESTION, Toolbox()) == ANSWER
    assert server.rejected == []
    asked = [one.asked for one in server.exchanges]
    assert [(one.reads("[loopguard] Stop."), one.choice) for one in asked if one] == [(True, "none")]


def nudge_results(sent: Any) -> Any:
    """Add a sentence to each result, and leave the rest."""
    dialect, entries = sent.dialect, []
    for entry in dialect.messages(sent.body):
        results = dialect.read(entry).results
        entries.append(
            dialect.annotate(entry, dict.fromkeys(range(len(results)), "[loopguard] Stop.")) if results else entry
        )
    return dialect.replace(sent.body, entries)


def assert_results_can_be_annotated(loop: Callable[..., object]) -> None:
    """A sentence stands at the end of each result that the model reads; the program's own list has none."""
    with recorded(nudge_results) as exchanges, Server(Working(*STEPS, answer=ANSWER)).running() as server:
        assert run(loop, server.url, QUESTION, Toolbox()) == ANSWER
    assert server.rejected == []
    last = server.exchanges[-1].asked
    assert last is not None
    texts = [result.text for result in last.results]
    assert len(texts) == len(CALLS)
    assert all("[loopguard] Stop." in text for text in texts)
    assert all("[loopguard]" not in str(one.sent.body) for one in exchanges)


def assert_a_loop_is_ended(loop: Callable[..., object], *, obeys: bool = True) -> None:
    """A model that repeats one call is asked for an answer without tools; if it calls on, the run is ended."""
    for stubborn in (False, True):
        tools = Toolbox()
        script = Looping(STEPS[0], answer=ANSWER, stubborn=stubborn)
        with Server(script).running() as server, guarded() as recording:
            if obeys and not stubborn:
                assert run(loop, server.url, QUESTION, tools) == ANSWER
            else:
                with pytest.raises(ToolLoopError):
                    run(loop, server.url, QUESTION, tools)
        assert recording.runtime.shield.seen == set()
        assert server.rejected == []
        assert len(server.exchanges) == 10
        asked = [one.asked for one in server.exchanges if one.asked]
        assert [one.choice for one in asked] == ["auto"] * 9 + (["none"] if obeys else ["auto"])
