"""Record the requests that a client's patch reads, and the replies, in place of the reader that judges them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_loopguard.instrumentation.model_api import Collector, Sent
    from otel_loopguard.shield import Shield
    from otel_loopguard.turns.messages import Message, Reply


class Exchange:
    """One request and its reply."""

    def __init__(self, sent: Sent, recorder: Recorder) -> None:
        self.sent = sent
        self.shield = recorder.shield
        self._recorder = recorder
        entries = sent.dialect.messages(sent.body)
        self.marks = sent.dialect.marks(entries)
        self.messages: list[Message] = [sent.dialect.read(entry) for entry in entries]
        self.tools = sent.dialect.tools(sent.body)
        self.previous = sent.dialect.previous(sent.body)
        self.reply: Reply | None = None
        self.chunks = 0
        self._collector: Collector = sent.dialect.collector()

    def judge_calls(self) -> None:
        """Do nothing: the request was read in ``__init__``."""

    async def ajudge_calls(self) -> None:
        """Do nothing: the request was read in ``__init__``."""

    def prepare(self, error: Callable[[], type[Exception]], args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Change the request as the test says."""
        if self._recorder.ends:
            raise error()("The loop is over.", tool_name="look", mode="generic_repeat", repeats=4, limit=3)
        if self._recorder.change is None:
            return args, kwargs
        return self.sent.arguments(self._recorder.change(self.sent))

    def pass_on(self, sent: Sent, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Change nothing below."""
        return args, kwargs

    def listen(self, reply: Any) -> Any:
        """Listen as the dialect does."""
        return self.sent.listen(reply, self)

    def whole(self, reply: Any) -> None:
        """Read a whole reply."""
        self.reply = self.sent.dialect.reply(reply)

    def chunk(self, chunk: Any) -> None:
        """Read a chunk."""
        self.chunks += 1
        self._collector.add(chunk)

    def over(self) -> None:
        """Read a streamed reply."""
        self.reply = self._collector.reply()

    def failed(self) -> None:
        """Do nothing."""


class Recorder:
    """All requests, in order."""

    def __init__(self, shield: Shield, change: Callable[[Sent], Any] | None = None, *, ends: bool = False) -> None:
        self.shield = shield
        self.is_used = False
        """The calls that executors have judged are not noted."""
        self.exchanges: list[Exchange] = []
        self.change = change
        self.ends = ends

    def open(self, sent: Sent) -> Exchange:
        """Read a request."""
        self.exchanges.append(Exchange(sent, self))
        return self.exchanges[-1]


@contextmanager
def recorded(change: Callable[[Sent], Any] | None = None, *, ends: bool = False) -> Iterator[list[Exchange]]:
    """Patch the clients for a block. A fault of the package fails the test."""
    with guarded() as recording:
        recorder = Recorder(recording.runtime.shield, change, ends=ends)
        recording.runtime.reader = recorder  # type: ignore[assignment]  # it is in the reader's place
        yield recorder.exchanges
        assert recording.runtime.shield.seen == set()


def nudge(sent: Sent) -> Any:
    """Change a request: add a sentence to the last entry, and withdraw the tools."""
    dialect, entries = sent.dialect, list(sent.dialect.messages(sent.body))
    entries[-1] = dialect.annotate(entries[-1], {0: "[loopguard] Stop."})
    return dialect.withdraw(dialect.replace(sent.body, entries))
