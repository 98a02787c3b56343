"""A second implementation of the design's page on detection: naive, slow, without bounds, hashes or kept counters.

All calls of a turn are in one list with their plain values; every decision reads the whole list again.

The page leaves some points open. There the reading was chosen that keeps the page's promise. The choices:

 1. The gap before a call is counted from the last begin or end of a call that ran, also while another call is open.
    It moves the idle clock if it has the length of the call's own ``interval``. A refused call moves nothing.
    Thought moves the clock of polls, and of calls whose last result was pending. Whether a wait is made on purpose is
    asked of the pauses without thought.
 2. ``stood`` is counted from the end of the first run of the row of *same*; different, progress and *alike* end it.
 3. ``vain`` grows at the end of a run that is *same*, if the call was refused since its last run, or if time alone let
    it through. *Alike* leaves it as it is.
 4. Not as on the page, because nothing got worse without it: three times the pace after a failure, no pace for waits
    and for acts, waits and people's answers judged since the last news, half the strength of thoughts, a tenth for
    patient calls, double weight of laps, alike runs that waited, a result that comes back.
 5. Time lifts the refusal of any call by its evidence.
 6. ``mean``: the runs of the turn that began since the call's last run began. ``tempo``: the whole gaps, of more than
    0.1 s, before untried runs with news.
 7. Time lifts repeats, laps, volatile results, calls without news in a row, and errors in a row. It does not lift made
    up tools, caps, effects, the 200 calls, and what can be insisted on. The seconds to wait include that pauses
    shorter than ``interval`` do not count; once they are over, the call waited, whatever was done in between.
 8. Patience is at its end only if it was declared: an hourly look is refused at the 36th run, not after two hours.
 9. "Since the last run" is the time from the start of the call's last run to the end of this one, or to now; only
    other calls count. News and changes come when a run ends; a call that may write "ran" if it began or ended then.
    May write: write, shell, agent, step, unknown.
10. The last result of the rows of limits is that of the last run. A tool that waits is patient itself.
11. An acknowledgement has the limit 9 only for unknown tools and cursors. It is judged since the last news: with news
    in between it is not refused, and its evidence is 0.
12. Twenty news forbid a refusal by ``generic_repeat``; they forget no evidence, and the sums still judge the call.
13. An acknowledgement is patient if a repeated result was pending since its last run.
14. *Alike* counts for ``volatile_repeat`` and not for ``no_novelty``. It counts among the 200 calls without news.
15. A call that has not run yet is judged as if it came to be *same*.
16. A result is "seen before" if an earlier run of the same call had equal bytes or, once the dearer fingerprints of
    the call are kept, an equal masked form with a value left; durations are masked there unless a change came
    between those two runs.
17. A number that turned may begin again either way; once it is noise it stays noise. Only comparisons that come to
    step 4 count, and only since the last change of shape. A number that is a name in one of two results is left out.
    Not on the page: a result that is nothing but a number is that number, so another one is *different*; commands are
    compared without names like writes; the numbers of a cursor progress like those of a look.
18. Every refusal of a tried call by a default rule requires that nothing changed since its last run, but by tools
    of which the call is independent; those may be insisted on, and count only for its own results.
19. Laps: steps are all ended runs but waits, steps, and parallel repeats; two are equal if they are the same call and
    showed the same; a run that is *same* showed what the one before it did, else its own bytes. Of several limits
    the largest holds, of several periods the shortest. The nudge comes at half the limit.
20. Parallel runs (begun before a result of the same call came) are classified, may bring news, but count nowhere
    except in caps and ``max_calls``. A cancelled run is treated as if it did not exist, caps apart.
21. ``error_repeat``: untried failures at the end of the tool's untried runs, since the tool last succeeded and since
    the last change. ``same_answer`` passes errors over, and is refused at the 10th whatever succeeded before. Answers
    to other calls of one message do not count, neither for the refusal nor for its nudge.
22. Insisting is paid for by the tool, where its new calls are judged, else by the call. The price doubles by each
    such run that brings nothing new: none of its own, or one that continues the row of the tool.
23. A failure with no shape is news if its text is.
    The next thing of a tool that takes it is news though it is *alike*: another one, if only by its number.
24. Refusals of one message count once only if the framework tells when the message was written.
25. A refusal is heeded if it is the only one since the call's last run, and the call then waited.
26. ``similar_query``: brought the same = a result this tool had brought already, whatever the arguments; or nothing
    ("", [], {}, null). Errors and repeats are passed over: other modes judge those.
27. ``no_novelty``: any news ends the row. The 200 calls without news are those of the whole turn.
28. Nudges: per (mode, reason, call or tool or turn; laps: period), again when the count has reached twice, four times
    the threshold at which the last one was given. A mode that is gated leaves the nudge to the next in order.
29. Not on the page: a write or command progresses too if its result has a part of a whole ("5 of 40") or a rest ("35
    remaining") that is not one of attempts. A call whose result changed twice by itself, with no other call in
    between, has the limit of an acknowledgement. ``same_answer`` refuses no commands.
32. ``nested_repeat`` counts the equal calls that still run around the turn of a call. It has no nudge.
31. Whether a text says that nothing was found is asked of the product: tests of their own show that.
30. Results over 8 KB: masks and shapes of the first and the last 4 KB; any difference in the middle is *different*.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from otel_loopguard.engine.values.emptiness import Emptiness, emptiness
from otel_loopguard.engine.values.masking import ids_of
from tests.engine.reference import kinds, plain
from tests.engine.reference.kinds import MAY_WRITE
from tests.engine.reference.movement import is_progress
from tests.engine.reference.queries import query_of, similar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from otel_loopguard.engine.vocabulary import Outcome, ToolCall

FIRST, SAME, PROGRESS, ALIKE, DIFFERENT = "first", "same", "progress", "alike", "different"
PROGRESSING = {"read", "poll", "unknown"}
PART = re.compile(r"([0-9]{1,9})\s?(?:of|/)\s?([0-9]{1,9})")
REST = re.compile(r"\d (?:\w+ ){0,2}(?:remaining|left)\b|\b(?:remaining|left)[\"']?\s?[:=]\s?[\"']?\d", re.IGNORECASE)
AGAIN = re.compile(r"\battempt|\btr(?:y|ies)\b|\bretr|\bfail|\berror", re.IGNORECASE)
APART, SHARE, SLOW = 10.0, 0.03, 8
BLOCK, READING, TRANSIENT, ACTING, MOVING, POLLING = 3, 5, 6, 4, 9, 20
EMPTY_TOLD, EMPTY_REFUSED = 8, 25
FAR = 20
LOOKING, LOOKS, OTHERS = {"read", "poll", "think"}, 8, 15
NEVER = math.inf
LAPS, LAPS_ROUND = 3, 9
PERIODS = range(2, 9)
UNTRIED, MOST_UNTRIED = 10, 20
EPSILON = 1e-9
ORDER = (
    "unknown_tool_repeat",
    "nested_repeat",
    "poll_no_progress",
    "ping_pong",
    "cycle",
    "generic_repeat",
    "similar_query",
    "error_repeat",
    "same_answer",
    "volatile_repeat",
    "repeated_effect",
    "no_novelty",
    "retry_limit",
    "global_circuit_breaker",
)


@dataclass(frozen=True)
class Contract:
    """The declared properties of a tool; any object with these attributes will do."""

    kind: str | None = None
    query: str | None = None
    volatile: tuple[str, ...] = ()
    cap: int | None = None
    once: bool = False
    interval: float | None = None
    patience: float | None = None


Fact = TypeVar("Fact")


def settled(work_out: Callable[[NaiveTurn, Run], Fact]) -> Callable[[NaiveTurn, Run], Fact]:
    """Work a fact about an ended run out only once: it does not change any more."""

    @functools.wraps(work_out)
    def look(turn: NaiveTurn, run: Run) -> Fact:
        if not run.known:
            return work_out(turn, run)
        name = work_out.__name__
        if name not in run.facts:
            run.facts[name] = work_out(turn, run)
        found: Fact = run.facts[name]
        return found

    return look


@dataclass(eq=False)
class Run:
    """One call that ran, with its properties, its outcome and its classification."""

    call: ToolCall
    tool: str
    arguments: Any
    key: tuple[str, str]
    kind: str
    cursor: bool
    contract: Any
    registered: bool | None
    started: int
    at: float
    written: int
    gap: float = 0.0
    thinking: float = 0.0
    idle: float = 0.0
    wall: float = 0.0
    refused_before: int = 0
    pace: float = 0.0
    haste: float = 1.0
    waited: bool = False
    beyond: bool = False
    ended: int | None = None
    ended_at: float = 0.0
    cancelled: bool = False
    failed: bool = False
    text: str = ""
    digest: int | None = None
    shape: str = ""
    transient: bool = False
    pending: bool = False
    over: bool = False
    again_after: float = 0.0
    waits: bool = False
    ids: bytes | None = None
    acted: bool = False
    debtor: str | tuple[str, str] | None = None
    overlapped: bool = False
    sameness: str = FIRST
    comes_back: bool = False
    news: bool = False
    change: bool = False
    facts: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def known(self) -> bool:
        """Return True if its outcome is known."""
        return self.ended is not None and not self.cancelled

    @property
    def counts(self) -> bool:
        """Return True if it counts in laps, streaks and sums."""
        return self.known and not self.overlapped and self.kind != "step"

    @property
    def brief_text(self) -> bool:
        """Return True if its result is short."""
        return len(self.text.encode("utf-8", "replace")) <= plain.BRIEF

    @property
    def brief(self) -> bool:
        """Return True if it succeeded with a short result."""
        return self.known and not self.failed and self.brief_text

    @property
    def lapsed(self) -> bool:
        """Return True if it can be a member of a lap."""
        return self.counts and self.kind != "wait"


@dataclass
class Refusal:
    """A call that was not run."""

    run: Run
    mode: str
    at_event: int
    debtor: str | tuple[str, str] | None
    lifted_at: float = 0.0
    ends: bool = True
    heeded: bool = False


@dataclass
class Verdict:
    """A mode's wish to refuse a call, before time has its say."""

    mode: str
    count: int
    insistable: bool = False
    timed: bool = True
    ends: bool = True


@dataclass
class NaiveTurn:
    """One turn. With ``enforce=False`` every call runs and refusals are only reported."""

    contracts: Mapping[str, Any] = field(default_factory=dict)
    clock: Callable[[], float] = lambda: 0.0
    enforce: bool = True
    kind_of: Callable[[str, Any], str] = kinds.kind_of
    conclude_after: int = 7
    abort_after: int = 10
    max_calls: int | None = None
    around: tuple[Run, ...] = ()
    runs: list[Run] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    nudges: list[tuple[tuple[Any, ...], int]] = field(default_factory=list)
    thoughts: list[tuple[float, float]] = field(default_factory=list)
    events: int = 0
    concluded_at: int = 0
    wait: int = 0

    # -- begin and end -------------------------------------------------------------------------------------------------

    def begin(self, call: ToolCall) -> tuple[str, str, int] | None:
        """Return the refusal of this call, if it is to be refused; else count it as begun.

        ``wait`` is then the number of seconds after which it runs, 0 if time does not lift the refusal.
        """
        self.events += 1
        run = self._new_run(call)
        verdict = self._refusal(run)
        action, self.wait = "block", 0
        if verdict:
            before = self._unheeded()
            counts = call.written is None or call.written not in [r.run.call.written for r in self.refusals]
            if not verdict.ends:
                pass
            elif self.abort_after and before >= self.abort_after:
                action = "abort"
            elif 0 < self.conclude_after <= before + counts and self.concluded_at <= self._last_news():
                action, self.concluded_at = "conclude", self.events
            self.wait = self._wait(run) if verdict.timed else 0
            lifted_at = self._time_of(run) + self.wait if self.wait else 0.0
            self.refusals.append(
                Refusal(run, verdict.mode, self.events, self._debtor(run, verdict), lifted_at, verdict.ends)
            )
        if not verdict or not self.enforce:
            self._heed(run)
            self._insist(run)
            self.runs.append(run)
        return (verdict.mode, action, verdict.count) if verdict else None

    def end(self, call: ToolCall, outcome: Outcome) -> tuple[str, str, int] | None:
        """Return the nudge for this call's outcome, if there is one."""
        self.events += 1
        run = self._open_run(call)
        run.ended_at = self.clock()
        if outcome.cancelled:
            run.ended, run.cancelled = self.events, True
            return None
        self._fill(run, outcome)
        run.ended = self.events
        self._classify(run)
        for mode, reason, count, first in self._nudges(run):
            if self._is_due(mode, reason, run, count, first):
                return mode, "nudge", count
        return None

    def child(self, call: ToolCall) -> NaiveTurn:
        """Return the turn of an agent that this call has started."""
        return replace(
            self, around=(*self.around, self._open_run(call)), runs=[], refusals=[], nudges=[], thoughts=[], events=0,
            concluded_at=0, wait=0,
        )  # fmt: skip

    def _nested(self, run: Run) -> int:
        """Count the equal calls that still run and have this one inside of them, and this one."""
        return 1 + len([r for r in self.around if r.key == run.key and r.ended is None])

    def _is_due(self, mode: str, reason: str, run: Run, count: int, first: int) -> bool:
        """Return True if a nudge is due, and note that it was."""
        gate = self._gate(mode, reason, run)
        if count < max((due for told, due in self.nudges if told == gate), default=0):
            return False
        self.nudges.append((gate, next(due for due in self._doubled(first) if due > count)))
        return True

    def thought(self, seconds: float) -> None:
        """Note that the model thought for these seconds until now."""
        now = self.clock()
        known = max([self._active_at(now), *(at for at, _ in self.thoughts)])
        self.thoughts.append((now, min(max(0.0, seconds), now - known)))

    @staticmethod
    def _doubled(first: int) -> Iterator[int]:
        """Yield twice, four times, ... the number."""
        while True:
            first *= 2
            yield first

    # -- classification of a call --------------------------------------------------------------------------------------

    def _new_run(self, call: ToolCall) -> Run:
        arguments = plain.parsed(call.arguments) if isinstance(call.arguments, str) else call.arguments
        tool, arguments = kinds.routed(call.tool, arguments)
        contract = self._contract(tool)
        kind = self._kind(call, tool, contract, arguments)
        if kind != "shell" and any(r.tool == tool and r.kind == "wait" for r in self._ended()):
            kind = "wait"
        told = arguments if contract.kind else plain.telling(arguments, kind)
        key = (tool, plain.arguments_text(told, loose=kind != "write"))
        cursor = kind == "write" and kinds.moves_a_cursor(tool, arguments)
        written = self.events if call.written is None else call.written
        registered = self._registered(call)
        run = Run(call, tool, arguments, key, kind, cursor, contract, registered, self.events, self.clock(), written)
        self._time(run)
        return run

    def _contract(self, tool: str) -> Any:
        if tool in self.contracts:
            return self.contracts[tool]
        for pattern, contract in self.contracts.items():
            if re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), tool):
                return contract
        return Contract()

    def _kind(self, call: ToolCall, tool: str, contract: Any, arguments: Any) -> str:
        if contract.kind:
            return str(contract.kind)
        if call.hints is not None and call.hints.read_only is not None:
            return "read" if call.hints.read_only else "write"
        return str(self.kind_of(tool, arguments))

    def _registered(self, call: ToolCall) -> bool | None:
        if call.registered is False and any(r.tool == call.tool and r.known and not r.failed for r in self.runs):
            return True
        return call.registered

    def _open_run(self, call: ToolCall) -> Run:
        open_runs = [r for r in self.runs if r.ended is None]
        for run in open_runs:
            if run.call is call:
                return run
        return next(r for r in open_runs if r.call == call)

    # -- time ----------------------------------------------------------------------------------------------------------

    def _time(self, run: Run) -> None:
        """Note the times of a call that begins: the idle clock, and if it ran before, its pace and its haste."""
        before = self.runs[-1] if self.runs else run
        run.gap = max(0.0, run.at - self._active_at(run.at))
        run.thinking = self._thinking(run.at)
        own = run.gap - run.thinking
        run.wall = before.wall + (run.gap if run.gap >= self._interval(run) else 0.0)
        run.idle = before.idle + (own if own >= self._interval(run) else 0.0)
        last = self._last(run)
        if last is None:
            return
        asked = 0.9 * last.again_after if self._same_call(run)[1:] else 0.0
        run.refused_before = len([r for r in self.refusals if r.run.key == run.key and r.at_event > last.started])
        run.pace = self._pace(run)
        own = run.idle - last.idle
        idle = run.wall - last.wall if self._goes_on(run) else own
        told = [r.lifted_at for r in self.refusals if r.run.key == run.key and r.at_event > last.started]
        run.waited = run.pace > 0 and (idle >= run.pace or any(0 < time <= self._time_of(run) for time in told))
        run.haste = self._haste(run, last, idle, own) if run.waited else 1.0
        if asked and max(run.gap, run.wall - last.wall) >= asked:
            run.waited, run.haste = True, 0.0

    def _active_at(self, now: float) -> float:
        """The time at which a call last began or ended; now, if none has."""
        return max((time for r in self.runs for time in (r.at, r.ended_at if r.ended else r.at)), default=now)

    def _thinking(self, now: float) -> float:
        """The seconds of thought since a call last began or ended."""
        return sum(seconds for at, seconds in self.thoughts if at - seconds >= self._active_at(now))

    def _goes_on(self, run: Run) -> bool:
        """Return True if the call's result changes while the model thinks: it polls, or its last result was pending."""
        last = self._last(run)
        return run.kind in ("poll", "wait") or (last is not None and last.pending and bool(self._same_call(last)))

    def _time_of(self, run: Run) -> float:
        """The time of a call; without all thought, unless its result changes meanwhile."""
        return run.at if self._goes_on(run) else run.at - sum(seconds for _, seconds in self.thoughts)

    def _interval(self, run: Run) -> float:
        interval = getattr(run.contract, "interval", None)
        return APART if interval is None else float(interval)

    def _pace(self, run: Run) -> float:
        stood = run.wall - self._first_equal(run).wall
        return max(self._interval(run) * 2 ** self._vain(run), stood * SHARE)

    @settled
    def _first_equal(self, run: Run) -> Run:
        """The first of the equal results in a row before this run."""
        known = [r for r in self._same_call(run) if not r.overlapped] or self._same_call(run)
        first = known[-1]
        for earlier in reversed(known):
            first = earlier
            if earlier.sameness != SAME:
                break
        return first

    def _vain(self, run: Run) -> int:
        """Count the runs that brought the same again after a refusal, or let through by time alone."""
        count = 0
        for earlier in reversed(self._same_call(run)):
            if earlier.sameness in (DIFFERENT, PROGRESS):
                break
            count += earlier.sameness == SAME and (earlier.refused_before > 0 or earlier.beyond)
        return count

    def _haste(self, run: Run, last: Run, idle: float, own: float) -> float:
        calls = 1 + len([r for r in self.runs if r.started > last.started])
        mean = idle / calls
        pauses = [r.gap - r.thinking for r in self._ended() if self._untried_news(r) and r.gap > 0.1][-15:]
        if len(pauses) >= 3 and own and own / calls >= 2 * statistics.median(pauses):
            return 0.0
        return 2 / (SLOW - 1) * min(1.0, 3 * self._interval(run) / mean if mean else 1.0) ** 2

    def _untried_news(self, run: Run) -> bool:
        return run.sameness == FIRST and run.news

    def _wait(self, run: Run) -> int:
        """The seconds after which a refused call runs. Pauses shorter than ``interval`` do not count."""
        last = self._last(run)
        if last is None or not run.pace or self._impatient(run):
            return 0
        goes_on, before = self._goes_on(run), self.runs[-1]
        idle = before.wall - last.wall if goes_on else before.idle - last.idle
        gap = run.gap if goes_on else run.gap - run.thinking
        needed = max(self._interval(run), run.pace - idle) - gap
        told = [r.lifted_at for r in self.refusals if r.run.key == run.key and r.at_event > last.started]
        return max(1, math.ceil(min([needed, *(time - self._time_of(run) for time in told if time)])))

    # -- refusals that are heeded --------------------------------------------------------------------------------------

    def _heed(self, run: Run) -> None:
        """Note which refusals this run heeds: one that was waited for."""
        last = self._last(run)
        since = last.started if last else 0
        mine = [r for r in self.refusals if r.run.key == run.key and r.at_event > since]
        for refusal in mine:
            refusal.heeded = len(mine) == 1 and run.waited

    def _debtor(self, run: Run, verdict: Verdict) -> str | tuple[str, str] | None:
        """The tool or the call for which the model may insist; None if it may not."""
        if not verdict.insistable:
            return None
        return run.tool if verdict.mode in ("error_repeat", "same_answer") else run.key

    def _debt(self, debtor: str | tuple[str, str]) -> tuple[int, int]:
        """The refusals since the model last insisted, and how many it takes for one run."""
        happened = [(r.at_event, "refused", None) for r in self.refusals if r.debtor == debtor]
        happened += [(r.started, "ran", None) for r in self.runs if r.debtor == debtor]
        happened += [(r.ended or 0, "ended", r) for r in self.runs if r.debtor == debtor and r.known]
        denied, price = 0, 1
        for _, what, run in sorted(happened, key=lambda one: one[0]):
            if what == "refused":
                denied += 1
            elif what == "ran":
                denied = 0
            elif run is not None and self._in_vain(run):
                price *= 2
            else:
                denied, price = 0, 1
        return denied, price

    def _insist(self, run: Run) -> None:
        """Note what pays for a call that runs: the refusals of its tool, if it is new, or its own."""
        debtors = [run.tool, run.key] if self._last(run) is None else [run.key]
        run.debtor = next((debtor for debtor in debtors if self._debt(debtor)[0]), None)

    @settled
    def _in_vain(self, run: Run) -> bool:
        """Return True if a run that was insisted on brought nothing new. An empty answer may be right."""
        row, empty = 0, False
        if self._last(run) is None and run.failed:
            row = self._same_errors(run)
        elif self._last(run) is None:
            row, _, empty = self._same_answers(run)
        return not (empty and run.debtor == run.tool) and not (run.news and row < 2)

    def _takes_back(self, run: Run) -> bool:
        """Return True if the run's news take refusals back: not if the call that was refused last is independent."""
        if not (run.known and run.news) or (run.debtor and self._in_vain(run)):
            return False
        ended = run.ended or 0
        refused = [r.run for r in self.refusals if r.at_event < ended]
        return not refused or not self._is_independent(refused[-1], run.tool, LOOKS, ended)

    def _unheeded(self) -> int:
        """Count the refusals since the last news; those of one model message count once."""
        fresh = [r.ended or 0 for r in self.runs if self._takes_back(r)]
        counted = [r for r in self.refusals if r.at_event > max(fresh, default=0) and r.ends and not r.heeded]
        messages = {r.run.call.written for r in counted if r.run.call.written is not None}
        return len(messages) + len([r for r in counted if r.run.call.written is None])

    # -- earlier runs --------------------------------------------------------------------------------------------------

    @settled
    def _same_call(self, run: Run) -> list[Run]:
        """Earlier runs of the same call whose outcome is known, in the order they ended."""
        found = [r for r in self.runs if r.key == run.key and r.known and r is not run]
        return sorted(
            (r for r in found if not run.known or (r.ended or 0) < (run.ended or 0)), key=lambda r: r.ended or 0
        )

    @settled
    def _last(self, run: Run) -> Run | None:
        """The run of the same call that began last before this one, of those known when this one began."""
        found = [r for r in self._same_call(run) if (r.ended or 0) < run.started]
        return max(found, key=lambda r: r.started) if found else None

    @settled
    def _began_or_ended(self, run: Run) -> list[Run]:
        """Runs of other calls that began or ended between the start of the last run and now or this run's end."""
        last, until = self._last(run), self._until(run)
        if last is None:
            return []
        others = [r for r in self.runs if r.key != run.key and not r.cancelled]
        return [r for r in others if last.started < r.started < until or (r.ended and last.started < r.ended < until)]

    @settled
    def _ended_between(self, run: Run) -> list[Run]:
        """Runs of other calls whose outcome came between the start of the last run and now or this run's end."""
        last, until = self._last(run), self._until(run)
        if last is None:
            return []
        return [r for r in self.runs if r.known and r.key != run.key and last.started < (r.ended or 0) < until]

    def _until(self, run: Run) -> int:
        return run.ended or self.events + 1

    @settled
    def _changed(self, run: Run) -> bool:
        """Return True if something may have changed the world since this call's last run, its own news apart."""
        return any(r.change for r in self._ended_between(run))

    @settled
    def _may_differ(self, run: Run) -> bool:
        """Return True if a tool of which the call is not independent changed something since the last run."""
        tools, enough = {r.tool for r in self._ended_between(run) if r.change}, LOOKS if run.kind in LOOKING else OTHERS
        return not all(self._is_independent(run, tool, enough, run.started) for tool in tools)

    def _is_independent(self, run: Run, tool: str, enough: int, until: int) -> bool:
        """Return True if the call's result stayed the same so often, and always, after changes of the tool."""
        runs = [r for r in self._same_call(run) if not r.overlapped and (r.ended or 0) <= until]
        after = [r for r in runs if any(other.tool == tool and other.change for other in self._ended_between(r))]
        return len(after) >= enough and all(r.sameness == SAME for r in after)

    @settled
    def _news_between(self, run: Run) -> int:
        return len([r for r in self._ended_between(run) if r.news])

    def _ended(self) -> list[Run]:
        return sorted((r for r in self.runs if r.known), key=lambda r: r.ended or 0)

    def _last_news(self) -> int:
        return max((r.ended or 0 for r in self.runs if r.known and r.news), default=0)

    # -- results -------------------------------------------------------------------------------------------------------

    def _fill(self, run: Run, outcome: Outcome) -> None:
        run.digest = outcome.digest
        if outcome.error is not None:
            error = outcome.error
            run.failed = True
            run.text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        else:
            run.text = plain.result_text(outcome.result)
            run.failed = self._result_failed(outcome)
        if run.failed:
            run.shape = plain.error_shape(run.text, run.arguments)
        else:
            run.pending = plain.says_pending(run.text) and not self._acts(run)
        run.transient = plain.says_transient(run.text, failed=run.failed)
        run.over = plain.says_over(run.text, failed=run.failed)
        run.again_after = plain.again_after(run.text, failed=run.failed)
        self._find_wait(run)

    def _find_wait(self, run: Run) -> None:
        """Note if the run was a wait: of a tool that waits, or by the number of its arguments that it ran for."""
        ran, named = run.ended_at - run.at, plain.seconds_named(run.arguments)
        looks = run.kind in ("unknown", "shell", "read") or kinds.takes_the_next(run.tool)
        if run.kind == "wait":
            run.waits = (ran if ran >= 1 else [*named, NEVER][0]) >= 3
        elif looks and ran >= 3 and any(abs(ran - seconds) <= seconds / 10 for seconds in named):
            run.kind, run.waits = "wait", True

    def _result_failed(self, outcome: Outcome) -> bool:
        if outcome.is_error is not None:
            return outcome.is_error
        marked = isinstance(outcome.result, dict) and outcome.result.get("isError") is True
        return marked or plain.says_error(plain.shown_text(outcome.result))

    def _classify(self, run: Run) -> None:
        before = self._same_call(run)
        run.overlapped = any((r.ended or 0) > run.started for r in before)
        run.sameness = self._sameness(run, before)
        run.comes_back = any(self._equal(run, r) for r in before)
        self._read_receipt(run, before)
        if run.failed:
            failures = [r for r in self._ended() if r.failed and r.tool == run.tool and r is not run]
            run.news = all((r.shape or r.text) != (run.shape or run.text) for r in failures)
        elif run.kind != "think":
            another = run.sameness == ALIKE and (kinds.takes_the_next(run.tool) or run.kind in PROGRESSING)
            run.news = not run.comes_back and (another or run.sameness not in (SAME, ALIKE))
        if run.news:
            proven = run.sameness in (DIFFERENT, PROGRESS)
            run.change = proven or (run.kind in MAY_WRITE and not run.failed and run.sameness != ALIKE)

    def _read_receipt(self, run: Run, before: list[Run]) -> None:
        """Note that a tool which may act, or a command, did so again: its receipt differs in an id only."""
        receipt = run.pending or (run.brief_text and run.kind == "unknown")
        if not before or run.overlapped or run.failed or run.kind not in ("unknown", "shell") or not receipt:
            return
        if self._shown(before[-1]) == (run.failed, run.text, run.digest):
            return
        if run.sameness == ALIKE and run.comes_back:
            run.sameness = SAME
        earlier = [r.ids for r in before if r.ids is not None]
        run.ids = ids_of(run.text.encode("utf-8", "replace"))
        if run.sameness == SAME and earlier and earlier[-1] != run.ids:
            run.acted, run.pending = True, False

    def _bytes_equal(self, run: Run, other: Run) -> bool:
        if run.failed != other.failed:
            return False
        if run.digest is not None and other.digest is not None and run.digest != other.digest:
            return False
        return run.text == other.text

    def _sameness(self, run: Run, before: list[Run]) -> str:
        if not before:
            return FIRST
        last = before[-1]
        if self._bytes_equal(run, last):
            return SAME
        if run.failed != last.failed or not self._differed(before) or (run.text == last.text):
            return DIFFERENT
        if self._masked_equal(run, last):
            return SAME
        durations = not self._changed(run)
        mine, its = self._outline(run, durations=durations), self._outline(last, durations=durations)
        if plain.shape(mine) != plain.shape(its) or self._outside(run) != self._outside(last):
            return DIFFERENT
        if plain.NUMBER.search(mine) and not re.search(r"\w", plain.shape(mine)):
            return DIFFERENT
        names = plain.named_numbers(mine) | plain.named_numbers(its)
        if (run.kind in ("write", "shell") or run.failed) and self._equal_but_for_names(mine, its, names):
            return SAME
        return self._moves(run, before, durations=durations)

    def _equal_but_for_names(self, mine: str, its: str, names: set[str]) -> bool:
        """Return True if only numbers that name something differ, and there is something else to see."""
        if mine == its or plain.without_names(mine, names) != plain.without_names(its, names):
            return False
        return bool(re.search(r"\w", plain.NAMED.sub("", mine)))

    def _differed(self, before: list[Run]) -> bool:
        """Return True if a result of this call has differed from the one before already."""
        return any(not self._bytes_equal(one, other) for one, other in itertools.pairwise(before))

    def _view(self, run: Run, *, durations: bool) -> plain.View:
        """The run's masked result."""
        masked = not kinds.takes_the_next(run.tool)
        volatile = frozenset(getattr(run.contract, "volatile", None) or ())
        return plain.view(run.text, masked=masked, durations=durations, volatile=volatile)

    def _outside(self, run: Run) -> str:
        return self._view(run, durations=True).outside

    def _outline(self, run: Run, *, durations: bool) -> str:
        """The text that shapes and numbers are taken from: ids are dropped whole, also if they are the answer."""
        text = self._view(run, durations=durations).text
        return plain.IDS.sub("0", text) if kinds.takes_the_next(run.tool) else text

    def _masked_equal(self, run: Run, other: Run) -> bool:
        durations = not self._changed(run)
        mine, its = self._view(run, durations=durations), self._view(other, durations=durations)
        return mine == its and mine.has_values

    def _equal(self, run: Run, other: Run) -> bool:
        """Return True if two runs of one call showed the same."""
        if self._bytes_equal(run, other):
            return True
        if run.failed != other.failed or run.text == other.text:
            return False
        before = self._same_call(run)
        if not self._differed([r for r in before if (r.ended or 0) <= (other.ended or 0)]):
            return False
        durations = not self._changed(run)
        mine, its = self._view(run, durations=durations), self._view(other, durations=durations)
        return mine.outside == its.outside and plain.values(run.text, mine) == plain.values(other.text, its)

    def _moves(self, run: Run, before: list[Run], *, durations: bool) -> str:
        """Return progress if the numbers of a look move on, or those of a part of a whole; else alike."""
        part = None if AGAIN.search(run.text) else PART.search(run.text)
        counts = part is not None and int(part.group(1)) <= int(part.group(2))
        counts = counts or bool(REST.search(run.text) and not AGAIN.search(run.text))
        texts = [self._outline(r, durations=durations) for r in (*before, run)]
        return PROGRESS if (run.kind in PROGRESSING or run.cursor or counts) and is_progress(texts) else ALIKE

    # -- limits --------------------------------------------------------------------------------------------------------

    @settled
    def _patient(self, run: Run) -> bool:
        """Return True if the last row of the table of limits holds."""
        last = self._last(run)
        if run.kind in kinds.PATIENT and not (run.kind == "poll" and last is not None and self._over(run, last)):
            return True
        if last is None or run.kind == "step":
            return False
        waits = any(r.waits for r in self._ended_between(run))
        seen = any(r.pending for r in self._ended_between(run))
        return self._source(run, last).pending or waits or (seen and self._acknowledged(run, last))

    def _over(self, run: Run, last: Run) -> bool:
        """Return True if the last result says that nothing is left to wait for. The first one is not searched."""
        return last.over and (last.failed or bool(self._same_call(last)) or (run.known and run.sameness == SAME))

    def _acknowledged(self, run: Run, last: Run) -> bool:
        """Return True if the last result acknowledges a move of which little can be seen."""
        return last.brief and (run.kind == "unknown" or run.cursor) and not self._source(run, last).acted

    def _source(self, run: Run, last: Run) -> Run:
        """The run whose result says how much a repeat proves: this one, once it is known to be the same."""
        return run if run.known and run.sameness == SAME else last

    def _looked_in_vain(self, run: Run) -> bool:
        """Return True if a look found nothing."""
        return not run.failed and run.kind in ("read", "shell") and emptiness(run.text) > Emptiness.CONTENT

    def _moved_by_itself(self, run: Run) -> bool:
        """Return True if the call's result changed twice without another call in between."""
        moved = [r for r in self._same_call(run) if r.news and r.sameness in (DIFFERENT, PROGRESS) and not r.overlapped]
        return len([r for r in moved if self._alone(r)]) >= 2

    def _since_news(self, run: Run, last: Run) -> bool:
        """Return True if the call is judged since the last news of the turn."""
        return self._acknowledged(run, last)

    def _acts(self, run: Run) -> bool:
        """Return True if a success of the call is an act: a write that is not the move of a cursor."""
        return run.kind == "write" and not run.cursor and not run.failed

    def _rows(self, run: Run, last: Run) -> list[int]:
        """The last four rows of the table of limits, as far as they hold."""
        found = []
        if last.transient:
            found.append(TRANSIENT)
        if not last.failed and (self._acts(run) or self._source(run, last).acted):
            found.append(ACTING)
        elif self._acknowledged(run, last) or self._looked_in_vain(last) or self._moved_by_itself(run):
            found.append(MOVING)
        if self._patient(run):
            found.append(POLLING)
        return found

    @settled
    def _limit(self, run: Run) -> float:
        """The run that is refused, of equal ones."""
        last = self._last(run)
        if last is None or run.kind == "step" or self._may_differ(run) or self._news_between(run) >= FAR:
            return NEVER
        if self._since_news(run, last) and self._news_between(run):
            return NEVER
        return max([BLOCK, READING if self._news_between(run) else 0, *self._rows(run, last)])

    def _weight(self, run: Run) -> float:
        """The evidence that one *same* adds."""
        return run.haste / (self._limit(run) - 1)

    @settled
    def _evidence(self, run: Run) -> float:
        """The evidence that the earlier runs of this call gathered."""
        gathered = 0.0
        for earlier in self._same_call(run):
            last = self._last(earlier)
            forgotten = self._may_differ(earlier) or (
                last is not None and self._since_news(earlier, last) and self._news_between(earlier)
            )
            if earlier.sameness != SAME or forgotten:
                gathered = 0.0
            elif not earlier.overlapped:
                gathered += self._weight(earlier)
        return gathered

    @settled
    def _strength(self, run: Run) -> float:
        """The share of a call without news that counts in the sums; a run that has not ended is taken as *same*."""
        last = self._last(run)
        same = not run.known or run.sameness == SAME
        strength = run.haste if same else 1.0
        if last is not None:
            if same and self._rows(run, last):
                limit = max(READING if self._news_between(run) else BLOCK, *self._rows(run, last))
                strength *= min(1.0, 2 / (limit - 1))
            elif not same and not run.failed and self._alone(run):
                strength = 0.4
        return strength

    def _alone(self, run: Run) -> bool:
        """Return True if the call's last run was the call just before."""
        last = self._last(run)
        return last is not None and not any(last.started < r.started < run.started for r in self.runs)

    # -- refusals ------------------------------------------------------------------------------------------------------

    def _refusal(self, run: Run) -> Verdict | None:
        """The first mode in order that refuses this call; a call that waited is let through by all that time lifts."""
        found = [verdict for verdict in self._refusing(run) if not self._is_paid(run, verdict)]
        found.sort(key=lambda verdict: ORDER.index(verdict.mode))
        if run.waited:
            run.beyond = any(verdict.timed for verdict in found)
            found = [verdict for verdict in found if not verdict.timed]
        return found[0] if found else None

    def _is_paid(self, run: Run, verdict: Verdict) -> bool:
        """Return True if the call was refused so often that it runs."""
        debtor = self._debtor(run, verdict)
        if debtor is None:
            return False
        denied, price = self._debt(debtor)
        return denied >= price

    def _refusing(self, run: Run) -> Iterable[Verdict]:
        if run.registered is False and self._unknown_calls() + 1 >= 3:
            yield Verdict("unknown_tool_repeat", self._unknown_calls() + 1, timed=False)
        yield from self._declared(run)
        if run.kind == "step":
            return
        if self._nested(run) >= 3:
            yield Verdict("nested_repeat", self._nested(run), timed=False)
        last = self._last(run)
        if last is None:
            yield from self._untried(run)
            return
        learned = self._changed(run)
        if not self._may_differ(run):
            yield from self._by_evidence(run, learned=learned)
        if not learned:
            yield from self._tried(run)

    def _by_evidence(self, run: Run, *, learned: bool) -> Iterable[Verdict]:
        """The refusal of one call by its own results; it can be insisted on if it relies on what was learned."""
        limit, last = self._limit(run), self._last(run)
        count = self._equal_in_a_row(run) + 1
        if last and limit < NEVER and self._evidence(run) + self._weight(run) >= 1 - EPSILON:
            acts = self._repeat_mode(run) == "generic_repeat" and self._rows(run, last)[-1:] == [ACTING]
            yield Verdict(self._repeat_mode(run), count, insistable=learned or acts)
        elif self._impatient(run):
            yield Verdict(self._repeat_mode(run), count, insistable=learned, timed=False)

    def _tried(self, run: Run) -> Iterable[Verdict]:
        """Other refusals of a call that ran before, if nothing has changed since then."""
        laps = self._next_lap(run)
        if laps:
            yield Verdict("ping_pong" if laps[0] == 2 else "cycle", laps[1] + 1)
        alike = self._alike_in_a_row(run)
        if alike and alike + 2 >= 20:
            yield Verdict("volatile_repeat", alike + 2)
        done = self._effects(run)
        if self._hinted(run) and done + 1 >= 5:
            yield Verdict("repeated_effect", done + 1)
        strength = self._strength(run)
        stale, idle = self._sum_in_a_row() + strength, self._sum() + strength
        if stale >= 8 - EPSILON:
            yield Verdict("no_novelty", int(stale + EPSILON))
        if self._errors_in_a_row() + 1 >= 8:
            yield Verdict("global_circuit_breaker", self._errors_in_a_row() + 1)
        if idle >= 200 - EPSILON:
            yield Verdict("global_circuit_breaker", int(idle + EPSILON), timed=False)

    def _repeat_mode(self, run: Run) -> str:
        patient = self._patient(run) and run.kind not in ("final", "handoff")
        return "poll_no_progress" if patient else "generic_repeat"

    def _impatient(self, run: Run) -> bool:
        """Return True if a declared patience is at its end: the same stood longer."""
        patience, last = getattr(run.contract, "patience", None), self._last(run)
        if not patience or last is None or last.sameness != SAME:
            return False
        return run.wall - self._first_equal(run).wall > patience

    def _untried(self, run: Run) -> Iterable[Verdict]:
        """Refusals of a call that was never run; it can be insisted on."""
        like = self._similar(run)
        if like + 1 >= 4:
            yield Verdict("similar_query", like + 1, insistable=True, timed=False)
        failed = self._same_errors(run)
        if failed + 1 >= self._untried_limit(run):
            yield Verdict("error_repeat", failed + 1, insistable=True, timed=False)
        answers, brief, empty = self._same_answers(run)
        limit = EMPTY_REFUSED * 2 ** self._insisted_on_nothing(run) if empty else UNTRIED
        proves = empty or (not brief and run.kind != "shell")
        if answers + 1 >= limit and proves:
            yield Verdict("same_answer", answers + 1, insistable=True, timed=False, ends=not empty)

    def _untried_limit(self, run: Run) -> int:
        """The failure that is refused: later, the more often the tool has succeeded on untried arguments."""
        good = len([r for r in self._ended() if r.tool == run.tool and r.sameness == FIRST and not r.failed])
        return min(MOST_UNTRIED, max(UNTRIED, good + 2))

    def _declared(self, run: Run) -> Iterable[Verdict]:
        done = self._effects(run)
        if getattr(run.contract, "once", False) and done + 1 >= 2:
            yield Verdict("repeated_effect", done + 1, timed=False)
        cap = getattr(run.contract, "cap", None)
        used = len([r for r in self.runs if r.tool == run.tool])
        if cap is not None and used >= cap:
            yield Verdict("retry_limit", used + 1, timed=False)
        if self.max_calls is not None and len(self.runs) >= self.max_calls:
            yield Verdict("global_circuit_breaker", len(self.runs) + 1, timed=False)

    # -- counts --------------------------------------------------------------------------------------------------------

    def _unknown_calls(self) -> int:
        count = 0
        for run in reversed(self._ended()):
            if run.registered is not None and not run.failed:
                break
            count += run.registered is False and not run.overlapped
        return count

    def _next_lap(self, run: Run) -> tuple[int, int] | None:
        """Return period and number of equal laps done, if this call would begin one lap more than is allowed."""
        found = self._laps(run)
        if found is None:
            return None
        period, laps, limit = found
        done = laps * run.haste if run.waited else float(laps)
        return (period, laps) if done >= limit - 1 - EPSILON else None

    def _laps(self, run: Run) -> tuple[int, int, int] | None:
        """Return the shortest period, its equal laps at the end, and its limit, if this call is in its place in it."""
        steps = [r for r in self._ended() if r.lapsed]
        for period in PERIODS:
            lap = steps[-period:]
            if len(lap) < period or all(self._same_step(a, lap[0]) for a in lap):
                continue
            place = lap[-1] if run.known else lap[0]
            laps = self._equal_laps(steps, period)
            if place.key == run.key and laps >= 2:
                return period, laps, self._lap_limit(lap)
        return None

    def _equal_laps(self, steps: list[Run], period: int) -> int:
        lap, count = steps[-period:], 1
        while len(steps) >= (count + 1) * period:
            earlier = steps[-(count + 1) * period : -count * period]
            if not all(self._same_step(a, b) for a, b in zip(earlier, lap, strict=True)):
                break
            count += 1
        return count

    def _lap_limit(self, lap: list[Run]) -> int:
        limits = [LAPS]
        known = [self._acknowledged(r, r) for r in lap]
        if len({r.text for r in lap}) == 1 and all(
            a or self._acts(r) or r.acted for a, r in zip(known, lap, strict=True)
        ):
            limits.append(MOVING if any(known) else ACTING)
        if len({r.key for r in lap}) == 1:
            limits.append(LAPS_ROUND)
        if any(r.pending for r in lap):
            limits.append(POLLING)
        return max(limits)

    def _same_step(self, one: Run, other: Run) -> bool:
        return one.key == other.key and self._shown(one) == self._shown(other)

    @settled
    def _shown(self, run: Run) -> tuple[bool, str, int | None]:
        """The result that a run showed: that of the run before it, if it was the *same*; else its own bytes."""
        before = self._same_call(run)
        if run.sameness == SAME and before:
            return self._shown(before[-1])
        return run.failed, run.text, run.digest

    def _equal_in_a_row(self, run: Run) -> int:
        """Count the equal runs at the end of this call's runs, the first included."""
        known = [r for r in (*self._same_call(run), run) if r.known and not r.overlapped]
        return 1 + len(list(itertools.takewhile(lambda r: r.sameness == SAME, reversed(known))))

    def _steady(self, run: Run) -> int:
        """Count the runs of this call that were same or alike in a row, the first included."""
        known = [r for r in (*self._same_call(run), run) if r.known and not r.overlapped]
        return 1 + len(list(itertools.takewhile(lambda r: r.sameness in (SAME, ALIKE), reversed(known))))

    def _similar(self, run: Run) -> int:
        """Count the earlier queries like this one that brought the same or nothing, the first included."""
        text = query_of(run)
        if text is None:
            return 0
        found: list[Run] = []
        seen: set[str] = set()
        for earlier in self._ended():
            if earlier.tool != run.tool or not earlier.counts or earlier.failed or earlier.sameness != FIRST:
                continue
            fruitless = emptiness(earlier.text) > Emptiness.CONTENT or earlier.text in seen
            seen.add(earlier.text)
            found = [*found, earlier] if fruitless else [earlier]
        return len([r for r in found if similar(query_of(r), text)])

    def _untried_of(self, run: Run) -> list[Run]:
        """Untried runs of this tool that had ended when this call's message was written, the last first."""
        ended = [r for r in self._ended() if r.tool == run.tool and r.sameness == FIRST and not r.overlapped]
        return [r for r in reversed(ended) if (r.ended or 0) <= (self._until(run) if run.known else run.written)]

    def _same_errors(self, run: Run) -> int:
        """Count the failures with one shape at the end of this tool's untried runs."""
        over = [r for r in self._ended() if r.change or (r.tool == run.tool and not r.failed)]
        found = [r for r in self._untried_of(run) if r.started > max((o.started for o in over), default=0)]
        row = itertools.takewhile(lambda r: r.failed and r.shape and r.shape == found[0].shape, found)
        return len(list(row))

    def _insisted_on_nothing(self, run: Run) -> int:
        """Count the refusals because of the empty answers in this row after which an untried call of the tool ran."""
        row = itertools.takewhile(self._is_nothing, self._untried_of(run))
        first = min((r.started for r in row), default=0)
        return len([r for r in self._untried_of(run) if r.debtor == run.tool and r.started > first])

    def _is_nothing(self, run: Run) -> bool:
        """Return True if an answer says that nothing was found; of a look, also if it says nothing."""
        most = Emptiness.CONTENT if run.kind in ("read", "poll") else Emptiness.VOID
        return not run.failed and emptiness(run.text) > most

    def _same_answers(self, run: Run) -> tuple[int, bool, bool]:
        """Count the equal results at the end of this tool's untried successes. Are they short? Are they empty?

        Those of other calls of the run's own message count only towards the row that it ends.
        """
        if run.kind in ("think", "step") or (run.kind == "write" and not run.cursor):
            return 0, False, False
        found = [r for r in self._untried_of(run) if not r.failed]
        if not found:
            return 0, False, False
        outlines = (self._answer(r) for r in found)
        first = self._answer(found[0])
        row = len(list(itertools.takewhile(lambda outline: outline == first, outlines)))
        return len([r for r in found[:row] if r is run or (r.ended or 0) <= run.written]), found[0].brief, first == ""

    def _answer(self, run: Run) -> str:
        """The answer of a run as those of other calls are compared with it: all that found nothing are one."""
        return "" if self._is_nothing(run) else f"answer {plain.answer_outline(run.text, run.arguments)}"

    def _alike_in_a_row(self, run: Run, *, with_news: bool = False) -> int:
        """Count the *alike* runs of this call in a row, since something changed; with or without new numbers."""
        count = 0
        known = [r for r in (*self._same_call(run), run) if r.known and not r.overlapped]
        for earlier in reversed(known):
            if earlier.sameness not in (SAME, ALIKE) or self._changed(earlier):
                break
            count += earlier.sameness == ALIKE and (with_news or not earlier.news)
        return count

    def _again_and_again(self, run: Run) -> int:
        in_order = [r for r in self._ended() if not r.overlapped and r.kind not in ("step", "wait")]
        return len(list(itertools.takewhile(lambda r: r.key == run.key, reversed(in_order))))

    def _effects(self, run: Run) -> int:
        return len([r for r in self.runs if r.key == run.key and r.known and not r.failed and not r.overlapped])

    def _hinted(self, run: Run) -> bool:
        hints = run.call.hints
        return hints is not None and hints.destructive is True and hints.idempotent is False

    def _sum_in_a_row(self) -> float:
        """Add up the calls since the last news."""
        row = itertools.takewhile(lambda r: not r.news, reversed(self._ended()))
        return sum(self._strength(r) for r in row if r.counts and r.sameness != ALIKE)

    def _sum(self) -> float:
        """Add up the calls without news of the whole turn."""
        found = [r for r in self._ended() if r.counts and not r.news]
        return sum(self._strength(r) for r in found)

    def _errors_in_a_row(self) -> int:
        in_order = [r for r in self._ended() if r.counts]
        return len(list(itertools.takewhile(lambda r: r.failed, reversed(in_order))))

    # -- nudges --------------------------------------------------------------------------------------------------------

    def _gate(self, mode: str, reason: str, run: Run) -> tuple[Any, ...]:
        if mode in ("unknown_tool_repeat", "no_novelty", "global_circuit_breaker"):
            return mode, reason
        if mode in ("error_repeat", "same_answer", "retry_limit"):
            return mode, reason, run.tool
        if mode in ("ping_pong", "cycle"):
            return mode, reason
        return mode, reason, run.key

    def _nudges(self, run: Run) -> list[tuple[str, str, int, int]]:
        """All nudges that are due, in order: (mode, reason, count, first threshold)."""
        if run.overlapped:
            return []
        found = list(self._nudging(run))
        return sorted((n for n in found if n[2] >= n[3]), key=lambda n: ORDER.index(n[0]))

    def _nudging(self, run: Run) -> Iterator[tuple[str, str, int, int]]:
        if run.registered is False:
            yield "unknown_tool_repeat", "", self._unknown_calls(), 2
        cap = getattr(run.contract, "cap", None)
        if cap:
            used = len([r for r in self.runs if r.tool == run.tool])
            yield "retry_limit", "", used, max(1, -(-cap * 3 // 4))
        if run.kind == "step":
            return
        laps = self._laps(run)
        if laps and run.haste:
            yield ("ping_pong" if laps[0] == 2 else "cycle"), str(laps[0]), laps[1], -(-laps[2] // 2)
        yield from self._repeat_nudges(run)
        yield from self._untried_nudges(run)
        if self._hinted(run):
            yield "repeated_effect", "", self._effects(run), 2
        yield "no_novelty", "", int(self._sum_in_a_row() + EPSILON), 5
        if run.haste:
            yield "global_circuit_breaker", "errors", self._errors_in_a_row(), 5
        yield "global_circuit_breaker", "idle", int(self._sum() + EPSILON), 100

    def _repeat_nudges(self, run: Run) -> Iterable[tuple[str, str, int, int]]:
        patient, limit = self._patient(run), self._limit(run)
        if (
            run.sameness == SAME
            and limit < NEVER
            and run.haste
            and not (patient and run.waited and run.haste < 2 / (SLOW - 1))
        ):
            mode, last = self._repeat_mode(run), self._last(run)
            short = last is not None and run.kind == "write" and self._acknowledged(run, last)
            acts = last is not None and not last.failed and (self._source(run, last).acted or self._acts(run) or short)
            reason = "acted" if acts and mode == "generic_repeat" else ""
            if mode != "generic_repeat" or not self._changed(run):
                yield mode, reason, self._equal_in_a_row(run), -(-int(limit) // 2)
        if run.sameness in (SAME, ALIKE) and self._changed(run):
            yield "generic_repeat", "changed", self._steady(run), 12 if run.brief else 6
        if not run.haste:
            return
        if run.sameness == ALIKE:
            due = 5 if self._alike_in_a_row(run) + 1 >= 5 else 10
            yield "volatile_repeat", "", self._alike_in_a_row(run, with_news=True) + 1, due
        calm = patient or run.waited
        again = 32 if run.news else 24 if calm else 8
        yield "volatile_repeat", "again", self._again_and_again(run), again

    def _untried_nudges(self, run: Run) -> Iterable[tuple[str, str, int, int]]:
        if run.sameness == FIRST and not run.failed:
            yield "similar_query", "", self._similar(run), 3
        if run.sameness == FIRST and run.failed:
            yield "error_repeat", "", self._same_errors(run), 3
        if run.sameness == FIRST and not run.failed:
            answers, brief, empty = self._same_answers(run)
            if empty or not brief or run.kind == "read":
                yield "same_answer", "empty" if empty else "", answers, EMPTY_TOLD if empty else 10 if brief else 5
