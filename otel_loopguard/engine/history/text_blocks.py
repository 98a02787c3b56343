"""Find the equal blocks that a text ends in: what a model writes that has got stuck in its own words."""

from __future__ import annotations

from typing import Final, NamedTuple

_TAIL: Final = 24
_LONGEST: Final = 8_192
"""Characters of the longest block that is found."""
_MOST: Final = 10_000
"""Copies after which no more are counted."""
_TRIES: Final = 32
"""Lengths that are tried: a block may have its own end in it."""
_ENOUGH: Final = 1_000
"""Characters of equal blocks after which no other length is tried."""
_BLANKS: Final = 1_000
_STEP: Final = 256
"""Characters of a text that is being written after which its end is looked at."""
_KEPT: Final = 2 * _LONGEST
"""Its last characters that are kept."""


class Blocks(NamedTuple):
    """The equal blocks at the end of a text, one after the other."""

    copies: int = 0
    characters: int = 0
    """Those of all copies."""
    is_judged: bool = False
    """True once a request was sent that was judged by them."""


NO_BLOCKS: Final = Blocks()


def blocks_at_the_end(text: str, folded: str) -> Blocks:
    """Return the blocks of a text. ``folded``: the same with single blanks. A text that ends in blanks has these."""
    blanks = len(text) - len(text.rstrip())
    if blanks >= _BLANKS:
        return Blocks(blanks, blanks)
    # With a blank at its end the last block is whole, too, where blanks part the blocks.
    return max(_at_the_end(folded), _at_the_end(f"{folded} "), key=lambda found: found.characters)


class GrowingText:
    """Follow a text while it is written. Only its end is kept, and only here."""

    __slots__ = ("_blanks", "_end", "_period", "_pieces", "_run", "_size")

    def __init__(self) -> None:
        self._end = ""
        """The last characters, with single blanks, in lower case."""
        self._pieces: list[str] = []
        """The pieces that were not looked at yet."""
        self._size = 0
        self._run = NO_BLOCKS
        self._period = 0
        """Characters of one block of the run; the last block may be cut off."""
        self._blanks = 0
        """Blanks at the end."""

    def add(self, piece: str, *, is_last: bool = False) -> Blocks:
        """Take the next piece. Return the blocks at the end if it is time to look, else none."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size < _STEP and not is_last:
            return NO_BLOCKS
        text, before = "".join(self._pieces), self._end
        self._pieces, self._size = [], 0
        words = text.strip()
        self._blanks = len(text) - len(text.rstrip()) + (0 if words else self._blanks)
        if self._blanks >= _BLANKS:
            return Blocks(self._blanks, self._blanks)
        new = " ".join(text.split()).lower()
        if text[:1].isspace() and not before.endswith(" "):
            new = f" {new}"
        if words and text[-1:].isspace():
            new = f"{new} "
        self._end = end = (before + new)[-_KEPT:]
        period = self._period
        if period and len(end) >= period + len(new) and end.endswith(new, 0, len(end) - period):
            characters = self._run.characters + len(new)
            self._run = Blocks(characters // period, characters)
        else:
            self._run = run = _at_the_end(end)
            self._period = run.characters // run.copies if run.copies else 0
        return self._run


def _at_the_end(folded: str) -> Blocks:
    best, size = NO_BLOCKS, len(folded)
    tail, place = folded[-_TAIL:], size - _TAIL
    for _ in range(_TRIES):
        place = folded.rfind(tail, max(0, size - _TAIL - _LONGEST), place + _TAIL - 1)
        if place < 0 or best.characters >= _ENOUGH:
            break
        length = size - _TAIL - place
        copies = _copies(folded, length)
        if copies > 1 and copies * length > best.characters:
            best = Blocks(copies, copies * length)
    return best


def _copies(text: str, length: int) -> int:
    """Return how many equal blocks of this length the text ends in."""
    block, end, copies = text[-length:], len(text) - length, 1
    while end >= length and copies < _MOST and text.startswith(block, end - length):
        end, copies = end - length, copies + 1
    return copies
