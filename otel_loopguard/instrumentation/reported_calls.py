"""Remember which calls a gateway has reported, when they ran, and how long the model thought before it wrote them.

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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_loopguard.guard.guard import Guard
    from otel_loopguard.store.store import Store
    from otel_loopguard.turns.message_lists import Caller, NewResult, Request
    from otel_loopguard.turns.messages import WrittenCall

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


class Written(NamedTuple):
    """The time at which a model had written a call."""

    at: float
    """By the guard's clock."""
    thought: float
    """The seconds that the model had thought before."""


class _Cell(NamedTuple):
    """A cell of the store. Its JSON has two pairs for a call, whose times are on the server's clock.

    By the call's name: its end, and the seconds that it ran. By the name with a plus: as in ``Written``.
    """

    version: bytes = b""
    data: bytes = b""

    def entries(self) -> dict[str, list[float]]:
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
        self._written: OrderedDict[int, Written] = OrderedDict()
        self._cells: OrderedDict[str, _Cell] = OrderedDict()
        """The cells as this process knows them, by key."""
        self._ahead = 0.0
        """The seconds by which the server's clock is ahead of the guard's."""

    def clear(self) -> None:
        """Forget all, as after a fork."""
        self._seen.clear()
        self._written.clear()
        self._cells.clear()

    def name(self, request: Request, place: tuple[int, int] | None, new: NewResult, call_id: str) -> int:
        """Return a number that names a call: of its id or, if another call may have that, of all before its result.

        ``place``: the entry of its result in the request, and the number in that entry.
        """
        if is_drawn(new.result.id):
            return self._of_id(request.caller, call_id, new.opened.call.name)
        entry, part = place or (0, new.number)
        return hash((request.caller, request.prefix(entry), part, new.opened.call.name))

    def _of_id(self, caller: Caller | None, call_id: str, tool: str) -> int:
        return self._guard.compiled.fingerprinter.of(utf8(repr((caller, call_id, tool))))

    def written(self, name: int, new: NewResult) -> Written:
        """Return when the call with this name was written, as far as this process or another replica has seen it."""
        return self._written.get(name) or Written(new.opened.at, 0.0)

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
        now = self._guard.clock()
        named = {
            self._of_id(caller, ids[new.number], new.opened.call.name): new for new in news if is_drawn(new.result.id)
        }
        mine = {name: new for name, new in named.items() if name not in self._seen}

        def added(there: Mapping[str, list[float]]) -> dict[str, list[float]]:
            self._take(mine, there)
            times = {str(name): self.written(name, new).at for name, new in mine.items()}
            return {name: [now + self._ahead, max(0.0, now - at)] for name, at in times.items()}

        store = self._guard.store
        if mine and store is not None:
            there = await background.on_loop(self._swapped(store, caller, root, added))
            for name in mine:
                if (pair := there.get(str(name))) is not None:
                    self._seen.setdefault(name, ReportedCall(pair[0] - self._ahead, pair[1]))

    def _take(self, names: Iterable[int], there: Mapping[str, list[float]]) -> None:
        """Take over when another replica has seen these calls being written."""
        for name in names:
            if (pair := there.get(f"+{name}")) is not None:
                self._note(name, Written(pair[0] - self._ahead, pair[1]))

    def _note(self, name: int, written: Written) -> None:
        self._written.setdefault(name, written)
        if len(self._written) > _MOST:
            self._written.popitem(last=False)

    def note(self, caller: Caller | None, calls: Sequence[WrittenCall], thought: float) -> dict[int, Written]:
        """Note that the model has just written these calls, after so many seconds. Return what is noted, by name.

        Calls whose ids others may have are left out.
        """
        written = Written(self._guard.clock(), thought)
        noted = {self._of_id(caller, str(call.id), call.name): written for call in calls if is_drawn(call.id)}
        for name in noted:
            self._note(name, written)
        return noted

    async def write(self, store: Store, caller: Caller | None, root: str, noted: Mapping[int, Written]) -> None:
        """Add what ``note`` has noted to the cell of ``share``. Must run on the background loop."""

        def added(_: Mapping[str, list[float]]) -> dict[str, list[float]]:
            return {f"+{name}": [one.at + self._ahead, one.thought] for name, one in noted.items()}

        await self._swapped(store, caller, root, added)

    async def _swapped(
        self,
        store: Store,
        caller: Caller | None,
        root: str,
        added: Callable[[Mapping[str, list[float]]], dict[str, list[float]]],
    ) -> dict[str, list[float]]:
        """Add what is new of ``added(entries)`` to the entries of a cell. Return those that were there before."""
        key = self._guard.compiled.fingerprinter.name(repr(("calls", caller, root)))
        cell = self._cells.get(key, _Cell())
        seen = cell.version or (b"" if self._ahead else READ_ONLY)
        there: dict[str, list[float]] = {}
        for _ in range(_MOST_TRIES):
            there = cell.entries()
            new = {name: pair for name, pair in added(there).items() if name not in there}
            if not new:
                break
            version = os.urandom(VERSION_SIZE)
            data = orjson.dumps(dict(list((there | new).items())[-_MOST_IN_CELL:]))
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
        return there
