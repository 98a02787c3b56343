"""``--forever``: load for dashboards. Most agents work, some are stuck, until somebody presses Ctrl-C."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from otel_loopguard.cli.demo.stories import STUCK, WORKING

if TYPE_CHECKING:
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.session import Session

SHARE_STUCK = 0.3
_PAUSE_SECONDS = (0.05, 0.6)
_SAY_EVERY_SECONDS = 10.0


def forever(session: Session, screen: Screen) -> None:
    """Tell stories, drawn at random, and count them; returns when it is interrupted."""
    counts: Counter[str] = Counter()
    draw, said = random.Random(), time.monotonic()  # noqa: S311 - nothing is kept secret by it
    _ends_on_terminate()
    screen.line(("Load until Ctrl-C: seven in ten agents work, three are stuck.", "bold"))
    try:
        while True:
            told = session.tell(draw.choice(STUCK if draw.random() < SHARE_STUCK else WORKING))
            counts["runs"] += 1
            counts["calls"] += len(told.rows)
            counts["refused"] += sum(row.refused for row in told.rows)
            counts["ended"] += told.error is not None
            if time.monotonic() - said > _SAY_EVERY_SECONDS:
                said = time.monotonic()
                screen.line((_line(counts), ""))
            time.sleep(draw.uniform(*_PAUSE_SECONDS))
    except KeyboardInterrupt:
        screen.line((f"Stopped. {_line(counts)}", "bold"))


def _line(counts: Counter[str]) -> str:
    return f"{counts['runs']} runs, {counts['calls']} calls, {counts['refused']} refused, {counts['ended']} runs ended"


def _ends_on_terminate() -> None:
    """A container is stopped by SIGTERM, and is to end as cleanly."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)
