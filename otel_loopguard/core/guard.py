"""The guard: hands out turns that judge tool calls under one policy.

>>> from otel_loopguard.core.guard import Guard
>>> from otel_loopguard.core.model import Outcome, ToolCall
>>> guard = Guard()
>>> with guard.turn() as turn:
...     for _ in range(3):
...         call = ToolCall("read_file", {"path": "a.txt"})
...         decision = turn.begin(call)
...         if decision.runs:
...             decision = turn.end(call, Outcome("the same old text"))
...         print(decision.action or "runs", decision.trip.mode if decision.trip else "-")
runs -
nudge generic_repeat
block generic_repeat
"""

from __future__ import annotations

import itertools
import logging
import time
import uuid
from typing import TYPE_CHECKING, Any

from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.core.turn.compiled import CompiledPolicy
from otel_loopguard.core.turn.store import MemoryStore
from otel_loopguard.core.turn.turn import Turn as Turn  # noqa: PLC0414 - said to be part of this module's face

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.core.policy.reload import PolicyFileWatch
    from otel_loopguard.core.turn.kin import Kin
    from otel_loopguard.core.turn.store import TurnStore

_logger = logging.getLogger("otel_loopguard")


class Guard:
    """Judges the tool calls of any number of turns, from any number of threads and tasks.

    Args:
        policy: what is done about loops; the default policy refuses a call that has shown nothing new.
        store: where live turns are kept; by default in this process, within bounds.
        clock: seconds, never going back; for tests.

    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: TurnStore | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.compiled = CompiledPolicy(policy or Policy())
        self._store: TurnStore = store if store is not None else MemoryStore()
        self._numbers = itertools.count(1)
        self._prefix = uuid.uuid4().hex[:12]
        self._said: set[str] = set()
        self.on_fault: Callable[[str, BaseException], None] | None = None
        """Told when a function of the policy (``on_trip``, a detector) raises; by default that is logged once."""
        self.watch: PolicyFileWatch | None = None
        """Where the policy is that of a file: whether that was changed."""

    def __repr__(self) -> str:
        return f"Guard(action={self.policy.action}, live={self.live})"

    @property
    def policy(self) -> Policy:
        """The policy that new turns begin with."""
        return self.compiled.policy

    @property
    def live(self) -> int:
        """How many turns are live."""
        return len(self._store)

    def use(self, policy: Policy) -> None:
        """New turns begin with this policy; turns that are live keep theirs. Fingerprints stay comparable."""
        same_key = policy.hash_key == self.policy.hash_key
        self.compiled = CompiledPolicy(policy, self.compiled.fingerprinter if same_key else None)

    def turn(self, turn_id: str | None = None, *, source: str = "explicit", enforced: bool = True) -> Turn:
        """The live turn of that id, or a new one. ``enforced=False``: nothing but observing."""
        if turn_id is None:
            turn_id = f"{self._prefix}-{next(self._numbers)}"
        now = self.clock()
        if self.watch is not None:
            self.watch.check(now)
        return self._store.get_or_create(turn_id, lambda: Turn(self, turn_id, source, enforced=enforced), now)

    def forget(self, turn: Kin) -> None:
        """The turn is over."""
        self._store.discard(turn.id)

    def close_unheard(self, answer: Any) -> None:
        """An async ``on_trip`` was asked from sync code: nobody can await its answer, so it is as if it gave none."""
        close = getattr(answer, "close", None)
        if close is not None:
            close()
        self.warn_once("on_trip is async, but a tool was called from sync code: its answer is not heard there")

    def fault(self, site: str, error: BaseException) -> None:
        """Foreign code raised, and the call runs. The exception's text may quote an argument: it is kept back."""
        if self.on_fault is not None:
            self.on_fault(site, error)
        else:
            self.warn_once(f"{site} of the policy raised {type(error).__name__}: the call runs")

    def warn_once(self, message: str) -> None:
        """The message is logged the first time."""
        if message not in self._said:
            self._said.add(message)
            _logger.warning(message)
