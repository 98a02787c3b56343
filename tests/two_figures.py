"""Run a program observed, as ``watch`` does, and guarded: what the watch says about a guarded turn has to be done."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_loopguard import Policy, semconv
from otel_loopguard.cli.replay.input_reader import InputReader
from otel_loopguard.cli.replay.judge import PolicyJudge
from otel_loopguard.cli.replay.loop_rows import Figures
from otel_loopguard.cli.replay.sources import Reader
from otel_loopguard.cli.watch.recorder import JsonLines
from otel_loopguard.testing import guarded

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_loopguard.cli.replay.loop_rows import GuardedTurn
    from otel_loopguard.testing import Recording


def watched(run: Callable[[], object]) -> GuardedTurn:
    """Observe a program of one turn, and return what a guarded turn does: recorded and judged by the code of watch."""
    found: list[GuardedTurn] = []

    def add(judged: object) -> None:
        if judged.calls:  # type: ignore[attr-defined]  # a turn of spans
            found.extend(judged.guarded)  # type: ignore[attr-defined]  # as above

    with TemporaryDirectory() as folder, guarded(Policy(action="observe")) as recording:
        path = Path(folder) / "spans.jsonl"
        path.touch()
        recording.tracer_provider.add_span_processor(SimpleSpanProcessor(JsonLines(str(path))))
        run()
        InputReader([PolicyJudge(Policy())], add, shows_progress=False).read([Reader(str(path))])
    (turn,) = found
    return turn


def said(turn: GuardedTurn, *, calls_on: bool) -> Figures:
    """What the watch says about a guarded turn, of a model that answers without tools or one that calls on."""
    if not turn.is_concluded:
        return turn.figures
    if calls_on:
        assert turn.if_it_calls_on is not None, turn
        return turn.if_it_calls_on
    return turn.figures._replace(end=None)


def done(recording: Recording, ran: int, *, ended: bool) -> Figures:
    """What a guarded program did, whose tools ran so often.

    ``ended``: ``ToolLoopError`` ended it, at the call that is the figure's end.
    """
    refused = recording.outcomes.count("blocked") + recording.outcomes.count("reused")
    actions = [(span.attributes or {}).get(semconv.ACTION) for span in recording.spans]
    return Figures(ran, refused, actions.index("abort") if ended else None)
