"""Files of settings: only small regular files are read, and no path makes the program wait."""

from __future__ import annotations

import os
import socket

import pytest

from otel_loopguard.policy_files.files import MOST_BYTES, UnreadableError, read_bytes


def test_a_regular_file_is_read_whole(tmp_path):
    """Up to the largest size, also through a link, as mounted secrets are."""
    (tmp_path / "file").write_bytes(b"x" * MOST_BYTES)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert len(read_bytes(str(tmp_path / "link"))) == MOST_BYTES


def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path):
    """Opening it the usual way would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_bytes(str(tmp_path / "pipe"))


def test_a_file_that_becomes_a_pipe_is_refused_at_once(tmp_path, monkeypatch):
    """The path is checked again once it is open: it may name another file by then."""
    path = tmp_path / "file"
    path.write_text("x")
    before = os.stat(path)
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr("otel_loopguard.policy_files.files.os.stat", lambda _path: before)
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_bytes(str(path))


def test_a_device_a_socket_and_a_folder_are_refused(tmp_path, monkeypatch):
    """None of them has an end, or text."""
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for path in ("/dev/zero", "socket", "."):
            with pytest.raises(UnreadableError, match="not a regular file"):
                read_bytes(path)


def test_a_file_that_is_too_large_is_refused(tmp_path):
    """Also a sparse one that would fill the memory."""
    (tmp_path / "file").touch()
    os.truncate(tmp_path / "file", 1 << 40)
    with pytest.raises(UnreadableError, match="larger than 1,000,000 bytes"):
        read_bytes(str(tmp_path / "file"))


@pytest.mark.parametrize(("path", "reason"), [("none", "No such file"), ("a\0b", "not valid")])
def test_a_path_that_cannot_be_opened_is_refused(path, reason):
    """With the system's own reason, if it has one."""
    with pytest.raises(UnreadableError, match=reason):
        read_bytes(path)
