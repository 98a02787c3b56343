"""Write a file of the user's: check first that it can be written, and replace it at once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from otel_loopguard.errors import LoopGuardError


def writable(output: str) -> Path:
    """Return the path of a file to write. Raise ``LoopGuardError`` if it cannot be written."""
    place = Path(output)
    folder = place.absolute().parent
    if place.is_dir():
        raise LoopGuardError(f"{output} is a folder; name a file in it")
    if not folder.is_dir():
        raise LoopGuardError(f"{output}: there is no folder {folder}; make it first")
    if not os.access(place if place.exists() else folder, os.W_OK):
        raise LoopGuardError(f"{output} cannot be written: you have no permission; name another file")
    return place


def write_file(output: str, text: str) -> None:
    """Write a file. An existing file is replaced at once: a program that reads it meanwhile never finds half."""
    place = Path(output).resolve()
    if place.exists() and not place.is_file():  # a pipe
        place.write_text(text, "utf-8")
        return
    part = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        part.write_text(text, "utf-8")
        if place.exists():
            shutil.copymode(place, part)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
