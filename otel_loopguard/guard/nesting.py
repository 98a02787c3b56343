"""Nested turns: runs of agents inside a tool call, each with its own history. Most turns have none."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from otel_loopguard.engine.history import update
from otel_loopguard.engine.history.history import NEVER, History

if TYPE_CHECKING:
    from weakref import ref

    from otel_loopguard.engine.detectors.run_budget import PlaceInTree
    from otel_loopguard.engine.ledger import Ledger
    from otel_loopguard.engine.user_messages import UserMessage, UserMessages
    from otel_loopguard.engine.values.fingerprint import Fingerprinter
    from otel_loopguard.engine.values.results import OutcomeFacts
    from otel_loopguard.engine.vocabulary import Record


class TurnAround(Protocol):
    """The part of a turn that its nested turns need."""

    known_as: str

    def count_nested_call(self) -> None:
        """Count a call of a nested turn. It takes the turn's lock; no other lock is held then."""

    def spend(self, more: Ledger, *, is_nested: bool = False) -> None:
        """Add to the ledger of this turn, and of the turns around it."""

    @property
    def ledger(self) -> Ledger:
        """The ledger of the turn and all turns nested in it."""

    @property
    def began_at(self) -> float:
        """The time of the first step, in seconds of the turn's clock."""

    @property
    def shared_tree(self) -> SharedTree | None:
        """The tree of several processes that the turn is in; None if it is in none."""

    def place_in_tree(self) -> PlaceInTree:
        """Return the place of a call of this turn that starts no agent."""

    def now(self) -> float:
        """Return the time of the turn's clock in seconds."""

    def runs_elsewhere(self) -> bool:
        """Read the state of a shared turn. Return True if the turn may go on in it."""


class Outermost(Protocol):
    """The turn around all nested ones."""

    def say(self, text: str, *, stop: bool = False) -> UserMessage:
        """Send the model a message, as ``Turn.say`` does."""


class TurnTree:
    """All that a turn and its nested turns share: the user's messages, and the news of the nested turns so far.

    A nested turn begins with an empty history, so every outcome is news there. For the call around it, an outcome is
    news only if no nested turn of the tree had it before: else a supervisor that has the same work done again and again
    would never end.
    """

    __slots__ = ("_changing", "_history", "_lock", "_runs", "delegating", "shared", "starting", "user_messages")

    def __init__(self, user_messages: UserMessages, shared: ref[Outermost] | None) -> None:
        self.user_messages = user_messages
        self.shared = shared
        """The outermost turn, if it is shared: it alone asks the store for messages. None if no process shares it."""
        self._lock = RLock()
        self._history = History()
        self._changing = False
        self._runs = 0
        self.delegating: set[int] = set()
        """The tools, by the digests of their names, inside of whose calls a nested turn has begun."""
        self.starting: set[int] = set()
        """The records, by their identity, of running calls that may start an agent and have started none yet."""

    def started(self, record: Record) -> None:
        """Note that a nested turn begins inside of this call."""
        self.delegating.add(record.resolved.tool.digest)
        self.starting.discard(id(record))

    def after_fork(self) -> None:
        """Forget the news of the nested turns in a child process."""
        self._lock = RLock()
        self._history = History()
        self._changing = False
        self.starting.clear()

    def next_number(self) -> int:
        """Return the number of the next nested turn: 1, 2, 3."""
        with self._lock:
            self._runs += 1
            return self._runs

    def is_news(self, nested: Record, facts: OutcomeFacts, fingerprinter: Fingerprinter) -> bool:
        """Return True if the outcome of a nested turn's call is new to the whole tree, and remember it.

        The rules are those of a turn: a result that comes back under a new id is no news.
        """
        with self._lock:
            if self._changing:  # an exception of a signal handler cut a change short, or one goes on below this
                self._history = History()
            history, self._changing = self._history, True
            record = update.open_record(
                history, nested.resolved, nested.arguments, registered=nested.registered, now=nested.at
            )
            update.start(history, record)
            update.end(history, record, facts, fingerprinter)
            self._changing = False
        return record.news


class SharedTree(NamedTuple):
    """The tree of a turn with agents in several processes. Its ledger is that of a shared turn without own calls."""

    turn: TurnAround
    id: int
    level: int
    """The number of turns around this one: 0 for the outermost one of all processes."""

    def spend(self, more: Ledger) -> None:
        """Add what a turn of this process spent."""
        deeper = more._replace(depth=more.depth + self.level) if more.children else more
        self.turn.spend(deeper, is_nested=True)

    def began_at(self, now: float) -> float:
        """Return the time of the tree's first step by another clock, which shows ``now``."""
        began_at = self.turn.began_at
        return began_at if began_at == NEVER else now - (self.turn.now() - began_at)


class ParentCall:
    """The call of the outer turn that a nested turn runs in."""

    __slots__ = ("_outer", "_record", "_turn", "tree")

    def __init__(self, tree: TurnTree, turn: TurnAround, record: Record | None, outer: ParentCall | None) -> None:
        self.tree = tree
        self._turn = turn
        self._record = record
        self._outer = outer

    @property
    def outermost(self) -> TurnAround:
        """The turn around all others."""
        return self._turn if self._outer is None else self._outer.outermost

    @property
    def level(self) -> int:
        """The number of turns around the nested one."""
        return 1 if self._outer is None else 1 + self._outer.level

    def equal_calls(self, key: int) -> int:
        """Return how many of the calls around the nested turn, on all levels, have this key and still run."""
        record, outer = self._record, self._outer
        is_equal = record is not None and record.key == key and record.result is None
        return is_equal + (0 if outer is None else outer.equal_calls(key))

    def count_call(self) -> None:
        """Count a call of the nested turn in the turns around it."""
        self._turn.count_nested_call()
        if self._outer is not None:
            self._outer.count_call()

    def spend(self, more: Ledger) -> None:
        """Add what a nested turn spent to the ledgers of the turns around it."""
        self._turn.spend(more, is_nested=True)

    def mark_news(self) -> None:
        """Mark the calls around the nested turn, on all levels: news came inside them."""
        if self._record is not None:
            self._record.child_news = True
        if self._outer is not None:
            self._outer.mark_news()
