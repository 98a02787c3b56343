"""The user's word in the midst of a turn: delivered once, in order, never lost."""

from __future__ import annotations

import threading

import otel_loopguard as loopguard
from otel_loopguard.testing import guarded


@loopguard.tool
def look(path: str) -> str:
    """Look at something."""
    return f"there is {path}"


@loopguard.tool
def table(path: str) -> str:
    """A result that is no text."""
    return '{"rows": 2}'


def test_a_word_comes_with_the_next_result() -> None:
    """From another thread, in order, once."""
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
    """With ``stop=True`` no further tool of the turn runs, and the model reads the words instead."""
    with guarded() as recording, loopguard.turn("c"):
        look("a")
        assert loopguard.say("stop, that is done", conversation_id="c", stop=True)
        assert "stop, that is done" in look("b")
        assert "stop, that is done" in look("c")
        assert recording.outcomes == ["executed", "blocked", "blocked"]


def test_a_word_that_nothing_delivered_comes_back() -> None:
    """The turn's end gives it back to who opened the turn, and to who said it."""
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


def test_a_word_without_a_turn_is_not_taken() -> None:
    """``say`` is false then: nobody will ever read it."""
    with guarded():
        assert not loopguard.say("hello?", conversation_id="nobody")
        with loopguard.turn("c"):
            pass
        assert not loopguard.say("hello?", conversation_id="c")


def test_a_word_waits_for_a_result_that_is_text() -> None:
    """Nothing is written into JSON; a sentence of ours that waited is never given back as the user's."""
    with guarded(), loopguard.turn("c") as turn:
        loopguard.say("please hurry", conversation_id="c")
        assert table("a") == '{"rows": 2}'
        assert table("a") == '{"rows": 2}'
        read = look("b")
        assert "please hurry" in read
        assert "About the earlier call of table:" in read
        table("a")
    assert turn.undelivered == []


def test_the_turn_itself_can_be_spoken_to() -> None:
    """Without a conversation id, the open turn takes words."""
    with guarded(), loopguard.turn() as turn:
        turn.say("by the way")
        assert "by the way" in look("a")
