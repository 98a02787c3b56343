"""A user's messages during a turn: delivered once, in order, and never lost."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

import otel_loopguard as loopguard
from otel_loopguard.guard.turn import Turn
from otel_loopguard.testing import assert_trips, guarded
from otel_loopguard.turns.runs import RunInfo, Runs

if TYPE_CHECKING:
    from collections.abc import Iterator


@loopguard.tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


@loopguard.tool
def read_table(path: str) -> str:
    """A result that is no text."""
    return '{"rows": 2}'


def test_a_word_comes_with_the_next_result() -> None:
    """Messages from another thread are delivered in order, once."""
    with guarded(), loopguard.turn("c") as turn:
        assert look("a") == "there is a"
        words: list[object] = []

        def speak() -> None:
            words.extend(loopguard.say(text, conversation_id="c") for text in ("first", "then this"))

        thread = threading.Thread(target=speak)
        thread.start()
        thread.join(timeout=10)
        assert all(words)
        read = look("b")
        assert read.startswith("there is b\n")
        assert read.index("first") < read.index("then this")
        assert look("c") == "there is c"
    assert turn.undelivered == []


def test_a_word_to_stop_refuses_what_comes() -> None:
    """With ``stop=True`` no further tool of the turn runs, and the model reads the message instead."""
    with guarded() as recording, loopguard.turn("c"):
        look("a")
        assert loopguard.say("stop, that is done", conversation_id="c", stop=True)
        assert "stop, that is done" in look("b")
        assert "stop, that is done" in look("c")
        assert recording.outcomes == ["executed", "blocked", "blocked"]


def test_a_word_that_nothing_delivered_comes_back() -> None:
    """An undelivered message is returned by the turn and marked ``returned`` for its sender."""
    with guarded():
        with loopguard.turn("c") as turn:
            look("a")
            word = loopguard.say("too late", conversation_id="c")
            delivered = loopguard.say("also", conversation_id="c")
            assert word
            assert not word.returned
        assert turn.undelivered == ["too late", "also"]
        assert word.returned
        assert delivered.returned


def test_a_word_to_a_turn_that_a_fault_kept_from_opening_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of the block it is a mistake of the program; in it, no fault of ours is."""
    with guarded():
        block = loopguard.turn()
        with pytest.raises(RuntimeError, match="needs an open turn"):
            block.say("too early")
        monkeypatch.setattr(Runs, "open", None)
        with block:
            assert not block.say("hello")
        monkeypatch.undo()
        with loopguard.turn() as other:
            monkeypatch.setattr(Turn, "message_queue", None)
            assert not other.say("hello")


def test_a_word_without_a_turn_is_not_taken() -> None:
    """Without an open turn ``say`` returns a false value."""
    with guarded():
        assert not loopguard.say("hello?", conversation_id="nobody")
        with loopguard.turn("c"):
            pass
        assert not loopguard.say("hello?", conversation_id="c")


def test_a_word_waits_for_a_result_that_is_text() -> None:
    """No message is added to JSON, and a pending nudge is not among the user's undelivered messages."""
    with guarded(), loopguard.turn("c") as turn:
        loopguard.say("please hurry", conversation_id="c")
        assert read_table("a") == '{"rows": 2}'
        assert read_table("a") == '{"rows": 2}'
        read = look("b")
        assert "please hurry" in read
        assert "About the earlier call of read_table:" in read
        read_table("a")
    assert turn.undelivered == []


def test_the_turn_itself_can_be_spoken_to() -> None:
    """Without a conversation id, ``say`` of the open turn delivers messages."""
    with guarded(), loopguard.turn() as turn:
        turn.say("by the way")
        assert "by the way" in look("a")


def test_words_that_a_result_cannot_take_come_back_each_by_itself() -> None:
    """Messages that no result could take are returned in order; a failed call takes none."""

    def fail() -> None:
        raise LookupError("no")

    with guarded():
        with loopguard.turn("c") as turn:
            words = [loopguard.say(text, conversation_id="c") for text in ("first", "second")]
            read_table("a")
            with pytest.raises(LookupError):
                loopguard.call("fail", {}, fail)
        assert turn.undelivered == ["first", "second"]
        assert all(word.returned for word in words)


def test_a_stream_takes_no_word() -> None:
    """A stream takes no message; it is added to the next text."""

    @loopguard.tool
    def pieces(path: str) -> Iterator[str]:
        """A generator."""
        yield path

    with guarded(), loopguard.turn("c") as turn:
        loopguard.say("please hurry", conversation_id="c")
        assert list(pieces("a")) == ["a"]
        assert "please hurry" in look("b")
    assert turn.undelivered == []


def test_a_turn_that_a_later_one_closes_gives_its_words_back() -> None:
    """A new run of the conversation closes an unfinished turn, and its messages are returned."""
    with guarded() as recording:
        assert recording.runtime is not None
        runs = recording.runtime.runs
        waiting = runs.open(RunInfo("c"))
        word = loopguard.say("anybody there?", conversation_id="c")
        assert runs.close(waiting, unfinished=True) == []
        assert not word.returned
        with loopguard.turn("c"):
            pass
        assert word.returned


def test_a_run_that_another_one_took_the_place_of_gives_its_words_back() -> None:
    """The messages of an unfinished run are returned if its conversation has another turn."""
    with guarded() as recording:
        assert recording.runtime is not None
        runs = recording.runtime.runs
        first = runs.open(RunInfo("c"))
        word = loopguard.say("anybody there?", conversation_id="c")
        second = runs.open(RunInfo("c"))
        assert runs.close(first, unfinished=True) == ["anybody there?"]
        assert word.returned
        runs.close(second)


def test_a_word_said_as_the_run_ends_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message is not accepted if the turn ends while ``say`` runs."""
    with guarded() as recording:
        assert recording.runtime is not None
        with loopguard.turn("c"):
            entry = recording.runtime.conversations._entries["c"]
        monkeypatch.setitem(recording.runtime.conversations._entries, "c", entry)
        entry.running = 1
        word = loopguard.say("too late", conversation_id="c")
        assert not word
        assert word.returned


def test_a_word_to_stop_stops_a_sub_agent() -> None:
    """A stop message stops the tools of a sub-agent, too."""
    ran: list[str] = []

    @loopguard.tool
    def step(path: str) -> str:
        """Call the sub-agent's tool."""
        ran.append(path)
        if path == "1":
            loopguard.say("stop", conversation_id="c", stop=True)
        return f"text of {path}"

    @loopguard.tool
    def research(question: str) -> str:
        """A sub-agent."""
        with loopguard.turn():
            return "\n".join(step(str(number)) for number in range(4))

    with guarded(), loopguard.turn("c"):
        assert research("why").count("stop") == 3
    assert ran == ["0", "1"]


def test_a_refusal_by_the_users_word_is_reported() -> None:
    """A refusal by a stop message has event, metric and outcome, and its series begins at zero."""
    with guarded() as recording, loopguard.turn("c"):
        trips = {"mode": "user_stop", "verdict": "block", "action": "block"}
        assert not recording.counted("loopguard.trips", **{f"loopguard__{key}": value for key, value in trips.items()})
        loopguard.say("stop", conversation_id="c", stop=True)
        look("a")
        assert_trips(recording, "user_stop", action="block", tool="look")
        assert recording.counted("loopguard.trips", **{f"loopguard__{key}": value for key, value in trips.items()}) == 1


def test_a_refusal_by_the_users_word_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The warning of a stop message has tool and mode, and not the text."""
    with guarded(), loopguard.turn("c"), caplog.at_level(logging.WARNING, "otel_loopguard"):
        loopguard.say("a secret", conversation_id="c", stop=True)
        look("a")
    assert "Refused look: the user asked for a stop (user_stop) [" in caplog.text
    assert "a secret" not in caplog.text


def test_the_running_code_can_ask_for_its_turn():
    """In a block, in a tool of it, and nowhere else."""

    @loopguard.tool
    def spent(path):
        return f"{path}: {loopguard.current_turn().ledger.calls} calls"

    with guarded():
        assert loopguard.current_turn() is None
        with loopguard.turn() as turn:
            assert loopguard.current_turn().id == turn.id
            assert [spent("a"), spent("b")] == ["a: 1 calls", "b: 2 calls"]
        assert loopguard.current_turn() is None
