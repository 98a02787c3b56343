"""The ledger of a turn: what its model requests and its nested turns took."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from otel_loopguard.engine.vocabulary import Usage


class Ledger(NamedTuple):
    """The sums of a turn. Unknown usage is counted as unknown, never guessed."""

    requests: int = 0
    """Requests to models that were sent, failed ones included; those that a client repeats by itself count once."""
    calls: int = 0
    """Tool calls that were started, without refused ones."""
    input_tokens: int = 0
    """Tokens of the input, also those from the provider's cache."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of ``input_tokens`` that was read from the provider's cache."""
    unmetered: int = 0
    """Requests whose tokens are not known, because the reply does not tell them or has not come."""
    cost: float = 0.0
    """In the currency of the policy's prices."""
    unpriced: int = 0
    """Requests whose cost is not known: they are unmetered, or the policy has no price of their model."""
    children: int = 0
    """Nested turns: agents that were started inside of a call."""
    depth: int = 0
    """Levels of nested turns below this one."""
    compactions: int = 0
    """Requests in which something shorter takes the place of the history's beginning."""
    loop_calls: int = 0
    """Tool calls that were refused, or would have been, or that ran in vain."""
    loop_tokens: int = 0
    """Tokens of the requests whose reply wrote no other calls than these."""
    seconds: float = 0.0
    """From the turn's first step to its last; as the next two without those of nested turns."""
    model_seconds: float = 0.0
    """The part of ``seconds`` in which a model was asked, and no call ran."""
    tool_seconds: float = 0.0
    """The part of ``seconds`` in which a call ran, with the agents that it started."""

    def plus(self, more: Ledger) -> Ledger:
        """Return the sum of both; of ``depth`` the larger one."""
        return Ledger(*map(add, self, more))._replace(depth=max(self.depth, more.depth))

    def around(self) -> Ledger:
        """Return the same as the turn around this one counts it: one level deeper."""
        return self._replace(depth=self.depth + 1) if self.children else self

    def with_times_of(self, other: Ledger) -> Ledger:
        """Return the same with the seconds of the other."""
        return self._replace(seconds=other.seconds, model_seconds=other.model_seconds, tool_seconds=other.tool_seconds)

    @property
    def timeless(self) -> Ledger:
        """The same without the seconds: equal for equal runs."""
        return self.with_times_of(NOTHING_SPENT)

    @property
    def idle_seconds(self) -> float:
        """The rest of ``seconds``: the program's own work, and its waiting."""
        return max(0.0, self.seconds - self.model_seconds - self.tool_seconds)

    @property
    def tokens(self) -> int:
        """Tokens of input and output."""
        return self.input_tokens + self.output_tokens


NOTHING_SPENT = Ledger()
REQUEST_SENT = Ledger(requests=1, unmetered=1, unpriced=1)
"""A request until its reply tells its usage."""
COMPACTED = Ledger(compactions=1)
LOOPED = Ledger(loop_calls=1)
"""A call of a loop."""
CHILD_STARTED = Ledger(children=1, depth=1)


def of_loop(usage: Usage) -> Ledger:
    """Return what a request adds once it is known to be a step of a loop."""
    return Ledger(loop_tokens=(usage.input_tokens or 0) + (usage.output_tokens or 0))


def of_reply(usage: Usage, cost: float | None) -> Ledger:
    """Return what the reply adds to the request that was sent. ``cost``: None if it is not known."""
    read, written = usage.input_tokens, usage.output_tokens
    is_known = read is not None and written is not None
    return Ledger(
        input_tokens=read or 0,
        output_tokens=written or 0,
        cached_tokens=min(usage.cached_tokens, read or 0),
        unmetered=-is_known,
        cost=cost or 0.0,
        unpriced=-(is_known and cost is not None),
    )
