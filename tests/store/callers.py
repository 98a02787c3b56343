"""A caller of a log as the guard is one: it folds the entries into its copy, and loses none of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_loopguard.guard.event_log import LogReply
    from otel_loopguard.store.redis_log import RedisEventLog


class Caller:
    """One process with its copy of a log. The copy is the list of the operations in the log, in its order."""

    def __init__(self, store: RedisEventLog, key: str, name: str) -> None:
        self.store, self.key, self.name = store, key, name
        self.epoch, self.base, self.copy, self.own = b"", 0, list[str](), list[str]()

    def add(self) -> bool:
        """Append one more event; return False if the store cannot be used now."""
        self.own.append(f"{self.name}-{len(self.own)}")
        return self.sync()

    def sync(self) -> bool:
        """Append what is missing in the copy, until the copy has all events."""
        while missing := [op for op in self.own if op not in self.copy]:
            ops = [(op.encode(), b"event " + op.encode()) for op in missing]
            restored = None
            reply = self.store.append(self.key, ops, epoch=self.epoch, seen=self.seen)
            if reply is not None and not reply.epoch:
                restored = (self.seen, "\n".join(self.copy).encode())
                reply = self.store.append(self.key, ops, epoch=b"", seen=self.seen, snapshot=restored)
            if reply is None:
                return False
            self._fold(reply)
        return True

    @property
    def seen(self) -> int:
        """The position of the copy."""
        return len(self.copy)

    def _fold(self, reply: LogReply) -> None:
        if reply.epoch != self.epoch or reply.snapshot is not None:
            self.copy = (reply.snapshot or b"").decode().split()
        self.epoch = reply.epoch
        self.copy += [entry.op.decode() for entry in reply.entries]
