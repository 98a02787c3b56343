"""The conversation of a request, and the part of it that is new."""

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_loopguard.guard.guard import Guard
from otel_loopguard.turns import message_lists
from otel_loopguard.turns.message_lists import IDLE_SECONDS, Caller, MessageList, MessageLists, Request, latest
from otel_loopguard.turns.messages import Message, Reply, WrittenCall, WrittenResult, mark_of
from tests.strikes import handled, places, struck

TOOLS = frozenset({"read", "write"})
Entry = tuple[Any, ...]


def asks(text: str) -> Entry:
    """A user's message."""
    return ("user", text)


def calls(*ids: str | None, name: str = "read") -> Entry:
    """A message of the model with calls."""
    return ("calls", name, *ids)


def answers(call_id: str | None, content: str) -> Entry:
    """The result of a call."""
    return ("result", call_id, content)


def read(entry: Entry) -> Message:
    """Read one of these entries."""
    if entry[0] == "user":
        return Message(by_user=True, text=entry[1])
    if entry[0] == "calls":
        return Message(calls=tuple(WrittenCall(one, entry[1], {}) for one in entry[2:]))
    if entry[0] == "text":
        return Message()
    return Message(results=(WrittenResult(entry[1], entry[2]),))


def request(*entries: Entry, tools: frozenset[str] | None = TOOLS, previous: str | None = None) -> Request:
    """A request with these entries."""
    return Request(entries, [hash(entry) for entry in entries], read, tools, previous)


def replied(*ids: str | None, name: str = "read") -> Reply:
    """A reply with calls."""
    return Reply(tuple(WrittenCall(one, name, {}) for one in ids))


def new_of(one: MessageList, given: Request) -> list[tuple[str, Any]]:
    """The new results of a request, each with the name of its tool."""
    return [(new.opened.call.name, new.result.content) for new in one.read(given, 0.0).new]


def after_first_result() -> MessageList:
    """A list with one call and its result."""
    one = MessageList()
    one.turn = Guard().turn()
    one.read(request(asks("q")), 0.0)
    one.reply(replied("1"), 0.0)
    delta = one.read(request(asks("q"), calls("1"), answers("1", "a")), 0.0)
    one.judged(delta.new[0].number, 71)
    return one


def test_each_result_is_new_once() -> None:
    """Each request repeats the results before it."""
    one = MessageList()
    one.read(request(asks("q")), 0.0)
    one.reply(replied("1"), 0.0)
    first = (asks("q"), calls("1"), answers("1", "a"))
    assert new_of(one, request(*first)) == [("read", "a")]
    assert new_of(one, request(*first)) == []
    one.reply(replied("2"), 0.0)
    assert new_of(one, request(*first, calls("2"), answers("2", "b"))) == [("read", "b")]


def test_a_result_without_a_known_reply_is_matched_by_the_message_before_it() -> None:
    """A stream that could not be read leaves no calls."""
    one = MessageList()
    one.read(request(asks("q")), 0.0)
    assert new_of(one, request(asks("q"), calls("1", "2"), answers("1", "a"), answers("2", "b"))) == [
        ("read", "a"),
        ("read", "b"),
    ]


def test_ids_that_a_server_gives_again_are_new_calls() -> None:
    """Some local servers number the calls of each reply from one."""
    one = after_first_result()
    one.reply(replied("1"), 0.0)
    entries = (asks("q"), calls("1"), answers("1", "a"), calls("1"), answers("1", "a"))
    assert new_of(one, request(*entries)) == [("read", "a")]


def test_calls_without_ids_are_matched_in_order() -> None:
    """Gemini gives no ids."""
    one = MessageList()
    one.read(request(asks("q")), 0.0)
    one.reply(replied(None, None), 0.0)
    entries = (asks("q"), calls(None, None), answers(None, "a"), answers(None, "b"))
    assert new_of(one, request(*entries)) == [("read", "a"), ("read", "b")]
    one.reply(replied(None), 0.0)
    assert new_of(one, request(*entries, calls(None), answers(None, "c"))) == [("read", "c")]


def test_a_result_of_an_unknown_call_is_not_guessed_at() -> None:
    """It has no name and no arguments."""
    one = MessageList()
    one.read(request(asks("q")), 0.0)
    assert new_of(one, request(asks("q"), answers("7", "a"))) == []


def test_outputs_alone_are_matched_with_the_reply_that_they_continue() -> None:
    """The provider keeps the conversation."""
    one = MessageList()
    one.read(request(asks("q")), 0.0)
    one.reply(replied("1"), 0.0)
    delta = one.read(request(answers("1", "a"), previous="r1"), 0.0)
    assert [new.result.content for new in delta.new] == ["a"]
    one.judged(delta.new[0].number, 71)
    one.reply(replied("2"), 0.0)
    delta = one.read(request(answers("2", "b"), previous="r2"), 0.0)
    assert [new.result.content for new in delta.new] == ["b"]
    assert delta.lost == {}


def test_the_calls_of_one_message_have_one_number() -> None:
    """The model had read the result of none of them when it wrote them."""
    one = MessageList()
    one.read(request(asks("q")), 0.0)
    one.reply(replied("1", "2"), 0.0)
    entries = (asks("q"), calls("1", "2"), answers("1", "a"), answers("2", "b"))
    delta = one.read(request(*entries), 0.0)
    assert len({new.opened.message for new in delta.new}) == 1


# --- turns -------------------------------------------------------------------------------------------------------


def test_the_calls_of_a_reply_have_one_number_if_each_is_written_with_its_result() -> None:
    """Some programs append a call and its result, then the next call of the same reply."""
    one = MessageList()
    one.read(request(asks("q")), 0.0)
    one.reply(replied("1", "2"), 0.0)
    delta = one.read(request(asks("q"), calls("1"), answers("1", "a"), calls("2"), answers("2", "b")), 0.0)
    assert len(delta.new) == 2
    assert len({new.opened.message for new in delta.new}) == 1


def begins(one: MessageList, *entries: Entry) -> bool:
    """True if these entries begin a turn."""
    return one.read(request(*entries), 0.0).begins_turn


def test_a_users_message_after_the_answer_begins_a_turn() -> None:
    """A second question of the same conversation."""
    one = after_first_result()
    one.reply(Reply(), 0.0)
    assert begins(one, asks("q"), calls("1"), answers("1", "a"), ("text",), asks("again"))


def test_a_question_that_is_asked_again_begins_a_turn() -> None:
    """A user lets the last answer be written again: what was done for the first one is no evidence."""
    one = after_first_result()
    one.reply(replied(), 0.0)
    history = (asks("q"), calls("1"), answers("1", "a"), ("text", "done"))
    assert begins(one, *history, asks("q2"))
    one.reply(replied("2"), 0.0)
    assert not begins(one, *history, asks("q2"), calls("2"), answers("2", "a"))
    one.reply(replied(), 0.0)
    assert begins(one, *history, asks("q2"))


def test_a_text_after_new_results_begins_none() -> None:
    """A program may add an instruction to the results of its tools."""
    one = after_first_result()
    one.reply(replied("2"), 0.0)
    entries = (asks("q"), calls("1"), answers("1", "a"), calls("2"), answers("2", "b"), asks("go on"))
    assert not begins(one, *entries)


def test_a_summary_in_place_of_the_history_begins_none() -> None:
    """It is written in the user's role, while the results of calls are due."""
    one = after_first_result()
    one.reply(replied("2"), 0.0)
    delta = one.read(request(asks("summary"), calls("2"), answers("2", "b")), 0.0)
    assert not delta.begins_turn
    assert delta.lost == {1: 71}
    one.reply(replied("3"), 0.0)
    assert not begins(one, asks("summary of all"))


MANY = (asks("question"), calls("1"), answers("1", "a"), calls("2"), answers("2", "b"))


@pytest.mark.parametrize(("reply", "is_compacted"), [(replied("3"), True), (Reply(), False), (None, False)])
def test_another_agent_of_the_turn_compacts_no_history(reply: Reply | None, *, is_compacted: bool) -> None:
    """It begins after the answer of the one before, or beside it. With calls to go on from it is the same one."""
    one = MessageList()
    one.read(request(*MANY), 0.0)
    if reply is not None:
        one.reply(reply, 0.0)
    assert one.read(request(asks("other"), calls("4")), 0.0).is_compacted is is_compacted


def test_a_history_whose_request_has_failed_is_compacted() -> None:
    """It was too long."""
    one = MessageList()
    one.read(request(*MANY), 0.0)
    one.has_failed, one.is_sent = True, False
    assert one.read(request(asks("summary"), calls("4")), 0.0).is_compacted


@pytest.mark.parametrize(("is_answered", "times"), [(True, 5), (False, 1)])
def test_an_agent_that_begins_beside_another_one_repeats_no_question(*, is_answered: bool, times: int) -> None:
    """Parallel workers are told their numbers. After an answer it is a hook that counts."""
    one = MessageList()
    for number in range(5):
        one.read(request(asks(f"part {number}")), 0.0)
        if is_answered:
            one.reply(Reply(), 0.0)
    assert one.texts.user.times == times


@pytest.mark.parametrize(
    ("name", "is_next"),
    [pytest.param("read", True, id="the call of the reply"), pytest.param("write", False, id="another call")],
)
def test_a_gateway_tells_lists_with_one_beginning_by_the_reply(name, is_next):
    """Servers that number the calls of each conversation give other agents' calls the id that a reply had."""
    lists, caller = MessageLists(dropped=lambda _: None), Caller("k")
    known = MessageList(caller)
    begin = asks("work")
    known.read(Request([begin], [hash(begin)], read, TOOLS, caller=caller), 0.0)
    known.reply(replied("call_0"), 0.0)
    lists.keep(known, [], 0.0)
    entries = [begin, calls("call_0", name=name), answers("call_0", "x")]
    found = lists.find(Request(entries, [hash(one) for one in entries], read, TOOLS, caller=caller), None)
    assert (found is known) is is_next


def test_a_text_that_answers_a_call_is_its_result() -> None:
    """Some programs write the results of tools as a user's text, without ids."""
    one = MessageList()
    one.turn = Guard().turn()
    one.read(request(asks("q")), 0.0)
    one.reply(replied("1"), 0.0)
    delta = one.read(request(asks("q"), ("text",), asks("Observation: a")), 0.0)
    assert [(new.opened.call.id, new.result.content) for new in delta.new] == [("1", "Observation: a")]
    assert not delta.begins_turn


def test_earlier_turns_of_a_conversation_that_is_not_known_are_not_counted() -> None:
    """The process was restarted in the middle of a conversation."""
    one = MessageList()
    old = (asks("q"), calls("1"), answers("1", "a"), ("text",))
    now = (asks("again"), calls("2"), answers("2", "b"))
    assert new_of(one, request(*old, *now)) == [("read", "b")]


# --- lost results ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entries",
    [
        (asks("q"), calls("1"), answers("1", "[cleared]")),
        (asks("summary"),),
        (asks("q"),),
    ],
    ids=["cleared", "summarised", "dropped"],
)
def test_a_result_that_is_gone_or_replaced_is_lost_once(entries: tuple[Entry, ...]) -> None:
    """The model cannot read it any more."""
    one = after_first_result()
    tail = (calls("2"), answers("2", "b"))
    one.reply(replied("2"), 0.0)
    assert one.read(request(*entries, *tail), 0.0).lost == {1: 71}
    one.reply(replied("3"), 0.0)
    assert one.read(request(*entries, *tail, calls("3"), answers("3", "c")), 0.0).lost == {}


def test_a_list_that_keeps_its_last_entries_loses_one_result_after_the_other() -> None:
    """A program keeps the last messages alone."""
    one = MessageList()
    one.turn = Guard().turn()
    entries: list[Entry] = [asks("q")]
    one.read(request(*entries), 0.0)
    lost: list[int] = []
    new: list[Any] = []
    for number in range(1, 8):
        one.reply(replied(str(number)), 0.0)
        entries += [calls(str(number)), answers(str(number), f"r{number}")]
        delta = one.read(request(asks("q"), *entries[1:][-4:]), 0.0)
        for found in delta.new:
            one.judged(found.number, 100 + number)
        new += [found.result.content for found in delta.new]
        lost += one.without_result(delta.lost)
    assert new == [f"r{number}" for number in range(1, 8)]
    assert lost == [101, 102, 103, 104, 105]


@pytest.mark.parametrize(("left", "lost"), [("first", []), ("second", [71])])
def test_a_call_has_lost_its_result_if_no_later_one_is_seen(left: str, lost: list[int]) -> None:
    """Of two equal calls the older result may leave; an older one in place of the newer proves nothing."""
    one = after_first_result()
    one.reply(replied("2"), 0.0)
    first, second = (calls("1"), answers("1", "a")), (calls("2"), answers("2", "b"))
    (new,) = one.read(request(asks("q"), *first, *second), 0.0).new
    one.judged(new.number, 71)
    delta = one.read(request(asks("q"), *(second if left == "first" else first)), 0.0)
    assert one.without_result(delta.lost) == lost


def test_a_request_without_tools_loses_nothing() -> None:
    """It serves another purpose, such as a summary."""
    one = after_first_result()
    assert one.read(request(asks("q"), tools=frozenset()), 0.0).lost == {}


def test_marks_of_a_prompt_cache_are_no_change() -> None:
    """They move from request to request."""
    part = {"type": "text", "text": "a"}
    assert mark_of([part]) == mark_of([{**part, "cache_control": {"type": "ephemeral"}}])
    assert mark_of([part]) != mark_of([{**part, "text": "b"}])


def test_a_sentence_stays_with_its_result() -> None:
    """Each later request has it, so that caches of the prompt stay valid."""
    one = after_first_result()
    one.sentences[1] = "note"
    assert one.annotations() == {2: {0: "note"}}
    one.reply(replied("2"), 0.0)
    one.read(request(asks("summary"), calls("1"), answers("1", "a"), calls("2"), answers("2", "b")), 0.0)
    assert one.annotations() == {2: {0: "note"}}
    one.read(request(asks("q"), calls("2"), answers("2", "b")), 0.0)
    assert one.annotations() == {}


# --- finding a list ----------------------------------------------------------------------------------------------


class Conversation:
    """A conversation whose requests look their list up, as the reader does."""

    def __init__(self, lists: MessageLists, question: str, *, has_ids: bool = True) -> None:
        self.lists = lists
        self.entries = [asks(question)]
        self.has_ids = has_ids
        self.found: list[MessageList] = []

    def send(self) -> MessageList:
        """Send a request; the reply has a call, which is answered."""
        given = request(*self.entries)
        one = self.lists.find(given, None) or MessageList()
        delta = one.read(given, 0.0)
        self.lists.keep(one, delta.written, 0.0)
        latest.set(one)
        number = str(len(self.found)) if self.has_ids else None
        one.reply(replied(number), 0.0)
        if number is not None:
            self.lists.keep(one, [(number, "read")], 0.0)
        self.entries += [calls(number), answers(number, "a")]
        self.found.append(one)
        return one


@pytest.fixture
def lists() -> MessageLists:
    """No conversation yet."""
    latest.set(None)
    return MessageLists(lambda one: None)


@pytest.mark.parametrize("has_ids", [True, False])
def test_conversations_with_different_questions_do_not_mix(lists: MessageLists, *, has_ids: bool) -> None:
    """The server gives each of them the same ids, and no context tells them apart."""
    many = [Conversation(lists, f"question {number}", has_ids=has_ids) for number in range(20)]
    for _ in range(5):
        for one in many:
            one.send()
            latest.set(None)
    assert all(len(set(map(id, one.found))) == 1 for one in many)
    assert len({id(one.found[0]) for one in many}) == 20


@pytest.mark.parametrize("changes", [False, True])
def test_a_worker_that_serves_many_conversations_mixes_none(lists: MessageLists, *, changes: bool) -> None:
    """Its context is that of another one. Ids and instructions are equal, or the instructions change with the time."""
    many = [Conversation(lists, f"question {number}") for number in range(20)]
    for time in range(5):
        for one in many:
            instructions = ("text", f"It is {time}." if changes else "Be brief.")
            one.entries = [instructions, *one.entries[-1 - 2 * time :]]
            one.send()
    assert all(len(set(map(id, one.found))) == 1 for one in many)
    assert len({id(one.found[0]) for one in many}) == 20


def test_equal_ids_and_instructions_are_no_proof(lists: MessageLists) -> None:
    """A conversation that was kept elsewhere goes on after another one with these ids."""
    instructions = ("text", "Be brief.")
    known, other = Conversation(lists, "question"), Conversation(lists, "another question")
    known.entries.insert(0, instructions)
    for _ in range(3):
        known.send()
    other.entries = [instructions, *other.entries, calls("1"), answers("1", "b"), asks("go on")]
    assert other.send() is not known.found[0]


@pytest.mark.parametrize("has_ids", [True, False])
def test_equal_conversations_have_a_list_each(lists: MessageLists, *, has_ids: bool) -> None:
    """The same question with the same ids, results and all: as many lists go on as there are conversations."""
    many = [Conversation(lists, "question", has_ids=has_ids) for _ in range(20)]
    for _ in range(5):
        for one in many:
            one.send()
            latest.set(None)
    assert len(lists) == 20
    assert all(len(one.marks) == 9 for one in many[0].found[:1])
    last = {id(one.found[-1]) for one in many}
    assert len(last) == 20


def test_equal_conversations_are_told_apart_by_their_context(lists: MessageLists) -> None:
    """Each runs in a task or thread of its own."""
    many = [(Conversation(lists, "question"), copy_context()) for _ in range(20)]
    for _ in range(5):
        for one, context in many:
            context.run(one.send)
    assert all(len(set(map(id, one.found))) == 1 for one, _ in many)


def test_a_new_conversation_like_one_that_is_over_is_its_own(lists: MessageLists) -> None:
    """A program asks the same question again, in the same thread."""
    first, second = Conversation(lists, "question"), Conversation(lists, "question")
    for one in (first, second):
        for _ in range(4):
            one.send()
    assert len(set(map(id, second.found))) == 1
    assert second.found[0] is not first.found[0]


def test_a_request_that_is_sent_again_is_of_the_list_whose_request_failed(lists: MessageLists) -> None:
    """Not of the one in which its question had failed, nor of a new one."""
    first, kept = request(asks("question")), Conversation(lists, "question")
    left = MessageList()
    left.read(first, 0.0)
    lists.keep(left, [], 0.0)
    one = kept.send()
    assert one is not left
    again = request(*kept.entries)
    one.read(again, 0.0)
    lists.keep(one, [], 0.0)
    one.has_failed = True
    assert lists.find(again, None) is one
    left.has_failed = True
    assert lists.find(first, None) is left


def test_a_list_is_found_after_its_beginning_was_dropped(lists: MessageLists) -> None:
    """The ids of the last calls are left."""
    one = Conversation(lists, "question")
    for _ in range(4):
        one.send()
    one.entries = [asks("summary"), *one.entries[-4:]]
    latest.set(None)
    assert one.send() is one.found[0]


def test_the_list_of_a_run_is_found_when_nothing_is_left_of_it(lists: MessageLists) -> None:
    """A summary replaced all entries."""
    one, turn = MessageList(), Guard().turn()
    one.turn = turn
    given = request(asks("q"))
    one.read(given, 0.0)
    lists.keep(one, [("turn", turn.id, TOOLS)], 0.0)
    assert lists.find(request(asks("summary")), turn) is one
    assert lists.find(request(asks("summary"), tools=frozenset({"other"})), turn) is None
    assert lists.find(request(asks("summary")), None) is None


def follows(*marks: int) -> MessageList:
    """A list whose last request had these marks."""
    one = MessageList()
    one.follow(list(marks))
    return one


@given(requests=st.lists(st.lists(st.integers(1, 3), max_size=6), max_size=10))
def test_the_entries_that_are_known_are_those_at_the_beginning(requests: list[list[int]]) -> None:
    """Whether a list goes on, is cut, is edited or is another one."""
    one, last = MessageList(), list[int]()
    for marks in requests:
        common = one.common(marks)
        assert common == max(place for place in range(len(last) + 1) if last[:place] == marks[:place])
        one.follow(marks, common if common == len(last) else 0)
        assert (list(one.marks), one.chain) == (marks, sum(marks))
        last = marks


@given(
    kept=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5), max_size=8),
    entries=st.permutations([1, 2, 3, 4]),
)
def test_a_list_is_found_if_a_request_begins_with_all_of_it(kept: list[list[int]], entries: list[int]) -> None:
    """Not if the request has the same entries in another order."""
    known = MessageLists(lambda one: None)
    made = [follows(*marks) for marks in kept]
    for one in made:
        known.keep(one, [], 0.0)
    found = known._candidates(Request(entries, entries, lambda entry: Message(), None), None)
    assert {id(one) for one in found} == {id(one) for one in made if entries[: len(one.marks)] == list(one.marks)}


def test_an_exception_at_any_place_leaves_a_list_that_is_found() -> None:
    """A signal handler that raises while a request is taken over does not part the marks and their sum."""

    def over(*_: object) -> None:
        raise TimeoutError

    with handled(over):
        for place in places(lambda: follows(1, 2).follow([1, 2, 3], 2)):
            one = follows(1, 2)
            with suppress(TimeoutError):
                struck(place, lambda one=one: one.follow([1, 2, 3], 2))
            assert one.chain == sum(one.marks), place
            one.follow([1, 2, 3, 4], len(one.marks))
            assert one.chain == 10
            assert one.common([1, 2, 3, 4]) == 4


def test_each_entry_is_read_once(lists: MessageLists) -> None:
    """However often a request is compared with the lists that are known."""
    one = Conversation(lists, "question")
    for _ in range(3):
        one.send()
    latest.set(None)
    places: list[int] = []

    def read_at(place: int) -> Message:
        places.append(place)
        return read(one.entries[place])

    counted = Request(range(len(one.entries)), request(*one.entries).marks, read_at, TOOLS)
    found = lists.find(counted, None)
    assert found is one.found[0]
    found.read(counted, 0.0)
    assert len(places) == len(set(places))


def test_lists_are_forgotten_after_an_hour_and_within_bounds(
    lists: MessageLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least recently used one goes first, with all names of it."""
    monkeypatch.setattr(message_lists, "MOST_LISTS", 10)
    gone: list[MessageList] = []
    bounded = MessageLists(gone.append)
    for number in range(30):
        bounded.keep(follows(number), [("reply", str(number))], 0.0)
    assert len(bounded) == 10
    assert len(gone) == 20
    for number in range(5):
        bounded.keep(follows(100 + number), [("reply", str(number))], IDLE_SECONDS + 1)
    assert len(bounded) == 5
    names = {("reply", str(number)) for number in range(5)} | {100 + number for number in range(5)}
    assert bounded._of_caller[None].keys() == names
