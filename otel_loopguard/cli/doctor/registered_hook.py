"""Run a hook as it is registered in a program's settings: a command, or the URL of one by HTTP."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

import orjson

from otel_loopguard.hooks.registration import SILENCE
from otel_loopguard.hooks.rehearsal import sample

_LONGEST: Final = 30.0
"""Seconds that a hook may take. One at the start of a session waits for the judge that it starts."""


def run(hook: str, body: bytes) -> bytes:
    """Run a hook with this input as a program does: a command, or one by HTTP at a URL. Return its answer."""
    with suppress(OSError, subprocess.SubprocessError):
        return _post(hook, body) if is_url(hook) else _shell(hook, body).stdout
    return b""


def trouble(hook: str) -> str:
    """Return why a hook gets no answer, which it does not say itself; empty if it gets one."""
    body = orjson.dumps(sample(""))
    try:
        if is_url(hook):
            _post(hook, body)
            return ""
        done = _shell(hook.partition(SILENCE)[0], body)
    except URLError as error:
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = done.stderr.decode(errors="replace").strip()
    return said.splitlines()[-1] if said else f"exit status {done.returncode}" if done.returncode else ""


def is_url(hook: str) -> bool:
    """Return True for a hook by HTTP, False for a command."""
    return hook.startswith("http://")


def _post(url: str, body: bytes) -> bytes:
    with urlopen(url.partition("#")[0], body, _LONGEST) as answer:  # noqa: S310 - http only, see is_url
        found: bytes = answer.read()
        return found


def _shell(command: str, body: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603 - the user's own settings have it, as the programs run it
        ["/bin/sh", "-c", command], input=body, capture_output=True, timeout=_LONGEST, check=False
    )
