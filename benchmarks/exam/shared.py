"""Read another examination, which is not part of this project, in the folder ../shared/exam."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.exam.trace import Call, Family, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "exam"


def present() -> bool:
    """Return True if the other examination is here."""
    return (FOLDER / "vocab.py").exists()


def draw(namings: Iterable[str], seeds: Iterable[int]) -> list[Trace]:
    """Draw a trace of each of its families under each naming from each seed; none if it is not here."""
    if not present():
        return []
    sys.path.insert(0, str(FOLDER))
    try:
        run, vocab = importlib.import_module("run"), importlib.import_module("vocab")
    finally:
        sys.path.remove(str(FOLDER))
    names = [*vocab.STUCK, *vocab.LEGIT]
    return [_trace(run, vocab, name, naming, seed) for naming in namings for name in names for seed in seeds]


def _trace(run: Any, vocab: Any, name: str, naming: str, seed: int) -> Trace:
    drawn, tools = vocab.draw(name, naming, seed)
    # Its calls are counted from 0.
    told, refused = (None if at is None else at + 1 for at in (drawn.nudge_by, drawn.stop_by))
    by_name = name in vocab.LEGIT and not vocab.LEGIT[name][2]
    family = Family(name, vocab.draw, name in vocab.STUCK, told=told or 0, refused=refused, by_name=by_name)
    calls = [
        Call(
            call["step"], 0.0, call["at"], run.took(call), call["tool"], call["args"], call["result"], call["is_error"]
        )
        for call in drawn.calls
    ]
    return Trace(family, naming, seed, calls, frozenset(tools), drawn.v.flag)
