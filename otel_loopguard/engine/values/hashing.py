"""Feed a hash without giving up the interpreter lock.

``hashlib`` gives the lock up for 2,048 bytes and more. If another thread is busy, it takes the lock, and the call waits
for it: 5 ms and more, for a hash of a few microseconds.
"""

from __future__ import annotations

from typing import Any

MOST_AT_ONCE = 2_047
_LARGEST_IN_PIECES = 65_536
"""A hash of more bytes takes so long that other threads may run."""


def feed(state: Any, data: bytes) -> None:
    """Add bytes to a hash: up to 64 KB in pieces, so that the lock is kept, and more at once."""
    size = len(data)
    if size <= MOST_AT_ONCE or size > _LARGEST_IN_PIECES:
        state.update(data)
    else:
        view = memoryview(data)
        for start in range(0, size, MOST_AT_ONCE):
            state.update(view[start : start + MOST_AT_ONCE])
