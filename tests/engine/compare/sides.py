"""The two packages that are compared, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.engine.compare.driver import Trace

ROOT = Path(__file__).resolve().parents[3]
OLD = "e9c6f96"
"""The last commit whose turn was judged by ``Turn``, ``TurnJudge`` and ``first_call``."""
TURN = "otel_loopguard/core/turn/turn.py"
MENDED = {
    "The end of a call that the turn does not know moved its idle clock, if it was cancelled.": (
        "            if outcome.cancelled:\n                self._cancel(call, now)\n",
        "            if outcome.cancelled and record is not None:\n                self._cancel(call, now)\n",
    ),
    "A forked child gave the model None as an earlier result, of a call of its parent.": (
        "        self._results = self.batch = None\n",
        "        self._results = self.batch = None\n        self.judge.reusable = ()\n",
    ),
    "A nested observed call was counted in the outer turn before it was judged, and though that was cut short.": (
        "            self.parent.count_call()\n        return self._count_outcome(call, outcome, record)\n",
        "            pass\n        return self._count_outcome(call, outcome, record)\n",
    ),
    "So it is counted at its end.": (
        "            decision = self._observed(call, record, trip, recovered)\n",
        "            decision = self._observed(call, record, trip, recovered)\n"
        "        if self.parent is not None and record is not None:\n            self.parent.count_call()\n",
    ),
    "A turn counted as idle from the begin of its last call, though that had ended since.": (
        "        first = first_call.end(self, call, outcome)\n",
        "        self.last_used = self.host.clock()\n        first = first_call.end(self, call, outcome)\n",
    ),
    "Or what a run inside of it did had come since,": (
        "            self.judge.history.calls += 1\n",
        "            self.judge.history.calls += 1\n        self.last_used = self.host.clock()\n",
    ),
    "or a request without tools,": (
        "            history.concluded_at = history.news\n",
        "            history.concluded_at = history.news\n            self.last_used = self.host.clock()\n",
    ),
    "or one that lacks results,": (
        "        with self.lock:\n            for key in keys:\n",
        "        self.last_used = self.host.clock()\n        with self.lock:\n            for key in keys:\n",
    ),
    "or a report.": (
        "            return self.judge.reach(trip)\n",
        "            self.last_used = self.host.clock()\n            return self.judge.reach(trip)\n",
    ),
}
"""Faults of the old turn that the present one does not have, and how they are mended, so that the rest can be equal."""
MENDED_ELSEWHERE = {
    "Answers to other calls of one message were held against it.": (
        "otel_loopguard/core/detectors/errors.py",
        "    return trip(record, Mode.SAME_ANSWER, stats.answers, due, Action.NUDGE)\n",
        "    count = stats.answers if record.written is None else stats.known(stats.answers, record.written) + 1\n"
        "    return trip(record, Mode.SAME_ANSWER, count, due, Action.NUDGE) if count >= due else None\n",
    ),
}
"""The same of its detectors, with their file."""


def extract(folder: Path) -> bool:
    """Write the package of the old commit to a folder, mended. Return False if this clone has no such commit."""
    done = subprocess.run(["git", "archive", OLD, "otel_loopguard"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        return False
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder)
    for path, before, after in (*((TURN, *one) for one in MENDED.values()), *MENDED_ELSEWHERE.values()):
        text = (folder / path).read_text("utf-8")
        assert before in text, before
        (folder / path).write_text(text.replace(before, after), "utf-8")
    return True


class Side:
    """A process that runs traces on the package in a folder."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(folder), str(ROOT)])
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py"))],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        package = Path(self._answer())
        assert package.is_relative_to(folder), package

    def ask(self, trace: Trace) -> Callable[[], list[str]]:
        """Have a trace run. Return the function that waits for what was seen of it; ask for one trace at a time."""
        assert self._process.stdin is not None
        print(json.dumps(trace), file=self._process.stdin, flush=True)
        return self._answer

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def seen(sides: tuple[Side, Side], trace: Trace) -> list[list[str]]:
    """Return what both packages let see of a trace."""
    return [answer() for answer in [side.ask(trace) for side in sides]]


def smallest(trace: Trace, differs: Callable[[Trace], bool]) -> Trace:
    """Leave out steps as long as the trace still differs."""
    steps = list(trace.steps or range(70))
    size = len(steps)
    while size:
        place = 0
        while place < len(steps):
            fewer = trace._replace(steps=(*steps[:place], *steps[place + size :]))
            if fewer.steps and differs(fewer):
                steps = list(fewer.steps)
            else:
                place += size
        size //= 2
    return trace._replace(steps=tuple(steps))


def difference(old: list[str], new: list[str]) -> str:
    """Describe the first thing that was seen differently, field by field, and name what came before it."""
    places = range(min(len(old), len(new)))
    alike = next((place for place in places if old[place] != new[place]), len(places))
    lines = [f"  {brief(text)}" for text in old[:alike]]
    lines += [f"old: {brief(text)}" for text in old[alike : alike + 1]]
    lines += [f"new: {brief(text)}" for text in new[alike : alike + 1]]
    if alike < min(len(old), len(new)):
        lines += fields("", json.loads(old[alike]), json.loads(new[alike]))
    return "\n".join(lines)


def brief(text: str) -> str:
    """Name a thing that was seen in a line."""
    step, what, value = json.loads(text)
    if isinstance(value, dict):
        record, trip = value["record"] or {}, value["trip"] or ["-"]
        value = [value["turn"], (record.get("tool") or "")[:20], record.get("arguments_hash"), value["action"], trip[0]]
    return f"step {step}: {what} {str(value)[:160]}"


def fields(path: str, old: Any, new: Any) -> Iterator[str]:
    """Yield a line for each field that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old | new:
            yield from fields(f"{path}.{name}", old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            yield from fields(f"{path}[{place}]", *pair)
    elif old != new:
        yield f"  {path}: old {old!r}, new {new!r}"
