"""The server of the judge, asked with what a hook's command has: curl, and plain HTTP on the loopback."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import stat
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard.hooks.judge import Judge
from otel_loopguard.hooks.server import HookServer
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALL = {"session_id": "s", "tool_name": "Read", "tool_input": {"path": "a"}, "hook_event_name": "PreToolUse"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The socket."""
    return tmp_path / "judge.sock"


@pytest.fixture
def server(path: Path) -> Iterator[HookServer]:
    """A server of a judge."""
    with guarded() as recording:
        assert recording.runtime is not None
        started = HookServer(Judge(recording.runtime), path, "token", 0)
        started.start()
        try:
            yield started
        finally:
            started.stop()


def asked(path: Path, body: bytes, target: str = "/codex/PreToolUse") -> tuple[int, bytes]:
    """The status and the body of an answer on the socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        head = f"POST {target} HTTP/1.1\r\nhost: judge\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, response.read()


def told(number: int, name: str, **more: Any) -> bytes:
    """The JSON of a hook of this call."""
    return json.dumps({**CALL, "hook_event_name": name, "tool_use_id": f"{number}", **more}).encode()


def loop(ask: Any) -> list[bytes]:
    """The answers to a call that is made four times, before it runs."""
    answers = []
    for number in range(4):
        answers.append(ask(told(number, "PreToolUse")))
        if not answers[-1]:
            ask(told(number, "PostToolUse", tool_response="the text"))
        ask(told(number, "PostToolBatch", tool_calls=[]))
    return answers


def test_a_loop_is_refused_through_the_socket(server: HookServer, path: Path) -> None:
    """The third equal call."""
    answers = loop(lambda body: asked(path, body)[1])
    assert [bool(answer) for answer in answers] == [False, False, True, True]
    assert json.loads(answers[2])["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_loop_is_refused_by_http_with_the_token_only(server: HookServer) -> None:
    """Every user of the machine can connect to the port."""

    def ask(body: bytes, target: str) -> bytes:
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
            connection.request("POST", target, body)
            return connection.getresponse().read()

    assert [bool(one) for one in loop(lambda body: ask(body, "/token/claude-code/x"))] == [False, False, True, True]
    for target in ("/claude-code/x", "/other/claude-code/x", "//claude-code/x", "/"):
        assert not any(loop(lambda body, target=target: ask(body, target)))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_is_a_client(server: HookServer, path: Path) -> None:
    """As the registration writes it: the hook's input is the body."""
    command = [
        "curl",
        "-s",
        "--max-time",
        "5",
        "--unix-socket",
        str(path),
        "--data-binary",
        "@-",
        "http://judge/codex/x",
    ]
    answers = loop(lambda body: subprocess.run(command, input=body, capture_output=True, check=True).stdout)
    assert [bool(answer) for answer in answers] == [False, False, True, True]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"\xff", b"{}", b'{"session_id": []}'])
def test_garbage_is_answered_with_nothing(server: HookServer, path: Path, body: bytes) -> None:
    """Then the call runs, and the next hook is judged."""
    assert asked(path, body) == (200, b"")
    assert asked(path, told(0, "PreToolUse"), "/nobody/x") == (200, b"")
    assert [bool(one) for one in loop(lambda body: asked(path, body)[1])] == [False, False, True, True]


def test_the_socket_is_its_owners(server: HookServer, path: Path) -> None:
    """Nobody else can connect."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_uid == os.getuid()


def test_the_socket_is_gone_after_the_end(path: Path) -> None:
    """A client then fails at once, and the call runs."""
    with guarded() as recording:
        assert recording.runtime is not None
        server = HookServer(Judge(recording.runtime), path, "token", 0)
        server.start()
        server.stop()
    assert not path.exists()
