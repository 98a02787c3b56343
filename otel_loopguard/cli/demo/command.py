"""``otel-loopguard demo``: show each kind of loop, and the guard's reaction to it."""

from __future__ import annotations

from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from otel_loopguard.engine.policy.problems import suggestion
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from otel_loopguard.cli.demo.rows import StoryResult
    from otel_loopguard.cli.demo.screen import Screen
    from otel_loopguard.cli.demo.session import Session
    from otel_loopguard.cli.demo.show import Narrator
    from otel_loopguard.cli.demo.stories import Story

_DESCRIPTION = """
An agent with small tools and a scripted model falls into loops: three stories, or all with --all. Each line is a
call, the guard's decision and its reason, and the text that the model reads, if there is one. Nothing is acted: the
guard decides, as in your own program. No account, no network, a few seconds. In a terminal with `rich` installed it
is in colours (NO_COLOR=1: not).
"""
_EPILOG = """
Exit status: 0 every stuck agent was stopped and no working one was hindered; 1 not so; 2 wrong use, no LangGraph for
`--story langgraph`, or no collector at the endpoint of --otlp.
"""
_NEEDS_LANGGRAPH = "this story needs LangGraph: pip install --upgrade langgraph"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--story", action="append", metavar="NAME", help="show this story; may be given several times")
    which.add_argument(
        "--all", action="store_true", help="show each kind of loop, agents that work, and an agent of LangGraph"
    )
    which.add_argument("--list", action="store_true", help="list the stories, a sentence each, and run none")
    which.add_argument(
        "--forever", action="store_true", help="make load for dashboards, three in ten agents stuck, until Ctrl-C"
    )
    parser.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="ENDPOINT",
        help="send spans and metrics to a collector, as service loopguard-demo (default endpoint: "
        "OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318; port 4317 is gRPC)",
    )
    parser.add_argument("--html", metavar="PATH", help="write the stories as a page, too")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo. All wrong use is reported before the first story."""
    # Imported here, because `--help` needs none of these, and they import the SDK.
    from otel_loopguard.cli.demo import screen as screens  # noqa: PLC0415 - see above
    from otel_loopguard.cli.demo import session as sessions  # noqa: PLC0415 - see above
    from otel_loopguard.cli.demo import show  # noqa: PLC0415 - see above
    from otel_loopguard.report import Report  # noqa: PLC0415 - see above

    if arguments.forever and arguments.html:
        raise LoopGuardError("--html goes with a demo that ends, --forever makes one that does not: leave one out")
    screen = screens.make_screen()
    if arguments.list:
        show.print_list(screen)
        return 0
    stories = _stories(arguments)
    if not any(map(sessions.agent_of, stories)):
        raise LoopGuardError(_NEEDS_LANGGRAPH)
    report = Report(arguments.html) if arguments.html else None  # an error if the path cannot be written
    exports = None
    if arguments.otlp is not None:
        from otel_loopguard.cli.demo.export import open_exports  # noqa: PLC0415 - imports exporters

        exports = open_exports(arguments.otlp)
    with nullcontext() if exports is None else closing(exports), sessions.guarded(exports) as spans:
        if arguments.forever:
            sessions.run_forever(sessions.Session(spans, lambda _row: None), screen)
            return 0
        narrator = show.Narrator(screen)
        results = _run_all(sessions.Session(spans, narrator.row), narrator, stories)
    show.print_summary(screen, results)
    if report is not None:
        for one in show.runs_of(results):
            report.add(one)
        report.write(title="otel-loopguard demo")
    _print_more(screen, arguments)
    return 0 if all(result.as_expected for result in results) else 1


def _stories(arguments: argparse.Namespace) -> list[Story]:
    """Return the stories to run, each once."""
    from otel_loopguard.cli.demo.stories import SHORT, STORIES  # noqa: PLC0415 - imports the core

    names = list(STORIES) if arguments.all else dict.fromkeys(arguments.story or SHORT)
    for name in names:
        if name not in STORIES:
            hint = suggestion(name, STORIES) or "`otel-loopguard demo --list` names all."
            raise LoopGuardError(f"there is no story {name!r}; {hint}")
    return [STORIES[name] for name in names]


def _run_all(session: Session, narrator: Narrator, stories: Sequence[Story]) -> list[StoryResult]:
    from otel_loopguard.cli.demo.session import agent_of  # noqa: PLC0415 - as in run

    results = []
    for number, story in enumerate(stories, start=1):
        narrator.story(story, number, len(stories))
        agent = agent_of(story)
        if agent is None:
            narrator.left_out(_NEEDS_LANGGRAPH)
            continue
        results.append(session.run(story, agent))
        narrator.end(results[-1])
    return results


def _print_more(screen: Screen, arguments: argparse.Namespace) -> None:
    """Say what else there is."""
    from otel_loopguard.cli.demo.stories import STORIES  # noqa: PLC0415 - as in run

    screen.write()
    if arguments.html:
        screen.write(f"The page: {arguments.html}", "bold")
    else:
        screen.write("As a page for a browser: otel-loopguard demo --html demo.html")
    if not arguments.all:
        screen.write(f"All {len(STORIES)} stories, one with LangGraph: otel-loopguard demo --all")
        screen.write("One of them: otel-loopguard demo --story NAME; their names: otel-loopguard demo --list")
    screen.write("Your own program: otel-loopguard doctor -- python app.py")
