"""The guard: makes turns, which judge tool calls under one policy.

>>> from otel_loopguard.guard.guard import Guard
>>> from otel_loopguard.engine.vocabulary import Outcome, ToolCall
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
import os
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakSet, ref

from otel_loopguard.engine.compiled import CompiledPolicy
from otel_loopguard.engine.conversation_memory import PlaceInConversation
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.tools.declared import DeclaredTools
from otel_loopguard.engine.values.normalise import utf8
from otel_loopguard.guard.callbacks import CallbackFaults
from otel_loopguard.guard.conversation_memories import ConversationMemories
from otel_loopguard.guard.live_turns import LiveTurns
from otel_loopguard.guard.turn import Turn, TurnHost
from otel_loopguard.policy_files.load import key_of_environment
from otel_loopguard.store.cell import Cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.policy_files.reload import PolicyFileWatch
    from otel_loopguard.store.store import Store


logger = logging.getLogger("otel_loopguard")


def _with_key(policy: Policy, *, warns: bool = False) -> Policy:
    """Return the policy with the hash key of the environment, if it has none of its own."""
    if policy.hash_key is not None:
        return policy
    key, _, note = key_of_environment(os.environ)
    if warns and note is not None:
        logger.warning("%s", note)
    return policy if key is None else replace(policy, hash_key=key)


class Guard:
    """Judges the tool calls of any number of turns, from any number of threads and tasks.

    Args:
        policy: the rules and actions; None: the defaults. Without a hash key it has that of the environment, if there
            is one.
        store: shares turns with other processes, if they have an id or a conversation. All these processes need one
            policy and one hash key.
        clock: returns seconds that never go back; tests give their own.

    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        store: Store | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.declared = DeclaredTools()
        """The contracts that code declares; a running program may add some."""
        self.compiled = CompiledPolicy(_with_key(policy or Policy(), warns=True), declared=self.declared)
        self.faults = CallbackFaults()
        """Reports exceptions of the policy's functions (``on_trip``, detectors); by default to the log, once each."""
        self.watch: PolicyFileWatch | None = None
        """Reads the policy file again when it changes; None if the policy is not from a file."""
        self._store = store
        self.memory = ConversationMemories()
        """The conversations, for a policy with ``scope = "conversation"``."""
        self._turns = LiveTurns()
        self._made: set[ref[Turn]] = set()
        """All turns that something refers to, for ``after_fork``.

        Not a ``WeakSet``: its callback is Python code, in which Python drops the exceptions of signal handlers.
        """
        self._host = TurnHost(clock, self.faults, self._turns.discard, self._made.add, self._made.discard)
        self._numbers = itertools.count(1)
        self._prefix = uuid.uuid4().hex[:12]
        _guards.add(self)

    def __repr__(self) -> str:
        return f"Guard(action={self.policy.action}, live={self.live})"

    @property
    def policy(self) -> Policy:
        """The policy that new turns begin with."""
        return self.compiled.policy

    @property
    def live(self) -> int:
        """The number of turns that can be found by their id: begun, and neither over nor dropped."""
        return len(self._turns)

    @property
    def store(self) -> Store | None:
        """The store of shared turns; None if there is none, or the policy judges no call."""
        return self._store if self.compiled.judges else None

    @store.setter
    def store(self, store: Store | None) -> None:
        self._store = store

    def use(self, policy: Policy) -> None:
        """Begin new turns with this policy; live turns keep theirs. Equal hash keys keep fingerprints comparable."""
        policy = _with_key(policy)
        same_key = policy.hash_key == self.policy.hash_key
        self.compiled = CompiledPolicy(policy, self.compiled.fingerprinter if same_key else None, self.declared)

    def share(self, declared: DeclaredTools) -> None:
        """Use ``declared``, which other parts of the program may add to, in place of the guard's own declared tools."""
        self.declared = declared
        self.use(self.policy)

    def turn(
        self,
        turn_id: str | None = None,
        *,
        source: str = "explicit",
        enforced: bool = True,
        conversation_id: str | None = None,
        begins: bool = True,
    ) -> Turn:
        """Return the live turn of this id, or a new one; without an id always a new one.

        ``source``: how the turn was found, for telemetry. ``enforced=False``: its loops are reported, nothing is
        refused or told, and no process shares it. With a store, any other turn with an id or a conversation is shared;
        ``begins=False`` then continues the turn that another process has begun in the conversation.
        """
        if self.store is not None and enforced and (turn_id is not None or conversation_id is not None):
            name = f"turn:{turn_id}" if conversation_id is None else f"conversation:{conversation_id}"
            return self.shared_turn(name, turn_id, source=source, begins=begins, conversation_id=conversation_id)
        now = self.clock()
        if self.watch is not None:
            self.watch.check(now)
        known = turn_id if turn_id is not None else f"{self._prefix}-{next(self._numbers)}"
        compiled, conversation = self.compiled, None
        if conversation_id is not None and compiled.remembers:
            number = compiled.fingerprinter.of(utf8(known))
            conversation = PlaceInConversation(self.memory, conversation_id, number)
        if turn_id is None:
            turn = Turn(self._host, compiled, known, source, enforced=enforced, conversation=conversation)
            self._turns.add(turn, now)
            return turn

        def create() -> Turn:
            return Turn(self._host, compiled, turn_id, source, enforced=enforced, conversation=conversation)

        return self._turns.get_or_create(turn_id, create, now)

    def shared_turn(
        self,
        name: str,
        turn_id: str | None = None,
        *,
        source: str = "explicit",
        begins: bool = True,
        conversation_id: str | None = None,
    ) -> Turn:
        """Return a turn that is known by this name in all processes with the same store.

        ``begins=False`` continues the turn that other processes have begun under this name. Without a ``turn_id`` the
        turn has a new id, and is over when it is closed. Without a store it is a turn of this process.
        """
        store, compiled = self.store, self.compiled
        if store is None:
            return self.turn(turn_id, source=source, conversation_id=conversation_id)
        now = self.clock()
        if self.watch is not None:
            self.watch.check(now)
        known = turn_id if turn_id is not None else f"{self._prefix}-{next(self._numbers)}"
        key = compiled.fingerprinter.name(name)
        remembers = compiled.remembers and conversation_id is not None

        def create() -> Turn:
            cell = Cell(store, key, compiled, known, begins=begins, is_named=turn_id is not None)
            shared = Turn(self._host, compiled, known, source, enforced=True, cell=cell)
            if remembers:
                shared.keep_conversation(name)
            return shared

        return self._turns.get_or_create(known, create, now)

    def forget(self, turn: Turn) -> None:
        """Forget a turn that is over."""
        self._turns.discard(turn.known_as)

    def after_fork(self) -> None:
        """Begin with no turns in a child process. Turns that its code still holds go on there, with empty histories.

        Parent and child do not see each other's calls, and a thread that is gone may hold a lock or have changed a
        history halfway. Ids that the guard made become new ones; ids that were given stay.
        """
        self._turns.after_fork()
        self.memory.clear()
        before, self._prefix = self._prefix, uuid.uuid4().hex[:12]
        for turn in filter(None, [reference() for reference in list(self._made)]):
            made_here = turn.id.startswith(f"{before}-")
            turn.after_fork(self._prefix + turn.id[len(before) :] if made_here else turn.id)


_guards: WeakSet[Guard] = WeakSet()
"""The guards of this process."""


def _after_fork() -> None:
    for guard in list(_guards):
        guard.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
