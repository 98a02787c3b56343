"""The script on the server: what it appends, remembers, drops and returns."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_loopguard.store import script
from otel_loopguard.store.script import key_of

_names = (f"log-{number}" for number in itertools.count())


@pytest.fixture
def log(server):
    """A log of its own on a shared server."""
    return Log(server)


class Log:
    """One log, with short calls for it."""

    def __init__(self, server) -> None:
        self.server, self.store, self.key = server, server.store(), next(_names)

    def append(self, *ops: str, epoch=b"", seen=0, snapshot=None):
        """Append events of these names."""
        events = [(op.encode(), f"event {op}".encode()) for op in ops]
        reply = self.store.append(self.key, events, epoch=epoch, seen=seen, snapshot=snapshot)
        assert reply is not None, self.store.failures
        return reply

    def __call__(self, command: str, *arguments):
        """Run a command on its key."""
        return self.server(command, key_of(self.key), *arguments)


def ops(reply) -> list[str]:
    return [entry.op.decode() for entry in reply.entries]


def test_an_append_returns_its_own_event(log):
    reply = log.append("a")
    assert (ops(reply), reply.entries[0].data, reply.base, reply.snapshot) == (["a"], b"event a", 0, None)
    assert len(reply.epoch) == 8


def test_a_caller_gets_the_events_that_it_has_not_read(log):
    first = log.append("a")
    log.append("b", epoch=first.epoch, seen=1)
    assert ops(log.append("c", epoch=first.epoch, seen=1)) == ["b", "c"]


def test_an_event_is_appended_once(log):
    first = log.append("a")
    log.append("b", "a", "b", epoch=first.epoch, seen=1)
    assert ops(log.append()) == ["a", "b"]


def test_the_last_1024_events_are_remembered_also_when_their_entries_are_gone(log):
    epoch = log.append("first").epoch
    for start in range(0, 1024, 64):
        names = [f"{number:04}" for number in range(start, start + 64)]
        log.append(*names, epoch=epoch, seen=1 + start, snapshot=(1 + start, b"state"))
    assert ops(log.append("0000", epoch=epoch, seen=1025)) == []
    assert ops(log.append("first", epoch=epoch, seen=1025)) == ["first"]


def test_an_identity_of_16_bytes_is_told_apart_by_its_last(log):
    first = log.append("0123456789abcdeX")
    assert ops(log.append("0123456789abcdeY", epoch=first.epoch, seen=1)) == ["0123456789abcdeY"]


def test_entries_have_the_time_of_the_server(log):
    before = log.server("TIME")
    reply = log.append("a")
    after = log.server("TIME")
    earliest, latest = (int(seconds) + int(micro) / 1e6 for seconds, micro in (before, after))
    assert earliest <= reply.entries[0].time <= latest


def test_a_snapshot_takes_the_place_of_the_entries_up_to_it(log):
    epoch = log.append("a", "b", "c").epoch
    assert ops(log.append(epoch=epoch, seen=3, snapshot=(2, b"state"))) == []
    late = log.append(epoch=epoch, seen=1)
    assert (late.snapshot, late.base, ops(late)) == (b"state", 2, ["c"])
    assert log("LLEN") == 3


def test_a_snapshot_of_an_earlier_position_changes_nothing(log):
    epoch = log.append("a", "b", "c").epoch
    log.append(epoch=epoch, seen=3, snapshot=(2, b"state"))
    log.append(epoch=epoch, seen=3, snapshot=(1, b"older"))
    late = log.append()
    assert (late.snapshot, late.base, ops(late)) == (b"state", 2, ["c"])


def test_a_snapshot_of_another_log_changes_nothing(log):
    log.append("a", "b")
    log.append(epoch=b"another!", seen=2, snapshot=(1, b"state"))
    assert log.append().base == 0


def test_reading_a_log_that_is_not_there_makes_none(log):
    assert log.append() == (b"", None, 0, [])
    assert log("EXISTS") == 0


def test_a_caller_that_knows_a_lost_log_is_told_and_sends_its_snapshot(log):
    old = log.append("a", "b").epoch
    log("DEL")
    assert log.append("c", epoch=old, seen=2) == (b"", None, 0, [])
    assert log("EXISTS") == 0
    again = log.append("c", epoch=old, seen=2, snapshot=(2, b"state"))
    assert (again.snapshot, again.base, ops(again)) == (b"state", 2, ["c"])
    assert again.epoch not in (b"", old)


def test_of_two_callers_that_restore_a_log_the_second_gets_that_of_the_first(log):
    first = log.append("c", epoch=b"oldepoch", seen=3, snapshot=(3, b"of the first"))
    second = log.append("d", epoch=b"oldepoch", seen=2, snapshot=(2, b"of the second"))
    assert (second.epoch, second.snapshot, second.base, ops(second)) == (first.epoch, b"of the first", 3, ["c", "d"])


def test_after_a_loss_of_the_last_entries_callers_read_the_log_again(log):
    epoch = log.append("a", "b", "c").epoch
    log("RPOP", 2)
    reply = log.append("d", epoch=epoch, seen=3)
    assert reply.epoch not in (b"", epoch)
    assert ops(reply) == ["a", "d"]


def test_on_another_server_callers_read_the_log_again_and_add_what_is_missing(log):
    """Entries that a failover lost are not noticed by their number if others have taken their place."""
    epoch = log.append("a", "b", "c").epoch
    log("RPOP", 1)
    log("LSET", 0, b"another!" + log("LINDEX", 0)[8:-8])
    first = log.append("d", epoch=epoch, seen=2)
    second = log.append("e", epoch=epoch, seen=3)
    assert first.epoch == second.epoch != epoch
    assert ops(second) == ["a", "b", "d", "e"]
    assert ops(log.append("b", "c", epoch=second.epoch, seen=4)) == ["c"]


def test_beyond_its_bound_a_log_takes_events_only_with_a_snapshot(log, monkeypatch):
    monkeypatch.setattr(script, "MOST_ENTRIES", 3)
    epoch = log.append("a", "b", "c").epoch
    assert ops(log.append("d", epoch=epoch, seen=2)) == ["c"]
    assert ops(log.append("d", epoch=epoch, seen=3, snapshot=(3, b"state"))) == ["d"]


def test_a_log_expires_after_its_last_event(log):
    log.append("a")
    assert 86_000_000 < log("PTTL") <= 86_400_000
    log("PEXPIRE", 1000)
    log.append()
    assert log("PTTL") <= 1000
    log.append("b")
    assert log("PTTL") > 86_000_000


def test_a_log_is_one_key_with_a_tag(log):
    log.append("a")
    assert log.server("KEYS", f"*{log.key}*") == [f"loopguard:{{{log.key}}}".encode()]


def test_events_for_which_nobody_waits_are_appended(log):
    log.store.send_later(log.key, [(b"a", b"event a"), (b"b", b"event b")])
    assert log.store.flush(10)
    assert ops(log.append()) == ["a", "b"]


# --- against a naive model ------------------------------------------------------------------------------------------


class Model:
    """The log as the specification has it, without regard to cost."""

    def __init__(self) -> None:
        self.exists, self.epoch = False, 0
        self.base, self.state, self.entries, self.known = 0, None, [], []

    def append(self, names, epoch, seen, snapshot):
        """Return epoch, snapshot, base and entries; epochs are numbers, 0 means none."""
        if not self.exists:
            if snapshot is not None and snapshot[0] >= seen:
                self.base, self.state = snapshot
            elif seen or not names:
                return 0, None, 0, []
            else:
                self.base, self.state = 0, None
            self.exists, self.entries, self.known = True, [], []
            self.epoch += 1
        elif epoch == self.epoch and seen > self.base + len(self.entries):
            self.epoch += 1
        same = epoch == self.epoch
        if same and snapshot is not None and self.base < snapshot[0] <= self.base + len(self.entries):
            del self.entries[: snapshot[0] - self.base]
            self.base, self.state = snapshot
        for name in names:
            if name not in self.known:
                self.entries.append(name)
                self.known.append(name)
        if same and seen >= self.base:
            return self.epoch, None, self.base, self.entries[seen - self.base :]
        return self.epoch, self.state if self.base else None, self.base, list(self.entries)


class Call(NamedTuple):
    caller: int
    names: list[str]
    cut: int | None
    """A snapshot this many entries before the caller's position."""


CALLS = st.builds(
    Call, st.integers(0, 2), st.lists(st.sampled_from("abcdefghij"), max_size=3), st.none() | st.integers(-1, 3)
)
LOSSES = st.sampled_from(["drop the log", "lose an entry"])


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(CALLS | CALLS | CALLS | LOSSES, max_size=30))
def test_the_script_does_what_a_naive_model_does(server, steps):
    """Three callers append, cut and read, while the server loses entries or all of the log."""
    log, model = Log(server), Model()
    copies = [(b"", 0, 0)] * 3
    epochs = {0: b""}
    for step in steps:
        if step == "drop the log":
            log("DEL")
            model.exists = False
        elif step == "lose an entry":
            if model.exists and model.entries:
                log("RPOP")
                model.entries.pop()
        else:
            epoch, number, seen = copies[step.caller]
            snapshot = None if step.cut is None or seen < step.cut else (seen - step.cut, f"state {seen}".encode())
            reply = log.append(*step.names, epoch=epoch, seen=seen, snapshot=snapshot)
            expected = model.append(step.names, number, seen, snapshot)
            assert (reply.snapshot, reply.base, ops(reply)) == expected[1:]
            assert epochs.setdefault(expected[0], reply.epoch) == reply.epoch
            read = seen if reply.epoch == epoch and seen >= reply.base else reply.base
            copies[step.caller] = (reply.epoch, expected[0], read + len(reply.entries))
    assert len(set(epochs.values())) == len(epochs)
