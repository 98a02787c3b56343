"""Strike at every instruction of the package at which CPython runs signal handlers, one at a time.

CPython runs them when a function or a generator begins or goes on, before and after a call, and at the jump back of a
loop. There a trace function raises a real signal. A handler that strikes before a call finds it not yet made; one that
strikes after it finds its result not yet kept.
"""

from __future__ import annotations

import dis
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import otel_loopguard
from tests.engine.judges.seed import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

SIGNAL = signal.SIGUSR1
PACKAGE = str(Path(otel_loopguard.__file__).parent) + "/"
APART = tuple(PACKAGE + room for room in ("testing/", "cli/", "report/"))
_CHECKED = tuple(number for name, number in dis.opmap.items() if name.startswith(("CALL", "JUMP_BACK", "JUMP_ABS")))


class Place(NamedTuple):
    """An instruction; ``after``: it has just been executed."""

    code: CodeType
    offset: int
    after: bool

    def __str__(self) -> str:
        line = max((line for start, _, line in self.code.co_lines() if start <= self.offset and line), default=0)
        name = getattr(self.code, "co_qualname", self.code.co_name)
        return f"{self.code.co_filename.removeprefix(PACKAGE)}:{line} {name} {'after' if self.after else 'before'}"


def is_ours(code: CodeType) -> bool:
    """True for code of the package that runs at a call."""
    return code.co_filename.startswith(PACKAGE) and not code.co_filename.startswith(APART)


def _handlers_of(code: CodeType) -> Callable[[int], Any]:
    """Return a function that names the exception handler of an instruction; before Python 3.11 it is not known."""
    parse = getattr(dis, "_parse_exception_table", None)
    entries = () if parse is None else parse(code)
    return lambda offset: next((entry.target for entry in entries if entry.start <= offset < entry.end), None)


def _checked(code: CodeType) -> dict[int, bool]:
    """Return the instructions at which handlers run; True for those that are struck when they have been executed.

    The trace function is called at the instructions between which a handler really runs. One that follows a call is
    struck there, unless it is no more in the same ``try`` block: then the call is struck.
    """
    offsets, handler_of = [one.offset for one in dis.get_instructions(code)], _handlers_of(code)
    return {
        offset: handler_of(following) == handler_of(offset)
        for offset, following in zip(offsets, [*offsets[1:], offsets[-1]], strict=True)
        if code.co_code[offset] in _CHECKED
    }


_tables: dict[int, tuple[CodeType, dict[int, bool]]] = {}
"""What ``_checked`` returns for each code, by its identity: to hash a code takes long."""


class _Tracer:
    """Calls ``reached`` at each place that is executed, until it returns True."""

    def __init__(self, reached: Callable[[Place], bool], only: CodeType | None = None) -> None:
        self._reached = reached
        self._only = only
        self._last: dict[FrameType, int] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if event == "call":
            if not is_ours(code) or (self._only is not None and code is not self._only):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            self._last.pop(frame, None)
            self._at(Place(code, max(0, frame.f_lasti), after=False))
        elif event == "opcode":
            if id(code) not in _tables:
                _tables[id(code)] = code, _checked(code)
            checked, offset, before = _tables[id(code)][1], frame.f_lasti, self._last.pop(frame, None)
            if before is not None:
                self._at(Place(code, before, after=True))
            when_done = checked.get(offset)
            if when_done:
                self._last[frame] = offset
            elif when_done is not None:
                self._at(Place(code, offset, after=False))
        elif event == "return":
            self._last.pop(frame, None)
        return self

    def _at(self, place: Place) -> None:
        if self._reached(place):
            sys.settrace(None)
            signal.raise_signal(SIGNAL)


@contextmanager
def handled(handler: Callable[..., object]) -> Iterator[None]:
    """Install the handler of the signal. A strike that hangs ends with an error after a minute."""

    def hung(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(SIGNAL, handler), signal.signal(signal.SIGALRM, hung)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(SIGNAL, before[0])
        signal.signal(signal.SIGALRM, before[1])


def places(run: Callable[[], Any]) -> list[Place]:
    """Return all places of the package that the program executes, in the order of the first visit.

    It runs twice: from Python 3.12 on, not all instructions are traced in the first run that traces a function.
    """
    found: dict[Place, None] = {}

    def reached(place: Place) -> bool:
        found[place] = None
        return False

    for _ in range(2):
        sys.settrace(_Tracer(reached))
        try:
            run()
        finally:
            sys.settrace(None)
    return list(found)


def drawn_places(run: Callable[[], Any]) -> list[Place]:
    """Return each third of these places, from one that the seed draws: over many runs all are struck."""
    return places(run)[SEED % 3 :: 3]


def struck(place: Place, run: Callable[[], Any]) -> Any:
    """Run the program, and raise the signal when it is first at this place."""
    signal.alarm(60)
    sys.settrace(_Tracer(lambda here: here == place, place.code))
    try:
        return run()
    finally:
        sys.settrace(None)
