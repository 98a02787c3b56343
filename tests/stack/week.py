"""One week of ordinary trouble: what Prometheus scrapes in it, and the messages that people must get.

A service is drawn minute by minute, as its counters and gauges. Each incident also says which alert is due, and when;
at all other times, and for all other services, an alert is false. Minutes count from Monday, 00:00.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import inf
from typing import TYPE_CHECKING, Final

from dashboards import names
from otel_loopguard import semconv
from otel_loopguard.telemetry.meters import TURN_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR: Final = 60
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY = range(0, WEEK, DAY)
EXPIRES: Final = 5
"""The minutes for which the collector goes on to show the series of a process that is silent."""
LATE: Final = 12
"""The minutes in which an alert must come, where a number of minutes is not a part of the alert."""
AFTER: Final = 45
"""The minutes in which an alert about loops must be over, after the last of them."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Due:
    """A message that must come between two minutes, and be over between two others."""

    alert: str
    severity: str
    service: str
    comes: tuple[int, int]
    ends: tuple[int, int]
    label: str = names.JOB

    @property
    def labels(self) -> dict[str, str]:
        """The labels by which the alert is known."""
        return {"alertname": self.alert, self.label: self.service}


class Process:
    """One process of a service, which runs from a minute until another."""

    def __init__(self, service: str, begin: int = 0, end: int = WEEK + EXPIRES, instance: str = "a") -> None:
        self.labels = {names.JOB: service, names.INSTANCE: instance}
        self.begin, self.end = begin, end
        self.gaps: list[tuple[int, int]] = []
        self._grown: dict[tuple[str, Labels], dict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._open: dict[Labels, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))

    def counts(self, counter: str, minute: int, labels: dict[str, str], number: float = 1) -> None:
        """Let a counter grow in a minute."""
        self._grown[counter, tuple(sorted(labels.items()))][minute] += number

    def works(self, calls: int, tool: str = "read") -> Process:
        """Call a tool as often in each minute of its life."""
        for minute in range(self.begin + 1, min(self.end, WEEK)):
            self._calls(minute, tool, "executed", calls)
        return self

    def _calls(self, minute: int, tool: str, outcome: str, number: int = 1) -> None:
        self.counts(names.TOOL_CALLS, minute, {names.TOOL: tool, names.OUTCOME: outcome}, number)

    def loops(
        self,
        minute: int,
        *actions: str,
        tool: str = "read",
        mode: str = "generic_repeat",
        minutes: int = 1,
        steps: int = 0,
    ) -> None:
        """Have one turn that loops, with a step for each action; the last one is repeated for so many ``steps``."""
        every = [*actions, *actions[-1:] * steps]
        for number, action in enumerate(every):
            at = minute + number * minutes // len(every)
            verdict = "nudge" if action == "nudge" else action if action in {"conclude", "abort"} else "block"
            self.counts(names.TRIPS, at, {names.MODE: mode, names.VERDICT: verdict, names.ACTION: action})
            self.counts(names.TOOL_TRIPS, at, {names.TOOL: tool, names.MODE: mode})
            self._calls(at, tool, {"observe": "executed", "nudge": "nudged"}.get(action, "blocked"))
            if number == every.index(action):
                self.counts(names.TURNS_TRIPPED, at, {names.MODE: mode, names.ACTION: action})
                self.counts(names.TURNS_LOOPING, at, {names.ACTION: action})
        for at in range(minute, minute + minutes):
            now = {names.TOOL: tool, names.MODE: mode, names.ACTION: actions[-1]}
            self._open[tuple(sorted(now.items()))][at].append(at - minute)
        ended = {names.ACTION: actions[-1], semconv.TURN_END.replace(".", "_"): "answered"}
        self.counts(names.TURNS_ENDED, minute + minutes, ended)

    def refused(self, minute: int, steps: int = 4, tool: str = "read") -> None:
        """Have a turn that is nudged, refused, and goes on to its answer."""
        self.loops(minute, "nudge", "block", tool=tool, steps=steps)

    def ended(self, minute: int, tool: str = "read") -> None:
        """Have a turn that the guard must end."""
        self.loops(minute, "nudge", "block", "conclude", tool=tool)

    def takes(self, minute: int, tokens: int) -> None:
        """Have a turn that takes so many tokens."""
        for bound in (*TURN_TOKENS, inf):
            if tokens <= bound:
                le = "+Inf" if bound == inf else f"{bound:g}"
                self.counts(names.TURN_TOKENS, minute, {names.AGENT: "planner", "le": le})

    def series(self) -> dict[str, str]:
        """Return promtool's notation of each series of the process, by its name and labels."""
        drawn = {}
        for (counter, labels), grown in self._grown.items():
            drawn[self._named(counter, labels)] = self._notation(self._sums(grown, min(grown)))
        for labels, ages in self._open.items():
            count = [float(len(ages.get(minute, ()))) for minute in range(WEEK + 1)]
            oldest = [60.0 * max(ages.get(minute, [0])) for minute in range(WEEK + 1)]
            drawn[self._named(names.LOOPS_OPEN, labels)] = self._notation([*count])
            drawn[self._named(names.LOOPS_OPEN_AGE, labels)] = self._notation([*oldest])
        drawn[self._named(names.STARTED, ())] = self._notation([60.0 * self.begin] * (WEEK + 1))
        return drawn

    def _sums(self, grown: dict[int, float], first: int) -> list[float | None]:
        sums: list[float | None] = []
        value = 0.0
        for minute in range(WEEK + 1):
            value += grown.get(minute, 0)
            sums.append(value if minute >= first else None)
        return sums

    def _named(self, metric: str, labels: Labels) -> str:
        return named(metric, **self.labels, **dict(labels))

    def _notation(self, values: list[float | None]) -> str:
        for minute in range(WEEK + 1):
            away = any(begin <= minute < end for begin, end in self.gaps)
            if away or not self.begin <= minute < self.end + EXPIRES:
                values[minute] = None
        return notation(values)


def named(metric: str, **labels: str) -> str:
    """Return the name of a series with its labels."""
    matchers = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{matchers}}}"


def notation(values: list[float | None]) -> str:
    """Return values as promtool reads them, with a stale marker where a series ends."""
    parts = []
    steps = [(values[0], 0.0)]
    for before, value in pairwise(values):
        steps.append((value, value - before if value is not None and before is not None else 0.0))
    minute = 0
    for missing, run in groupby(steps, lambda step: step[0] is None):
        several = list(run)
        if missing:
            marker = ["stale"] if minute else []
            rest = len(several) - len(marker)
            parts += [*marker, *([f"_x{rest}"] if rest else [])]
        else:
            # Each run of equal steps begins at its first value; the first value of all has no step.
            first, *others = several
            parts.append(f"{first[0]:g}")
            before = first[0] or 0.0
            for step, equal in groupby(others, lambda one: one[1]):
                number = len(list(equal))
                parts.append(f"{before + step:.10g}{step:+.10g}x{number - 1}")
                before += step * number
        minute += len(several)
    return " ".join(parts)


class Week:
    """Some scenes of the week, and the messages that are due in them. Scenes have services of their own."""

    def __init__(self, *scenes: Callable[[Week], None]) -> None:
        self.processes: list[Process] = []
        self.due: list[Due] = []
        self.others: dict[str, str] = {}
        for draw in (*scenes, _collector):
            draw(self)

    def process(
        self, service: str, calls: int, begin: int = 0, end: int = WEEK + EXPIRES, instance: str = "a"
    ) -> Process:
        """Add a process that works."""
        made = Process(service, begin, end, instance).works(calls)
        self.processes.append(made)
        return made

    def page(self, alert: str, service: str, begin: int, end: int, label: str = names.JOB) -> None:
        """Say that people must be paged for loops between two minutes, until these are over."""
        self.due.append(Due(alert, "page", service, (begin, begin + LATE), (end, end + AFTER), label))

    def ticket(self, alert: str, service: str, comes: tuple[int, int], ends: tuple[int, int]) -> None:
        """Say that a ticket is due, and until when."""
        self.due.append(Due(alert, "ticket", service, comes, ends))

    def series(self) -> dict[str, str]:
        """Return promtool's notation of all series."""
        return {**self.others, **{name: values for each in self.processes for name, values in each.series().items()}}


def calm(week: Week) -> None:
    """Loops that the guard stops, a few a day: nobody needs to know."""
    small = week.process("small", calls=8)
    spiky = week.process("spiky", calls=30)
    for day in range(0, WEEK, DAY):
        for hour in (9, 13, 17):
            small.refused(day + hour * HOUR, steps=8)
    for minute in (0, 2, 5, 8):
        spiky.ended(THURSDAY + 16 * HOUR + minute)
    demo = week.process("loopguard-demo", 10, TUESDAY + 10 * HOUR, TUESDAY + 11 * HOUR)
    for minute in range(60):
        demo.loops(TUESDAY + 10 * HOUR + minute, "observe", minutes=20, steps=20)


def deployed(week: Week) -> None:
    """A deploy each day, a job each night, and two more processes each noon."""
    for day in range(0, WEEK, DAY):
        begin = day + 10 * HOUR - 2 if day else 0
        shop = week.process("shop", 30, begin, day + DAY + 10 * HOUR, f"day-{day}")
        for minute in (0, 6, 100, 300, 500, 800):
            shop.refused(begin + 60 + minute)
        shop.ended(begin + 400)
        nightly = week.process("nightly", 20, day + 2 * HOUR, day + 2 * HOUR + 20, f"day-{day}")
        nightly.refused(day + 2 * HOUR + 5)
        for number in range(2):
            more = week.process("shop", 30, day + 12 * HOUR, day + 15 * HOUR, f"noon-{day}-{number}")
            more.refused(day + 12 * HOUR + 20 * number + 10)


def shared_tool(week: Week) -> None:
    """A tool of seven services is broken for an hour: one page, and nothing else about their loops."""
    begin = WEDNESDAY + 14 * HOUR
    for number in range(7):
        team = week.process(f"team-{number}", 20)
        for minute in range(0, HOUR, 1 + number % 3):
            team.ended(begin + minute, tool="search")
            team.refused(begin + minute, tool="search")
    week.page("LoopguardSharedTool", "search", begin, begin + HOUR - 1, names.TOOL)


def shadow(week: Week) -> None:
    """Who only observes gets a ticket a day, however long that goes on and however many calls there are."""
    observed, busy = week.process("shadow", 20), week.process("busy", 2000)
    for minute in range(THURSDAY, THURSDAY + 22 * HOUR, 40):
        observed.loops(minute, "observe", minutes=2, steps=11)
    week.ticket("LoopguardWouldRefuse", "shadow", (THURSDAY, THURSDAY + 30), (FRIDAY + 21 * HOUR, FRIDAY + 22 * HOUR))
    nine = TUESDAY + 9 * HOUR
    for minute in (nine, nine + 5):
        busy.loops(minute, "observe", minutes=3, steps=7)
    week.ticket("LoopguardWouldRefuse", "busy", (nine, nine + 30), (nine + DAY - 5, nine + DAY + 15))


def silent(week: Week) -> None:
    """A process is frozen for twenty minutes, and a service is switched off for the weekend."""
    frozen = week.process("frozen", 10)
    for minute in range(HOUR, FRIDAY, 2 * HOUR):
        frozen.refused(minute)
    freezes = FRIDAY + 3 * HOUR
    for minute in range(freezes + 10, freezes + 15):
        frozen.refused(minute)
    frozen.gaps.append((freezes + EXPIRES, freezes + 20))
    week.ticket("LoopguardServiceSilent", "frozen", (freezes + 5, freezes + 13), (freezes + 20, freezes + 22))
    week.process("office", 10, end=SATURDAY)
    off = SATURDAY + EXPIRES
    week.ticket("LoopguardServiceSilent", "office", (off, off + 10), (off + 20, off + HOUR))


def broken_parts(week: Week) -> None:
    """The store is away, the guard has a fault, a model makes names up, a breaker opens."""
    stored = week.process("stored", 20)
    away, blip = TUESDAY + 16 * HOUR, WEDNESDAY + 16 * HOUR
    for minute in range(away, away + 30):
        stored.counts(names.STORE_FAILURES, minute, {names.ERROR_TYPE: "timeout"})
    stored.counts(names.STORE_FAILURES, blip, {names.ERROR_TYPE: "timeout"}, 3)
    week.ticket("LoopguardStoreAway", "stored", (away, away + 10), (away + 29, away + 40))
    faulty = week.process("faulty", 20)
    fault = MONDAY + 20 * HOUR
    faulty.counts(names.INTERNAL_ERRORS, fault, {names.SITE: "decide"})
    week.ticket("LoopguardGuardErrors", "faulty", (fault, fault + 3), (fault + 10, fault + 20))
    inventor = week.process("inventor", 20)
    invents = MONDAY + 15 * HOUR
    for minute in range(invents, invents + 15):
        inventor.counts(names.TOOL_CALLS, minute, {names.TOOL: semconv.UNKNOWN_TOOL, names.OUTCOME: "failed"})
    week.ticket("LoopguardUnknownTools", "inventor", (invents + 9, invents + 20), (invents + 30, invents + 70))
    breaker = week.process("breaker", 20)
    opens = TUESDAY + 21 * HOUR
    breaker.loops(opens, "abort", mode="global_circuit_breaker")
    week.ticket("LoopguardBreakerOpen", "breaker", (opens, opens + 3), (opens + 10, opens + 30))


def incidents(week: Week) -> None:
    """What somebody must do something about now: turns that the guard has to end, and a turn that nothing stops."""
    support = week.process("support", 30)
    begin = FRIDAY + 11 * HOUR
    for minute in range(begin, begin + 40):
        support.ended(minute)
        support.ended(minute)
    week.page("LoopguardTripSpike", "support", begin, begin + 39)
    legacy = week.process("legacy", 5)
    begin = SUNDAY + 8 * HOUR
    legacy.loops(begin, "observe", tool="poll", minutes=45, steps=45 * 6)
    week.page("LoopguardNotStopped", "legacy", begin + 10, begin + 45)
    # What the day's ticket says is in the page as long as that lasts.
    week.ticket("LoopguardWouldRefuse", "legacy", (begin + 75, begin + 90), (WEEK, WEEK))


def usual(week: Week) -> None:
    """A service of which six turns in ten minutes are refused: a ticket while it is new, and when it becomes worse."""
    chatty = week.process("chatty", 100)
    worse = range(FRIDAY + 15 * HOUR, FRIDAY + 16 * HOUR)
    for minute in range(1, WEEK):
        if minute % 5 < 3:
            chatty.refused(minute)
        if minute in worse:
            for _ in range(3):
                chatty.refused(minute)
    week.ticket("LoopguardRefused", "chatty", (5, 20), (20 * HOUR, 26 * HOUR))
    week.ticket("LoopguardRefused", "chatty", (worse[0], worse[0] + 10), (worse[-1], worse[-1] + 20))


def costly(week: Week) -> None:
    """Two turns a day take far more than others, and once four in an hour; ten in an hour are a ticket."""
    research = week.process("research", 10)
    for minute in range(1, WEEK, 7):
        research.takes(minute, 20_000)
    four, ten = THURSDAY + 14 * HOUR, FRIDAY + 20 * HOUR
    for day in range(0, WEEK, DAY):
        research.takes(day + 9 * HOUR, 900_000)
        research.takes(day + 17 * HOUR, 900_000)
    for minute in (*range(four, four + 40, 10), *range(ten, ten + 40, 4)):
        research.takes(minute, 900_000)
    week.ticket("LoopguardRunCost", "research", (ten + 16, ten + 32), (ten + 100, ten + 130))


def far_apart(week: Week) -> None:
    """Loops hours apart, of deltas, whose series end in between, and of a service that exports traces only."""
    week.process("deltas", 20)
    rare: list[float | None] = [None] * (WEEK + 1)
    # The collector adds the deltas up.
    for number, minute in enumerate(range(2 * HOUR, WEEK - HOUR, 5 * HOUR), 1):
        rare[minute : minute + EXPIRES] = [float(number)] * EXPIRES
    labels = {names.JOB: "deltas", names.INSTANCE: "a", names.ACTION: "block"}
    week.others[named(names.TURNS_LOOPING, **labels)] = notation(rare)
    events: list[float | None] = []
    away = range(SATURDAY + 12 * HOUR, SATURDAY + 12 * HOUR + 20)
    total = 0.0
    for minute in range(WEEK + 1):
        # With the collector its counts begin again.
        total = 0.0 if minute in away else total + 4 * (minute % (3 * HOUR) == HOUR)
        events.append(None if minute in away else total)
    labels = {names.JOB: "mail", names.INSTANCE: "c", names.MODE: "cycle", names.VERDICT: "block"}
    labels |= {names.ACTION: "block", names.TOOL: "read", names.FIRST: "no"}
    week.others[named(names.TRIP_EVENTS, **labels)] = notation(events)


def _collector(week: Week) -> None:
    """The collector is away for twenty minutes: one ticket, about nothing else."""
    begin = SATURDAY + 12 * HOUR
    for each in week.processes:
        each.gaps.append((begin, begin + 20))
    up = [float(not begin <= minute < begin + 20) for minute in range(WEEK + 1)]
    week.others[named(names.UP, **{names.JOB: names.COLLECTOR_JOB, names.INSTANCE: "c"})] = notation([*up])
    week.ticket("LoopguardCollectorDown", names.COLLECTOR_JOB, (begin, begin + 5), (begin + 19, begin + 22))


COSTS: Final = "turns that take far more than others"
PARTS: Final = {
    "loops that nobody needs to know": (calm, usual, far_apart),
    "deploys and jobs": (deployed,),
    "parts that are broken": (silent, broken_parts, shadow),
    "loops that somebody must know": (incidents, shared_tool),
    COSTS: (costly,),
}
"""All scenes, in parts of a few minutes. The rules about costs take as long as all others, and need no other scene."""
