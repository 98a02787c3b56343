"""The result of one attempt to break a promise."""

from __future__ import annotations

import resource
from typing import NamedTuple


class Row(NamedTuple):
    """One line of a part's table."""

    label: str
    tried: int
    broken: int
    """How often the promise was broken."""
    note: str = ""

    def is_of_any(self, rows: list[Row]) -> bool:
        """Return True if a row has the label of another one, up to a colon: it is about the same framework."""
        return self.label.partition(":")[0] in {row.label.partition(":")[0] for row in rows}


def most_memory() -> float:
    """Return the most memory that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
