"""One row for each loop of texts, by the trips on the span of its turn."""

from __future__ import annotations

from otel_loopguard.cli.replay.text_rows import text_rows


def trip(
    action: str, count: int, *, verdict: str | None = None, mode: str = "text_repeat", **more: object
) -> dict[str, object]:
    """The attributes of a trip of a model request."""
    taken = {"loopguard.mode": mode, "loopguard.action": action, "loopguard.verdict": verdict or action}
    return {"gen_ai.tool.name": "", **taken, "loopguard.count": count, **more}


def test_a_loop_has_what_was_done_and_when() -> None:
    """Each action once, at the count at which it came first; two modes are two rows."""
    trips = [trip("nudge", 3), trip("nudge", 4), trip("abort", 5), trip("conclude", 5, mode="context_loop")]
    assert list(text_rows(trips)) == [
        "text_repeat: told at the 3rd, run ended at the 5th time",
        "context_loop: tools withdrawn at the 5th time",
    ]


def test_what_is_only_observed_says_so() -> None:
    """It would have been ended."""
    trips = [trip("observe", 3, verdict="nudge"), trip("observe", 5, verdict="abort")]
    assert list(text_rows(trips)) == ["text_repeat: only observed at the 3rd time"]


def test_what_is_no_loop_has_no_row() -> None:
    """A mode that only reports, one whose model was told and went another way, a budget, a call."""
    reported = trip("observe", 3, mode="text_run")
    budget = trip("conclude", 9, mode="run_budget", **{"loopguard.budget.account": "tree.requests"})
    call = trip("block", 3, **{"gen_ai.tool.name": "look"})
    assert list(text_rows([reported, trip("nudge", 3), budget, call])) == []
