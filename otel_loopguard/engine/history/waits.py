"""Find out if a run was a wait, and how long it was.

A wait tool waits as long as its argument says, or as long as it ran. A tool of unknown kind, a command, and a look (a
long poll) that runs as long as a number of its arguments says is a wait, too, whatever its name is.
"""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from otel_loopguard.engine.vocabulary import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.engine.vocabulary import Record

SHORTEST_WAIT = 3.0
"""Seconds. A shorter wait is a pause like any other."""
_MEASURABLE = 1.0
"""Seconds. A wait tool that ran for less may have been replaced in a test."""
_TOLERANCE = 0.1
_MILLISECONDS = 1_000
"""A number from here on is one of milliseconds."""
_SECONDS = re.compile(r"(?:^|\bsleep )\s*(\d{1,6}(?:\.\d{1,6})?)")
_MOST_ARGUMENTS = 16
_LONGEST = 1e9

# Looking up a member of an enumeration takes as long as a function call on Python 3.11.
_WAIT = Kind.WAIT
_MAY_WAIT = frozenset({Kind.READ, Kind.UNKNOWN, Kind.SHELL})


def is_wait(record: Record, ran: float) -> bool:
    """Return True if a call that ran for so many seconds was a wait of at least 3. 0: its times were not recorded."""
    if record.kind is _WAIT:
        seconds = ran if ran >= _MEASURABLE else next(seconds_named(record.resolved.arguments), math.inf)
        return seconds >= SHORTEST_WAIT
    if ran < SHORTEST_WAIT or not (record.kind in _MAY_WAIT or record.resolved.tool.takes_next):
        return False
    return any(abs(ran - named) <= _TOLERANCE * named for named in seconds_named(record.resolved.arguments))


def seconds_named(arguments: Any) -> Iterator[float]:
    """Yield the numbers of seconds that the arguments of a wait may name, also in their texts."""
    values = islice(arguments.values(), _MOST_ARGUMENTS) if type(arguments) is dict else (arguments,)
    return (seconds for value in values if (seconds := _seconds(value)))


def _seconds(value: Any) -> float:
    if type(value) is str:
        found = _SECONDS.search(value)
        number = 0.0 if found is None else float(found[1])
    else:
        number = float(value) if type(value) in (int, float) and 0 < value < _LONGEST else 0.0
    return number / 1_000 if number >= _MILLISECONDS else number
