"""The runtime at its start and after a fork."""

from __future__ import annotations

import logging
import os

import pytest

import otel_loopguard as loopguard
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.testing import guarded

from .processes import run_code


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_counts_from_nothing_and_never_waits_for_a_lock_of_its_parent() -> None:
    """A child process does not export the parent's trips, and does not wait for a lock that was held at the fork."""
    program = """
import os
from otel_loopguard.testing import ScriptedAgent, guarded

def read(path): return "text"

def stuck(): return ScriptedAgent({"read": read}, [("read", {"path": "a"})] * 3, conversation_id="c").run().refused

with guarded() as recording:
    def state(): return stuck(), int(recording.counted("loopguard.trips")), recording.runtime.guard.live
    print("parent", state(), flush=True)
    recording.runtime.guard.turn("left open")
    recording.runtime.conversations._lock.acquire()
    pid = os.fork()
    if pid == 0:
        print("child", int(recording.counted("loopguard.trips")), state(), flush=True)
        os._exit(0)
    recording.runtime.conversations._lock.release()
    os.waitpid(pid, 0)
    print("parent", int(recording.counted("loopguard.trips")), flush=True)
"""
    ended = run_code(program)
    assert ended.stdout.splitlines() == ["parent ([2], 2, 0)", "child 0 ([2], 2, 0)", "parent 2"], ended.stderr


FORKS = 25


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("place", ["turn", "tool", "nested"])
def test_a_child_that_is_forked_in_a_busy_turn_never_waits(place: str) -> None:
    """Threads call tools of the same turn without pause; each child stops its own loop, in a turn of its own."""
    program = f"""
import os, signal, threading, warnings
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
import otel_loopguard as loopguard
from otel_loopguard.instrumentation.runtime import Runtime, active_runtime
from otel_loopguard.turns.scope import current_scope, in_scope

warnings.simplefilter("ignore")
nowhere = open(os.devnull, "w")
tracers = TracerProvider()
tracers.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=nowhere)))
reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=nowhere), export_interval_millis=5)
active_runtime.put(Runtime(tracer_provider=tracers, meter_provider=MeterProvider([reader])))
PLACE, FORKS = {place!r}, {FORKS}
over = threading.Event()

def read_file(path): return "the same text"

def stopped():
    return "tool_loop_detected" in [loopguard.call("read_file", {{"path": "b"}}, read_file) for _ in range(3)][-1]

def busy(scope, number):
    at = 0
    with in_scope(scope):
        while not over.is_set():
            at += 1
            loopguard.call("read_file", {{"path": (number, at)}}, read_file)
            with loopguard.turn(f"{{number}} {{at}}"):
                loopguard.call("read_file", {{"path": at}}, read_file)

def fork(parent):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)  # a hang ends as a signal
        own = current_scope().turn.id
        with loopguard.turn("of the child"):
            new = stopped()
        os._exit(10 + (own != parent) + 2 * new + 4 * (PLACE == "tool" or stopped()))
    ended = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(ended)

def forks():
    scope = current_scope()
    threads = [threading.Thread(target=busy, args=(busy_in, n), daemon=True) for n, busy_in in enumerate([scope] * 3)]
    for thread in threads: thread.start()
    found = [fork(scope.turn.id) for _ in range(FORKS)]
    over.set()
    for thread in threads: thread.join(30)
    return found

stopped()  # so that no thread imports a module at a fork: its lock is Python's own
with loopguard.turn("busy"):
    if PLACE == "turn":
        found = forks()
    elif PLACE == "tool":
        outer = current_scope()
        found = []
        loopguard.call("work", {{}}, lambda: found.extend(forks()))
    else:
        def agent():
            with loopguard.turn():
                found.extend(forks())
        found = []
        loopguard.call("agent", {{}}, agent)
    left = stopped()
print(sorted(set(found)), left, flush=True)
os._exit(0)
"""
    ended = run_code(program, timeout=300)
    assert ended.stdout.splitlines() == ["[17] True"], (ended.stdout, ended.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_keeps_the_ids_that_were_given_and_the_stop_of_the_user() -> None:
    """Ids that the guard made are new ones in a child; nothing runs in a turn that the user has stopped."""
    program = """
import os
import otel_loopguard as loopguard
from otel_loopguard import Guard, Outcome, ToolCall

guard = Guard()
given, made, stopped = guard.turn("given"), guard.turn(), guard.turn("stopped")
stopped.say("stop", stop=True)
made.say("hello")
for _ in range(2):
    call = ToolCall("read_file", {"path": "a"})
    made.begin(call)
    made.end(call, Outcome("text"))
print(made.id, guard.turn().id, flush=True)
if os.fork() == 0:
    call = ToolCall("read_file", {"path": "a"})
    print(made.id, guard.turn().id, given.id, flush=True)
    print(made.begin(call).action, stopped.begin(call).action, made.end(call, Outcome("text")).message, flush=True)
    os._exit(0)
os.wait()
call = ToolCall("read_file", {"path": "a"})
print(made.begin(call).action, made.id)
"""
    ended = run_code(program)
    parent, child, decisions, after = (line.split() for line in ended.stdout.splitlines())
    assert len({*parent, *child}) == 5
    assert child[2] == "given"
    assert decisions == ["None", "block", "None"]
    assert after == ["block", parent[0]]


def test_one_line_at_start_says_what_will_happen(caplog: pytest.LogCaptureFixture) -> None:
    """The log at start has the action, and the setting that refuses nothing."""
    with caplog.at_level(logging.INFO, "otel_loopguard"), guarded(loopguard.Policy(action=loopguard.Action.NUDGE)):
        pass
    assert "otel_loopguard is on: action nudge, policy given in code" in caplog.text


def test_a_tool_that_is_declared_at_run_time_does_not_build_the_policy_again() -> None:
    """A request handler may declare a tool for each request; its contract holds from its next call on."""
    with guarded() as seen:
        policy = seen.runtime.guard.compiled
        loopguard.tool(name="look_up_of_a_request", kind="poll")(str)
        assert seen.runtime.guard.compiled is policy
        assert policy.contracts.tool("look_up_of_a_request", None).contract.kind == "poll"


@pytest.mark.parametrize(("key", "warned"), [(b"pw1", True), (b"0123456789abcdef", False)])
def test_a_short_hash_key_in_code_is_warned_about(key: bytes, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Fingerprints leave the process, and so short a key can be found by trying. It is never shown."""
    Runtime(Policy(hash_key=key))
    assert [f"{len(key)} bytes" in line for line in caplog.messages] == [True] * warned
    assert key.decode() not in caplog.text


@pytest.mark.parametrize("policy", [None, Policy()])
def test_a_hash_key_of_the_environment_is_warned_about_once(
    policy: Policy | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By the part that reads it: a short one, and a file that is not there."""
    monkeypatch.setenv("OTEL_PYTHON_LOOPGUARD_HASH_KEY", "pw1")
    runtime = Runtime(policy)
    assert runtime.guard.policy.hash_key == b"pw1"
    assert caplog.text.count("3 bytes") == 1
    monkeypatch.delenv("OTEL_PYTHON_LOOPGUARD_HASH_KEY")
    monkeypatch.setenv("OTEL_PYTHON_LOOPGUARD_HASH_KEY_FILE", "/there/is/none")
    Runtime(policy)
    assert caplog.text.count("the file of the hash key cannot be read") == 1
