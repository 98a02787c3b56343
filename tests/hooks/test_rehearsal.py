"""A rehearsal of hooks, with the judge in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from otel_loopguard.hooks.client import ask as ask_at
from otel_loopguard.hooks.judge import Judge
from otel_loopguard.hooks.programs import programs
from otel_loopguard.hooks.rehearsal import REHEARSAL, rehearse
from otel_loopguard.hooks.server import HookServer
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", sorted(programs()))
def test_a_rehearsal_is_judged_apart_and_leaves_no_trace(name: str, tmp_path: Path) -> None:
    """Each begins anew, under the policy of the judge. The same hooks without the mark are the user's, and counted."""
    program, path = programs()[name], tmp_path / "judge.sock"

    def asked(event: str, body: bytes) -> bytes:
        return ask_at(str(path), f"{name}/{event}", 30, body) or b""

    def unmarked(event: str, body: bytes) -> bytes:
        told = orjson.loads(body)
        del told[REHEARSAL]
        return asked(event, orjson.dumps(told))

    with guarded() as recording:
        assert recording.runtime is not None
        judge = Judge(recording.runtime)
        server = HookServer(judge, path, "token")
        server.start()
        try:
            for _ in range(2):
                assert rehearse(program, asked, 5).refused_at == 3
            assert (recording.spans, recording.outcomes, judge.state()) == ([], [], b"[]")
            assert rehearse(program, unmarked, 5).refused_at == 3
            assert recording.outcomes == ["executed", "nudged", "blocked"]
            assert judge.state() == b"[]"  # the session is ended
        finally:
            server.stop()


def test_a_session_is_ended_if_no_call_is_refused() -> None:
    """Nothing more is asked then; the time of each hook before and after a call is kept."""
    asked: list[str] = []

    def ask(event: str, _: bytes) -> bytes:
        asked.append(event)
        return b""

    done = rehearse(programs()["claude-code"], ask, 2)
    assert asked == ["PreToolUse", "PostToolUse", "PostToolBatch"] * 2 + ["SessionEnd"]
    assert (done.refused_at, len(done.seconds)) == (None, 4)
