"""Write our hooks into a program's own settings, and take them out again."""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.hooks import jsonc
from otel_loopguard.private_files import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_loopguard.hooks.home import Home
    from otel_loopguard.hooks.programs.program import Program, Registration

_MARK: Final = "otel-loopguard hook"
"""The comment in each command, by which it is found again."""
_MARK_IN_URL: Final = "otel-loopguard-hook"
"""The fragment of each URL, by which it is found again; a client does not send it."""
_CLIENT: Final = Path(__file__).with_name("ask.pl")
"""It starts in 6 ms; curl takes 16."""
_RECORD: Final = "installed.json"
SILENCE: Final = " 2>/dev/null"
"""What follows the part of a hook's command that asks: what that says must not reach the program."""
STARTING: Final = [str(Path(sys.executable).with_name("otel-loopguard")), "hooks", "serve", "--background"]
"""The command that starts the judge, unless it runs."""
_NO_JUDGE: Final = "otel-loopguard: no judge could be started, so every call runs. Why: otel-loopguard hooks doctor"


class Change(NamedTuple):
    """A file of settings before and after; None if it is not there."""

    path: Path
    before: bytes | None
    after: bytes | None


class Choice(NamedTuple):
    """The choices of the user at the installation."""

    interrupts: bool = False
    """A program that no answer ends gets SIGINT."""
    address: str = ""
    """The loopback port and the token for hooks by HTTP, ``PORT/TOKEN``; empty if hooks are commands."""
    seconds: float = 0.2
    """The time that a hook waits for the judge at most. Then the call runs."""


COMMANDS: Final = Choice()
"""All hooks are commands, and no run is interrupted."""


def installed(
    program: Program, root: Path, home: Home, choice: Choice = COMMANDS, *, is_project: bool = False
) -> Change:
    """Return the change that registers our hooks in the settings below ``root``. Ours that are there are replaced.

    Raise ``LoopGuardError`` if the file has another form.
    """
    registration, path = _place(program, root, is_project=is_project)
    before = _read(path)
    if registration.whole is not None:
        if before is not None and _MARK.encode() not in before:
            raise LoopGuardError(f"{path} is not ours. It was left as it is")
        return Change(path, before, registration.whole(str(home.socket), STARTING, choice.seconds).encode())
    try:
        is_new = before is None or not before.strip()
        text = registration.empty if is_new else _cleaned(registration, _text(path, before or b""))
        for event in registration.events:
            if choice.address and registration.http_entry is not None:
                url = f"http://127.0.0.1:{choice.address}/{program.name}/{event}#{_MARK_IN_URL}"
                entry = registration.http_entry(url)
            else:
                entry = registration.entry(event, _asking(program, event, home, choice))
            text = jsonc.appended(text, ("hooks", event), entry)
        for number, event in enumerate(registration.starts):
            starting = _starting(says=registration.shows_messages and number == 0)
            entry = registration.entry(event, _asking(program, event, home, choice, otherwise=starting))
            text = jsonc.appended(text, ("hooks", event), entry)
    except ValueError as error:
        raise LoopGuardError(f"{path}: {error}. It was left as it is") from error
    return Change(path, before, text.encode())


def uninstalled(program: Program, root: Path, home: Home, *, is_project: bool) -> Change:
    """Return the change that takes our hooks out. A file that nobody else has edited is as it was, byte for byte."""
    registration, path = _place(program, root, is_project=is_project)
    before = _read(path)
    if before is None:
        return Change(path, None, None)
    record = _records(home).get(str(path))
    if record is not None and record["after"] == _digest(before):
        return Change(path, before, None if record["before"] is None else base64.b64decode(record["before"]))
    if registration.whole is not None:
        return Change(path, before, None if _MARK.encode() in before else before)
    try:
        text = _cleaned(registration, _text(path, before))
    except ValueError as error:
        raise LoopGuardError(f"{path}: {error}. It was left as it is") from error
    is_empty = jsonc.parsed(text).plain == jsonc.parsed(registration.empty).plain
    return Change(path, before, None if is_empty and record is not None and record["before"] is None else text.encode())


def registered(program: Program, root: Path, *, is_project: bool) -> dict[str, str]:
    """Return our hooks in the settings below ``root``: the command or the URL of each event. A plugin has none.

    Raise ``LoopGuardError`` if the file cannot be read.
    """
    registration, path = _place(program, root, is_project=is_project)
    content = _read(path)
    if registration.whole is not None or not _has_ours(content):
        return {}
    try:
        found = jsonc.parsed(_text(path, content or b"")).plain
    except ValueError as error:
        raise LoopGuardError(f"{path}: {error}") from error
    hooks = found.get("hooks", {}) if isinstance(found, dict) else {}
    return {event: hook for event, items in hooks.items() for hook in _ours_in(items)}


def is_installed(program: Program, root: Path, *, is_project: bool) -> bool:
    """Return True if our hooks are in the settings below ``root``."""
    _, path = _place(program, root, is_project=is_project)
    return _has_ours(_read(path))


def write(change: Change, home: Home) -> None:
    """Write the file as a whole, and note what it was. Raise ``LoopGuardError`` if it cannot be written."""
    home.make()
    records = _records(home)
    if change.after is None:
        records.pop(str(change.path), None)
        with suppress(FileNotFoundError):
            change.path.unlink()
    else:
        try:
            _replace(change.path, change.after)
        except OSError as error:
            raise LoopGuardError(f"{change.path} cannot be written: {error.strerror or error}") from error
        if _has_ours(change.after):
            kept = records.get(str(change.path), {"before": _encoded(change.before)})
            before = kept["before"] if _has_ours(change.before) else _encoded(change.before)
            records[str(change.path)] = {"before": before, "after": _digest(change.after)}
        else:
            records.pop(str(change.path), None)
    write_private(home.folder / _RECORD, orjson.dumps(records, option=orjson.OPT_INDENT_2))


def file_of(program: Program, root: Path, *, is_project: bool) -> Path:
    """Return the file of a program's settings below ``root``."""
    return root / (program.registration.project if is_project else program.registration.user)


def _place(program: Program, root: Path, *, is_project: bool) -> tuple[Registration, Path]:
    return program.registration, file_of(program, root, is_project=is_project)


def _asking(program: Program, event: str, home: Home, choice: Choice, *, otherwise: str = ":") -> str:
    """Return the command of a hook: it asks the judge. Without an answer in time it does ``otherwise``."""
    path, target = shlex.quote(str(home.socket)), f"{program.name}/{event}"
    if choice.interrupts and not program.ends_by_answer:
        target += "?interrupt=$PPID"
    if shutil.which("perl"):
        ask = f'perl {shlex.quote(str(_CLIENT))} {path} "{target}" {choice.seconds}'
    elif shutil.which("curl"):
        ask = f'curl -s -m {choice.seconds} --data-binary @- --unix-socket {path} "http://judge/{target}"'
    else:
        ask = f'{shlex.quote(sys.executable)} -m otel_loopguard.hooks.client {path} "{target}" {choice.seconds}'
    return f"{ask}{SILENCE} || {otherwise} # {_MARK}"


def is_fast() -> bool:
    """Return True if hooks ask with perl or curl. Without them they start a Python: a good tenth of a second."""
    return any(map(shutil.which, ("perl", "curl")))


def _starting(*, says: bool) -> str:
    """Return the command that starts a judge. ``says``: if it cannot be started, the user is told in the program."""
    told = f"echo {shlex.quote(orjson.dumps({'systemMessage': _NO_JUDGE}).decode())}" if says else ":"
    return f"{shlex.join(STARTING)} >/dev/null 2>&1 || {told}"


def _cleaned(registration: Registration, text: str) -> str:
    for event in (*registration.events, *registration.starts):
        text = jsonc.without(text, ("hooks", event), _is_ours)
    return text


def _is_ours(item: Any) -> bool:
    return next(_ours_in(item), None) is not None


def _ours_in(item: Any) -> Iterator[str]:
    """Yield our commands and URLs in a part of the settings."""
    if isinstance(item, str):
        if _MARK in item or _MARK_IN_URL in item:
            yield item
    elif isinstance(item, list | dict):
        for part in item.values() if isinstance(item, dict) else item:
            yield from _ours_in(part)


def _has_ours(content: bytes | None) -> bool:
    return any(mark.encode() in (content or b"") for mark in (_MARK, _MARK_IN_URL))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LoopGuardError(f"{path} cannot be read: {error.strerror or error}") from error


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoopGuardError(f"{path} is not in UTF-8. It was left as it is") from error


def _replace(path: Path, content: bytes) -> None:
    """Write beside the file, and rename: a program never reads half of it. A link stays one, and so do permissions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), path.stat().st_mode & 0o777 if path.exists() else 0o600)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _records(home: Home) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = orjson.loads((home.folder / _RECORD).read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
