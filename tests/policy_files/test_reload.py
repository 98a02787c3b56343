"""A policy file that changes while the program runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.policy_files.load import load_environment
from otel_loopguard.policy_files.reload import CHECK_INTERVAL, PolicyFileWatch

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


def watched(path, load=None):
    """A guard with its clock, under the policy of a file; ``load`` stands for the reading of the file."""

    def from_file():
        return load_environment({PREFIX + "CONFIG": str(path)})

    guard = Guard(from_file().policy, clock=Clock())
    guard.watch = PolicyFileWatch(str(path), load or from_file, guard.use)
    return guard, guard.clock


def write(path, text):
    path.write_text(text)
    os.utime(path, ns=(0, 0))  # a clock with coarse ticks must not hide the change of size


def action_of_next_turn(guard, clock):
    """The action of a turn after the next check of the file, once that is done."""
    clock.now += CHECK_INTERVAL + 1
    guard.turn()
    guard.watch.wait()
    return guard.turn().policy.action


def test_a_changed_file_holds_for_new_turns(file):
    """A live turn keeps its policy; a turn that begins after the file was read has the new one."""
    guard, clock = watched(file)
    before = guard.turn()
    write(file, 'action = "abort"\n')
    assert action_of_next_turn(guard, clock) is Action.ABORT
    assert before.policy.action is Action.NUDGE


class SlowLoad:
    """Reads the file when the test lets it, and counts how often."""

    def __init__(self, path):
        self.path = path
        self.may_go_on = threading.Event()
        self.threads = []

    def __call__(self):
        """Load the policy once the test lets it."""
        self.threads.append(threading.get_ident())
        assert self.may_go_on.wait(60)
        return load_environment({PREFIX + "CONFIG": str(self.path)})


def test_no_call_waits_for_the_file(file):
    """It is read in another thread, once; turns that begin before that is done have the policy before the change."""
    load = SlowLoad(file)
    guard, clock = watched(file, load)
    write(file, 'action = "abort"\n')
    for _ in range(5):
        clock.now += CHECK_INTERVAL + 1
        assert guard.turn().policy.action is Action.NUDGE
    load.may_go_on.set()
    guard.watch.wait()
    assert guard.turn().policy.action is Action.ABORT
    assert len(load.threads) == 1
    assert threading.get_ident() not in load.threads


def test_a_change_while_the_file_is_read_is_read_too(file):
    """The next check finds it."""
    load = SlowLoad(file)
    guard, clock = watched(file, load)
    write(file, 'action = "abort"\n')
    clock.now += CHECK_INTERVAL + 1
    guard.turn()
    write(file, 'action = "observe"\n')
    load.may_go_on.set()
    assert action_of_next_turn(guard, clock) is Action.OBSERVE


def test_every_turn_has_one_whole_policy_while_the_file_changes(file):
    """Threads that begin turns and make calls see the old or the new policy, in all its settings, and keep it."""
    texts = ['action = "nudge"\nabort_after = 3\n', 'action = "abort"\nabort_after = 77\n']
    write(file, texts[0])
    guard, clock = watched(file)
    wrong, over = [], threading.Event()
    whole = {(Action.NUDGE, 3), (Action.ABORT, 77)}

    def work():
        while not over.is_set():
            turn = guard.turn()
            settings = set()
            for number in range(3):
                call = ToolCall("look", {"at": number})
                if turn.begin(call).runs:
                    turn.end(call, Outcome("x"))
                settings.add((turn.policy.action, turn.policy.abort_after))
            if len(settings) != 1 or not settings <= whole:
                wrong.append(settings)
            turn.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    actions = []
    for number in range(1, 21):
        write(file, texts[number % 2])
        actions.append(action_of_next_turn(guard, clock))
    over.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert actions == [Action.ABORT, Action.NUDGE] * 10


def test_the_next_check_tries_again_if_no_thread_can_be_had(file, monkeypatch):
    """A limit on threads, or the end of the interpreter, never reaches the program."""
    guard, clock = watched(file)
    write(file, 'action = "abort"\n')
    with monkeypatch.context() as no_threads:

        def refuse(*_):
            raise RuntimeError("can't start new thread")

        no_threads.setattr("otel_loopguard.policy_files.reload._thread.start_new_thread", refuse)
        assert action_of_next_turn(guard, clock) is Action.NUDGE
    assert action_of_next_turn(guard, clock) is Action.ABORT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_that_is_forked_while_the_file_is_read_reads_it_itself(file):
    """The thread of the parent is gone in the child."""
    program = f"""
import os, threading
from otel_loopguard.guard.guard import Guard
from otel_loopguard.policy_files.load import load_file
from otel_loopguard.policy_files.reload import PolicyFileWatch

path, parent, reads, go_on = {str(file)!r}, os.getpid(), threading.Event(), threading.Event()

def load():
    if os.getpid() == parent:
        reads.set()
        go_on.wait(60)
    return load_file(path)

now = [1000.0]
guard = Guard(load_file(path).policy, clock=lambda: now[0])
guard.watch = PolicyFileWatch(path, load, guard.use)
open(path, "w").write("abort_after = 5")
guard.turn()
reads.wait(60)
if os.fork() == 0:
    now[0] += 10
    guard.turn()
    guard.watch.wait()
    print("child", guard.turn().policy.abort_after, flush=True)
    os._exit(0)
os.wait()
go_on.set()
guard.watch.wait()
print("parent", guard.turn().policy.abort_after, flush=True)
"""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.splitlines() == ["child 5", "parent 5"], ended.stderr


def test_between_two_looks_nothing_is_read(file):
    """The file is checked at intervals, not for every turn."""
    guard, clock = watched(file)
    guard.turn()
    write(file, 'action = "abort"\n')
    clock.now += CHECK_INTERVAL / 2
    guard.turn()
    guard.watch.wait()
    assert guard.turn().policy.action is Action.NUDGE


def test_a_broken_new_file_keeps_the_old_policy_and_says_so(file, caplog):
    """A mistake in the changed file is logged, once; the next good version is taken."""
    guard, clock = watched(file)
    write(file, "action = 3\n")
    for _ in range(3):
        assert action_of_next_turn(guard, clock) is Action.NUDGE
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "line 1: action = 3" in caplog.text
    file.unlink()
    assert action_of_next_turn(guard, clock) is Action.NUDGE
    write(file, 'action = "off"\n')
    assert action_of_next_turn(guard, clock) is Action.OFF


def test_the_runtime_watches_the_file_of_the_environment(monkeypatch, file):
    """The policy of a running program follows the file in CONFIG; a policy given in code is not touched."""
    monkeypatch.setenv(PREFIX + "CONFIG", str(file))
    runtime = Runtime()
    write(file, 'action = "observe"\n')
    runtime.guard.turn()
    runtime.guard.watch.wait()
    assert runtime.guard.turn().policy.action is Action.OBSERVE
    assert Runtime(Policy()).guard.watch is None
