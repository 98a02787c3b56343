"""The conversations of a guard, for a policy with ``scope = "conversation"``."""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock

from otel_loopguard.engine.conversation_memory import ConversationMemory

MOST_CONVERSATIONS = 10_000


class ConversationMemories:
    """The conversations of a guard, at most 10,000. The least recently used one is forgotten first.

    No thread waits for another lock, and no user code runs, while it holds this one. The lock lets its own thread in,
    because a signal handler may make a call.
    """

    def __init__(self, most: int = MOST_CONVERSATIONS) -> None:
        self._most = most
        self._conversations: OrderedDict[str, ConversationMemory] = OrderedDict()
        self.lock = RLock()

    def __len__(self) -> int:
        return len(self._conversations)

    def use(self, name: str, now: float | None, longest_idle: float) -> ConversationMemory:
        """Return the conversation of this name; a new one if it had no call for ``longest_idle`` seconds.

        The caller holds the lock.
        """
        conversations = self._conversations
        found = conversations.get(name)
        if found is None or (now is not None and now - found.used > longest_idle):
            found = conversations[name] = ConversationMemory()
        if now is not None:
            found.used = now
        conversations.move_to_end(name)
        while len(conversations) > self._most:
            conversations.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget all conversations in a child process, with a new lock: the thread that held the old one is gone."""
        self.lock = RLock()
        self._conversations = OrderedDict()
