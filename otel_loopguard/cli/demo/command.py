"""``otel-loopguard demo``: see each kind of loop happen, and what the guard does about it."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from otel_loopguard.cli.demo.drivers import BY_HAND, DRIVERS, load
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from otel_loopguard.cli.demo.outlets import Outlets
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.session import Session, Told
    from otel_loopguard.cli.demo.show import Teller
    from otel_loopguard.report import Report

_DESCRIPTION = """
An agent with small real tools and a scripted model falls into each kind of loop. Each line is a call, what the guard
made of it and why; where it said something, what the model reads. Nothing is acted: the guard decides, as in your own
program. No account, no network, a few seconds. In a terminal with `rich` installed it is in colours (NO_COLOR=1: not).
"""
_NAMES = ", ".join(DRIVERS)
_FRAMEWORK = f"run the agent with this framework, if it is installed: {_NAMES} (default: {BY_HAND}, a plain loop)"
_EPILOG = """
Exit status: 0 every stuck agent was stopped and no working one was hindered; 1 not so; 2 wrong use, a framework that
is not installed, or no collector at the endpoint of --otlp.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The arguments of `demo`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("--framework", choices=sorted(DRIVERS), default=BY_HAND, metavar="NAME", help=_FRAMEWORK)
    parser.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="ENDPOINT",
        help="send spans and metrics to a collector, as service loopguard-demo (default endpoint: "
        "OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318; port 4317 is gRPC)",
    )
    parser.add_argument(
        "--forever", action="store_true", help="make load for dashboards, three in ten agents stuck, until Ctrl-C"
    )
    parser.add_argument(
        "--html", metavar="PATH", help="where the report goes (default: a new file in the folder of temporary files)"
    )
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace) -> int:
    """Everything that can be wrong is looked at before the first story."""
    if asked.forever and asked.html:
        raise LoopGuardError("--html goes with a demo that ends, --forever makes one that does not: leave one out")
    framework = load(asked.framework)
    report = _report(asked.html) if asked.html else None  # whether it can be written is seen before the first story
    outlets = _outlets(asked.otlp)
    from otel_loopguard.cli.demo.screen import (  # noqa: PLC0415 - `--help` needs none of these, which import the SDK
        screen as make_screen,
    )
    from otel_loopguard.cli.demo.session import Session, guarded  # noqa: PLC0415
    from otel_loopguard.cli.demo.show import Teller  # noqa: PLC0415

    screen = make_screen()
    teller = Teller(screen)
    with nullcontext() if outlets is None else closing(outlets), guarded(outlets) as watch:
        if asked.forever:
            from otel_loopguard.cli.demo.load import forever  # noqa: PLC0415

            forever(Session(framework, watch, lambda _row: None), screen)
            return 0
        tales = _tell(Session(framework, watch, teller.row), teller)
    _sum_up(screen, tales, report or _report(None))
    return 0 if all(told.as_it_should for told in tales) else 1


def _report(path: str | None) -> Report:
    from otel_loopguard.report import Report  # noqa: PLC0415

    if path is None:
        handle, path = tempfile.mkstemp(prefix="loopguard-demo-", suffix=".html")
        os.close(handle)
    return Report(path)


def _sum_up(screen: Screen, tales: Sequence[Told], report: Report) -> None:
    from otel_loopguard.cli.demo.summary import print_summary, runs_of  # noqa: PLC0415

    print_summary(screen, tales)
    for run_ in runs_of(tales):
        report.add(run_)
    report.write(title="otel-loopguard demo")
    screen.line(("The same as a page, to be opened in a browser: ", ""), (str(report.path), "bold"))


def _outlets(endpoint: str | None) -> Outlets | None:
    if endpoint is None:
        return None
    from otel_loopguard.cli.demo.outlets import open_outlets  # noqa: PLC0415 - imports exporters

    return open_outlets(endpoint)


def _tell(session: Session, teller: Teller) -> list[Told]:
    from otel_loopguard.cli.demo.stories import STUCK, WORKING  # noqa: PLC0415

    tales = []
    stories = (*STUCK, *WORKING)
    for number, story in enumerate(stories, start=1):
        teller.story(story, number, len(stories))
        tales.append(session.tell(story))
        teller.end(tales[-1])
    return tales
