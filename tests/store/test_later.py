"""Events that are appended by a thread."""

from __future__ import annotations

import os
import threading

from otel_loopguard.store import later
from otel_loopguard.store.later import Later


class Log:
    """Takes events, once it may."""

    def __init__(self) -> None:
        self.may, self.taken = threading.Event(), []

    def append(self, key, ops, begins):
        """Keep the events."""
        self.may.wait()
        self.taken += [(key, op) for op, _ in ops if begins]


def test_events_are_appended_in_their_order_those_of_a_log_at_once():
    log = Log()
    log.may.set()
    queue = Later(log.append)
    for number in range(100):
        assert queue.put("ab"[number % 2], [(b"%d" % number, b"")])
    assert queue.flush(10)
    for key in "ab":
        assert [int(op) for one, op in log.taken if one == key] == list(range("ab".index(key), 100, 2))


def test_a_full_queue_takes_no_more(monkeypatch):
    monkeypatch.setattr(later, "_MOST_WAITING", 5)
    log = Log()
    queue = Later(log.append)
    taken = [queue.put("turn", [(b"%d" % number, b"")]) for number in range(20)]
    assert 5 <= taken.count(True) < 20
    log.may.set()
    assert queue.flush(10)
    assert len(log.taken) == taken.count(True)


def test_a_flush_ends_before_events_that_cannot_be_appended():
    log = Log()
    queue = Later(log.append)
    queue.put("turn", [(b"1", b"")])
    assert not queue.flush(0.01)
    log.may.set()
    assert queue.flush(10)


def test_a_child_process_appends_its_own_events_only():
    log = Log()
    queue = Later(log.append)
    queue.put("turn", [(b"of the parent", b"")])
    child = os.fork()
    if child == 0:
        log.may.set()
        queue.after_fork()
        queue.put("turn", [(b"of the child", b"")])
        os._exit(0 if queue.flush(10) and log.taken == [("turn", b"of the child")] else 1)
    assert os.waitpid(child, 0)[1] == 0
    log.may.set()
    assert queue.flush(10)
    assert log.taken == [("turn", b"of the parent")]
