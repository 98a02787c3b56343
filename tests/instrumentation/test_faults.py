"""A fault at each step of a call: the program is not affected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import pytest

pytest.importorskip("langgraph")

from otel_loopguard import Turn, semconv
from otel_loopguard.engine import decide
from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.values import fingerprint
from otel_loopguard.guard import live_turns
from otel_loopguard.instrumentation.frameworks import langchain
from otel_loopguard.spans import open_spans
from otel_loopguard.telemetry import call_span, loop_event, meters, providers, watcher
from otel_loopguard.testing import Ask, Toolbox, guarded
from otel_loopguard.turns import attribution, last_turns, runs, scope
from tests.scripted.langchain import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")


class FaultError(Exception):
    """An exception with a value in its message, as real faults have."""


def boom(*_: Any, **__: Any) -> NoReturn:
    raise FaultError("SECRET")


PLACES: list[tuple[Any, str]] = [
    (fingerprint.Fingerprinter, "arguments"),
    (decide, "before"),
    (decide, "after"),
    (live_turns.LiveTurns, "get_or_create"),
    (Turn, "begin"),
    (Turn, "end"),
    (Turn, "close"),
    (runs.Runs, "open"),
    (runs.Runs, "close"),
    (attribution.Attribution, "find"),
    (scope.Scope, "of_nested_run"),
    (last_turns.LastTurns, "started"),
    (open_spans.OpenSpans, "started"),
    (open_spans.OpenSpans, "ended"),
    (watcher.SpanWatcher, "mark_counted"),
    (watcher.SpanWatcher, "judge"),
    (call_span.CallSpan, "start"),
    (call_span.CallSpan, "describe"),
    (call_span.CallSpan, "finish"),
    (providers.Providers, "count_turn"),
    (loop_event.Events, "emit"),
    (loop_event.Events, "log"),
    (meters.Meters, "check"),
    (meters.Meters, "trip"),
    (meters.Meters, "tool_call"),
    (meters.Meters, "turn"),
    (meters.Meters, "announce"),
    (langchain.tools.NODE, "read"),
    (langchain.tools.NODE, "answer"),
    (langchain.tools.NODE, "outcome"),
    (langchain.tools.NODE, "annotate"),
]
STEPS = [[Ask("read_file", {"path": "a.txt"})]] * 3 + [[Ask("list_folder", {"path": "b"})]]


@pytest.fixture
def broken(request: pytest.FixtureRequest) -> Iterator[None]:
    """Make one place raise."""
    owner, name = request.param
    before = getattr(owner, name)
    put = object.__setattr__ if not isinstance(owner, type) and owner is langchain.tools.NODE else setattr
    put(owner, name, boom)
    yield
    put(owner, name, before)


def named(place: tuple[Any, str]) -> str:
    """The place of a fault, the same in every process."""
    owner, name = place
    return f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"


@pytest.mark.parametrize("broken", PLACES, ids=named, indirect=True)
@pytest.mark.parametrize("driver", ["agent-invoke", "graph-astream"])
def test_a_fault_changes_nothing_for_the_program(driver: str, broken: None, caplog: pytest.LogCaptureFixture) -> None:
    """Every call has its result; the fault is counted, logged once, and shows no value."""
    toolbox = Toolbox()
    with guarded() as recording:
        transcript = DRIVERS[driver](toolbox.functions(), STEPS)
        assert transcript.error is None
        texts = ["the text of a.txt"] * 3 + ["one.txt and two.txt are in b"]
        assert len(transcript.read) == 4
        for read, text in zip(transcript.read, texts, strict=True):
            assert read.startswith(text) or "tool_loop_detected" in read
        assert scope.current_scope() is None
        assert recording.runtime is not None
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) >= len(recording.runtime.shield.seen)
    faults = [record.getMessage() for record in caplog.records if "fault of its own" in record.getMessage()]
    assert len(faults) == len(set(faults)) == len(recording.runtime.shield.seen)
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize(("owner", "name"), [(meters.Meters, "error"), (meters.Meters, "tool_call")])
def test_a_fault_while_counting_a_fault_is_the_last(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If even the counter fails, the program continues."""
    monkeypatch.setattr(meters.Meters, "error", boom)
    monkeypatch.setattr(owner, name, boom)
    toolbox = Toolbox()
    with guarded():
        assert DRIVERS["agent-invoke"](toolbox.functions(), STEPS).error is None


def test_a_callback_of_the_user_that_fails_is_a_fault_like_ours() -> None:
    """``on_trip`` raises: the call runs."""
    toolbox = Toolbox()
    with guarded(Policy(on_trip=boom)) as recording:
        transcript = DRIVERS["agent-invoke"](toolbox.functions(), STEPS)
        assert transcript.error is None
        assert len(transcript.read) == 4
        assert recording.counted(semconv.METRIC_INTERNAL_ERRORS) > 0


def test_a_fault_in_a_patch_reaches_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in patching does not reach the program's import."""
    from otel_loopguard.instrumentation import patching

    monkeypatch.setattr(patching, "_wrap", boom)
    with guarded() as recording:
        assert recording.runtime is not None
        assert any(site.startswith("patch.") for site in recording.runtime.shield.seen)
