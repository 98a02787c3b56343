"""What a turn has in common with the turns of the runs inside its calls. Most turns have none."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from otel_loopguard.core.history.update import History

if TYPE_CHECKING:
    from otel_loopguard.core.model import Record
    from otel_loopguard.core.turn.user_messages import UserMessages
    from otel_loopguard.core.values.fingerprint import Fingerprinter
    from otel_loopguard.core.values.results import OutcomeFacts


class TurnTree:
    """The words of the user, which any of the turns may deliver; and what the nested ones have brought so far.

    A nested run begins with a history of its own, so everything is news to it. News of the call that it runs in is only
    what no such run has brought before: else a supervisor that has the same work done again and again would never end.
    """

    __slots__ = ("_history", "_lock", "_runs", "said")

    def __init__(self, said: UserMessages) -> None:
        self.said = said
        self._lock = Lock()
        self._history = History()
        self._runs = 0

    def number(self) -> int:
        """The number of a run that begins."""
        with self._lock:
            self._runs += 1
            return self._runs

    def is_news(self, call: Record, outcome: OutcomeFacts, fingerprinter: Fingerprinter) -> bool:
        """Whether what this call of a nested run brought is new to all of them; it is known from now on.

        Judged as in a turn: what comes back under a new id is nothing new here either.
        """
        history = self._history
        with self._lock:
            record = history.opened(call.resolved, call.arguments, registered=call.registered, now=call.at)
            history.started(record)
            history.ended(record, outcome, fingerprinter)
        return record.news


class ParentCall:
    """Where a nested run is: inside of which call, of which turn."""

    __slots__ = ("_above", "_call", "_history", "_lock", "family")

    def __init__(
        self, family: TurnTree, history: History, lock: Lock, call: Record | None, above: ParentCall | None
    ) -> None:
        self.family = family
        self._history = history
        self._lock = lock
        """Of the turn around; no other lock is held when it is taken."""
        self._call = call
        self._above = above

    def has_run(self) -> None:
        """A call of the nested run counts in the turns around it, too."""
        with self._lock:
            self._history.calls += 1
        if self._above is not None:
            self._above.has_run()

    def has_news(self) -> None:
        """A call of the nested run brought what is new to the family: the calls around it did."""
        if self._call is not None:
            self._call.child_news = True
        if self._above is not None:
            self._above.has_news()
