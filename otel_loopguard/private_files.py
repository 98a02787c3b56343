"""Make files that only their owner may read: what is written about a user's runs has names, ids, times and hashes.

A file that exists already keeps its permissions, because its owner chose them, unless a secret is written to it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600


def private(path: str, flags: int) -> int:
    """Open a file, and return its descriptor; a new file only its owner may read. Pass it to ``open`` as ``opener``."""
    return os.open(path, flags, _OWNER_ONLY)


def write_private(path: str | os.PathLike[str], content: bytes, *, is_secret: bool = False) -> None:
    """Write a file; if it is new, only its owner may read it. If it ``is_secret``, this holds for an existing one, too.

    Raise an ``OSError`` without writing if a secret's file cannot be made so.
    """
    with open(path, "ab" if is_secret else "wb", opener=private) as file:
        if is_secret:
            os.fchmod(file.fileno(), _OWNER_ONLY)
            file.truncate(0)
        file.write(content)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an ``OSError`` if the file cannot be written: ask before long work. It leaves no empty file."""
    is_new = not Path(path).exists()
    with open(path, "ab", opener=private):
        pass
    if is_new:
        Path(path).unlink()
