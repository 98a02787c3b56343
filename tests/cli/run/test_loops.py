"""The loops of a recorded run: one row each, with what was done."""

from __future__ import annotations

import json

import pytest

from otel_loopguard.cli.run.loops import MOST_ROWS, Loops


def spans(folder, *calls):
    """A recording of these calls: turn, tool, arguments and other attributes."""
    lines = []
    for index, (turn, tool, arguments, more) in enumerate(calls):
        attributes = {
            "loopguard.turn.id": turn,
            "gen_ai.tool.name": tool,
            "loopguard.arguments_hash": f"blake2b-64:{arguments:016x}",
            "loopguard.outcome": "executed",
            **{f"loopguard.{name}": value for name, value in more.items()},
        }
        texts = [
            {"key": key, "value": {"boolValue" if value is True else "stringValue": value}}
            for key, value in attributes.items()
        ]
        texts.append({"key": "loopguard.turn.call_index", "value": {"intValue": str(index)}})
        span = {"name": tool, "traceId": "1", "spanId": str(index), "attributes": texts}
        lines.append(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    path = folder / "spans.jsonl"
    path.write_text("\n".join(lines))
    return path


def trip(action, outcome="blocked", *, mode="generic_repeat", verdict=None):
    return {"mode": mode, "verdict": verdict or action, "action": action, "outcome": outcome}


CONCLUDE = trip("conclude", "blocked")
NUDGE, BLOCK, ABORT = trip("nudge", "nudged"), trip("block"), trip("abort", "aborted")
SIMILAR = trip("block", mode="similar_query")


@pytest.mark.parametrize(
    ("calls", "rows"),
    [
        ([("a", "look", 1, {})] * 3, []),
        ([("a", "look", 1, {}), ("a", "look", 1, NUDGE)], []),
        (
            [("a", "look", 1, {}), ("a", "look", 1, NUDGE), *[("a", "look", 1, BLOCK)] * 2, ("a", "look", 1, ABORT)],
            ["look x5: 2 ran, 2 refused, run ended at 5"],
        ),
        # Tools are withdrawn only where the requests are read: then a call has the tokens of its request.
        ([("a", "look", 1, {}), ("a", "look", 1, CONCLUDE)], ["look x2: 1 ran, 1 refused"]),
        (
            [("a", "look", 1, {"model.name": "gpt-4.1"}), ("a", "look", 1, CONCLUDE)],
            ["look x2: 1 ran, 1 refused, tools withdrawn at 2"],
        ),
        ([("a", "look", 1, {}), ("a", "look", 2, {}), ("a", "look", 1, BLOCK)], ["look x2: 1 ran, 1 refused"]),
        ([("a", "look", n, SIMILAR if n > 2 else {}) for n in range(6)], ["look x6: 3 ran, 3 refused"]),
        (
            [("a", "one", 1, {}), ("a", "two", 2, {}), ("a", "one", 1, BLOCK), ("a", "two", 2, BLOCK)],
            ["one, two x4: 2 ran, 2 refused"],
        ),
        (
            [("a", "look", 1, trip("observe", "executed", verdict="block"))] * 2,
            ["look x2: 2 ran, 2 only observed"],
        ),
        ([("a", "look", 1, trip("reuse", "reused"))], ["look x1: 0 ran, 1 given an earlier result"]),
        ([("a", "look", 1, BLOCK), ("b", "look", 1, BLOCK)], ["look x1: 0 ran, 1 refused"] * 2),
        ([("a", "look", 1, BLOCK), ("a", "look", 1, SIMILAR)], ["look x2: 0 ran, 2 refused"]),
    ],
)
def test_a_loop_is_one_row(calls, rows, tmp_path):
    """Equal calls, and calls of one mode, are one loop of their turn; a nudge alone is none."""
    loops = Loops(spans(tmp_path, *calls))
    assert (loops.calls, loops.rows) == (len(calls), rows)


@pytest.mark.parametrize(("others", "told"), [([], True), ([("b", "look", 1, BLOCK)], False)], ids=["alone", "mixed"])
def test_loops_of_which_the_model_could_only_be_told(others, told, tmp_path):
    """The guard saw their calls in model requests, when they had run."""
    seen = {**trip("nudge", "nudged", verdict="block"), "has_run": True}
    loops = Loops(spans(tmp_path, ("a", "look", 1, seen), ("a", "look", 1, seen), *others))
    assert loops.rows[0] == "look x2: 2 ran, the model told 2 times"
    assert loops.only_told is told


def test_few_rows_are_shown(tmp_path):
    """A line has the number of the others."""
    shown = Loops(spans(tmp_path, *((str(n), "look", 1, BLOCK) for n in range(12)))).shown
    assert (len(shown), shown[-1]) == (MOST_ROWS + 1, "... and 2 more loops")


def test_a_line_that_is_not_whole_is_left_out(tmp_path):
    """Its process was killed while it wrote, or the disk was full."""
    path = spans(tmp_path, ("a", "look", 1, {}))
    path.write_text(path.read_text() + '\n{"resourceSpans": [')
    assert Loops(path).calls == 1
