"""Find the loops of a recorded turn that a policy stops, and the shortest script of each that it stops, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.cli.replay.judge import is_listed
from otel_loopguard.cli.test_from.scripts import Detail, Script, script_of, tool_of
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.testing.loops import Player, stops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_loopguard.cli.replay.recorded_turn import JudgedCall
    from otel_loopguard.engine.policy.policy import Policy
    from otel_loopguard.engine.vocabulary import Trip

_MOST_CALLS = 300
"""A loop that needs more calls before it is stopped has no test: nobody reads it."""
_OF_TEXTS = {
    Mode.SIMILAR_QUERY: "similar_query needs the texts of its queries, which are not written",
    Mode.NESTED_REPEAT: "nested_repeat needs agents that call each other",
}
_DETAILS = (Detail(True, True, True, True), Detail(False, True, True, True), Detail(existence=True), Detail())  # noqa: FBT003 - all of them


class RecordedLoop(NamedTuple):
    """A loop of a recording, judged by a policy."""

    place: str
    """The run and the turn."""
    tool: str
    trip: Trip
    call: int
    """The number of the call at which it is stopped, or told for the first time; counted from 1."""
    script: Script | None
    """None if it has no test."""
    reason: str = ""
    """Why it has no test."""


class LoopFinder:
    """Finds loops, and tries scripts under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._players: dict[tuple[tuple[str, str], ...], Player] = {}

    def loops(self, place: str, calls: Sequence[JudgedCall]) -> Iterator[RecordedLoop]:
        """Yield the loops of a turn, each once: first those that are stopped."""
        calls = sorted(calls, key=lambda one: one.position)
        over: set[object] = set()
        told: dict[tuple[object, object], RecordedLoop] = {}
        for number, one in enumerate(calls, 1):
            trip, record = one.trip, one.record
            if trip is None or not is_listed(trip):
                continue
            tool, reason = tool_of(record), "told, not stopped"
            name = (trip.mode, tool if trip.period == 1 else "")
            if record.key in over or name in over:
                continue
            if trip.action < (Action.CONCLUDE if one.call.has_run else Action.REUSE):
                told.setdefault((record.key, name), RecordedLoop(place, tool, trip, number, None, reason))
                continue
            script = None if trip.mode in _OF_TEXTS else self.script(calls[:number])
            if script is not None:
                reason = ""
            elif trip.mode in _OF_TEXTS:
                reason = _OF_TEXTS[Mode(trip.mode)]
            else:
                reason = "another loop of its turn is stopped before" if over else "it depends on more than equality"
            over.update([name, *(before.record.key for before in calls[max(0, number - trip.period) : number])])
            yield RecordedLoop(place, tool, trip, number, script, reason)
        yield from (loop for (key, name), loop in told.items() if not over.intersection((key, name)))

    def script(self, calls: Sequence[JudgedCall]) -> Script | None:
        """Return the shortest script found whose last call is stopped as that of these calls is; None if none is."""
        trip = calls[-1].trip
        mode = "" if trip is None else trip.mode
        calls = calls[-_MOST_CALLS:]
        for detail in _DETAILS:
            for size in _sizes(len(calls)):
                if self._is_stopped(script_of(calls[-size:], detail), mode):
                    return self._shortened(calls[-size:], detail, mode)
        return None

    def _shortened(self, calls: Sequence[JudgedCall], detail: Detail, mode: str) -> Script:
        """Leave out calls and facts, as long as the last call is stopped all the same."""
        while len(calls) > 1 and self._is_stopped(script_of(calls[1:], detail), mode):
            calls = calls[1:]
        for key in {one.record.key for one in calls} - {calls[-1].record.key}:
            fewer = [one for one in calls if one.record.key != key]
            if self._is_stopped(script_of(fewer, detail), mode):
                calls = fewer
        for fact in Detail._fields:
            plainer = detail._replace(**{fact: False})
            if self._is_stopped(script_of(calls, plainer), mode):
                detail = plainer
        return script_of(calls, detail)

    def _is_stopped(self, script: Script, mode: str) -> bool:
        """Return True if the last call of a script is stopped by this mode, and no call before it is."""
        return self.stopped_at(script, mode) == len(script.calls)

    def stopped_at(self, script: Script, mode: str = "") -> int:
        """Return the number of the call that is stopped, by this mode if one is given; 0 if none is."""
        player = self._players.get(script.kinds) or self._players.setdefault(
            script.kinds, Player(self._policy, dict(script.kinds))
        )
        number, last = 0, None
        for number, last in enumerate(player.play(script.calls, script.unknown, have_run=script.have_run), 1):  # noqa: B007 - used after it
            pass
        if last is None or last.trip is None or not stops(last, have_run=script.have_run):
            return 0
        return number if mode in ("", last.trip.mode) else 0


def _sizes(most: int) -> Iterator[int]:
    """Yield growing lengths up to the greatest one: each of the short ones, some of the long ones."""
    size = 1
    while size < most:
        yield size
        size += 1 + size // 16
    yield most
