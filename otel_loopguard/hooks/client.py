"""Ask the judge from a hook without curl: ``python -m otel_loopguard.hooks.client SOCKET PROGRAM/EVENT SECONDS``.

It imports little, because a program waits for each hook. It says nothing of its own; without an answer its status is 1.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress

_SECONDS = 1.0


def ask(path: str, target: str, seconds: float, body: bytes) -> bytes | None:
    """Send the input of a hook to the judge at this socket. Return its answer; None if there is none in time."""
    length = f"content-length: {len(body)}"
    lines = (f"POST /{target} HTTP/1.1", "host: judge", "connection: close", length, "", "")
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        connection.connect(path)
        connection.sendall("\r\n".join(lines).encode() + body)
        with connection.makefile("rb") as reply:
            return reply.read().partition(b"\r\n\r\n")[2]
    return None


def is_served(path: str) -> bool:
    """Return True if a judge answers at this socket."""
    return ask(path, "", _SECONDS, b"{}") is not None


def main() -> int:
    """Send the input to the judge, and write its answer. Return 0, or 1 if there is none."""
    path, target, seconds = sys.argv[1:]
    answer = ask(path, target, float(seconds), sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer or b"")
    return int(answer is None)


if __name__ == "__main__":
    sys.exit(main())
