"""Add up the tokens of recorded model requests: in all, in loops, and after the call that would have ended the run."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.engine.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from otel_loopguard.engine.policy.prices import Prices
    from otel_loopguard.engine.vocabulary import Usage
    from otel_loopguard.spans.otlp import ModelSpan, RecordedCall


class ModelRequest(NamedTuple):
    """A model request."""

    usage: Usage
    calls: tuple[int, ...]
    """The positions, in the turn, of the calls that its response asked for."""
    at: float | None = None
    """The time at which it was sent, in seconds; None if it is not recorded."""


@dataclass
class Tokens:
    """The sums of some model requests."""

    requests: int = 0
    unknown: int = 0
    """Requests whose input or output tokens are not known."""
    input: int = 0
    """Tokens."""
    output: int = 0
    """Tokens."""
    cost: float | None = None
    """None if no request has a price."""

    def add(self, other: Tokens) -> None:
        """Add the sums of other requests to these."""
        self.requests += other.requests
        self.unknown += other.unknown
        self.input += other.input
        self.output += other.output
        if other.cost is not None:
            self.cost = (self.cost or 0.0) + other.cost


@dataclass
class TokensSpent:
    """The sums of the model requests of one turn or many, by one policy."""

    all: Tokens = field(default_factory=Tokens)
    in_loops: Tokens = field(default_factory=Tokens)
    """Requests that only asked for refused calls, or for repeats without news."""
    after_end: Tokens = field(default_factory=Tokens)
    """Requests that were made after the call at which the policy would have ended the run."""
    currency: str = ""
    """That of the policy's prices; empty if it names none."""

    def add(self, other: TokensSpent) -> None:
        """Add the sums of another turn to these."""
        self.all.add(other.all)
        self.in_loops.add(other.in_loops)
        self.after_end.add(other.after_end)
        self.currency = self.currency or other.currency


def requests_of(calls: Sequence[RecordedCall], spans: Iterable[ModelSpan], first: int) -> list[ModelRequest]:
    """Return the model requests of a turn, in order. ``first`` is the position of the first of these calls in it.

    ``spans``: those of the requests, without those inside of another one.

    Our own spans have the tokens of their request. A call of another instrumentation is taken to be asked for by the
    request that ended last before it began.
    """
    own = _on_our_spans(calls, first)
    if own:
        return own
    outermost = sorted({span.span: span for span in spans}.values(), key=lambda span: span.end)
    ends = [span.end for span in outermost]
    written: list[list[int]] = [[] for _ in outermost]
    for position, call in enumerate(calls, first):
        by = bisect_right(ends, call.span.start) - 1
        if by >= 0:
            written[by].append(position)
    pairs = zip(outermost, written, strict=True)
    return [ModelRequest(span.usage, tuple(of), span.start / 1e9 or None) for span, of in pairs]


def _on_our_spans(calls: Sequence[RecordedCall], first: int) -> list[ModelRequest]:
    """Return the requests of our spans. The first call of a request has its tokens; the others have the same step."""
    found: list[ModelRequest] = []
    step: object = None
    for position, call in enumerate(calls, first):
        if call.usage is not None:
            found.append(ModelRequest(call.usage, (position,), None if call.at is None else call.at - call.thought))
            step = call.step
        elif step is not None and call.step == step:
            found[-1] = found[-1]._replace(calls=(*found[-1].calls, position))
        else:
            step = None
    return found


def before_calls(requests: Iterable[ModelRequest]) -> tuple[dict[int, list[ModelRequest]], list[ModelRequest]]:
    """Return requests by the position of the first call that follows them, and those that no call follows."""
    by_call: dict[int, list[ModelRequest]] = {}
    waiting: list[ModelRequest] = []
    for one in requests:
        waiting.append(one)
        if one.calls:
            by_call[one.calls[0]], waiting = waiting, []
    return by_call, waiting


def rest_of(ledger: Ledger, judged: Ledger) -> Tokens:
    """Return what a turn spent beyond its judged calls: the requests that wrote none. Nobody knows their models."""
    pairs = zip(ledger, judged, strict=True)
    rest = Ledger(*(max(0, spent - known) for spent, known in pairs))  # type: ignore[arg-type]  # all are numbers
    return Tokens(rest.requests, rest.unmetered, rest.input_tokens, rest.output_tokens)


def spent(
    requests: Iterable[ModelRequest], in_vain: Container[int], ended_at: int | None, prices: Prices
) -> TokensSpent:
    """Return the sums of the requests of a turn.

    ``in_vain`` are the positions of calls that were refused or would have been, or were repeats without news.
    ``ended_at`` is that of the call at which a guarded turn ends, or None.
    """
    found = TokensSpent(currency=prices.currency)
    is_over = False
    for usage, calls, _ in requests:
        tokens = Tokens(
            1,
            usage.input_tokens is None or usage.output_tokens is None,
            usage.input_tokens or 0,
            usage.output_tokens or 0,
            prices.cost(usage),
        )
        found.all.add(tokens)
        if calls and all(call in in_vain for call in calls):
            found.in_loops.add(tokens)
        if is_over:
            found.after_end.add(tokens)
        elif ended_at is not None and calls and calls[-1] >= ended_at:
            is_over = True
    return found
