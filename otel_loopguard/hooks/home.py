"""The folder of the judge: its socket, its token, its number and its log."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import socket
import stat
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.private_files import private, write_private
from otel_loopguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAME = "otel-loopguard/hooks"
_LONGEST_SOCKET = 100
"""Bytes of the path of a Unix socket; systems allow 104 or 108."""
_ATTEMPTS = 5
_PAUSE = 0.05


class RunningJudge(NamedTuple):
    """A judge that runs."""

    process: int
    version: str


class Home:
    """The judge's folder, which only its user may open."""

    KEY = "OTEL_PYTHON_LOOPGUARD_HASH_KEY"
    """The variable of the hash key. A judge goes on with the turns of the one before: they need the same key."""
    OF_SETTINGS = "OTEL_"
    """The beginning of the names of variables that an installation keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "judge.sock"
        self.log = folder / "judge.log"
        self.turns = folder / "turns.json"
        """The turns of the last judge, for the next one."""
        self._number = folder / "judge.pid"
        """The process of the judge, and its version. The judge holds a lock on it."""
        self.settings = folder / "settings.json"
        """The OpenTelemetry variables of the user by whom hooks were installed."""
        self._port = folder / "port"

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

    def environment(self, of_session: Mapping[str, str]) -> dict[str, str]:
        """Return an environment whose settings of OpenTelemetry are those of the installation, with the hash key.

        The one that starts the judge is that of a project's session: a repository must not set the policy of all
        others. Raise ``LoopGuardError`` if the settings cannot be read.
        """
        key = {self.KEY: self.secret("key")}
        if not self.settings.exists():
            return key | dict(of_session)
        try:
            settings = json.loads(self.settings.read_bytes())
        except ValueError as error:
            problem = f"{self.settings} is no JSON. Remedy: otel-loopguard hooks install, once more"
            raise LoopGuardError(problem) from error
        others = {name: value for name, value in of_session.items() if not name.startswith(self.OF_SETTINGS)}
        return {**others, **key, **settings}

    private = staticmethod(private)
    """Opens a file that only its owner may read."""

    def hold(self) -> bool:
        """Become the judge of this folder, until this process ends. Return False if there is one."""
        held = private(str(self._number), os.O_RDWR | os.O_CREAT)  # left open: the lock ends with the process
        for _ in range(_ATTEMPTS):
            with suppress(BlockingIOError):
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(held, 0)
                os.write(held, f"{os.getpid()} {__version__}".encode())
                return True
            time.sleep(_PAUSE)  # ``running`` holds it for a moment
        os.close(held)
        return False

    @property
    def running(self) -> RunningJudge | None:
        """The judge that runs; None if there is none."""
        with suppress(FileNotFoundError, ValueError), open(self._number, encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                process, _, version = file.read().partition(" ")
                return RunningJudge(int(process), version)
        return None

    def claim(self, session: str) -> Callable[[], None] | None:
        """Judge a session in this process, until the returned function is called. None without a folder: no hooks are
        installed. Hooks of a session may be in the program's settings, too, and the resident judge leaves it alone.
        """
        path = self._claimed(session)
        with suppress(FileNotFoundError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            held = private(str(path), os.O_RDWR | os.O_CREAT)
            fcntl.flock(held, fcntl.LOCK_SH)
            return partial(_release, path, held)
        return None

    def is_claimed(self, session: str) -> bool:
        """Return True if another process judges this session."""
        path = self._claimed(session)
        with suppress(FileNotFoundError), open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            path.unlink()  # its process was killed
        return False

    def _claimed(self, session: str) -> Path:
        return self.folder / "claimed" / hashlib.sha256(session.encode()).hexdigest()

    @property
    def port(self) -> int | None:
        """The loopback port for hooks by HTTP; None if none are installed."""
        with suppress(FileNotFoundError, ValueError):
            return int(self._port.read_text("ascii"))
        return None

    def http_address(self) -> str:
        """Return ``PORT/TOKEN`` for hooks by HTTP: at the first time a port that is free, from then on the same."""
        self.make()
        if self.port is None:
            with socket.create_server(("127.0.0.1", 0)) as free:
                write_private(self._port, str(free.getsockname()[1]).encode())
        return f"{self.port}/{self.secret('token')}"

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


def _release(path: Path, held: int) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    os.close(held)
