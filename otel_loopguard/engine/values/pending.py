"""Find the words of a result that is not done yet (pending, queued, "12 %", "0 of 3 ready"), or that is over.

Every repeat passes here, and most results have none of these words. A search for a plain word takes a fraction of the
time of a pattern, so it comes first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHARE = re.compile(r"(?<![\d.])\d{1,2}(?:\.\d+)? ?%")
_PART = re.compile(
    r"(?<![\d.])(\d{1,9}) ?(?:(?:out )?of|/) ?(\d{1,9}) (?:\w+ ){0,5}"
    r"(?:available|ready|running|updated|completed?|done)\b"
)
_LONGEST_ENDING = 3
_DENIED = re.compile(r"\b(?:ready|done|completed?|finished)[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?:false|no)\b")
_NO_VALUE = r"(?![\"']?\s{0,2}[:=])"
_FIRST_WITHOUT_BLANKS = "\u2e80"
"""The first letter of the scripts that write no blanks between words: Chinese and Japanese."""


class Words:
    """Words and phrases; a blank in a phrase may be an underscore or a hyphen."""

    __slots__ = ("_needles", "_phrases")

    def __init__(self, phrases: Iterable[str], *, following: str = "") -> None:
        """``following``: a pattern of what must follow each of them."""
        lower = sorted({" ".join(phrase.lower().split()) for phrase in phrases} - {""})
        inside = [re.escape(phrase) for phrase in lower if phrase[0] >= _FIRST_WITHOUT_BLANKS]
        apart = [_pattern(phrase) for phrase in lower if phrase[0] < _FIRST_WITHOUT_BLANKS]
        either = [f"(?:{'|'.join(inside)})"] if inside else []
        either += [rf"(?<!\w)(?:{'|'.join(apart)})(?!\w)"] if apart else []
        self._phrases = re.compile(f"(?:{'|'.join(either)}){following}" if either else "(?!)")
        longest = {max(phrase.split(), key=len) for phrase in lower}
        endings: dict[str, list[str]] = {}
        for word in longest:
            if not any(other in word for other in longest - {word}):
                endings.setdefault(word[-_LONGEST_ENDING:], []).append(word)
        self._needles = tuple((words[0] if len(words) == 1 else ending, words) for ending, words in endings.items())
        """Words of which each phrase has one, by an ending that they share: half of them end in "ing"."""

    def are_in(self, lower: str) -> bool:
        """Return True if a text in lower case has one of the phrases."""
        for ending, words in self._needles:
            if ending in lower and any(word in lower for word in words):
                return self._phrases.search(lower) is not None
        return False


class PendingWords:
    """The words of a policy for a result that is not done yet, and for one that is over."""

    __slots__ = ("_ended", "_pending")

    def __init__(self, pending: Iterable[str], ended: Iterable[str] = ()) -> None:
        self._pending, self._ended = Words(pending), Words(ended, following=_NO_VALUE)

    def are_in(self, lower: str) -> bool:
        """Return True if a text in lower case says that work is not done: by a word, "12 %", "1 of 3", "done: no"."""
        if self._pending.are_in(lower) or ("%" in lower and _SHARE.search(lower)):
            return True
        part = _PART.search(lower) if "of" in lower or "/" in lower else None
        if part is not None and int(part[1]) < int(part[2]):
            return True
        return (
            ("false" in lower or "no" in lower)
            and ("done" in lower or "ready" in lower or "complete" in lower or "finished" in lower)
            and _DENIED.search(lower) is not None
        )

    def say_that_it_is_over(self, lower: str) -> bool:
        """Return True if a text in lower case says that work has ended, well or badly."""
        return self._ended.are_in(lower)


def _pattern(phrase: str) -> str:
    return "[ _-]".join(map(re.escape, phrase.split()))
