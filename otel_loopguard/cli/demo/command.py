"""``otel-loopguard demo``: show each kind of loop, and the guard's reaction to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_loopguard.engine.policy.problems import suggestion
from otel_loopguard.errors import LoopGuardError

if TYPE_CHECKING:
    import argparse

_DESCRIPTION = """
An agent with small tools and a scripted model falls into loops: three stories, or all with --all. Each line is a
call, the guard's decision and its reason, and the text that the model reads, if there is one. Nothing is acted: the
guard decides, as in your own program. No account, no network, a few seconds. In a terminal it is in colours
(NO_COLOR=1: not).
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
    parser.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="ENDPOINT",
        help="send spans and metrics to a collector, as service loopguard-demo (default endpoint: "
        "OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318; port 4317 is gRPC)",
    )
    parser.add_argument("--html", metavar="PATH", help="also write the stories to this file, as a page for a browser")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo. All wrong use is reported before the first story."""
    # Imported here, because `--help` needs none of these, and they import the SDK.
    from otel_loopguard.cli.demo import show  # noqa: PLC0415 - see above
    from otel_loopguard.cli.demo.export import providers  # noqa: PLC0415 - see above
    from otel_loopguard.cli.demo.run import agent_of, guarded, run_story  # noqa: PLC0415 - see above
    from otel_loopguard.cli.demo.stories import SHORT, STORIES  # noqa: PLC0415 - see above
    from otel_loopguard.report import Report  # noqa: PLC0415 - see above

    screen = show.make_screen()
    if arguments.list:
        show.print_list(screen)
        return 0
    names = list(STORIES) if arguments.all else list(dict.fromkeys(arguments.story or SHORT))
    for name in names:
        if name not in STORIES:
            hint = suggestion(name, STORIES) or "`otel-loopguard demo --list` names all."
            raise LoopGuardError(f"there is no story {name!r}; {hint}")
    stories = [(STORIES[name], agent_of(STORIES[name])) for name in names]
    if not any(agent for _, agent in stories):
        raise LoopGuardError(_NEEDS_LANGGRAPH)
    report = Report(arguments.html) if arguments.html else None  # an error if the path cannot be written
    results = []
    with providers(arguments.otlp) as (tracers, meters), guarded(tracers, meters) as log:
        narrator = show.Narrator(screen)
        for number, (story, agent) in enumerate(stories, start=1):
            narrator.story(story, number, len(stories))
            if agent is None:
                narrator.left_out(_NEEDS_LANGGRAPH)
                continue
            results.append(run_story(story, agent, log, narrator.row))
            narrator.end(results[-1])
    show.print_summary(screen, results)
    screen.write()
    if report is not None:
        for one in show.runs_of(results):
            report.add(one)
        report.write(title="otel-loopguard demo")
        screen.write(f"The page: {arguments.html}", "bold")
    else:
        screen.write("As a page for a browser: otel-loopguard demo --html demo.html")
    if not arguments.all:
        screen.write(f"All {len(STORIES)} stories, one with LangGraph: otel-loopguard demo --all")
        screen.write("One of them: otel-loopguard demo --story NAME; their names: otel-loopguard demo --list")
    screen.write("Your own program: otel-loopguard run -- python app.py")
    return 0 if all(result.as_expected for result in results) else 1
