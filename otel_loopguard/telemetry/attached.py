"""What hangs on the program's providers, for the life of the process: nothing can be taken from a provider again.

So there is one span processor for each tracer provider and one set of instruments for each meter provider, however
often the guard is switched on and off. They tell whoever is the target now, and do nothing while there is none. (Asked
twice for an observable instrument the SDK gives the old one and drops the new callback: a second set would be deaf.)
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from otel_loopguard import semconv
from otel_loopguard.telemetry.forks import forget_counts
from otel_loopguard.telemetry.meters import Meters
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider

    from otel_loopguard.shield import Shield
    from otel_loopguard.spans.open_spans import OpenSpans
    from otel_loopguard.telemetry.watcher import SpanWatcher


class ActiveParts:
    """Whom the processors and the gauge tell: the parts of one runtime."""

    __slots__ = ("closed", "foreign", "live", "opened", "shield")

    def __init__(self, shield: Shield, spans: OpenSpans, foreign: SpanWatcher, live: Callable[[], int]) -> None:
        self.shield = shield
        self.opened, self.closed = spans.started, spans.ended
        self.foreign = foreign
        self.live = live


class Attachments:
    """The processors and instruments of this process."""

    def __init__(self) -> None:
        self.target: ActiveParts | None = None
        self._lock = threading.RLock()
        self._with_processor: weakref.WeakSet[Any] = weakref.WeakSet()
        self._meters: weakref.WeakKeyDictionary[MeterProvider, Meters] = weakref.WeakKeyDictionary()

    def add_processor(self, provider: Any, shield: Shield) -> bool:
        """Have the spans of this provider seen; whether that can be."""
        add = getattr(provider, "add_span_processor", None)
        if add is None:
            return False
        with self._lock:
            is_new = provider not in self._with_processor
            self._with_processor.add(provider)
        if is_new:
            with shield("provider.attach"):
                from otel_loopguard.telemetry.processor import LoopGuardSpanProcessor  # noqa: PLC0415 - imports the SDK

                add(LoopGuardSpanProcessor(self))
        return True

    def meters(self, provider: MeterProvider) -> Meters:
        """The instruments made from this provider."""
        with self._lock:
            found = self._meters.get(provider)
            if found is None:
                found = Meters(provider.get_meter(semconv.SCOPE, __version__, semconv.SCHEMA_URL), self._live)
                self._meters[provider] = found
            return found

    def _live(self) -> int:
        target = self.target
        return 0 if target is None else target.live()

    def after_fork(self) -> None:
        """In the child: the parent exports its own counts, and a lock may be held by a thread that is not there."""
        self._lock = threading.RLock()
        for provider, meters in list(self._meters.items()):
            forget_counts(provider)
            meters.after_fork()
