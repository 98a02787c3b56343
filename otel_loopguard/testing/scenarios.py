"""Scenarios that hold for every framework: the tests of a new one write a ``Driver``, and run them all."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from otel_loopguard import semconv
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.errors import ToolLoopError
from otel_loopguard.testing.agent import Ask, Transcript
from otel_loopguard.testing.recording import Recording, assert_no_trip, assert_trips, guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.sdk.trace.sampling import Sampler

MADE_UP = "made_up_tool"
"""A name that no tool of the toolbox has."""


class Toolbox:
    """Two tools that count their runs. Each run takes so many seconds, for calls that overlap."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self.ran: Counter[str] = Counter()
        """The number of runs, by the name of the tool."""
        self._lock = threading.Lock()

    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return the tools by name, with the type hints and docstrings that frameworks require."""

        def read_file(path: str) -> str:
            """Read a file."""
            self._count("read_file")
            return f"the text of {path}"

        def list_folder(path: str) -> str:
            """List a folder."""
            self._count("list_folder")
            return f"one.txt and two.txt are in {path}"

        return {"read_file": read_file, "list_folder": list_folder}

    def _count(self, name: str) -> None:
        with self._lock:
            self.ran[name] += 1
        time.sleep(self._seconds)


class Driver(Protocol):
    """Runs an agent of one framework with a scripted model."""

    def __call__(self, tools: Mapping[str, Callable[..., Any]], steps: Sequence[Sequence[Ask]]) -> Transcript:
        """Run one turn. Each step is a response of the model, with all calls that it asks for; then it answers.

        Return the results as the model read them, and the exception that ended the run.
        """
        ...


@dataclass(frozen=True)
class Scenario:
    """The calls of a scripted model, and a check of what the guard made of them."""

    name: str
    steps: tuple[tuple[Ask, ...], ...]
    """The calls of each response of the model."""
    check: Callable[[Transcript, Recording, Toolbox], None]
    """Raises ``AssertionError`` if something is not as it must be."""
    policy: Policy | None = None
    """None: that of the environment."""
    sampler: Sampler | None = None
    """None: all spans are recorded."""

    def run(self, driver: Driver) -> None:
        """Run the calls with this driver, and check the result. Raise ``AssertionError`` if it is not as expected."""
        toolbox = Toolbox()
        with guarded(self.policy, sampler=self.sampler) as recording:
            transcript = driver(toolbox.functions(), self.steps)
            self.check(transcript, recording, toolbox)
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) == 0, "otel_loopguard had a fault: see its log"  # noqa: S101 - as in a test


def _same(times: int, tool: str = "read_file", path: str = "a.txt") -> tuple[tuple[Ask, ...], ...]:
    return tuple((Ask(tool, {"path": path}),) for _ in range(times))


def _expect(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def _stuck(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    _expect("what ended the run", transcript.error, None)
    _expect("runs of the tool", toolbox.ran["read_file"], 2)
    _expect("refusals that the model reads", transcript.refused, [2, 3, 4])
    _expect("outcomes", recording.outcomes, ["executed", "nudged", "blocked", "blocked", "blocked"])
    assert_trips(recording, "generic_repeat", action="block", tool="read_file", times=3)
    _expect("calls counted", recording.counted(semconv.METRIC_TOOL_CALLS), 5)
    if "the text of a.txt" not in transcript.read[1] or transcript.read[1] == transcript.read[0]:
        raise AssertionError(f"no sentence was added to the second result: {transcript.read[1]!r}")


def _working(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    _expect("what ended the run", transcript.error, None)
    _expect("results", transcript.read, [f"the text of {number}.txt" for number in range(6)])
    _expect("runs of the tool", toolbox.ran["read_file"], 6)
    _expect("calls counted", recording.counted(semconv.METRIC_TOOL_CALLS), 6)
    assert_no_trip(recording)


def _two_laps(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    _expect("runs", sum(toolbox.ran.values()), 4)
    _expect("refusals that the model reads", transcript.refused, [4, 5])
    assert_trips(recording, "ping_pong", action="block")


def _made_up(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    _expect("runs", sum(toolbox.ran.values()), 0)
    _expect("refusals that the model reads", transcript.refused, [2, 3])
    _expect("names of the spans", {span.name for span in recording.spans}, {"execute_tool _unknown"})
    assert_trips(recording, "unknown_tool_repeat", action="block", tool="_unknown", times=2)


def _aborted(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    if not isinstance(transcript.error, ToolLoopError):
        raise AssertionError(  # noqa: TRY004 - a test failed, no type of an argument is wrong
            f"the run was to end with ToolLoopError, and not with {transcript.error!r}"
        )
    _expect("the error's tool", transcript.error.tool_name, "read_file")
    _expect("the error's mode", transcript.error.mode, "generic_repeat")
    _expect("runs of the tool", toolbox.ran["read_file"], 2)
    _expect("outcomes", recording.outcomes[2:], ["blocked", "aborted"])
    _expect("turns left in memory", recording.runtime.guard.live if recording.runtime else None, 0)


def _not_concluded(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    if not isinstance(transcript.error, ToolLoopError):
        raise AssertionError(  # noqa: TRY004 - a test failed, no type of an argument is wrong
            f"the run was to end with ToolLoopError, and not with {transcript.error!r}"
        )
    # Where the framework's requests are read, the tools are withdrawn, and the model calls one all the same.
    more = [] if recording.counted(semconv.METRIC_MODEL_REQUESTS) else ["block"]
    _expect("runs of the tool", toolbox.ran["read_file"], 2)
    _expect("outcomes", recording.outcomes[2:], ["blocked", "blocked", *(f"{one}ed" for one in more), "aborted"])
    actions = [trip.action for trip in recording.trips]
    _expect("actions", actions, ["nudge", "block", "conclude", *more, "abort"])


def _watched(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    _expect("runs of the tool", toolbox.ran["read_file"], 5)
    _expect("results", set(transcript.read), {"the text of a.txt"})
    _expect("outcomes", set(recording.outcomes), {"executed"})
    assert_trips(recording, "generic_repeat", action="observe")


def _unsampled(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    _expect("runs of the tool", toolbox.ran["read_file"], 2)
    _expect("refusals that the model reads", transcript.refused, [2, 3, 4])
    _expect("spans", recording.spans, [])
    _expect("trips counted", recording.counted(semconv.METRIC_TRIPS, loopguard__action="block"), 3)


def _parallel(transcript: Transcript, recording: Recording, toolbox: Toolbox) -> None:
    _expect("what ended the run", transcript.error, None)
    _expect("runs of the tool", toolbox.ran["read_file"], 4)
    _expect("calls counted", recording.counted(semconv.METRIC_TOOL_CALLS), 4)
    assert_no_trip(recording)


SCENARIOS = (
    Scenario("stuck", _same(5), _stuck),
    Scenario("working", tuple((Ask("read_file", {"path": f"{number}.txt"}),) for number in range(6)), _working),
    Scenario("ping_pong", (*_same(1, "list_folder"), *_same(1)) * 3, _two_laps),
    Scenario("unknown_tool", _same(4, MADE_UP), _made_up),
    Scenario("abort", _same(8), _aborted, policy=Policy(abort_after=1)),
    # No model client is patched here, so the conclusion has no effect, and the run is ended as without one.
    Scenario("conclude", _same(8), _not_concluded, policy=Policy(conclude_after=2, abort_after=3)),
    Scenario("observe", _same(5), _watched, policy=Policy(action=Action.OBSERVE)),
    Scenario("unsampled", _same(5), _unsampled, sampler=ALWAYS_OFF),
    Scenario("parallel", ((Ask("read_file", {"path": "a.txt"}),) * 4,), _parallel),
)
