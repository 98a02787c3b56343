"""The scripts of the demo's model: one story for each kind of loop, one in LangGraph, and two of ordinary work.

A story only lists the calls that the model makes. Whether they run is the guard's decision, every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.policy.policy import Policy, ToolContract
from otel_loopguard.testing.agent import Ask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    NextCall: TypeAlias = Callable[[Sequence[str]], Ask | None]
    """Takes the results of all calls so far; returns the next call, or None if the model answers the user."""

POLICY = Policy(
    tools={
        "search_docs": ToolContract(query="auto"),
        "place_order": ToolContract(once=True),
        "fetch_page": ToolContract(cap=4),
    }
)
"""The default policy, with three facts that only the owner of a tool knows."""
LANGGRAPH = "langgraph"
"""The story that a LangGraph agent runs, with the tool ``read_file`` alone. All others run in a loop by hand."""


@dataclass(frozen=True)
class Story:
    """One message of a user, and the calls that the model makes for it."""

    name: str
    title: str
    script: tuple[Ask, ...]
    gives_up: int = 3
    """The number of refusals after which the model makes no more calls, and answers."""
    works: bool = False
    """True for an agent that makes progress: no call may be refused."""


def _ask(tool: str, **arguments: str | int) -> Ask:
    return Ask(tool, dict(arguments))


def _read(path: str) -> Ask:
    return _ask("read_file", path=path)


def _edit(text: str) -> Ask:
    return _ask("write_file", path="main.py", text=text)


_CONFIG, _NOTES, _MAIN = _read("config.yaml"), _read("notes.txt"), _read("main.py")
_TESTS = _ask("run_tests", path="main.py")
_FAILING = (
    _ask("deploy", version="1.0"),
    _ask("get_logs", service="web"),
    _read("lost.txt"),
    _ask("deploy", version="1.1"),
    _ask("get_logs", service="jobs"),
)
_PEOPLE = (
    "Ada", "Alan", "Barbara", "Dennis", "Donald", "Edsger", "Frances", "Grace", "Jean", "John", "Karen", "Ken",
    "Leslie", "Margaret", "Niklaus", "Radia",
)  # fmt: skip
_WORDS = ("", "please", "now", "again", "here", "today", "soon", "then")

STUCK = (
    Story(Mode.GENERIC_REPEAT, "It reads the same file again and again.", (_CONFIG,) * 12),
    Story(Mode.PING_PONG, "It reads two files in turn, and neither has changed.", (_CONFIG, _NOTES) * 8),
    Story(Mode.CYCLE, "It goes round in a circle of three files.", (_CONFIG, _NOTES, _MAIN) * 6),
    Story(
        Mode.POLL_NO_PROGRESS,
        "It waits for a job that is never started.",
        (_ask("start_job", name="nightly"), *(_ask("get_job_status", job="nightly"),) * 40),
    ),
    Story(
        Mode.UNKNOWN_TOOL_REPEAT,
        "It calls a tool that does not exist.",
        tuple(_ask("read_files", path=path) for path in ("config.yaml", "notes.txt", "main.py") * 3),
    ),
    Story(
        Mode.ERROR_REPEAT,
        "It tries one version after the other, and the error is always the same.",
        tuple(_ask("deploy", version=f"2.{number}") for number in range(16)),
    ),
    Story(
        Mode.SAME_ANSWER,
        "It looks up one person after the other, and the answer is always the same.",
        tuple(_ask("find_person", name=name) for name in _PEOPLE),
    ),
    Story(
        Mode.SIMILAR_QUERY,
        "It asks the search the same thing in other words.",
        tuple(_ask("search_docs", query=f"title of the book {word}".strip()) for word in _WORDS),
    ),
    Story(
        Mode.VOLATILE_REPEAT,
        "It opens the same ticket again and again; only the ticket's number differs.",
        (_ask("create_ticket", title="the build is broken"),) * 40,
    ),
    Story(
        Mode.REPEATED_EFFECT,
        "It orders the same thing twice, which its contract forbids (once = true).",
        (_ask("place_order", item="laptop", quantity=1),) * 6,
    ),
    Story(
        Mode.NO_NOVELTY,
        "It has read ten chapters, and starts again from the first.",
        tuple(_read(f"chapter_{number}.md") for number in range(1, 11)) * 3,
    ),
    Story(
        Mode.RETRY_LIMIT,
        "It fetches more pages than its contract allows (cap = 4).",
        tuple(_ask("fetch_page", number=number) for number in range(1, 11)),
    ),
    Story(
        Mode.GLOBAL_CIRCUIT_BREAKER,
        "Whatever it does fails, and it does it all again.",
        (*_FAILING, *(_FAILING[place] for place in (2, 0, 4, 1, 3))),
    ),
    Story("abort_after", "It takes no notice of refusals: after ten the run is ended.", (_CONFIG,) * 40, gives_up=40),
    Story(LANGGRAPH, "A LangGraph agent, unchanged, reads the same file again and again.", (_CONFIG,) * 10),
)
WORKING = (
    Story(
        "edits_and_tests",
        "The same test again and again, but something was changed in between.",
        (_TESTS, _MAIN, _edit("total = 2 +* 2\n"), _TESTS, _MAIN, _edit("total = (2 + 2\n"), _TESTS,
         _edit("total = 2 + 2\nprint(total)\n"), _TESTS),
        works=True,
    ),
    Story(
        "waits_for_a_job",
        "The same question again and again, but the answer moves on.",
        (_ask("start_job", name="report"), *(_ask("get_job_status", job="report"),) * 5),
        works=True,
    ),
)  # fmt: skip
STORIES = {str(story.name): story for story in (*STUCK, *WORKING)}
SHORT = (str(Mode.GENERIC_REPEAT), str(Mode.CYCLE), "edits_and_tests")
"""The stories that are shown without ``--story``: a loop of one call, a loop of several calls, and work."""
