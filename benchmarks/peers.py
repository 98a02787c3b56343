"""The rules of other systems, restated, for figures on the same traces.

Each is restated from its source as of late 2026, with its documented thresholds, switched on even where it is off by
default. Not restated are parts that read more than tools, arguments and results: models as judges, thoughts, repeated
text, screens. Names of tools in a rule are the system's own; no tool of another system has them, except by chance.
The docstring of a rule names its source, and what else is left out.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_loopguard import Outcome, ToolCall

NUDGE, BLOCK, ABORT = "nudge", "block", "abort"


@dataclass
class Made:
    """One call, and its result once it has ended."""

    tool: str
    args: str
    known: bool
    result: str | None = None
    failed: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The tool and its arguments."""
        return self.tool, self.args

    @property
    def full(self) -> tuple[str, str, str | None]:
        """The tool, its arguments and the result."""
        return self.tool, self.args, self.result


class Peer:
    """A rule as a judge of one turn: ``before`` a call without its result, ``after`` it with the result."""

    title = ""

    def __init__(self) -> None:
        self.calls: list[Made] = []
        """The calls that ran."""
        self._open: dict[int, Made] = {}

    def before(self, made: Made) -> str | None:
        """Return the action on a call that is about to run."""

    def after(self, made: Made) -> str | None:
        """Return the action on a call that has run."""

    def thinks(self, thought: float, now: float) -> bool:  # noqa: ARG002 - no peer reads thoughts, or asks for an answer
        """Let the model make its calls."""
        return False

    def begin(self, call: ToolCall, now: float) -> tuple[str, str] | None:  # noqa: ARG002 - no peer has a clock
        """Begin a call."""
        made = Made(call.tool, _text(call.arguments), call.registered is not False)
        action = self.before(made)
        if action not in (BLOCK, ABORT):
            self.calls.append(made)
            self._open[id(call)] = made
        return (action, self.title) if action else None

    def end(self, call: ToolCall, outcome: Outcome, now: float) -> tuple[str, str] | None:  # noqa: ARG002 - no peer has a clock
        """End a call; one that was refused, and was recorded all the same, counts as if it had run."""
        made = self._open.pop(id(call), None)
        if made is None:
            made = Made(call.tool, _text(call.arguments), call.registered is not False)
            self.calls.append(made)
        made.result = str(outcome.digest or outcome.error or _text(outcome.result))
        failed = made.result.lstrip('"[{').lower().startswith("error") if outcome.is_error is None else outcome.is_error
        made.failed = failed or outcome.error is not None
        action = self.after(made)
        return (action, self.title) if action else None

    def streak(self, made: Made) -> int:
        """Count the calls at the end with this tool and these arguments, without this one."""
        count = 0
        while count < len(self.calls) and self.calls[-1 - count].key == made.key:
            count += 1
        return count


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def laps(items: list[Any], period: int) -> int:
    """Count how often the last ``period`` items repeat, one after the other, at the end."""
    count = 1
    while (count + 1) * period <= len(items) and items[len(items) - (count + 1) * period :][:period] == items[-period:]:
        count += 1
    return count if len(items) >= period else 0


class OpenClaw(Peer):
    """src/agents/tool-loop-detection.ts.

    Not restated: hand-written lists of volatile keys, polls by name (`command_status`, `process`); off by default.
    """

    title = "OpenClaw"

    def before(self, made: Made) -> str | None:
        """Refuse after 20 equal outcomes among 30 calls, at 20 alternating ones, after 10 calls to one unknown tool."""
        last = self.calls[-30:]
        unknown = 0
        while unknown < len(last) and last[-1 - unknown].tool == made.tool and not last[-1 - unknown].known:
            unknown += 1
        same = [one.result for one in reversed(last) if one.key == made.key]
        equal = next((number for number, result in enumerate(same) if result != same[0]), len(same))
        return BLOCK if unknown >= 10 or equal >= 20 or self._alternates([*last, made]) else None

    @staticmethod
    def _alternates(calls: list[Made]) -> bool:
        tail = calls[-20:]
        sides = [{one.key for one in tail[side::2]} for side in (0, 1)]
        results = [{one.result for one in tail[:-1][side::2]} for side in (0, 1)]
        constant = all(len(one) == 1 for one in sides) and all(len(one) == 1 for one in results)
        return len(tail) == 20 and sides[0] != sides[1] and constant


class OpenHands(Peer):
    """StuckDetector, StuckDetectionThresholds.

    Not restated: monologues; thoughts, which it compares, count as constant.
    """

    title = "OpenHands SDK"

    def after(self, made: Made) -> str | None:  # noqa: ARG002 - the last calls decide
        """Stop at 4 equal calls and results, 3 equal calls with errors, or 6 that alternate."""
        last = self.calls[-10:]
        full = [one.full for one in last]
        failing = [one.key for one in last if one.failed][-3:] if all(one.failed for one in last[-3:]) else []
        if laps(full, 1) >= 4 or (len(failing) == 3 and len(set(failing)) == 1):
            return ABORT
        return ABORT if laps(full, 2) >= 3 else None


class GeminiCli(Peer):
    """loopDetectionService.ts.

    Not restated: its model as a judge, repeated text.
    """

    title = "gemini-cli"

    def __init__(self) -> None:
        super().__init__()
        self.strikes = 0

    def before(self, made: Made) -> str | None:
        """Five repeats of the last 1 to 5 calls, whatever they return: a nudge, and then the end."""
        keys = [*(one.key for one in self.calls), made.key][-25:]
        if not any(laps(keys, period) >= 5 for period in range(1, 6)):
            return None
        self.strikes += 1
        return NUDGE if self.strikes == 1 else ABORT


class Qwen(Peer):
    """Its default detectors.

    Not restated: `task_list`, the one tool whose results it reads.
    """

    title = "qwen-code"

    def before(self, made: Made) -> str | None:
        """Stop at 5 equal calls in a row, 8 looks by git in a row, 100 calls with one made 6 times, or 1,000 calls."""
        counted = Counter(one.key for one in [*self.calls, made])
        looks = [bool(re.search(r"git (status|diff|ls-files)", one.args)) for one in [*self.calls, made][-8:]]
        many = len(self.calls) >= 100 and max(counted.values()) >= 6
        stagnant = len(looks) == 8 and all(looks)
        return ABORT if self.streak(made) >= 4 or stagnant or many or len(self.calls) >= 1000 else None


class QwenHeuristics(Qwen):
    """The same with `skipLoopDetection: false`.

    Not restated: thoughts, repeated text; a read is a tool with read, list, search, grep, glob, view, get or fetch
    in its name.
    """

    title = "qwen-code, all heuristics"

    def before(self, made: Made) -> str | None:
        """Stop also at 3 alternations, 6 equal calls in the turn, one tool 8 times in a row, or 8 reads of 15 calls."""
        calls = [*self.calls, made]
        keys = [one.key for one in calls]
        names = [one.tool for one in calls]
        reads = [bool(re.search("read|list|search|grep|glob|view|get|fetch", one.tool.lower())) for one in calls]
        if laps(keys, 2) >= 3 or keys.count(made.key) >= 6 or laps(names, 1) >= 8:
            return ABORT
        return ABORT if not all(reads) and sum(reads[-15:]) >= 8 and reads[-1] else super().before(made)


class Cline(Peer):
    """runtime/safety/loop-detection.ts.

    Not restated: the user's answer at the hard limit, which stops by default.
    """

    title = "Cline SDK"

    def before(self, made: Made) -> str | None:
        """Nudge at the third equal call in a row, stop at the fifth."""
        count = self.streak(made) + 1
        return ABORT if count >= 5 else NUDGE if count == 3 else None


class RooCode(Peer):
    """ToolRepetitionDetector.

    Not restated: the user, who is asked at each refusal.
    """

    title = "Roo Code"

    def __init__(self) -> None:
        super().__init__()
        self.last: tuple[str, str] | None = None
        self.count = 0

    def before(self, made: Made) -> str | None:
        """Refuse the fourth equal call in a row, and count from the start."""
        self.count = self.count + 1 if made.key == self.last else 1
        self.last = made.key
        if self.count < 4:
            return None
        self.last, self.count = None, 0
        return BLOCK


class DeerFlow(Peer):
    """LoopDetectionMiddleware.

    Not restated: calls of one message are compared as a whole there, one by one here.
    """

    title = "deer-flow"

    SALIENT = ("path", "url", "query", "command", "pattern")

    def before(self, made: Made) -> str | None:
        """Nudge at 3 calls with equal salient arguments among 20, stop at 5; of one tool's among 50 at 30 and 50."""
        calls = [*self.calls, made]
        same = sum(self._salient(one) == self._salient(made) for one in calls[-20:])
        named = sum(one.tool == made.tool for one in calls[-50:])
        if same >= 5 or named >= 50:
            return ABORT
        return NUDGE if same == 3 or named == 30 else None

    def _salient(self, made: Made) -> tuple[str, str]:
        args = json.loads(made.args) if made.args.startswith("{") else {}
        if any(word in made.tool for word in ("write", "replace")):
            return made.key
        found = {name: args[name] for name in self.SALIENT if name in args}
        if "read" in made.tool and "offset" in args:
            found["bucket"] = int(args["offset"]) // 200
        return (made.tool, _text(found)) if found else made.key


class Hermes(Peer):
    """agent/tool_guardrails.py.

    Not restated: its list of reads, which are warned at 2 and blocked at 5; caps of single tools.
    """

    title = "hermes-agent, unattended"

    TOLERANT = ("terminal", "execute_code", "process", "browser_navigate", "web_extract")
    PROGRESS = ("write_file", "patch", "terminal", "delegate")

    def __init__(self) -> None:
        super().__init__()
        self.failures: Counter[tuple[str, str]] = Counter()
        self.of_tool: Counter[str] = Counter()

    def before(self, made: Made) -> str | None:
        """Stop a call that failed 5 times with these arguments; the block ends the turn."""
        return ABORT if self.failures[made.key] >= 5 else None

    def after(self, made: Made) -> str | None:
        """Stop at 8 failures of a tool, 5 equal results in a row, or 5 equal laps of 2 to 4 calls; warn before."""
        if made.failed:
            self.failures[made.key] += 1
            self.of_tool[made.tool] += made.tool not in self.TOLERANT
        elif made.tool in self.PROGRESS or made.tool.startswith("browser_"):
            self.failures.clear()
        if not made.failed:
            self.of_tool[made.tool] = 0
        full = [one.full for one in self.calls[-64:]]
        polled = {one.tool for one in self.calls[-4:] if one.tool.endswith(("_get_result", "_poll"))}
        lap = max(laps(full, period) for period in (1, 2, 3, 4)) if made.tool not in polled else 0
        failing = made.failed and self.failures[made.key] >= 2
        if lap >= 5 or self.of_tool[made.tool] >= 8:
            return ABORT
        return NUDGE if lap >= 3 or failing or self.of_tool[made.tool] >= 3 else None


class Stella(Peer):
    """loop_detect.rs.

    Not restated: footers that it strips per tool, its ceiling of reads per path.
    """

    title = "stella"

    def __init__(self) -> None:
        super().__init__()
        self.steered: set[object] = set()

    def after(self, made: Made) -> str | None:
        """Steer at a loop of calls and results, end the run if the same loop is found again."""
        loop = self._loop(self.calls[-40:], made)
        if loop is None:
            return None
        if loop in self.steered:
            return ABORT
        self.steered.add(loop)
        return NUDGE

    @staticmethod
    def _loop(calls: list[Made], made: Made) -> object:
        full = [one.full for one in calls]
        if laps(full, 1) >= 3:
            return made.key
        for period in (2, 3, 4):
            if laps(full, period) >= 3:
                return frozenset(one.key for one in calls[-period:])
        results: dict[tuple[str, str], set[str | None]] = {}
        for one in calls:
            results.setdefault(one.key, set()).add(one.result)
        if full.count(made.full) >= 3 and all(len(found) == 1 for found in results.values()):
            return made.key
        stagnant = laps([(one.tool, one.result) for one in calls], 1) >= 6
        return made.tool if stagnant and len({one.key for one in calls[-6:]}) > 1 else None


class BrowserUse(Peer):
    """ActionLoopDetector.

    Not restated: fingerprints of the page; waits, `done` and `go_back` are exempt by name.
    """

    title = "browser-use"

    def before(self, made: Made) -> str | None:
        """Nudge at 5, 8 and 12 equal calls among the last 20; refuse none."""
        exempt = made.tool in ("wait", "done", "go_back")
        count = 1 + sum(one.key == made.key for one in self.calls[-19:])
        return NUDGE if not exempt and count in (5, 8, 12) else None


class Automatos(Peer):
    """ToolExecutionTracker.

    Not restated: a search is a tool with search in its name and a `query`.
    """

    title = "Automatos AI"

    def before(self, made: Made) -> str | None:
        """Refuse the second equal call, a search 0.75 similar to an earlier one, and calls beyond a tool's ceiling."""
        ceiling = {"read_file": 8, "search_knowledge": 12}.get(
            made.tool, 25 if made.tool.startswith("platform_") else 5
        )
        earlier = [one for one in self.calls if one.tool == made.tool]
        if len(earlier) >= ceiling or any(one.args == made.args for one in earlier):
            return BLOCK
        similar = "search" in made.tool and any(_similarity(one.args, made.args) >= 0.75 for one in earlier)
        return BLOCK if similar else None


def _similarity(one: str, other: str) -> float:
    queries = [str(json.loads(args).get("query", "")) if args.startswith("{") else "" for args in (one, other)]
    return difflib.SequenceMatcher(None, queries[0], queries[1]).ratio() if all(queries) else -math.inf


class CrewAI(Peer):
    """_check_tool_repeated_usage.

    Not restated: agents by function calling, which it does not check.
    """

    title = "CrewAI, text agents"

    def before(self, made: Made) -> str | None:
        """Refuse the call that is equal to the one before."""
        return BLOCK if self.streak(made) else None


class ThreeInTen(Peer):
    """Several packages: the third equal call of the last 8 to 12."""

    title = "tool-loop-guard and the like"

    def before(self, made: Made) -> str | None:
        """End the run at the third equal call among the last ten."""
        return ABORT if sum(one.key == made.key for one in self.calls[-9:]) >= 2 else None


PEERS: tuple[type[Peer], ...] = (
    OpenClaw, OpenHands, GeminiCli, Qwen, QwenHeuristics, Cline, RooCode, DeerFlow, Hermes, Stella, BrowserUse,
    Automatos, CrewAI, ThreeInTen,
)  # fmt: skip
