"""The scripted model, and what is seen of each of its calls: the guard's own span, and the text the model reads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.sdk.trace import SpanProcessor

from otel_loopguard import semconv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_loopguard.cli.demo.stories import Story
    from otel_loopguard.testing.agent import Ask

REFUSED = ("blocked", "reused", "aborted")


class Row(NamedTuple):
    """One call: what the model asked for, what the guard said of it on its span, and what the model reads."""

    number: int
    ask: Ask
    outcome: str
    sameness: str
    mode: str
    verdict: str
    count: int  # type: ignore[assignment]  # hides tuple.count
    limit: int
    text: str
    at: float

    @property
    def refused(self) -> bool:
        """Whether the tool did not run."""
        return self.outcome in REFUSED


class PolicyFileWatch(SpanProcessor):
    """Keeps the guard's spans of tool calls, in the order in which they end."""

    def __init__(self) -> None:
        self.ended: deque[ReadableSpan] = deque(maxlen=1_000)

    def on_end(self, span: ReadableSpan) -> None:
        """A span has ended; those of the guard say how the call ended."""
        if span.attributes and semconv.OUTCOME in span.attributes:
            self.ended.append(span)


def row_of(number: int, ask: Ask, span: ReadableSpan, text: str) -> Row:
    """The call as its span tells it."""
    said: Any = span.attributes
    event: Any = next((event.attributes for event in span.events if event.name == semconv.EVENT_TRIP), {})
    return Row(
        number,
        ask,
        outcome=str(said[semconv.OUTCOME]),
        sameness=str(said.get(semconv.RESULT_SAMENESS, "")),
        mode=str(event.get(semconv.MODE, "")),
        verdict=str(event.get(semconv.VERDICT, "")),
        count=int(event.get(semconv.COUNT, 0)),
        limit=int(event.get(semconv.LIMIT, 0)),
        text=text,
        at=(span.start_time or 0) / 1e9,
    )


class Model:
    """Makes the calls of its story one after the other, until it has read often enough that it is in a loop."""

    def __init__(self, story: Story, watch: PolicyFileWatch, show: Callable[[Row], None]) -> None:
        self._story = story
        self._watch = watch
        self._show = show
        self._asked: deque[Ask] = deque()
        self.rows: list[Row] = []
        self.ended = ""
        """Why the framework itself ended the run, if it did."""

    def next(self, read: Sequence[str]) -> Ask | None:
        """The next call; None: it answers. ``read`` are the results of all its calls so far, as it reads them."""
        for text in read[len(self.rows) :]:
            self.hear(text)
        step, refused = len(self.rows), sum(row.refused for row in self.rows)
        if step >= len(self._story.script) or refused >= self._story.gives_up:
            return None
        self._asked.append(self._story.script[step])
        return self._asked[-1]

    def end(self, text: str) -> None:
        """The framework ended the run."""
        self.ended = text
        self.hear(text)

    def hear(self, text: str) -> None:
        """What came of its last call."""
        if self._asked and self._watch.ended:
            row = row_of(len(self.rows) + 1, self._asked.popleft(), self._watch.ended.popleft(), text)
            self.rows.append(row)
            self._show(row)
