"""The live judge: a bounded queue of OTLP messages, and the thread that judges their spans.

Receivers (gRPC, HTTP) call ``take`` from any thread. If the budget of memory is used up, a message is refused,
and the sender has to keep it: nothing is dropped here for want of room.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # the package has no type hints

from otel_loopguard.cli.replay.line_judge import MISSHAPEN
from otel_loopguard.cli.watch.budget import Budget, FullError, OverBudgetError, Share
from otel_loopguard.cli.watch.decoded_size import json_size, protobuf_size
from otel_loopguard.cli.watch.turns import JudgementSink, WatchedTurns
from otel_loopguard.spans import otlp, otlp_protobuf
from otel_loopguard.spans.ancestry import TURNS_BY, Ancestry
from otel_loopguard.spans.otlp import ToolSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from otel_loopguard.cli.replay.judge import PolicyJudge
    from otel_loopguard.shield import Shield

MOST_BYTES = 64 << 20
"""Of all messages that are read, or wait in the queue."""
WINDOW = 10.0
"""Seconds. A batch of spans leaves a program after up to 5 s, and a collector's batch takes some more."""
_TICKS = 20
"""In one window."""


class MalformedError(ValueError):
    """A message is no OTLP. It would be refused again if it were sent again."""


class LiveReport(JudgementSink, Protocol):
    """A report that counts messages, too."""

    def received(self, spans: int) -> None:
        """Count the spans of a message that was taken."""

    def refused(self, reason: str) -> None:
        """Count a message that was not taken: ``full``, ``malformed``, ``large``, ``slow`` or ``closed``."""


class _Message(NamedTuple):
    """A decoded message, and its share of the budget."""

    content: Any
    share: Share


class LiveJudge:
    """Judges the tool spans of messages, in a thread, as long as it is open.

    ``window`` is the time, in seconds, for which a span waits for others that began before it. ``turns_by`` is the
    widest source of turns: by ``trace`` or ``agent_span`` several watchers can share the traces among them.
    """

    def __init__(
        self,
        judge: PolicyJudge,
        report: LiveReport,
        shield: Shield,
        *,
        window: float = WINDOW,
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
        """Count a message that is refused with an error, while it is read or taken."""
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

    def take(self, payload: bytes, *, is_json: bool = False) -> bool:
        """Take a serialised TracesData or ExportTraceServiceRequest. Return False if there is no room, or it is closed.

        Raise ``MalformedError`` if the message is no OTLP, and ``OverBudgetError`` if there can never be room for it.
        """
        with ExitStack() as undo:
            share = undo.enter_context(self.budget.share())
            try:
                with self.counting():
                    self._reserve(share, payload, is_json=is_json)  # before the work of decoding it
                    content = _decoded(payload, is_json=is_json)
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
        """Take what a message will have in the queue. It has to fit in beside its bytes, which the receiver has."""
        size = json_size(payload) if is_json else protobuf_size(payload)
        if size + len(payload) > self.budget.most:
            raise OverBudgetError(
                f"its {len(payload):,} bytes take some {size:,} of memory once they are decoded, and all messages "
                f"may have {self.budget.most:,}"
            )
        share.resize(size)

    def close(self) -> None:
        """Take no more messages, judge all that were taken, and return."""
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
        """Hand the tool spans of a message to their turns."""
        spans, number = _spans_of(content, self.ancestry)
        self._report.received(number)
        self.turns.add(spans, self._clock())


def _decoded(payload: bytes, *, is_json: bool) -> Any:
    try:
        return _checked(orjson.loads(payload)) if is_json else otlp_protobuf.decode(payload)
    except (DecodeError, *MISSHAPEN) as error:
        raise MalformedError(f"the message is no OTLP: {type(error).__name__}") from error


def _checked(content: Any) -> Any:
    """Return a parsed JSON message. Raise one of ``MISSHAPEN`` if it is no OTLP."""
    if "resourceSpans" not in content and content:
        raise KeyError("resourceSpans")
    for _ in otlp.spans_of({"resourceSpans": (), **content}, Ancestry()):
        pass
    return content


def _spans_of(content: Any, ancestry: Ancestry) -> tuple[Iterable[ToolSpan], int]:
    """Return the tool spans of a message, and the number of all its spans. All are added to ``ancestry``."""
    before = ancestry.seen
    if isinstance(content, dict):
        spans = [span for span in otlp.spans_of({"resourceSpans": (), **content}, ancestry) if type(span) is ToolSpan]
    else:
        spans = list(otlp_protobuf.tool_spans_of(content, ancestry))
    return spans, ancestry.seen - before
