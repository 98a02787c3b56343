"""The public ``last_turn``: how the turn ended that the running code has begun last.

The place of a turn's end is noted where the turn begins, because it may end in a task, or under the garbage collector.
A context variable keeps it from the code of another user. Only in the main thread, outside of event loops, the last
turn of the thread counts: a script asks after ``asyncio.run`` has returned, whose context is gone.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

from otel_loopguard.guard.ending import Ending
from otel_loopguard.guard.turn import on_event_loop

if TYPE_CHECKING:
    from otel_loopguard.guard.ending import EndedTurn
    from otel_loopguard.guard.turn import Turn

_of_context: ContextVar[Ending | None] = ContextVar("loopguard_ending", default=None)
_of_main_thread: list[Ending] = []
"""The ending of the main thread's last turn; empty before the first one."""


def begin(turn: Turn) -> None:
    """Note that the running code begins this turn, or resumes it after an end."""
    turn.go_on()
    see(turn)


def see(turn: Turn) -> None:
    """Note that the running code works on this turn."""
    turn.ending = ending = turn.ending or Ending()
    _of_context.set(ending)
    if _in_main_thread():
        _of_main_thread[:] = [ending]


def move(turn: Turn, into: Turn) -> None:
    """Note that a turn has turned out to be a part of another one: it has no end and no span of its own."""
    if turn.span is not None:
        turn.span.drop()
    into.spend(turn.ledger)
    into.ending = into.ending or Ending()
    if turn.ending is not None:
        turn.ending.moved_to = into.ending


def last_turn() -> EndedTurn | None:
    """Return the end of the turn that this code has begun last; None if that goes on, or there was none.

    Of several tasks and threads each one has its own, so ask in the code that awaited the run. Where a run was begun in
    another task or thread, use ``with loopguard.turn() as turn``, and ask ``turn.ended_as``.
    """
    ending = _of_context.get()
    if _of_main_thread and _in_main_thread() and not on_event_loop():
        ending = _of_main_thread[0]
    if ending is not None:
        ending = ending.moved_to or ending
    return None if ending is None else ending.turn


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident
