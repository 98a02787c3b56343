"""Draw the live strip while a program works.

A thread of this process reads the file to which the program appends its spans, and shows the calls in the last row of
the terminal. Nothing is shown before the first call. A fault, such as a closed terminal, ends the strip and nothing
else.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from otel_loopguard.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_loopguard.cli.live_strip.bottom_row import BottomRow
    from otel_loopguard.cli.live_strip.seen_calls import SeenCalls
    from otel_loopguard.engine.policy.policy import Policy

_EVERY = 0.1
_SIGNALS = ("SIGTSTP", "SIGQUIT", "SIGTERM", "SIGHUP")
"""These would stop or end this process while the row is taken."""


@contextmanager
def live_strip(spans: Path, policy: Policy, *, wanted: bool = True) -> Iterator[None]:
    """Show the calls in this growing file of OTLP JSON lines during the block, as the policy judges them.

    Nothing is shown unless standard error is a terminal that takes escape sequences, nor in CI.
    """
    with ExitStack() as at_end:
        with Shield()("live_strip"), suppress(OSError):
            if wanted and _is_possible():
                _begin(spans, policy, at_end)
        yield


def _is_possible() -> bool:
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    is_plain = os.environ.get("TERM", "") in ("", "dumb") or os.name == "nt"
    return not in_ci and not is_plain and sys.stderr.isatty()


def _begin(spans: Path, policy: Policy, at_end: ExitStack) -> None:
    # Imported here, because most runs are in no terminal, and Windows has no module `termios`.
    from otel_loopguard.cli.live_strip.bottom_row import BottomRow  # noqa: PLC0415 - see above
    from otel_loopguard.cli.live_strip.seen_calls import SeenCalls  # noqa: PLC0415 - see above
    from otel_loopguard.cli.replay.judge import PolicyJudge  # noqa: PLC0415 - see above

    row = BottomRow(sys.stderr.fileno(), sys.stderr.encoding)
    seen = SeenCalls(
        spans,
        PolicyJudge(policy),
        encoding=sys.stderr.encoding,
        colours=not os.environ.get("NO_COLOR"),
    )
    over = Event()
    thread = Thread(target=_draw, args=(row, seen, over), name="loopguard-live-strip", daemon=True)
    for name in _SIGNALS:
        number = signal.Signals[name]
        if signal.getsignal(number) is signal.SIG_DFL:
            at_end.callback(signal.signal, number, signal.signal(number, row.release_for))
    thread.start()
    at_end.callback(thread.join)
    at_end.callback(over.set)


def _draw(row: BottomRow, seen: SeenCalls, over: Event) -> None:
    with Shield()("live_strip"), suppress(OSError), closing(seen), closing(row):
        while not over.wait(_EVERY):
            seen.read()
            row.show(seen.line)
