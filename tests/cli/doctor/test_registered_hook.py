"""A hook is run as a program runs it, and asked for its reasons."""

from __future__ import annotations

import pytest

from otel_loopguard.cli.doctor.registered_hook import run, trouble


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        ("cat >/dev/null", ""),
        ("exit 3", "exit status 3"),
        ("echo first >&2; echo last >&2; exit 1", "last"),
        ("http://127.0.0.1:1/token/codex/x#otel-loopguard-hook", "Connection refused"),
    ],
)
def test_the_reason_is_what_a_hook_does_not_say(hook: str, reason: str) -> None:
    """The hook of a program is silent, whatever happens."""
    silent = hook if hook.startswith("http") else f"{hook} 2>/dev/null || : # otel-loopguard hook"
    assert run(silent, b"{}") == b""
    assert trouble(silent) == reason
