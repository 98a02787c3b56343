"""Count the calls of a piece of code, Python's and C's: a bound on its work that does not depend on the machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def steps(function: Callable[[], object]) -> int:
    """Run a function, and return how many calls it made."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count
