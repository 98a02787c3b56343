"""Remember which calls a gateway has reported, and when they ran.

A request has all its calls, but neither their times nor a word of their spans. So a message list that is read from its
beginning again, as a branch, a retry or one of another replica, finds both here, by the ids of its calls. With a store
the replicas share them: message lists that begin with the same call have one cell.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import orjson

from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.interrupts import pass_interrupt
from otel_loopguard.store import background
from otel_loopguard.store.store import READ_ONLY, VERSION_SIZE, Swapped
from otel_loopguard.turns.message_lists import is_drawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.store.store import Store
    from otel_loopguard.turns.message_lists import Caller, NewResult, Request

_MOST = 65_536
_MOST_CELLS = 2_000
_MOST_IN_CELL = 2_048
_MOST_TRIES = 4
_SENT_AGAIN = 60.0
"""Seconds in which equal calls without ids of their own are one call that a client has sent again."""


class ReportedCall(NamedTuple):
    """A call whose result was read."""

    ended: float
    """The time, by the guard's clock."""
    ran: float
    """Seconds."""


class _Cell(NamedTuple):
    """A cell of the store. Its JSON has by each call's name its end, on the server's clock, and the seconds it ran."""

    version: bytes = b""
    data: bytes = b""

    def calls(self) -> dict[str, list[float]]:
        try:
            return orjson.loads(self.data) if self.data else {}
        except ValueError as error:
            pass_interrupt(error)
            return {}


class ReportedCalls:
    """The calls that this process, or another replica, has reported. The oldest are forgotten first."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._seen: OrderedDict[int, ReportedCall] = OrderedDict()
        self._cells: OrderedDict[str, _Cell] = OrderedDict()
        """The cells as this process knows them, by key."""
        self._ahead = 0.0
        """The seconds by which the server's clock is ahead of the guard's."""

    def clear(self) -> None:
        """Forget all, as after a fork."""
        self._seen.clear()
        self._cells.clear()

    def name(self, request: Request, place: tuple[int, int] | None, new: NewResult, call_id: str) -> int:
        """Return a number that names a call: of its id or, if another call may have that, of all before its result.

        ``place``: the entry of its result in the request, and the number in that entry.
        """
        if is_drawn(new.result.id):
            return self._of_id(request.caller, call_id, new)
        entry, part = place or (0, new.number)
        return hash((request.caller, request.prefix(entry), part, new.opened.call.name))

    def _of_id(self, caller: Caller | None, call_id: str, new: NewResult) -> int:
        return self._guard.compiled.fingerprinter.of(utf8(repr((caller, call_id, new.opened.call.name))))

    def add(self, name: int, seen: ReportedCall, *, is_own: bool) -> ReportedCall | None:
        """Return what is known of the call with this name; if nothing, add it and return None: it is to be reported.

        ``is_own``: no other call has its id. If others may, a call that ended a minute later is another one.
        """
        known = self._seen.get(name)
        if known is not None and (is_own or seen.ended - known.ended < _SENT_AGAIN):
            return known
        self._seen[name] = seen
        if len(self._seen) > _MOST:
            self._seen.popitem(last=False)
        return None

    async def share(self, caller: Caller | None, root: str, news: Sequence[NewResult], ids: Mapping[int, str]) -> None:
        """Add calls to the cell of message lists that begin with the call ``root``. Take over what others have added.

        Calls whose ids others may have are left out. Without an answer of the store nothing is taken over.
        """
        store, now = self._guard.store, self._guard.clock()
        named = {self._of_id(caller, ids[new.number], new): new for new in news if is_drawn(new.result.id)}
        mine = {
            name: ReportedCall(now, max(0.0, now - new.opened.at))
            for name, new in named.items()
            if name not in self._seen
        }
        if store is not None and mine:
            key = self._guard.compiled.fingerprinter.name(repr(("calls", caller, root)))
            others = await background.on_loop(self._swapped(store, key, mine))
            for name, seen in others.items():
                self._seen.setdefault(name, seen)

    async def _swapped(self, store: Store, key: str, mine: Mapping[int, ReportedCall]) -> dict[int, ReportedCall]:
        """Write calls to the cell of this key. Return those of them that others had written before."""
        cell = self._cells.get(key, _Cell())
        seen = cell.version or (b"" if self._ahead else READ_ONLY)
        others: dict[int, ReportedCall] = {}
        for _ in range(_MOST_TRIES):
            calls = cell.calls()
            known = {name: calls[str(name)] for name in mine if str(name) in calls}
            others = {name: ReportedCall(ended - self._ahead, ran) for name, (ended, ran) in known.items()}
            new = {str(name): [one.ended + self._ahead, one.ran] for name, one in mine.items() if name not in known}
            if not new:
                break
            version = os.urandom(VERSION_SIZE)
            data = orjson.dumps(dict(list((calls | new).items())[-_MOST_IN_CELL:]))
            reply = await store.swap(key, seen, version, data)
            if reply is None:
                break
            self._ahead = reply.time - self._guard.clock()
            cell = _Cell(version, data) if isinstance(reply, Swapped) else _Cell(reply.version, reply.state)
            seen = cell.version
            if isinstance(reply, Swapped):
                break
        self._cells[key] = cell
        self._cells.move_to_end(key)
        if len(self._cells) > _MOST_CELLS:
            self._cells.popitem(last=False)
        return others
