"""The folder of the judge: its socket, its token, its number and its log."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.private_files import private

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "otel-loopguard/hooks"
_PATIENCE = 5.0
_LONGEST_SOCKET = 100
"""Bytes of the path of a Unix socket; systems allow 104 or 108."""


class Home:
    """The judge's folder, which only its user may open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "judge.sock"
        self.log = folder / "judge.log"
        self.turns = folder / "turns.json"
        """The turns of the last judge, for the next one."""
        self.number = folder / "judge.pid"

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Home:
        """Return the folder of this user: below ``XDG_STATE_HOME``, or below ``~/.local/state``."""
        state = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME") or Path.home()) / ".local" / "state"
        return cls(Path(state) / _NAME)

    def make(self) -> None:
        """Make the folder. Raise ``LoopGuardError`` if it is another user's, or open to others."""
        with suppress(FileExistsError):
            self.folder.mkdir(mode=0o700, parents=True)
        found = self.folder.stat()
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise LoopGuardError(f"{self.folder} may be opened by others. Remedy: chmod 700 {self.folder}")
        if len(os.fsencode(self.socket)) > _LONGEST_SOCKET:
            raise LoopGuardError(
                f"{self.socket} is too long for a socket. Remedy: set XDG_STATE_HOME to a shorter path"
            )

    private = staticmethod(private)
    """Opens a file that only its owner may read."""

    @property
    def process(self) -> int | None:
        """The process of the judge; None if none answers at the socket."""
        if not self.answers():
            return None
        with suppress(OSError, ValueError):
            return int(self.number.read_text("ascii"))
        return None

    def answers(self) -> bool:
        """Return True if somebody takes connections at the socket."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_PATIENCE)
            try:
                probe.connect(os.fsencode(self.socket))
            except OSError:
                return False
        return True

    def secret(self, name: str) -> str:
        """Return a secret of this user, which is made at the first time: the token, or the key of fingerprints."""
        path = self.folder / name
        if not path.exists():
            new = self.folder / f"{name}.{os.getpid()}"
            with open(new, "w", encoding="ascii", opener=private) as file:
                file.write(secrets.token_hex(32))
            with suppress(FileExistsError):  # another process was quicker, and its secret holds
                os.link(new, path)
            new.unlink()
        return path.read_text("ascii")
