"""A second implementation of the design's page on detection: naive, slow, without bounds, hashes or kept counters.

All calls of a turn are in one list with their plain values; every decision reads the whole list again.

The page leaves some points open. There the reading was chosen that keeps the page's promise. The choices:

 1. Text arguments as a whole may be JSON or Python literals and are then their object; text *within* arguments
    stays text. Blanks are folded for every kind but ``write`` (so also for shell and unknown tools).
 2. "Its own news apart": the call's own last run does not count among the runs between, neither as news nor as a
    call that may write; nor do runs of the same call in parallel with it.
 3. "Between" is the time from the start of the call's last run to the end of this one, or to now. News and
    changes come when a run ends; a call that may write "ran" if it began or ended in that time, whatever it
    returned. May write: write, shell, agent, step, unknown. (poll, wait, think, read, final, handoff may not.)
 4. A call made before that ends in another, new error proves a change too, and so does one that makes progress:
    new numbers are something new that a change has brought. A change within that time forgets the
    evidence whatever this run's result was.
 5. An error is a result too: same, alike, different. First and later successes and errors never equal each other.
 6. A result is "seen before" if an earlier run of the same call had equal bytes or, once the dearer fingerprints of
    the call are kept, an equal masked form with a value left; durations are masked there unless a change came
    between those two runs.
 7. Values left unmasked: text with a letter or digit left; any number, true, false, null, "", [] or {} in JSON. The
    text inside MCP's ``content`` is the result; JSON text inside JSON is read as JSON.
 8. *progress* looks at the masked text. If no number moves, or their count differs, it is *alike*. The directions
    are those of the moves since the last run that was first, different or *alike* (a reversal starts again there).
    A command whose output has the total or the rest progresses too, and so does a write whose result has "5 of 40".
 9. Tools that take the next thing: nothing is masked, but step 4 of sameness holds for them too. An *alike* run is
    news all the same (the next thing is another one, if only by its number), and counts for volatile_repeat.
10. Numbers of ten digits are masked within JSON numbers and with their decimals; fractions (0.1234567890) are not.
    "elapsed: 377" in plain text is the value of an elapsed key too.
11. A poll: kind poll; or the last run succeeded and its result is pending (also ``n %`` below 100 %); or since the
    start of its last run another call ran that is of kind wait or poll, or was pending itself. (Not: "that was a
    poll by the third clause", otherwise one wait would make everything a poll for good.) A tool of kind wait is
    judged as a poll too.
12. A poll stands still if its run brought no news: same, alike, *or a result seen before* (a toggle). Its count is
    1 + such runs in a row that were judged as polls. Runs at least ``interval`` after the one before do not count.
    Of a wait only runs after the last news in the turn by any other call count: a wait is not to be refused while
    the awaited work moves.
13. Every refusal of a tried call by a default rule requires that nothing changed since its last run: polls, laps,
    volatile and repeated (hinted) effects too, not only those for which the page requires it.
14. Laps: steps are all ended runs but polls, waits, finals, thrown-away ones; two steps are equal if they are the
    same call and showed the same; a run that is *same* showed what the one before it did, else its own bytes. Calls
    of kind ``step`` are passed over. With a transient error in it five laps are needed, so the sixth is refused.
    ``ping_pong`` is period 2. Of several periods the shortest counts.
15. Parallel runs (begun before a result of the same call came) are classified, may bring news, but count nowhere
    except in caps and ``max_calls``. A cancelled run is treated as if it did not exist, caps apart.
16. "The same call again and again, whatever it returns": in a row, with no other call between but polls, waits and
    steps.
17. ``error_repeat``: the trailing runs of the tool, all untried and with one shape; a repeat of a tried call in
    between is passed over. For reading tools with equal results likewise; errors are passed over there.
18. ``similar_query``: brought the same = a result this tool had brought already, whatever the arguments; or nothing
    ("", [], {}, null). News from this tool = a result text it had not brought before; that run counts in. Errors
    and repeats are passed over: other modes judge those.
19. ``unknown_tool_repeat``, ``once`` and caps apply to polls and waits too: they do not rest on repetition.
    Only these apply to ``step``. Only these and laps apply to hand-offs.
20. Waits, thinking and finals are no change; thinking never brings news; the others do when their result is new.
21. Nudges: per (mode, reason, call or tool or turn) once each time that the count has reached N, 2N or 4N since the
    last nudge, and never again in the turn. A mode that is gated leaves the nudge to the next in order.
22. Refused calls are not runs. After ``abort_after`` refusals in a row without news (by anything that ran) the next
    one aborts. A refusal that can be insisted on lets that call run whenever it is made again in this turn.
23. Results over 8 KB: masks and shapes of the first and the last 4 KB; any difference in the middle is *different*.
24. An error hidden in a result: ``isError`` true inside it, or its text begins with "Error".
25. ``progress`` ends the alike count of ``volatile_repeat``; a result seen before keeps it.
26. A call through a known gateway (`call_tool`, `execute-tool`, ...) is the inner tool, its server (if named) a
    prefix.
27. ``no_novelty``: any news ends the row, also that of a poll.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tests.core.judges import kinds, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_loopguard.core.model import Outcome, ToolCall

FIRST, SAME, PROGRESS, ALIKE, DIFFERENT = "first", "same", "progress", "alike", "different"
MAY_WRITE = {"write", "shell", "agent", "step", "unknown"}
MOVING_KINDS = {"read", "poll", "unknown"}
PART = re.compile(r"([0-9]{1,9})\s?(?:of|/)\s?([0-9]{1,9})")
AGAIN = re.compile(r"\battempt|\btr(?:y|ies)\b|\bretr|\bfail|\berror", re.IGNORECASE)
OUT_OF_COUNTS = {"wait", "final", "handoff", "step"}
HIDDEN_ERROR = re.compile(r'isError"?\s*[=:]\s*[Tt]rue|\A\s*Error\b')
LAPS, LAPS_TRANSIENT = 2, 5
PERIODS = range(2, 9)
ORDER = (
    "unknown_tool_repeat",
    "poll_no_progress",
    "ping_pong",
    "cycle",
    "generic_repeat",
    "similar_query",
    "error_repeat",
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
    interval: float = 30.0
    patience: float = 7200.0


@dataclass(eq=False)
class Run:
    """One call that ran, with its properties, its outcome and its classification."""

    call: ToolCall
    tool: str
    key: tuple[str, str]
    kind: str
    contract: Any
    registered: bool | None
    started: int
    at: float
    poll: bool = False
    ended: int | None = None
    cancelled: bool = False
    failed: bool = False
    text: str = ""
    digest: int | None = None
    shape: str = ""
    transient: bool = False
    pending: bool = False
    overlapped: bool = False
    sameness: str = FIRST
    news: bool = False
    change: bool = False

    @property
    def known(self) -> bool:
        """Return True if its outcome is known."""
        return self.ended is not None and not self.cancelled

    @property
    def counts(self) -> bool:
        """Return True if it counts in the modes that do not judge polls."""
        return self.known and not self.overlapped and not self.poll and self.kind not in OUT_OF_COUNTS

    @property
    def still(self) -> bool:
        """Return True if it showed nothing new: it is not a first run, and it brought no news."""
        return self.sameness != FIRST and not self.news


@dataclass
class Refusal:
    """A call that was not run."""

    key: tuple[str, str]
    mode: str
    at_event: int
    insistable: bool


@dataclass
class NaiveTurn:
    """One turn. With ``enforce=False`` every call runs and refusals are only reported."""

    contracts: Mapping[str, Any] = field(default_factory=dict)
    clock: Callable[[], float] = lambda: 0.0
    enforce: bool = True
    kind_of: Callable[[str, Any], str] = kinds.kind_of
    abort_after: int = 10
    max_calls: int | None = None
    runs: list[Run] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    nudges: list[tuple[tuple[str, str, str], int]] = field(default_factory=list)
    events: int = 0

    # -- begin and end -------------------------------------------------------------------------------------------------

    def begin(self, call: ToolCall) -> tuple[str, str, int] | None:
        """Return the refusal of this call, if it is to be refused; else count it as begun."""
        self.events += 1
        run = self._new_run(call)
        verdict = None if run.kind == "final" else self._refusal(run)
        action = "block"
        if verdict:
            mode, _, insistable = verdict
            since_news = [r for r in self.refusals if r.at_event > self._last_news()]
            if self.abort_after and len(since_news) >= self.abort_after:
                action = "abort"
            self.refusals.append(Refusal(run.key, mode, self.events, insistable))
        if not verdict or not self.enforce:
            self.runs.append(run)
        return (verdict[0], action, verdict[1]) if verdict else None

    def end(self, call: ToolCall, outcome: Outcome) -> tuple[str, str, int] | None:
        """Return the nudge for this call's outcome, if there is one."""
        self.events += 1
        run = self._open_run(call)
        if outcome.cancelled:
            run.ended, run.cancelled = self.events, True
            return None
        self._fill(run, outcome)
        run.ended = self.events
        self._classify(run)
        if run.kind == "final":
            return None
        for mode, reason, count, first in self._nudges(run):
            gate = self._gate(mode, reason, run)
            level = sum(count >= first * times for times in (1, 2, 4))
            if all(level > earlier for told, earlier in self.nudges if told == gate):
                self.nudges.append((gate, level))
                return mode, "nudge", count
        return None

    # -- classification of a call --------------------------------------------------------------------------------------

    def _new_run(self, call: ToolCall) -> Run:
        arguments = plain.parsed(call.arguments) if isinstance(call.arguments, str) else call.arguments
        tool, arguments = kinds.routed(call.tool, arguments)
        contract = self._contract(tool)
        kind = self._kind(call, tool, contract, arguments)
        key = (tool, plain.arguments_text(arguments, loose=kind != "write"))
        run = Run(call, tool, key, kind, contract, self._registered(call), self.events, self.clock())
        run.poll = self._is_poll(run)
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

    def _is_poll(self, run: Run) -> bool:
        last = self._last(run)
        if run.kind in ("step", "final", "handoff"):
            return False
        if run.kind in ("poll", "wait") or (last and last.pending):
            return True
        between = self._began_or_ended(run)
        return any(r.kind in ("poll", "wait") or r.pending for r in between)

    def _open_run(self, call: ToolCall) -> Run:
        open_runs = [r for r in self.runs if r.ended is None]
        for run in open_runs:
            if run.call is call:
                return run
        return next(r for r in open_runs if r.call == call)

    # -- earlier runs --------------------------------------------------------------------------------------------------

    def _same_call(self, run: Run) -> list[Run]:
        """Earlier runs of the same call whose outcome is known, in the order they ended."""
        found = [r for r in self.runs if r.key == run.key and r.known and r is not run]
        return sorted(found, key=lambda r: r.ended or 0)

    def _last(self, run: Run) -> Run | None:
        """The run of the same call that began last before this one, of those known when this one began."""
        found = [r for r in self._same_call(run) if (r.ended or 0) < run.started]
        return max(found, key=lambda r: r.started) if found else None

    def _began_or_ended(self, run: Run) -> list[Run]:
        """Runs of other calls that began or ended between the start of the last run and now or this run's end."""
        last, until = self._last(run), self._until(run)
        if last is None:
            return []
        others = [r for r in self.runs if r.key != run.key and not r.cancelled]
        return [r for r in others if last.started < r.started < until or (r.ended and last.started < r.ended < until)]

    def _ended_between(self, run: Run) -> list[Run]:
        """Runs of other calls whose outcome came between the start of the last run and now or this run's end."""
        last, until = self._last(run), self._until(run)
        if last is None:
            return []
        return [r for r in self.runs if r.known and r.key != run.key and last.started < (r.ended or 0) < until]

    def _until(self, run: Run) -> int:
        return run.ended or self.events + 1

    def _changed(self, run: Run) -> bool:
        """Return True if something may have changed the world since this call's last run, its own news apart."""
        return any(r.change for r in self._ended_between(run))

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
            shown = isinstance(outcome.result, dict) and outcome.result.get("isError") is True
            run.failed = bool(outcome.is_error or shown or HIDDEN_ERROR.search(run.text[: plain.VIEW]))
        if run.failed:
            run.shape = plain.error_shape(run.text, run.call.arguments)
            run.transient = bool(plain.TRANSIENT.search(run.text))
        else:
            run.pending = plain.says_pending(run.text)

    def _classify(self, run: Run) -> None:
        before = self._same_call(run)
        run.overlapped = any((r.ended or 0) > run.started for r in before)
        run.sameness = self._sameness(run, before)
        if run.failed:
            failures = [r for r in self._ended() if r.failed and r.tool == run.tool and r is not run]
            run.news = all(r.shape != run.shape for r in failures)
        elif run.kind not in ("think", "final"):
            seen = any(self._equal(run, r) for r in before)
            another = run.sameness == ALIKE and kinds.takes_the_next(run.tool)
            run.news = not seen and (another or run.sameness not in (SAME, ALIKE))
        if run.news:
            run.change = run.sameness in (DIFFERENT, PROGRESS, ALIKE) or (run.kind in MAY_WRITE and not run.failed)

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
        mine, its = self._view(run, durations=durations), self._view(last, durations=durations)
        if (
            plain.shape(self._outline(run, mine)) != plain.shape(self._outline(last, its))
            or mine.outside != its.outside
        ):
            return DIFFERENT
        return self._moves(run, before, durations=durations)

    def _differed(self, before: list[Run]) -> bool:
        """Return True if a result of this call has differed from the one before already."""
        return any(r.sameness not in (FIRST, SAME) for r in before)

    def _view(self, run: Run, *, durations: bool) -> plain.View:
        """The run's masked result."""
        masked = not kinds.takes_the_next(run.tool)
        volatile = frozenset(getattr(run.contract, "volatile", None) or ())
        return plain.view(run.text, masked=masked, durations=durations, volatile=volatile)

    def _outline(self, run: Run, seen: plain.View) -> str:
        """The text that shapes and numbers are taken from: ids are dropped whole, also if they are the answer."""
        return plain.IDS.sub("0", seen.text) if kinds.takes_the_next(run.tool) else seen.text

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
        before = [r for r in self._same_call(run) if (r.ended or 0) < (run.ended or self.events + 1)]
        if not self._differed([r for r in before if (r.ended or 0) <= (other.ended or 0)]):
            return False
        return self._masked_equal(run, other)

    def _moves(self, run: Run, before: list[Run], *, durations: bool) -> str:
        """Return progress if every number that moves keeps its own direction; else alike."""
        part = None if AGAIN.search(run.text) else PART.search(run.text)
        counts = part is not None and int(part.group(1)) <= int(part.group(2))
        if run.kind not in MOVING_KINDS and not counts:
            return ALIKE
        chain: list[Run] = []
        for earlier in reversed(before):
            chain.insert(0, earlier)
            if earlier.sameness in (FIRST, DIFFERENT, ALIKE):
                break
        rows = [plain.numbers(self._outline(r, self._view(r, durations=durations))) for r in (*chain, run)]
        if len({len(row) for row in rows}) != 1:
            return ALIKE
        moved = False
        for column in zip(*rows, strict=True):
            steps = [b - a for a, b in itertools.pairwise(column)]
            moved = moved or steps[-1] != 0
            if steps[-1] and any(step * steps[-1] < 0 for step in steps):
                return ALIKE
        return PROGRESS if moved else ALIKE

    # -- refusals ------------------------------------------------------------------------------------------------------

    def _refusal(self, run: Run) -> tuple[str, int, bool] | None:
        """The first mode in order that refuses this call: mode, count, and True if the call can be insisted on."""
        found = {mode: (count, insistable) for mode, count, insistable in self._refusing(run)}
        for mode in ORDER:
            if mode in found:
                return (mode, *found[mode])
        return None

    def _refusing(self, run: Run) -> Iterable[tuple[str, int, bool]]:
        if run.registered is False and self._unknown_calls() + 1 >= 3:
            yield "unknown_tool_repeat", self._unknown_calls() + 1, False
        yield from self._declared(run)
        if run.kind == "step":
            return
        tried = self._last(run) is not None and not self._changed(run)
        if run.poll:
            count = self._standstill(run)
            if tried and count:
                yield "poll_no_progress", count, False
            return
        laps = self._third_lap(run)
        if tried and laps:
            yield ("ping_pong" if laps[0] == 2 else "cycle"), laps[1] + 1, False
        if run.kind == "handoff":
            return
        if tried:
            yield from self._tried(run)
        elif self._last(run) is None:
            yield from self._untried(run)

    def _tried(self, run: Run) -> Iterable[tuple[str, int, bool]]:
        """Refusals of a call that ran before, if nothing has changed since then."""
        if self._evidence(run) + self._weight(run) >= 1:
            yield "generic_repeat", self._equal_in_a_row(run) + 1, False
        alike = self._alike_in_a_row(run)
        if alike and alike + 1 + 1 >= 20:
            yield "volatile_repeat", alike + 2, False
        done = self._effects(run)
        if self._hinted(run) and done + 1 >= 5:
            yield "repeated_effect", done + 1, False
        stale = self._without_news_in_a_row()
        if stale + 1 >= 8:
            yield "no_novelty", stale + 1, False
        errors, idle = self._errors_in_a_row(), self._without_news()
        if errors + 1 >= 8 or idle + 1 >= 200:
            yield "global_circuit_breaker", (errors if errors + 1 >= 8 else idle) + 1, False

    def _untried(self, run: Run) -> Iterable[tuple[str, int, bool]]:
        """Refusals of a call that was never run; it can be insisted on."""
        if any(r.key == run.key and r.insistable for r in self.refusals):
            return
        similar = self._similar(run)
        if similar + 1 >= 4:
            yield "similar_query", similar + 1, True
        failed = self._same_errors(run)
        if failed + 1 >= 6:
            yield "error_repeat", failed + 1, True

    def _declared(self, run: Run) -> Iterable[tuple[str, int, bool]]:
        done = self._effects(run)
        if getattr(run.contract, "once", False) and done + 1 >= 2:
            yield "repeated_effect", done + 1, False
        cap = getattr(run.contract, "cap", None)
        used = len([r for r in self.runs if r.tool == run.tool])
        if cap is not None and used >= cap:
            yield "retry_limit", used + 1, False
        if self.max_calls is not None and len(self.runs) >= self.max_calls:
            yield "global_circuit_breaker", len(self.runs) + 1, False

    # -- counts --------------------------------------------------------------------------------------------------------

    def _unknown_calls(self) -> int:
        count = 0
        for run in reversed(self._ended()):
            if run.registered and not run.failed:
                break
            if run.registered is False and not run.failed:
                break
            count += run.registered is False and not run.overlapped
        return count

    def _standstill(self, run: Run) -> int:
        """Return the count at which a poll is refused now, or 0."""
        first, counted = self._still_runs(run)
        last = self._last(run)
        if first is None or last is None or last is first:
            return 0
        interval = getattr(run.contract, "interval", None) or 30.0
        patience = getattr(run.contract, "patience", None) or 7200.0
        if run.at - last.at >= interval:
            return counted if run.at - first.at > patience else 0
        return counted + 1 if counted + 1 >= 20 else 0

    def _still_runs(self, run: Run) -> tuple[Run | None, int]:
        """The first of the equal results of this poll, and the number of equal ones that count, the first included."""
        interval = getattr(run.contract, "interval", None) or 30.0
        known = [r for r in self._same_call(run) if not r.overlapped]
        if run.known and not run.overlapped:
            known.append(run)
        if run.kind == "wait":
            moved = max((r.ended or 0 for r in self.runs if r.known and r.news and r.key != run.key), default=0)
            known = [r for r in known if r.started > moved]
        if not known:
            return None, 0
        first, count, polled = known[-1], 1, False
        for earlier, later in reversed(list(itertools.pairwise(known))):
            if not later.still:
                break
            if later.poll:
                first, polled = earlier, True
            count += later.poll and later.at - earlier.at < interval
        return (first if polled else None), count

    def _steps(self) -> list[Run]:
        passed_over = ("wait", "final", "step")
        return [r for r in self._ended() if not r.overlapped and not r.poll and r.kind not in passed_over]

    def _third_lap(self, run: Run) -> tuple[int, int] | None:
        """Return period and number of equal laps done, if this call would begin one lap more than is allowed."""
        steps = self._steps()
        for period in PERIODS:
            laps = self._laps(steps, period)
            if laps and steps[-period].key == run.key:
                return period, laps
        return None

    def _laps(self, steps: list[Run], period: int) -> int:
        """Count the equal laps of this period at the end of the steps; 0 if they are too few."""
        lap = steps[-period:]
        if len(lap) < period:
            return 0
        if all(self._same_step(a, lap[0]) for a in lap):
            return 0
        count, transient = 1, any(r.transient for r in lap)
        while len(steps) >= (count + 1) * period:
            earlier = steps[-(count + 1) * period : -count * period]
            if not all(self._same_step(a, b) for a, b in zip(earlier, lap, strict=True)):
                break
            count += 1
        return count if count >= (LAPS_TRANSIENT if transient else LAPS) else 0

    def _same_step(self, one: Run, other: Run) -> bool:
        return one.key == other.key and self._shown(one) == self._shown(other)

    def _shown(self, run: Run) -> tuple[bool, str, int | None]:
        """The result that a run showed: that of the run before it, if it was the *same*; else its own bytes."""
        before = [r for r in self._same_call(run) if (r.ended or 0) < (run.ended or 0)]
        if run.sameness == SAME and before:
            return self._shown(before[-1])
        return run.failed, run.text, run.digest

    def _evidence(self, run: Run) -> Fraction:
        """The evidence that the earlier runs of this call gathered."""
        gathered = Fraction(0)
        for earlier in self._same_call(run):
            if earlier.sameness in (FIRST, DIFFERENT, PROGRESS) or self._changed(earlier):
                gathered = Fraction(0)
            elif earlier.sameness == SAME and not earlier.overlapped and not earlier.poll:
                gathered += self._weight(earlier)
        return gathered

    def _weight(self, run: Run) -> Fraction:
        """The evidence that one *same* adds now."""
        last = self._last(run)
        if last is None or self._changed(run):
            return Fraction(0)
        if last.transient:
            return Fraction(1, 5)
        news = any(r.news for r in self._ended_between(run))
        wrote = any(r.kind in MAY_WRITE for r in self._began_or_ended(run))
        return Fraction(1, 4) if news or wrote else Fraction(1, 2)

    def _equal_in_a_row(self, run: Run) -> int:
        """Count the equal runs at the end of this call's runs, the first included; *alike* ones do not end the row."""
        count = 1
        known = [*self._same_call(run), *([run] if run.known else [])]
        for earlier in reversed([r for r in known if not r.overlapped]):
            if earlier.sameness not in (SAME, ALIKE):
                break
            count += earlier.sameness == SAME and not earlier.poll
        return count

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
            fruitless = earlier.text in ("", "[]", "{}", "null") or earlier.text in seen
            seen.add(earlier.text)
            found = [*found, earlier] if fruitless else [earlier]
        return len([r for r in found if similar(query_of(r), text)])

    def _untried_runs(self, run: Run) -> list[Run]:
        """Runs of this tool that were each the first of their call, the last first."""
        return [r for r in reversed(self._ended()) if r.tool == run.tool and r.counts and r.sameness == FIRST]

    def _same_errors(self, run: Run) -> int:
        changed = max((r.ended or 0 for r in self.runs if r.known and r.change), default=0)
        worked = max((r.ended or 0 for r in self.runs if r.known and not r.failed and r.tool == run.tool), default=0)
        found = [r for r in self._untried_runs(run) if r.failed and (r.ended or 0) > max(changed, worked)]
        count = 0
        for earlier in found:
            if earlier.shape != found[0].shape:
                break
            count += 1
        return count

    def _same_answers(self, run: Run) -> int:
        if run.kind != "read" or run.failed or run.sameness != FIRST:
            return 0
        count = 0
        for earlier in self._untried_runs(run):
            if not earlier.failed and not self._bytes_equal(earlier, run):
                break
            count += not earlier.failed
        return count

    def _alike_in_a_row(self, run: Run) -> int:
        """Count the *alike* runs at the end of this call's runs, without a change between."""
        count = 0
        known = [*self._same_call(run), *([run] if run.known else [])]
        for earlier in reversed([r for r in known if not r.overlapped and not r.poll]):
            if earlier.sameness not in (SAME, ALIKE) or self._changed(earlier):
                break
            count += earlier.sameness == ALIKE
        return count

    def _again_and_again(self, run: Run) -> int:
        count = 0
        in_order = [r for r in self._ended() if not r.overlapped and not r.poll and r.kind != "step"]
        for earlier in reversed(in_order):
            if earlier.key != run.key:
                break
            count += 1
        return count

    def _effects(self, run: Run) -> int:
        return len([r for r in self.runs if r.key == run.key and r.known and not r.failed and not r.overlapped])

    def _hinted(self, run: Run) -> bool:
        hints = run.call.hints
        return hints is not None and hints.destructive is True and hints.idempotent is False

    def _without_news_in_a_row(self) -> int:
        count = 0
        for run in reversed(self._ended()):
            if run.news:
                break
            count += run.counts and run.sameness != ALIKE
        return count

    def _without_news(self) -> int:
        return len([r for r in self._ended() if r.counts and not r.news])

    def _errors_in_a_row(self) -> int:
        count = 0
        for run in reversed([r for r in self._ended() if not r.overlapped and not r.poll and r.kind != "final"]):
            if not run.failed:
                break
            count += 1
        return count

    # -- nudges --------------------------------------------------------------------------------------------------------

    def _gate(self, mode: str, reason: str, run: Run) -> tuple[str, str, str]:
        if mode in ("unknown_tool_repeat", "no_novelty", "global_circuit_breaker"):
            return mode, reason, ""
        if mode in ("error_repeat", "retry_limit"):
            return mode, reason, run.tool
        return mode, reason, "\n".join(run.key)

    def _nudges(self, run: Run) -> list[tuple[str, str, int, int]]:
        """All nudges that are due, in order: (mode, reason, count, first threshold)."""
        if run.overlapped:
            return []
        found = list(self._nudging(run))
        return sorted((n for n in found if n[2] >= n[3]), key=lambda n: ORDER.index(n[0]))

    def _nudging(self, run: Run) -> Iterable[tuple[str, str, int, int]]:
        if run.registered is False:
            yield "unknown_tool_repeat", "", self._unknown_calls(), 2
        cap = getattr(run.contract, "cap", None)
        if cap:
            used = len([r for r in self.runs if r.tool == run.tool])
            yield "retry_limit", "", used, max(1, -(-cap * 3 // 4))
        if run.kind == "step":
            return
        if run.poll:
            if run.still:
                yield "poll_no_progress", "", self._still_runs(run)[1], 10
            return
        yield from self._lap_nudges(run)
        if run.kind != "handoff":
            yield from self._other_nudges(run)

    def _lap_nudges(self, run: Run) -> Iterable[tuple[str, str, int, int]]:
        steps = self._steps()
        for period in PERIODS:
            laps = self._laps(steps, period)
            if laps:
                yield ("ping_pong" if period == 2 else "cycle"), "", laps, 2
                return

    def _other_nudges(self, run: Run) -> Iterable[tuple[str, str, int, int]]:
        if run.sameness == SAME:
            changed = self._changed(run)
            yield "generic_repeat", "changed" if changed else "", self._equal_in_a_row(run), 6 if changed else 2
        if run.sameness == FIRST and not run.failed:
            yield "similar_query", "", self._similar(run), 3
        if run.failed:
            yield "error_repeat", "", self._same_errors(run), 3
        yield "error_repeat", "answers", self._same_answers(run), 5
        if run.sameness == ALIKE:
            yield "volatile_repeat", "", self._alike_in_a_row(run) + 1, 5
        yield "volatile_repeat", "again", self._again_and_again(run), 8
        if self._hinted(run):
            yield "repeated_effect", "", self._effects(run), 2
        yield "no_novelty", "", self._without_news_in_a_row(), 5
        yield "global_circuit_breaker", "errors", self._errors_in_a_row(), 5
        yield "global_circuit_breaker", "idle", self._without_news(), 100


DANGEROUS = {"delete", "remove", "drop", "deactivate", "disable", "cancel"}
AUTO = ("query", "q", "search_query", "question", "search", "text", "prompt", "keywords")


def query_of(run: Run) -> str | None:
    """The call's query, normalised; None if its contract names none."""
    name = getattr(run.contract, "query", None)
    arguments = plain.parsed(run.call.arguments) if isinstance(run.call.arguments, str) else run.call.arguments
    if not name:
        return None
    if isinstance(arguments, str):
        return normalised(arguments) if name == "auto" else None
    if not isinstance(arguments, dict):
        return None
    names = AUTO if name == "auto" else (name,)
    text = next((arguments[n] for n in names if isinstance(arguments.get(n), str)), None)
    return None if text is None else normalised(text)


def normalised(text: str) -> str:
    """Convert to lower case, without punctuation, blanks folded, 512 characters."""
    return " ".join(re.sub(r"[^\w\s]|_", " ", text[:512].lower()).split())


def similar(one: str | None, other: str | None) -> bool:
    """Return True if both are at least three quarters alike, with equal numbers and equal dangerous words."""
    from rapidfuzz import fuzz

    if not one or not other:
        return False
    if DANGEROUS & set(one.split()) != DANGEROUS & set(other.split()):
        return False
    if re.findall(r"\d+", one) != re.findall(r"\d+", other):
        return False
    return fuzz.ratio(one, other) >= 75
