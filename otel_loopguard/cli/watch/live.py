"""The live judge: a bounded queue of OTLP messages, and the thread that judges their spans.

Receivers (gRPC, HTTP) call ``take`` from any thread. If the budget of memory is used up, a message is not taken, and
its sender has to keep it: nothing that was taken is dropped for want of room.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from otel_loopguard.cli.watch.budget import (
    MOST_BYTES,
    WINDOW_SECONDS,
    Budget,
    FullError,
    OverBudgetError,
    Share,
)
from otel_loopguard.cli.watch.decoded_size import json_size, protobuf_size
from otel_loopguard.cli.watch.otlp_messages import MalformedError, decoded, spans_of_message
from otel_loopguard.cli.watch.turns import WatchedTurns, WatchListener
from otel_loopguard.spans.ancestry import TURNS_BY, Ancestry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.shield import Shield

_TICKS = 20
"""Times in each window at which the turns are judged."""


class LiveReport(WatchListener, Protocol):
    """A report that counts messages, too."""

    def received(self, spans: int) -> None:
        """Count the spans, of any kind, of a message that was taken."""

    def refused(self, reason: str) -> None:
        """Count a message that was not taken, as ``full``, ``malformed``, ``large``, ``slow`` or ``closed``."""


class _Message(NamedTuple):
    """A decoded message, and its share of the budget."""

    content: Any
    share: Share


class LiveJudge:
    """Judges the tool spans of messages, in a thread of its own, until it is closed.

    ``window`` is the time, in seconds, for which a span waits for others that began before it. ``turns_by`` is the
    widest source of turns: ``conversation``, ``agent_span`` or ``trace``. ``most_bytes`` bounds the memory of messages.
    """

    def __init__(
        self,
        judge: PolicyJudge,
        report: LiveReport,
        shield: Shield,
        *,
        window: float = WINDOW_SECONDS,
        turns_by: str = TURNS_BY[0],
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self.shield = shield
        self._clock = clock
        self._tick = max(window / _TICKS, 0.01)
        self.budget = Budget(most_bytes)
        self.ancestry = Ancestry(judge.turns_by if turns_by == TURNS_BY[0] else turns_by)
        self.turns = WatchedTurns(judge, self.ancestry, report, shield, window=window)
        self._queue: deque[_Message] = deque()
        self._changed = threading.Condition()
        self._open = True
        self._thread = threading.Thread(target=self._run, name="loopguard-watch", daemon=True)
        self._thread.start()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the message of the block as refused if an error says why it is not taken."""
        try:
            yield
        except FullError:
            self._report.refused("full")
            raise
        except OverBudgetError:
            self._report.refused("large")
            raise
        except MalformedError:
            self._report.refused("malformed")
            raise
        except TimeoutError:
            self._report.refused("slow")
            raise

    def take(self, payload: bytes, *, is_json: bool = False, is_logs: bool = False) -> bool:
        """Take a message: a serialised TracesData or LogsData, or such a request. Return True if it will be judged.

        False: there is no room now, or this is closed. Raise ``MalformedError`` if the message is no OTLP, and
        ``OverBudgetError`` if there can never be room for it.
        """
        with ExitStack() as undo:
            share = undo.enter_context(self.budget.share())
            try:
                with self.counting():
                    self._reserve(share, payload, is_json=is_json)  # before the work of decoding it
                    content = decoded(payload, is_json=is_json, is_logs=is_logs)
            except FullError:
                return False
            with self._changed:
                if self._open:
                    self._queue.append(_Message(content, share))
                    self._changed.notify()
                    undo.pop_all()  # the share is the message's now
                    return True
        self._report.refused("closed")
        return False

    def _reserve(self, share: Share, payload: bytes, *, is_json: bool) -> None:
        """Take the memory of the decoded message, which has to fit into the budget beside the bytes of the message."""
        size = json_size(payload) if is_json else protobuf_size(payload)
        if size + len(payload) > self.budget.most:
            raise OverBudgetError(
                f"its {len(payload):,} bytes take some {size:,} of memory once they are decoded, and all messages "
                f"may have {self.budget.most:,}: send smaller batches, or raise --queue"
            )
        share.resize(size)

    def close(self) -> None:
        """Take no more messages, and return when all that were taken are judged."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join()

    # --- on the judge's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        next_tick = self._clock()
        while True:
            with self._changed:
                if not self._queue and self._open:
                    self._changed.wait(max(next_tick - self._clock(), 0.001) if self.turns.waiting else None)
                message = self._queue.popleft() if self._queue else None
                is_over = message is None and not self._open
            if message is not None:
                with self.shield("watch.message"), message.share:
                    self._judge(message.content)
                message = None  # its memory is free while the judge waits
            now = self._clock()
            if now >= next_tick:
                next_tick = now + self._tick
                with self.shield("watch.turns"):
                    self.turns.advance(now)
            if is_over:
                with self.shield("watch.turns"):
                    self.turns.close_all()
                return

    def _judge(self, content: Any) -> None:
        """Add the calls and the model requests of a message to their turns."""
        spans, number = spans_of_message(content, self.ancestry)
        self._report.received(number)
        self.turns.add(spans, self._clock())
