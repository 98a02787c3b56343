"""Prefork servers: a child has its own turns and its own counts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .processes import clean_environment


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_counts_from_nothing_and_never_waits_for_a_lock_of_its_parent() -> None:
    """The parent's trips are not exported again by its children, and a lock held at the fork blocks nobody."""
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
