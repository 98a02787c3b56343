"""``otel-loopguard demo``: show each kind of loop, and the guard's reaction to it."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from otel_loopguard.errors import LoopGuardError
from otel_loopguard.instrumentation.frameworks import FRAMEWORKS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from otel_loopguard.cli.demo.rows import StoryResult
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.session import Session
    from otel_loopguard.cli.demo.show import Narrator
    from otel_loopguard.report import Report

_DESCRIPTION = """
An agent with small real tools and a scripted model falls into each kind of loop. Each line is a call, what the guard
made of it and why; where it said something, what the model reads. Nothing is acted: the guard decides, as in your own
program. No account, no network, a few seconds. In a terminal with `rich` installed it is in colours (NO_COLOR=1: not).
"""
_BY_HAND = "by-hand"
_NAMES = (_BY_HAND, *(framework.command_name for framework in FRAMEWORKS if framework.versions))
_FRAMEWORK = (
    f"run the agent with this framework, if it is installed: {', '.join(_NAMES)} (default: {_BY_HAND}, a plain loop)"
)
_EPILOG = """
Exit status: 0 every stuck agent was stopped and no working one was hindered; 1 not so; 2 wrong use, a framework that
is not installed, or no collector at the endpoint of --otlp.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("--framework", choices=sorted(_NAMES), default=_BY_HAND, metavar="NAME", help=_FRAMEWORK)
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


def run(arguments: argparse.Namespace) -> int:
    """Run the demo. All wrong use is reported before the first story."""
    # Imported here, because `--help` needs none of these, and they import the SDK.
    from otel_loopguard.cli.demo.screen import make_screen  # noqa: PLC0415 - see above
    from otel_loopguard.cli.demo.session import Session, guarded, run_forever  # noqa: PLC0415 - see above
    from otel_loopguard.testing.scripted import load  # noqa: PLC0415 - see above

    if arguments.forever and arguments.html:
        raise LoopGuardError("--html goes with a demo that ends, --forever makes one that does not: leave one out")
    framework = load(arguments.framework)
    report = _report(arguments.html) if arguments.html else None  # an error if the path cannot be written
    exports = None
    if arguments.otlp is not None:
        from otel_loopguard.cli.demo.export import open_exports  # noqa: PLC0415 - imports exporters

        exports = open_exports(arguments.otlp)
    screen = make_screen()
    with nullcontext() if exports is None else closing(exports), guarded(exports) as spans:
        if arguments.forever:
            run_forever(Session(framework, spans, lambda _row: None), screen)
            return 0
        from otel_loopguard.cli.demo.show import Narrator  # noqa: PLC0415 - imports the report

        narrator = Narrator(screen)
        results = _run_all(Session(framework, spans, narrator.row), narrator)
    _summarize(screen, results, report or _report(None))
    return 0 if all(result.as_expected for result in results) else 1


def _report(path: str | None) -> Report:
    from otel_loopguard.report import Report  # noqa: PLC0415 - see above

    if path is None:
        handle, path = tempfile.mkstemp(prefix="loopguard-demo-", suffix=".html")
        os.close(handle)
    return Report(path)


def _run_all(session: Session, narrator: Narrator) -> list[StoryResult]:
    from otel_loopguard.cli.demo.stories import STUCK, WORKING  # noqa: PLC0415 - see above

    results = []
    stories = (*STUCK, *WORKING)
    for number, story in enumerate(stories, start=1):
        narrator.story(story, number, len(stories))
        results.append(session.run(story))
        narrator.end(results[-1])
    return results


def _summarize(screen: Screen, results: Sequence[StoryResult], report: Report) -> None:
    from otel_loopguard.cli.demo.show import print_summary, runs_of  # noqa: PLC0415 - see above

    print_summary(screen, results)
    for one in runs_of(results):
        report.add(one)
    report.write(title="otel-loopguard demo")
    screen.line(("The same as a page, to be opened in a browser: ", ""), (str(report.path), "bold"))
