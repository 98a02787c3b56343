"""The start of the guard in this process, which may wait for the first use of an agent.

A process without an agent pays for no more than this. The runtime is made when the program imports a framework or a
client that is patched, makes a turn or calls a tool of ``otel_loopguard``, or ends the span of a tool call.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from otel_loopguard.shield import Shield
from otel_loopguard.telemetry.attachments import Attachments
from otel_loopguard.telemetry.idle_watcher import WaitingWatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor, Watcher


class ProcessStart:
    """The guard's part of a process from its start: the span processors, and the watcher to which they pass spans.

    The processors stay at their providers when the guard is switched off. Then there is no watcher.
    """

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        """The watcher of the runtime, or one that waits for a runtime; None while the guard is off."""
        self.attachments = Attachments(self._new_processor, lambda: 0 if self.watcher is None else self.watcher.live)
        self._switch_on: Callable[[WaitingWatcher], None] | None = None
        self._waking: set[int] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_parent=self.attachments.summary.forked, after_in_child=self._after_fork)

    def at_first_use(self, switch_on: Callable[[WaitingWatcher], None]) -> None:
        """Have ``switch_on`` called with the waiting watcher at the first use of an agent: it makes the runtime."""
        self._switch_on, self.watcher = switch_on, WaitingWatcher(self._judge)

    def wake(self) -> None:
        """Make the runtime, if the start has waited until now.

        It does nothing in a thread that makes the runtime now: a signal handler, or an import of a framework that the
        making causes, may call it there.
        """
        waiting, thread = self.watcher, threading.get_ident()
        if isinstance(waiting, WaitingWatcher) and self._switch_on is not None and thread not in self._waking:
            self._waking.add(thread)
            try:
                self._switch_on(waiting)
            finally:
                self._waking.discard(thread)

    def give_up(self, waiting: WaitingWatcher | None) -> None:
        """Switch the guard off if this watcher still waits: the runtime could not be made."""
        if self.watcher is waiting:
            self.watcher = None

    def _judge(self, span: ReadableSpan) -> None:
        self.wake()
        if self.watcher is not None and not isinstance(self.watcher, WaitingWatcher):
            self.watcher.judge(span)

    def _new_processor(self) -> LoopGuardSpanProcessor:
        from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor  # noqa: PLC0415 - imports the SDK

        return LoopGuardSpanProcessor(self)

    def _after_fork(self) -> None:
        """Forget the parent's counts, threads and spans in a child process."""
        with Shield()("runtime.fork"):
            self.attachments.after_fork()
            self._waking.clear()
            if isinstance(self.watcher, WaitingWatcher):
                self.watcher.open_spans.clear()


process_start = ProcessStart()
