"""Follow the texts of a conversation: which answers of the model, and which messages of the user, come again.

All texts are keys: hashes that are of use in this process only. The counts belong to the conversation and not to a
turn, because a stop hook and a prompt that is sent again are messages of the user, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_loopguard.engine.history.bounded import EMPTY, kept
from otel_loopguard.engine.history.text_blocks import NO_BLOCKS
from otel_loopguard.engine.values.masking import without_times
from otel_loopguard.engine.values.normalise import utf8

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from otel_loopguard.engine.history.text_blocks import Blocks

LEAST: Final = 40
"""The characters from which an answer is judged alone. A shorter one is judged with the user's message before it."""
_MOST: Final = 1_024
"""Keys of one sort in memory. A text that was forgotten is new again."""
_DIGITS: Final = re.compile(r"\d+")
_MOST_NUMBERS: Final = 8
"""Numbers of a message that may be a count."""
_LONGEST_NUMBER: Final = 9


def folded(text: str) -> str:
    """Return a text as answers are compared: with single blanks, in lower case."""
    return " ".join(text.split()).lower()


def without_digits(text: str) -> str:
    """Return a text as messages of the user are compared: a hook may count its own rounds."""
    return _DIGITS.sub("0", folded(text))


class UserText(NamedTuple):
    """A message of the user, as keys."""

    key: Hashable
    """A key that messages share which differ in digits only."""
    exact: Hashable
    """A key that messages share whose numbers are equal, too, apart from times."""
    nexts: tuple[Hashable, ...] = ()
    """The ``exact`` keys of messages in which one of the numbers is one more: it counts the rounds."""


def user_text(text: str, others: Sequence[Hashable] = ()) -> UserText:
    """Return the keys of a message of the user. ``others``: those of its parts that have no text, such as pictures."""
    key = hash((without_digits(text), *others))
    found = _DIGITS.findall(without_times(utf8(text)))
    numbers: list[Any] = [int(number) if len(number) <= _LONGEST_NUMBER else number for number in found]
    counts = [place for place, number in enumerate(numbers[:_MOST_NUMBERS]) if type(number) is int]
    nexts = (hash((key, *numbers[:place], numbers[place] + 1, *numbers[place + 1 :])) for place in counts)
    return UserText(key, hash((key, *numbers)), tuple(nexts))


class Heard(NamedTuple):
    """The texts, calls and results of one message, as keys."""

    said: tuple[Hashable, int, Blocks] | None
    """The text of the model, its length when folded, and the equal blocks at its end."""
    calls: Sequence[Hashable]
    results: Sequence[Hashable]
    user: UserText | None
    """The text in the user's role."""


class Repeat(NamedTuple):
    """A text that has come again, and nothing new since its first time."""

    times: int = 0
    """The number of times that it has come; 0 or 1 is no repeat."""
    beside_calls: bool = False
    """True for an answer that came with calls, or since whose last time there were calls."""
    is_judged: bool = False
    """True once a request was sent that was judged by it."""


_NO_REPEAT: Final = Repeat()


class ConversationTexts:
    """The texts and results of a conversation, in their order. Tell it each one once."""

    __slots__ = (
        "_answers", "_calls", "_known", "_news", "_replaced", "_results", "_said", "_user", "_users", "answer",
        "blocks", "replacement", "user",
    )  # fmt: skip

    def __init__(self) -> None:
        self.answer = _NO_REPEAT
        """The last answer, as long as nothing new came after it."""
        self.user = _NO_REPEAT
        """The last message of the user, as long as no call came after it."""
        self.replacement = _NO_REPEAT
        """The last replacement of the history's beginning, as long as nothing new came after it."""
        self.blocks = NO_BLOCKS
        """The equal blocks at the end of the last answer, with calls or without."""
        self._answers: dict[Hashable, tuple[int, int, int, int]] = EMPTY
        """By answer: how often it came, and how often without calls, and the numbers of news and of calls then."""
        self._users: dict[Hashable, tuple[int, int]] = EMPTY
        """By message of the user: how often it came, and the number of calls at its last time."""
        self._known: dict[Hashable, None] = EMPTY
        """The messages of the user that are no news."""
        self._results: dict[Hashable, None] = EMPTY
        self._news = 0
        """Results and messages of the user that had not come before."""
        self._calls = 0
        self._said: tuple[Hashable, int] | None = None
        """The answer of which is not known yet whether calls follow, with its length."""
        self._user: Hashable = None
        self._replaced: tuple[int, tuple[Hashable, int]] = (0, (None, 0))
        """The numbers of news and of effects at the last replacement."""

    def hear(
        self, messages: Iterable[Heard], replaced: tuple[Hashable, int] | None = None, *, has_run: bool = False
    ) -> None:
        """Note messages that are new. ``replaced``: they begin with a summary, which no user has written.

        It is the turn, and the effects of the calls in it. ``has_run``: calls have run, in the messages or not.
        """
        is_summary = replaced is not None
        for one in messages:
            if one.said is not None:
                self.said(*one.said)
                if has_run:
                    self.called()
            for _ in one.calls:
                self.called()
            for key in one.results:
                self.result(key)
            if one.user is not None:
                if not is_summary:
                    self.asked(*one.user)
                is_summary = False
        if replaced is not None:
            self.replaced(*replaced)

    def said(self, key: Hashable, length: int, blocks: Blocks = NO_BLOCKS) -> None:
        """Note a text of the model, by its key, its length when folded, and the equal blocks at its end."""
        self._settle(beside_calls=False)
        self._said, self.blocks = (key, length), blocks

    def called(self) -> None:
        """Note a call of the model: a text right before it was no answer."""
        self._settle(beside_calls=True)
        self._calls += 1
        self.user = _NO_REPEAT

    def result(self, key: Hashable) -> None:
        """Note the result of a call."""
        self._settle(beside_calls=True)
        self._calls += 1  # where a provider keeps the conversation, a request has results and no calls
        self.user = _NO_REPEAT
        if key not in self._results:
            self._results = kept(self._results, key, _MOST)
            self._is_new()

    def asked(self, key: Hashable, exact: Hashable = None, nexts: Iterable[Hashable] = ()) -> None:
        """Note a message of the user, which a hook or the program may have written, by its keys: see ``UserText``."""
        self._settle(beside_calls=False)
        exact = key if exact is None else exact
        is_new = exact not in self._known
        if is_new:
            self._is_new()
        for one in (exact, *nexts):
            self._known = kept(self._known, one, _MOST)
        count, calls = self._users.get(key, (0, 0))
        count = count + 1 if calls == self._calls and not is_new else 1
        self._users = kept(self._users, key, _MOST, (count, self._calls))
        self._user, self.user = key, Repeat(count)

    def replaced(self, turn: Hashable, effects: int) -> None:
        """Note that the beginning of the history was replaced. ``effects``: those of the calls of this turn."""
        news, (before, known) = self._replaced
        acted = effects > (known if turn == before else 0)
        self.replacement = Repeat(1 if acted or news != self._news else self.replacement.times + 1)
        self._replaced = self._news, (turn, effects)

    def judged(self) -> None:
        """Note that a request is sent that was judged by these texts: nothing is reported twice."""
        self.answer = self.answer._replace(is_judged=True)
        self.user = self.user._replace(is_judged=True)
        self.blocks = self.blocks._replace(is_judged=True)
        self.replacement = self.replacement._replace(is_judged=True)

    def _is_new(self) -> None:
        self._news += 1
        self.answer = self.replacement = _NO_REPEAT

    def _settle(self, *, beside_calls: bool) -> None:
        """Count the answer before, now that it is known whether calls follow it."""
        if self._said is None:
            return
        (key, length), self._said = self._said, None
        if length < LEAST:
            if beside_calls:
                return
            key = (self._user, key)
        key = (beside_calls, key)
        count, quiet, news, calls = self._answers.get(key, (0, 0, 0, 0))
        count = count + 1 if news == self._news else 1
        quiet = min(count, quiet + 1) if calls == self._calls and not beside_calls else 1
        self._answers = kept(self._answers, key, _MOST, (count, quiet, self._news, self._calls))
        self.answer = Repeat(quiet) if quiet > 1 else Repeat(count, beside_calls or count > 1)
