"""Number objects by identity, for arguments that cannot be read: such an argument is equal to itself only.

Python gives the ``id`` of a dead object to another one. A number is given once, and kept for as long as its object
lives.
"""

from __future__ import annotations

import itertools
import os
import weakref
from functools import partial
from typing import Any, Final

from otel_loopguard.interrupts import pass_interrupt

_MOST_OBJECTS = 10_000


class Identities:
    """The numbers of living objects. Beyond 10,000 the oldest are forgotten: met again, they get another number.

    Objects are found by their ``id``, because they may define their own equality. There is no lock: an object may die
    at any line, also in code that holds one.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        # Another process may share the store of turns, and its objects are others.
        self._numbers = itertools.count(int.from_bytes(os.urandom(7), "big"))

    def __len__(self) -> int:
        return len(self._known)

    def number(self, item: Any) -> int | None:
        """Return the number of an object; None if it cannot be referenced weakly."""
        key = id(item)
        known = self._known.get(key)
        if known is None:
            try:
                # The callback gets the dead reference, which ``pop`` takes as its default.
                reference = weakref.ref(item, partial(self._known.pop, key))
            except TypeError as error:
                pass_interrupt(error)
                return None
            if len(self._known) >= _MOST_OBJECTS:
                for oldest in list(self._known)[: 1 + _MOST_OBJECTS // 10]:  # list() is atomic; other threads may write
                    self._known.pop(oldest, None)
            known = self._known.setdefault(key, (reference, next(self._numbers)))
        return known[1] if known[0]() is item else None


identities: Final = Identities()
"""The objects of this process."""
