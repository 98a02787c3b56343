"""Progress in the numbers of results that are equal but for their numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from tests.engine.reference import plain


@dataclass
class Number:
    """One number of a result, at its place: the way in which it moves, and how many times it turned."""

    way: float = 0.0
    turns: int = 0
    is_noise: bool = False

    def move(self, way: float, compared: int) -> bool:
        """Move this way; return True if it moves on, False if it turns: then it may begin again either way."""
        moves_on = self.way in (0.0, way)
        self.turns += not moves_on
        self.way = way if moves_on else 0.0
        self.is_noise = not moves_on and self.turns >= 2 and self.turns * 3 >= compared
        return moves_on


def is_progress(texts: list[str]) -> bool:
    """Return True if in the last text a number moved on in its way, and none turned that had not turned before.

    The texts are the results of one call in their order; those before the last change of shape are passed over.
    """
    shape = plain.shape(texts[-1])
    chain = list(itertools.takewhile(lambda text: plain.shape(text) == shape, reversed(texts)))[::-1]
    rows = [plain.NUMBER.findall(text) for text in chain]
    if len({len(row) for row in rows}) != 1:
        return False
    numbers = [Number() for _ in rows[0]]
    compared, progress = 0, False
    for place in range(1, len(chain)):
        if chain[place] == chain[place - 1]:
            continue
        compared += 1
        names = plain.named_numbers(chain[place - 1]) | plain.named_numbers(chain[place])
        progress = _step(numbers, rows[place - 1], rows[place], names, compared)
    return progress


def _step(numbers: list[Number], before: list[str], after: list[str], names: set[str], compared: int) -> bool:
    on, new_turn = False, False
    for number, old, new in zip(numbers, before, after, strict=True):
        if number.is_noise or float(old) == float(new) or {old, new} & names:
            continue
        first = not number.turns
        if number.move(math.copysign(1.0, float(new) - float(old)), compared):
            on = True
        else:
            new_turn = new_turn or first
    return on and not new_turn
