"""Count the replies whose calls no request answers, because the program writes the results into a prompt of its own.

Such a program sends each prompt as a new conversation. It is known by the beginning of its text, of which only the hash
is kept, and by the name of the call before, which the program writes beside the result. The last reply of a
conversation is not counted: a call may be its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from otel_loopguard.turns.message_lists import Delta, MessageList, Request

_BEGINNING: Final = 40
"""Characters."""
_MOST_PROMPTS: Final = 64


class UnansweredReplies:
    """The counts of this process. There is no lock: an addition that is lost costs less than a slow request."""

    def __init__(self) -> None:
        self.requests = 0
        """The requests that were read."""
        self.has_tools = False
        """True if one of them had tools, or a reply had calls."""
        self.replies = 0
        """The replies whose calls were neither answered nor run by an executor before the next prompt was sent."""
        self._prompts: dict[Hashable, MessageList] = {}
        """The last message list that began with a prompt, by the prompt's beginning and its tools."""

    def sent(self, request: Request, one: MessageList, delta: Delta, *, waited: bool) -> None:
        """Take a request with tools, which its list has just read. ``waited``: the list's last reply had no result."""
        if delta.new or delta.written:
            self.answered(one)
            return
        text = _prompt(request)
        if text is None:
            return
        prompt = hash(text[:_BEGINNING])
        before = self._prompts.pop((request.tools, prompt), one)
        self._prompts[request.tools, prompt] = one
        if len(self._prompts) > _MOST_PROMPTS:
            self._prompts.pop(next(iter(self._prompts)), None)
        if waited:
            self.replies += 1
        elif before is not one and before.is_unanswered and not before.is_counted and _names_a_call(text, before):
            before.is_counted = True
            self.replies += 1

    def answered(self, one: MessageList) -> None:
        """Note that a call of this list has a result after all: the next prompt was of another agent."""
        self.replies -= one.is_counted
        one.is_counted = False


def _names_a_call(text: str, one: MessageList) -> bool:
    """Return True if the name of an open call of this list is in the text."""
    return any(opened.call.name in text for opened in list(one.open_calls.values()))


def _prompt(request: Request) -> str | None:
    """Return the prompt that a request ends with; None if it ends with no text of a user."""
    if not request.ends_with_user():
        return None
    text: Any = request.message(len(request.entries) - 1).text
    if isinstance(text, (list, tuple)) and text:
        text = text[0].get("text") if isinstance(text[0], dict) else text[0]
    return text if isinstance(text, str) else None
