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
