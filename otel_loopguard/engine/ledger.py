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

    def plus(self, more: Ledger) -> Ledger:
        """Return the sum of both; of ``depth`` the larger one."""
        return Ledger(*map(add, self, more))._replace(depth=max(self.depth, more.depth))

    def around(self) -> Ledger:
        """Return the same as the turn around this one counts it: one level deeper."""
        return self._replace(depth=self.depth + 1) if self.children else self

    @property
    def tokens(self) -> int:
        """Tokens of input and output."""
        return self.input_tokens + self.output_tokens


NOTHING_SPENT = Ledger()
REQUEST_SENT = Ledger(requests=1, unmetered=1, unpriced=1)
"""A request until its reply tells its usage."""
COMPACTED = Ledger(compactions=1)
CHILD_STARTED = Ledger(children=1, depth=1)


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
