"""The services of the pictures: what each does in its turns, how often it loops, and how it is guarded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

OBSERVE: Final = {"OTEL_PYTHON_LOOPGUARD_ACTION": "observe"}
ABORT: Final = {"OTEL_PYTHON_LOOPGUARD_ACTION": "abort"}


@dataclass(frozen=True)
class Service:
    """One program. A turn in ``every`` loops, with ``steps`` calls of its tool; the others do three calls of work."""

    name: str
    tool: str
    every: int = 0
    """0: no turn loops."""
    steps: int = 12
    loop: str = "repeat"
    """How it loops: ``repeat`` one call, ``poll`` a job that never ends, get an ``error``, or one ``answer``."""
    stubborn: bool = False
    """It goes on after a refusal, and when its tools are withdrawn; else it answers."""
    pause: float = 8.0
    """Seconds between turns."""
    think: float = 0.4
    """Seconds of a request to the model."""
    model: str = "gpt-5-mini"
    settings: dict[str, str] = field(default_factory=dict)


SERVICES: Final = (
    # One turn that nothing stops, all the time.
    Service("research-agent", "read_file", 1, steps=100_000, think=1.5, model="gpt-5", settings=OBSERVE),
    Service("release-agent", "get_job_status", 2, steps=40, loop="poll", stubborn=True, pause=4.0, settings=ABORT),
    Service("checkout-agent", "deploy", 6, loop="error", steps=13),
    Service("support-bot", "read_faq", 8, steps=6, pause=4.0, model="gpt-5"),
    Service("docs-agent", "read_file", 12, steps=9),
    Service("search-agent", "find_person", 10, steps=14, loop="answer", stubborn=True, pause=6.0),
    Service("billing-agent", "get_invoice", pause=5.0),
    Service("mail-agent", "read_mail", pause=4.0, model="gpt-5"),
    Service("planning-agent", "search_calendar", pause=7.0),
)
HEALTHY: Final = tuple(service.name for service in SERVICES if not service.every)
