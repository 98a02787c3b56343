"""Judge lines in several processes, and yield their outcomes in the order of the lines.

This process reads the inputs and sends batches of lines to workers. A worker gets a batch only after it has answered
the last one, so no two processes ever wait for each other. What is read ahead has a bound.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections import deque
from contextlib import contextmanager
from multiprocessing import connection, get_context
from pickle import PicklingError
from typing import TYPE_CHECKING, Any, NoReturn

from otel_loopguard.cli.replay.line_judge import SpanLine
from otel_loopguard.cli.replay.sources import End
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from typing_extensions import Self

    from otel_loopguard.cli.replay.line_judge import LineJudge, Outcome
    from otel_loopguard.cli.replay.sources import Line

_BATCH = 1 << 20
"""Bytes of the lines of a batch."""
_AHEAD = 3
"""Batches for each worker that may be read before their outcomes are yielded."""
_MOST_BY_DEFAULT = 8
"""Workers. The process that reads cannot feed more of them."""
_SPANS = (b'{"resourceSpans"', b'{"resourceLogs"')
"""The usual beginnings of a line of spans or of log records, which no worker can judge."""
_SECONDS_TO_END = 5


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``--jobs``."""
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=_number,
        default=_usable_processors(),
        help="judge the runs of large files in N processes, which changes nothing in the output; spans are judged in "
        f"one (default: the number of processors, at most {_MOST_BY_DEFAULT})",
    )


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of processes: it must be 1 or more")
    return int(text)


def _usable_processors() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, _MOST_BY_DEFAULT)


class _Batch:
    """Some items of the input, in order, and the outcomes of those that are sent to a worker."""

    def __init__(self) -> None:
        self.items: list[Line | End] = []
        self.lines: list[bytes] = []
        self.size = 0
        self.outcomes: list[Outcome | None] | None = None
        """The outcomes of ``lines``; None as long as they are not judged."""

    def add(self, item: Line | End) -> None:
        self.items.append(item)
        if data := _sent(item):
            self.lines.append(data)
        self.size += 1 if isinstance(item, End) else len(item.data) + 1

    @property
    def place(self) -> str:
        """The lines that a worker has, for a message, such as ``runs.jsonl:3 to runs.jsonl:90``."""
        sent = [item for item in self.items if not isinstance(item, End) and _sent(item)]
        first, last = sent[0], sent[-1]
        return f"{first.name}:{first.number}" + (f" to {last.name}:{last.number}" if last is not first else "")


def _sent(item: Line | End) -> bytes:
    """Return the line that a worker is to judge; empty if this process has to judge the item."""
    return b"" if isinstance(item, End) or item.fault or item.data.startswith(_SPANS) else item.data


class Workers:
    """Worker processes that judge lines. Used as a context, it starts and ends them."""

    def __init__(self, judge: LineJudge, jobs: int) -> None:
        self._judge = judge
        self._jobs = jobs
        self._workers: dict[Connection, Any] = {}
        self._idle: list[Connection] = []
        self.fault = ""
        """Why there are no workers; empty if there are some."""
        self._busy: dict[Connection, _Batch] = {}

    def __enter__(self) -> Self:
        # Forked processes have the policies as they are. Elsewhere, and beside threads, fork is not safe.
        forks = sys.platform == "linux" and threading.active_count() == 1
        context: Any = get_context("fork" if forks else "spawn")
        try:
            with _without_ctrl_c():
                for _ in range(self._jobs):
                    ours, theirs = context.Pipe()
                    inherited = [*self._workers, ours] if forks else []
                    process = context.Process(target=_work, args=(theirs, self._judge, inherited), daemon=True)
                    self._workers[ours] = process
                    process.start()
                    theirs.close()
        except (PicklingError, AttributeError, TypeError) as error:  # a policy with a function
            self._give_up(f"the policy cannot be sent to another process ({error})")
        except BrokenPipeError:  # from the output, which is written before a process is copied
            self._end()
            raise
        except OSError as error:  # a limit of processes, of files or of memory
            self._give_up(f"no other process can be started ({error.strerror or error})")
        except BaseException:
            self._end()
            raise
        self._idle = list(self._workers)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _give_up(self, fault: str) -> None:
        self._end()
        self._workers.clear()
        self.fault = fault

    def _end(self) -> None:
        for process in self._workers.values():
            if process.pid is not None:
                process.terminate()
        for ours, process in self._workers.items():
            ours.close()
            if process.pid is not None:
                process.join(_SECONDS_TO_END)

    def judged(self, items: Iterator[Line | End]) -> Iterator[tuple[Line | End, Outcome]]:
        """Yield each line with its outcome, and each end of an input with its fault."""
        if not self._workers:
            yield from ((item, self._judge.outcome(item)) for item in items)
            return
        batches = _batches(items)
        read: deque[_Batch] = deque()
        waiting: deque[_Batch] = deque()
        more = True
        while True:
            while more and not waiting and len(read) < _AHEAD * self._jobs:
                batch = next(batches, None)
                if batch is None:
                    more = False
                    break
                read.append(batch)
                if batch.lines:
                    waiting.append(batch)
                self._send(waiting)
            while read and (read[0].outcomes is not None or not read[0].lines):
                yield from self._outcomes(read.popleft())
            if not (read or more):
                return
            if self._busy and (waiting or not more or len(read) >= _AHEAD * self._jobs):
                self._receive()
                self._send(waiting)

    def _send(self, waiting: deque[_Batch]) -> None:
        while waiting and self._idle:
            worker, batch = self._idle.pop(), waiting.popleft()
            self._busy[worker] = batch
            try:
                worker.send(batch.lines)
            except OSError:
                self._fail(worker)

    def _receive(self) -> None:
        """Wait for an answer of a worker, and take all answers that are there."""
        ready = connection.wait(list(self._busy))
        for worker in [one for one in self._busy if one in ready]:
            try:
                self._busy[worker].outcomes = worker.recv()
            except (EOFError, OSError):
                self._fail(worker)
            del self._busy[worker]
            self._idle.append(worker)

    def _fail(self, worker: Connection) -> NoReturn:
        process = self._workers[worker]
        process.join(_SECONDS_TO_END)
        status = process.exitcode or 0
        how = f"with status {status}" if status >= 0 else f"by {signal.Signals(-status).name}"
        raise LoopGuardError(
            f"a worker process was ended {how} while it judged {self._busy[worker].place}. If it ran out of memory, "
            "use fewer --jobs"
        )

    def _outcomes(self, batch: _Batch) -> Iterator[tuple[Line | End, Outcome]]:
        outcomes = iter(batch.outcomes or ())
        for item in batch.items:
            outcome = next(outcomes) if _sent(item) else None
            yield item, self._judge.outcome(item) if outcome is None else outcome


def _batches(items: Iterator[Line | End]) -> Iterator[_Batch]:
    batch = _Batch()
    for item in items:
        batch.add(item)
        if batch.size >= _BATCH:
            yield batch
            batch = _Batch()
    if batch.items:
        yield batch


def _work(answers: Connection, judge: LineJudge, inherited: Sequence[Connection]) -> None:
    """Judge batches of lines, in a worker, until the reading process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the reading one ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:  # else no worker would notice that the reading process has ended
        other.close()
    try:
        while True:
            outcomes = [judge.judge(line) for line in answers.recv()]
            # Spans are judged where all spans of a turn are.
            answers.send([None if isinstance(one, SpanLine) else one for one in outcomes])
    except (EOFError, OSError):
        return  # the reading process has ended


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Hold Ctrl-C back during the block, so that the processes started in it do not get it either."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
