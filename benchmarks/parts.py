"""The parts of the rule, each with the way to take it out: numbers of the policy, and special cases in the code."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from otel_loopguard import Policy, Rule
from otel_loopguard.engine.detectors import (
    error_repeat,
    generic_repeat,
    laps,
    poll_no_progress,
    same_answer,
    trips,
    volatile_repeat,
)
from otel_loopguard.engine.history import clock, evidence, update
from otel_loopguard.engine.history.state import History
from otel_loopguard.engine.tools import kinds, lexicon
from otel_loopguard.engine.values import answers, compare, fingerprint, masking, normalise, pending, results

if TYPE_CHECKING:
    from types import CodeType


class Edit(NamedTuple):
    """A piece of a function's source, which must be there once, and its replacement."""

    function: Any
    old: str
    new: str

    @property
    def changed(self) -> CodeType:
        """The function's code after the replacement."""
        source = textwrap.dedent(inspect.getsource(self.function))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.function.__qualname__}: {source.count(self.old)} times there: {self.old}")
        namespace = dict(self.function.__globals__)
        exec("from __future__ import annotations\n" + source.replace(self.old, self.new), namespace)
        code: CodeType = namespace[self.function.__name__].__code__
        return code

    def apply(self) -> None:
        """Change the function itself, so that all modules that imported it get the change."""
        self.function.__code__ = self.changed


class Value(NamedTuple):
    """A constant of a module, or a method of a class, and its replacement."""

    owner: Any
    name: str
    new: Any

    def apply(self) -> None:
        """Change it. A constant must be used in its own module alone."""
        setattr(self.owner, self.name, self.new)


class Part(NamedTuple):
    """One number or special case, and the way to take it out: a policy, or edits of the functions that have it."""

    name: str
    carries: str
    """The sentence of the rule that goes with it."""
    policy: Policy = Policy()
    edits: tuple[Edit | Value, ...] = ()


def setting(name: str, carries: str, mode: str, **neutral: Any) -> Part:
    """Take out settings of a mode by their neutral values."""
    return Part(name, carries, Policy(modes={mode: Rule(**neutral)}))


def mode(name: str) -> Part:
    """Take out a mode."""
    return setting(f"`{name}`", "the whole mode", name, nudge=0, block=0)


def code(name: str, carries: str, function: Any, old: str, new: str) -> Part:
    """Take out a special case of one function."""
    return Part(name, carries, edits=(Edit(function, old, new),))


def value(name: str, carries: str, owner: Any, attribute: str, new: Any) -> Part:
    """Take out a constant, or all that a method finds."""
    return Part(name, carries, edits=(Value(owner, attribute, new),))


def never(*_: object, **__: object) -> bool:
    """Find nothing."""
    return False


def without(*alternatives: str) -> re.Pattern[str]:
    """Return the pattern of what is masked, without some of its alternatives."""
    pattern = masking._VOLATILE.pattern
    for one in alternatives:
        if f"{one}|" not in pattern and f"|{one}" not in pattern:
            raise ValueError(f"not among what is masked: {one}")
        pattern = pattern.replace(f"{one}|", "").replace(f"|{one}", "")
    return re.compile(pattern if "duration" in pattern else rf"{pattern}|(?P<duration>(?!))", re.ASCII)


_REPEAT, _POLL, _VOLATILE, _BREAKER = "generic_repeat", "poll_no_progress", "volatile_repeat", "global_circuit_breaker"

TIME = [
    setting("the clock", "time between two runs proves less than haste", _POLL, min_interval=0),
    setting("`min_interval_share`", "3 % of the time for which it has been the same", _POLL, min_interval_share=0),
    setting("`block_if_slow`", "a slow agent is refused from the 8th run on", _POLL, block_if_slow=3),
    code(
        "doubled in vain",
        "each run in vain doubles the pace",
        clock._pace,
        "2.0 ** min(stats.vain, _MOST_DOUBLINGS)",
        "1",
    ),
    code("tempo of the model", "twice the usual pause weighs nothing", clock._haste, "if len", "if False and len"),
    code("fewest pauses", "unknown below three pauses", clock._haste, "_FEWEST_PAUSES", "1"),
    code(
        "long pauses weigh less",
        "beyond three intervals by the square",
        clock._haste,
        " * (slow / mean) ** 2",
        "",
    ),
    code("square", "the square of it", clock._haste, " ** 2", ""),
    code(
        "three intervals",
        "up to three intervals are a slow model's",
        clock._haste,
        "slow = slow_haste(record), _SLOW *",
        "slow = slow_haste(record),",
    ),
    code(
        "lifted by time", "a refusal is lifted after the seconds that it names", clock.compare_times, "lifted or ", ""
    ),
    code(
        "pause shared by calls",
        "the pause is shared among the calls since",
        clock.compare_times,
        " / max(1, calls)",
        "",
    ),
    code("tools take no time", "the clock is still while tools run", update.end, "history.active_at = now", "pass"),
    code("last pauses", "the last 15 pauses", History.add_pause, "del self.pauses[0]", "pass"),
    code("laps that waited", "laps weigh less if they waited", laps.refuse, "laps * record.haste", "laps"),
]

LIMITS = [
    setting("`block_after_reads`", "5 after news from reading", _REPEAT, block_after_reads=0),
    code("writes without news", "5 if a call that may write ran", evidence.limit_of, "if news or writes", "if news"),
    setting("`block_if_transient`", "6 after a transient error", _REPEAT, block_if_transient=0),
    setting("`block_if_acted`", "4 for acts that succeeded", _REPEAT, block_if_acted=0),
    setting("`block_if_acknowledged`", "9 for acknowledgements", _REPEAT, block_if_acknowledged=0),
    code("moved by itself", "9 if it changed twice by itself", evidence.limit_of, "stats.moves > 1", "False"),
    code("moved once", "twice, not once", evidence.limit_of, "stats.moves > 1", "stats.moves"),
    setting("`fresh_after_news`", "never after 20 news", _REPEAT, fresh_after_news=0),
    setting("`poll_no_progress.block`", "20 for calls that wait for something", _POLL, block=9),
    code("pending", "20 if the result says that it is not done", evidence.limit_of, "flags & PENDING or ", ""),
    code("a wait between", "20 if a tool that waits ran since", evidence.limit_of, " or waits", ""),
    code(
        "patient kinds",
        "20 for polls, waits, final tools and hand-offs",
        evidence.limit_of,
        "kind.is_patient or ",
        "",
    ),
    code(
        "acknowledged since news",
        "an acknowledgement is judged since the last news",
        evidence.limit_of,
        " or (news > 0 and flags & ACKNOWLEDGED > 0)",
        "",
    ),
    code(
        "alike resets",
        "a result that is alike sets the evidence to 0",
        evidence.weigh,
        "stats.evidence, stats.equal, stats.same_since = 0, 1, history.idle",
        "pass",
    ),
    code(
        "half of the limit",
        "a nudge comes at half of the limit",
        trips.nudge_limit,
        "max(nudge, (limit + 1) // 2)",
        "nudge",
    ),
    code(
        "slow polls untold",
        "a poll that takes its time is not nudged",
        poll_no_progress.after,
        " or record.haste < slow_haste(record)",
        "",
    ),
]

SUMS = [
    code(
        "strength by limit",
        "calls with higher limits weigh less",
        evidence.strength,
        "min(1.0, 2 / (limit.block - 1))",
        "1.0",
    ),
    code("to and fro", "0.4 if it moves", evidence.strength, "0.4", "1.0"),
    setting("`no_news_block`", "200 calls without news", _BREAKER, no_news_block=0, no_news_nudge=0),
]

LAPS = [
    code("pending laps", "the 20th lap if a member is pending", laps._limit, "if any_flag & PENDING", "if False"),
    code("one call goes round", "the 9th lap", laps._limit, "if not _differ(history.keys[-period:])", "if False"),
    code(
        "acknowledged laps",
        "the limit of acts if all answers are one acknowledgement",
        laps._limit,
        "if not _differ(results) and",
        "if False and",
    ),
    code(
        "transient laps",
        "the 5th lap with a transient error",
        laps._limit,
        "max(block, rule.block_if_transient or 0)",
        "block",
    ),
    setting("`max_period`", "laps of up to 8 calls", "cycle", max_period=4),
]

MODES = [
    mode("unknown_tool_repeat"),
    mode("ping_pong"),
    mode("cycle"),
    mode("generic_repeat"),
    mode("poll_no_progress"),
    mode("error_repeat"),
    mode("same_answer"),
    setting("`same_answer.block`", "the 10th equal long answer is refused", "same_answer", block=0),
    setting("`volatile_repeat`", "the whole mode", _VOLATILE, nudge=0, block=0, nudge_any_result=0),
    mode("no_novelty"),
    setting("`global_circuit_breaker`", "the whole mode", _BREAKER, nudge=0, block=0, no_news_nudge=0, no_news_block=0),
    setting("8 errors in a row", "any errors", _BREAKER, nudge=0, block=0),
    setting("`volatile_repeat.block`", "the 20th that is alike", _VOLATILE, block=0),
    setting("`nudge_any_result`", "8 calls in a row, whatever they return", _VOLATILE, nudge_any_result=0),
    code(
        "any result that is news",
        "nudged at 32",
        volatile_repeat.after,
        "(4 if record.news else 3 if patient else 1)",
        "(3 if patient else 1)",
    ),
    code(
        "any result of polls",
        "nudged at 24",
        volatile_repeat.after,
        "(4 if record.news else 3 if patient else 1)",
        "(4 if record.news else 1)",
    ),
    setting("`nudge_after_changes`", "6, 12, 24 runs whatever came in between", _REPEAT, nudge_after_changes=0),
    code(
        "short after changes", "12 for short successes", generic_repeat._nudge_after_changes, "(2 if brief else 1)", "1"
    ),
    code(
        "earlier successes",
        "two failures more than it had successes",
        error_repeat.before,
        "max(rule.block or 0, stats.successes + 2)",
        "rule.block or 0",
    ),
    code("half open", "every second untried call runs", trips.judges_untried, " and not half_open", ""),
    code("short answers run", "short equal answers are never refused", same_answer.before, " or stats.brief", ""),
    code("answers of commands", "are never refused", same_answer.before, " or record.kind is _SHELL", ""),
    code(
        "short answers at 10",
        "nudged at 10",
        same_answer.after,
        "2 * rule.nudge if stats.brief else rule.nudge",
        "rule.nudge",
    ),
    code(
        "short answers of reads",
        "only reading tools",
        same_answer.after,
        " or (stats.brief and record.kind is not _READ)",
        "",
    ),
]

RESULTS = [
    value("timestamps and ids", "are masked", masking, "_VOLATILE", re.compile(r"(?P<duration>(?!))")),
    value("timestamps", "are masked", masking, "_VOLATILE", without(masking._TIMESTAMP, masking._HTTP_DATE)),
    value("UUIDs", "are masked", masking, "_VOLATILE", without(masking._UUID)),
    value("hexadecimal ids", "of 7 or more are masked", masking, "_VOLATILE", without(masking._HEX)),
    value("long numbers", "of 10 or more digits are masked", masking, "_VOLATILE", without(r"\d{10,}(?:\.\d+)?")),
    value(
        "durations", "are masked", masking, "_VOLATILE", without(rf"(?P<duration>\d+(?:\.\d+)?\x1f?{masking._UNITS})")
    ),
    value("keys of durations", "latency, duration, elapsed, took", masking, "_TIMING_WORDS", ()),
    value("keys of ids", "nonce, etag, request id, trace id", masking, "_ID_WORDS", ()),
    code(
        "durations after a change",
        "may be what was measured",
        compare.compare,
        "(last.with_durations, now.with_durations) if changed else",
        "",
    ),
    code(
        "the id is the answer",
        "nothing is masked if nothing else is left",
        masking._masked_view,
        "if not _has_content(",
        "if False and _has_content(",
    ),
    code(
        "taken items",
        "nothing is masked for tools that take the next item",
        update._compare,
        "mask=not tool.takes_next",
        "mask=True",
    ),
    code("progress", "numbers that move on", compare.compare, "if may_progress and", "if False and"),
    code(
        "progress of all kinds",
        "reads, polls, unknown tools and cursors alone",
        compare.compare,
        "if may_progress and",
        "if",
    ),
    code("totals", "5 of 40, or 12 left, is progress, whatever sends it", compare.compare, " or after.has_total", ""),
    code("bare numbers", "are the answer", compare.compare, " or (has_numbers and not after.has_words)", ""),
    code("runs under other ids", "of commands, not of writes alone", compare.compare, " or kind is Kind.SHELL", ""),
    code("cursors", "the numbers of a cursor are its position", compare.compare, "moves_cursor or ", ""),
    code("a number that turns", "is no progress the first time", compare._progresses, " and not turns_first", ""),
    code(
        "noise",
        "a number that turned before no longer counts",
        compare._progresses,
        "turns_first or not turns[place]",
        "True",
    ),
    value("numbers that name something", "are left out of progress", masking, "_NAME", re.compile(r"(?!)()")),
    code("done again under another id", "is the same", compare.compare, "if names_only and", "if False and"),
    value("error texts", "without a flag the text tells", results, "is_error_text", never),
    value("transient errors", "429, 5xx, time-outs, busy", results, "is_transient", never),
    value("pending results", "pending, queued, 12 %, ready: false", pending.PendingWords, "are_in", never),
    value("reports", "of up to 300 characters", results, "_LONGEST_REPORT", 10**9),
    value("short results", "of up to 80 bytes", results, "LONGEST_BRIEF", 40),
    value("short results of 160", "80 bytes, not 160", results, "LONGEST_BRIEF", 160),
    value("exit codes", "have no shape", fingerprint, "_is_exit_code", never),
    code("quoted text in errors", "is masked", fingerprint.error_shape, "if '\"' in text", "if False and '\"' in text"),
    code(
        "own arguments in errors",
        "are masked",
        fingerprint.error_shape,
        "for value in leaves(arguments)",
        "for value in ()",
    ),
    code(
        "own arguments in answers",
        "are masked",
        answers.answer_fingerprint,
        "for value in leaves(arguments)",
        "for value in ()",
    ),
]

NAMES = [
    value("names of tools", "tell their kinds", lexicon.Lexicon, "_kind_of_part", lambda *_: None),
    code("a server's name", "is no verb", lexicon.Lexicon.kind_of_name, " and not (place and found is Kind.WRITE)", ""),
    code(
        "verbs or nouns",
        "order, log, message",
        lexicon.Lexicon._kind_of_part,
        "words[0] in self._writes_or_noun",
        "False",
    ),
    code(
        "thoughts by argument",
        "a thought and its place",
        kinds.kind_of_call,
        "named is _UNKNOWN and _THOUGHT in arguments",
        "False",
    ),
    value("cursors by name", "open, click, scroll", lexicon.Lexicon, "moves_cursor", never),
    value("takers by name", "next, claim, receive", lexicon.Lexicon, "takes_next", never),
    value(
        "arguments that tell nothing",
        "request ids, reasons",
        lexicon.Lexicon,
        "silent_parameters",
        lambda *_: frozenset(),
    ),
    code(
        "commands",
        "that only read are reads",
        kinds.kind_of_call,
        "if not arguments.keys().isdisjoint(_COMMANDS)",
        "if False",
    ),
    Part(
        "SQL",
        "that begins with select reads",
        edits=(Value(kinds, "sql_kind", lambda *_: None), Value(kinds, "_kind_of_sql", lambda *_: None)),
    ),
    code(
        "actions",
        "action, operation, method",
        kinds.kind_of_call,
        "if not arguments.keys().isdisjoint(_ACTIONS)",
        "if False",
    ),
    value("blanks in arguments", "are folded", normalise, "_BLANKS", re.compile(r"(?!)")),
]

ENDING = [
    Part("`abort_after`", "the run ends after 10 refusals", Policy(abort_after=0)),
    Part("`abort_after` of 5", "10, not 5", Policy(abort_after=5)),
    code("heeded", "refusals that are heeded do not count", update.let_run, "if heeds and heeded and", "if False and"),
]

PARTS: list[Part] = [*TIME, *LIMITS, *SUMS, *LAPS, *MODES, *RESULTS, *NAMES, *ENDING]
