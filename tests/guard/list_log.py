"""The log of shared turns in a list, as its interface describes it."""

from __future__ import annotations

import asyncio

from otel_loopguard.guard.event_log import Entry, LogReply


class ListLog:
    """A log for tests. ``faults`` are those of the next appends: "refused", or "timed out" after it was done."""

    def __init__(self, clock=lambda: 1_000.0) -> None:
        self.clock = clock
        self.logs = {}
        self.faults = []
        self.appends = 0
        self.epochs = 0

    def append(self, key, ops, *, epoch, seen, snapshot=None):
        """Append events, and return those that the caller has not read; None after a fault."""
        self.appends += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault == "refused":
            return None
        reply = self._append(key, ops, epoch, seen, snapshot)
        return None if fault == "timed out" else reply

    def _append(self, key, ops, epoch, seen, snapshot):
        log = self.logs.get(key)
        if log is None:
            if snapshot is None and (seen or not ops):
                return LogReply(b"", None, 0, [])
            base, state = snapshot or (0, None)
            self.epochs += 1
            log = {"epoch": b"%d" % self.epochs, "base": base, "state": state, "entries": [], "ids": set()}
            self.logs[key] = log
            epoch, seen = log["epoch"], base
        elif snapshot is not None and snapshot[0] > log["base"] and epoch == log["epoch"]:
            del log["entries"][: snapshot[0] - log["base"]]
            log["base"], log["state"] = snapshot
        for op, data in ops:
            if op not in log["ids"]:
                log["ids"].add(op)
                log["entries"].append(Entry(self.clock(), op, data))
        if epoch != log["epoch"] or seen < log["base"]:
            return LogReply(log["epoch"], log["state"], log["base"], list(log["entries"]))
        return LogReply(log["epoch"], None, log["base"], log["entries"][seen - log["base"] :])

    async def aappend(self, key, ops, *, epoch, seen, snapshot=None):
        """Do the same, after other tasks have had their turn."""
        await asyncio.sleep(0)
        reply = self.append(key, ops, epoch=epoch, seen=seen, snapshot=snapshot)
        await asyncio.sleep(0)
        return reply

    def send_later(self, key, ops, *, begins=True):
        """Append at once, unless the log cannot be used."""
        if not self.faults:
            self._append(key, ops, b"", 0 if begins else 1, None)

    def seal(self, text):
        """Make a text unreadable."""
        return text.encode("utf-8", "surrogatepass").hex().encode()

    def unseal(self, sealed):
        """Make it readable again."""
        return bytes.fromhex(sealed.decode()).decode("utf-8", "surrogatepass")
