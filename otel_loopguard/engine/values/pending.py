"""Find the words of a result that is not done yet: pending, queued, "12 %", "ready: false".

Every call passes here, and most results have none of these words. A search for a plain word takes a fraction of the
time of a pattern, so it comes first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHARE = re.compile(r"(?<![\d.])\d{1,2}(?:\.\d+)? ?%")
_LONGEST_ENDING = 3
_DENIED = re.compile(r"\b(?:ready|done|completed?|finished)[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?:false|no)\b")


class PendingWords:
    """The words and phrases of a policy; a blank in a phrase may be an underscore or a hyphen."""

    __slots__ = ("_needles", "_phrases")

    def __init__(self, phrases: Iterable[str]) -> None:
        lower = sorted({" ".join(phrase.lower().split()) for phrase in phrases} - {""})
        self._phrases = (
            re.compile(rf"(?<!\w)(?:{'|'.join(map(_pattern, lower))})(?!\w)") if lower else re.compile("(?!)")
        )
        longest = {max(phrase.split(), key=len) for phrase in lower}
        endings: dict[str, list[str]] = {}
        for word in longest:
            if not any(other in word for other in longest - {word}):
                endings.setdefault(word[-_LONGEST_ENDING:], []).append(word)
        self._needles = tuple((words[0] if len(words) == 1 else ending, words) for ending, words in endings.items())
        """Words of which each phrase has one, by an ending that they share: half of them end in "ing"."""

    def are_in(self, lower: str) -> bool:
        """Return True if a text in lower case has one of the phrases, a share below 100 %, or "done: false"."""
        for ending, words in self._needles:
            if ending in lower and any(word in lower for word in words):
                if self._phrases.search(lower):
                    return True
                break
        if "%" in lower and _SHARE.search(lower):
            return True
        return (
            ("false" in lower or "no" in lower)
            and ("done" in lower or "ready" in lower or "complete" in lower or "finished" in lower)
            and _DENIED.search(lower) is not None
        )


def _pattern(phrase: str) -> str:
    return "[ _-]".join(map(re.escape, phrase.split()))
