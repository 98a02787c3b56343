"""The count of replies whose calls no request answers: what belongs to one prompt, and what is taken back."""

from __future__ import annotations

import pytest

from otel_loopguard.turns.message_lists import MessageList, Request
from otel_loopguard.turns.messages import Message, Reply, WrittenCall, WrittenResult
from otel_loopguard.turns.unanswered import UnansweredReplies

PROMPT = "Find out who owns the files of this project."
TOOLS = frozenset({"look"})
CALL = WrittenCall("call-1", "look")


class Conversation:
    """Sends requests of one message list, as the reader reads them."""

    def __init__(self, counts: UnansweredReplies) -> None:
        self.counts = counts
        self.list = MessageList()

    def send(self, *messages: Message) -> None:
        """Send a request with these messages, and get a reply with a call."""
        request = Request(messages, [hash(str(one)) for one in messages], lambda one: one, TOOLS)
        waited = self.list.is_unanswered
        self.counts.sent(request, self.list, self.list.read(request, 0.0), waited=waited)
        self.list.reply(Reply((CALL,)), 0.0)


def prompt(text: object = PROMPT) -> Message:
    return Message(by_user=True, text=text)


@pytest.mark.parametrize("parts", [False, True], ids=["a text", "parts"])
def test_a_prompt_that_grows_is_one_conversation(parts: bool) -> None:
    """Each reply but the last is counted, whether the prompt is a text or a list of parts."""
    counts = UnansweredReplies()
    for number in range(5):
        text = PROMPT + " look() returned nothing." * number
        Conversation(counts).send(prompt([{"type": "text", "text": text}] if parts else text))
    assert counts.replies == 4


def test_other_prompts_are_other_conversations() -> None:
    """A router asks once about each text, and none of its calls has a result."""
    counts = UnansweredReplies()
    for number in range(5):
        Conversation(counts).send(prompt(f"Customer {number}: {PROMPT}"))
    assert counts.replies == 0


def test_equal_prompts_are_other_conversations() -> None:
    """Agents with one task at the same time, or a batch whose texts begin alike: no prompt names a call before it."""
    counts = UnansweredReplies()
    for _ in range(5):
        Conversation(counts).send(prompt())
    assert counts.replies == 0


def test_calls_whose_results_come_after_all_are_taken_back() -> None:
    """Two agents whose task has the name of the tool in it: once their results come, nothing was unanswered."""
    counts = UnansweredReplies()
    agents = [Conversation(counts) for _ in range(3)]
    for agent in agents:
        agent.send(prompt(f"{PROMPT} Use look."))
    assert counts.replies == 2
    for agent in agents:
        results = Message(results=(WrittenResult("call-1", "text"),))
        agent.send(prompt(f"{PROMPT} Use look."), Message(calls=(CALL,)), results)
    assert counts.replies == 0


def test_a_prompt_without_text_is_none() -> None:
    """An image, and a request that ends with no user's message, are no prompt to know again."""
    counts = UnansweredReplies()
    for _ in range(3):
        Conversation(counts).send(prompt([{"type": "image"}]))
        Conversation(counts).send(prompt(None))
        Conversation(counts).send(prompt(), Message(text="I"))
    assert counts.replies == 0
