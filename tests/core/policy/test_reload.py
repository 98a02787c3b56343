"""A policy file that changes while the program runs."""

from __future__ import annotations

import os

import pytest

from otel_loopguard.core.guard import Guard
from otel_loopguard.core.model import Action
from otel_loopguard.core.policy.load import load_environment
from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.core.policy.reload import CHECK_INTERVAL, PolicyFileWatch
from otel_loopguard.instrumentation.runtime import Runtime

PREFIX = "OTEL_PYTHON_LOOPGUARD_"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "loop.toml"
    path.write_text('preset = "chat_turn"\naction = "nudge"\n[tools.read_file]\ncap = 9\n')
    return path


class Clock:
    now = 1000.0

    def __call__(self):
        """Return the time of the test."""
        return self.now


def watched(path):
    clock, guard = Clock(), Guard(load_environment({PREFIX + "CONFIG": str(path)}).policy, clock=Clock())
    guard.clock = clock
    guard.watch = PolicyFileWatch(str(path), lambda: load_environment({PREFIX + "CONFIG": str(path)}), guard.use)
    return guard, clock


def write(path, text):
    path.write_text(text)
    os.utime(path, ns=(0, 0))  # a clock with coarse ticks must not hide the change of size


def test_a_changed_file_holds_for_new_turns(file):
    """A live turn keeps its policy; a turn that begins after the next look has the new one."""
    guard, clock = watched(file)
    before = guard.turn()
    write(file, 'action = "abort"\n')
    clock.now += CHECK_INTERVAL + 1
    after = guard.turn()
    assert (before.policy.action, after.policy.action) == (Action.NUDGE, Action.ABORT)


def test_between_two_looks_nothing_is_read(file):
    """The file is checked at intervals, not for every turn."""
    guard, clock = watched(file)
    guard.turn()
    write(file, 'action = "abort"\n')
    clock.now += CHECK_INTERVAL / 2
    assert guard.turn().policy.action is Action.NUDGE


def test_a_broken_new_file_keeps_the_old_policy_and_says_so(file, caplog):
    """A mistake in the changed file is logged, once; the next good version is taken."""
    guard, clock = watched(file)
    write(file, "action = 3\n")
    for _ in range(3):
        clock.now += CHECK_INTERVAL + 1
        assert guard.turn().policy.action is Action.NUDGE
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "line 1: action = 3" in caplog.text
    file.unlink()
    clock.now += CHECK_INTERVAL + 1
    assert guard.turn().policy.action is Action.NUDGE
    write(file, 'action = "off"\n')
    clock.now += CHECK_INTERVAL + 1
    assert guard.turn().policy.action is Action.OFF


def test_the_runtime_watches_the_file_of_the_environment(monkeypatch, file):
    """The policy of a running program follows the file in CONFIG; a policy given in code is not touched."""
    monkeypatch.setenv(PREFIX + "CONFIG", str(file))
    runtime = Runtime()
    write(file, 'action = "observe"\n')
    assert runtime.guard.turn().policy.action is Action.OBSERVE
    assert Runtime(Policy()).guard.watch is None
