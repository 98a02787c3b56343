"""The runtime at its start and after a fork."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

import otel_loopguard as loopguard
from otel_loopguard.core.policy.policy import Policy
from otel_loopguard.instrumentation.runtime import Runtime
from otel_loopguard.testing import guarded

from .processes import clean_environment


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
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean_environment(),
    )
    assert ended.stdout.splitlines() == ["parent ([2], 2, 0)", "child 0 ([2], 2, 0)", "parent 2"], ended.stderr


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
