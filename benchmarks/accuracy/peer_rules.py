"""Figures of the rules of other systems on the same traces and recorded runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import peers
from benchmarks.accuracy import canonical, recorded
from benchmarks.accuracy.markdown import share, table
from benchmarks.exam import play
from otel_loopguard import Policy
from otel_loopguard.cli.replay.judge import PolicyJudge
from tests.engine.judges import corpus

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.accuracy.examined import Drawn
    from otel_loopguard import Outcome, ToolCall
    from tests.engine.judges.real import Told

HEAD = """## Other systems' rules on the same traces

Rules that compare calls or results, restated from their sources as of late 2026 in `benchmarks/peers.py`, with their
documented thresholds and switched on even where they are off by default. Traces have their natural names. *Told in
time* is a nudge or a refusal in time. Some rules refuse single calls, others end the run at once.
"""
LEFT_OUT = """
Not restated:
"""


class RecordedTurn:
    """A peer's rule as a judge of calls that have run, whatever it makes of them."""

    def __init__(self, peer: type[peers.Peer]) -> None:
        self.peer = peer()

    def begin(self, call: ToolCall) -> Told | None:
        """Begin a call."""
        return _told(self.peer.begin(call, 0.0))

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """End a call."""
        return _told(self.peer.end(call, outcome, 0.0))


class EndedTurn(RecordedTurn):
    """A peer's rule that refuses all calls after it has ended the run."""

    ended: Told | None = None

    def begin(self, call: ToolCall) -> Told | None:
        """Begin a call, unless the run has ended."""
        return self.ended or super().begin(call)

    def end(self, call: ToolCall, outcome: Outcome) -> Told | None:
        """End a call; a rule may end the run with it."""
        told = super().end(call, outcome)
        self.ended = told if told and told[1] == peers.ABORT else None
        return told


def _told(found: tuple[str, str] | None) -> Told | None:
    return None if found is None else (found[1], found[0], 0)


def section(drawn: Drawn, runs: list[dict[str, Any]], labels: list[dict[str, Any]]) -> str:
    """Return the section of the page."""
    natural = drawn.under(["natural"])
    policy = PolicyJudge(Policy())
    guard = recorded.counted([recorded.replay(run, policy) for run in runs], labels)
    lines = [
        ["**`default`**", *canonical.counts("named"), *_examined(natural, play.GuardJudge), *_recorded(guard, runs)]
    ]
    lines += [_line(peer, natural, runs, labels) for peer in peers.PEERS]
    head = ["rule", "canonical: stuck stopped", "legitimate refused"]
    for name in ("`benchmarks/exam`", "second examination"):
        head += [f"{name}: stuck stopped", "told in time", "working refused", "ended"]
    head += ["recorded: successful runs refused", "refusals on them that withheld news", "labelled loops told"]
    sources = [[peer.title, f"{peer.source}", peer.left_out or "nothing"] for peer in peers.PEERS]
    return "\n".join([HEAD, table(head, lines), LEFT_OUT, table(["rule", "source", "left out"], sources)])


def _line(
    peer: type[peers.Peer], natural: Drawn, runs: list[dict[str, Any]], labels: list[dict[str, Any]]
) -> list[str]:
    stopped = canonical.counts("named", lambda *_: EndedTurn(peer))
    found = recorded.counted([corpus.replay(run, lambda _: RecordedTurn(peer)) for run in runs], labels)
    return [peer.title, *stopped, *_examined(natural, peer), *_recorded(found, runs)]


def _examined(drawn: Drawn, judge: Callable[[], play.Judge]) -> list[str]:
    cells = []
    for traces in drawn:
        found = play.figures(play.rows(traces, judge))
        cells += [_percent(found.stopped, found.stuck), _percent(found.told, found.stuck)]
        cells += [_percent(found.refused, found.legit), _percent(found.ended, found.legit)]
    return cells


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _recorded(found: recorded.Row, runs: list[dict[str, Any]]) -> list[str]:
    loops = found.verdicts.loops
    return [
        share(found.figures.refused, sum(bool(run["success"]) for run in runs)),
        str(len(found.figures.withheld)),
        f"{loops - len(found.verdicts.missed)} of {loops}",
    ]
