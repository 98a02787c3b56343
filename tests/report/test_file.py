"""The contents of the report's file, and the command that writes it."""

from __future__ import annotations

import json
import re

import pytest

from otel_loopguard import report
from otel_loopguard.cli.main import main
from otel_loopguard.engine.modes import Mode
from otel_loopguard.engine.vocabulary import Action
from otel_loopguard.report import Call, Run, Spent
from otel_loopguard.report.columns import MOST_CALLS, Columns
from tests.cli.replay import made as recorded
from tests.cli.replay.test_token_sums import stuck_trace

from . import made

SECRET = "hunter2-4111111111111111"


def data_of(path):
    """The data within a report."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_no_address_stands_in_the_file_but_in_its_licence(tmp_path):
    """One file: nothing is linked, imported or loaded."""
    report.write(tmp_path / "r.html", [made.ping_pong()])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:,|#)|@import|url\(""", text)
    assert set(re.findall(r"https?://[^\s'\"`)]*", text)) <= {"https://github.com/leeoniya/uPlot"}
    assert "Copyright (c) 2022 Leon Sorokin" in text
    assert "@@" not in text


def test_every_mode_has_a_description(tmp_path):
    """The page describes each mode in a few words."""
    report.write(tmp_path / "r.html", [made.ping_pong()])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert [mode for mode in Mode if not re.search(rf'"{mode}":"\w', text)] == []


def test_replay_writes_it_without_arguments_and_results(tmp_path, capfdbinary):
    """Secrets in arguments, results and errors of a recorded run stay out; its trips are in."""
    calls = [recorded.call("read_file", {"key": SECRET}, f"Error: {SECRET}", n, at=n * 1.0) for n in range(4)]
    (tmp_path / "runs.jsonl").write_text(json.dumps(recorded.run("stuck", calls)) + "\n")
    assert main(["replay", str(tmp_path / "runs.jsonl"), "--json", "--html", str(tmp_path / "r.html")]) == 0
    (line,) = capfdbinary.readouterr()[0].splitlines()
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert SECRET not in text
    data = data_of(tmp_path / "r.html")
    decisions = [data["decisions"][code] for code in data["calls"]["decision"]]
    tripped = {trip["call"]: trip["action"] for trip in json.loads(line)["trips"]}
    words = {"nudge": "nudged", "block": "refused", "conclude": "concluded", "abort": "aborted"}
    assert decisions == [words.get(tripped.get(call), "failed") for call in range(4)]
    assert set(data["calls"]["same"]) == {0}
    assert data["tools"] == ["read_file"]


def test_replay_of_spans_writes_it(tmp_path):
    """Our own spans, which hold fingerprints only, make the same strips."""
    from tests.cli.replay.test_span_buffer import POLICIES, exported

    spans, _ = exported(POLICIES[0], recorded.stuck())
    (tmp_path / "spans.jsonl").write_text(json.dumps({"resourceSpans": spans}) + "\n")
    assert main(["replay", str(tmp_path / "spans.jsonl"), "--html", str(tmp_path / "r.html")]) == 0
    data = data_of(tmp_path / "r.html")
    assert [data["decisions"][code] for code in data["calls"]["decision"]] == ["ran", "nudged", "refused", "refused"]
    assert data["over"]["timed"]
    assert "blake2b" not in json.dumps(data)


def test_a_place_that_cannot_be_written_is_said_before_the_work(tmp_path, capsys):
    """One line, status 2, and no run was read."""
    (tmp_path / "runs.jsonl").write_text("no run\n")
    assert main(["replay", str(tmp_path / "runs.jsonl"), "--html", str(tmp_path / "none" / "r.html")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"otel-loopguard: \S+r.html: the report cannot be written: No such .+ Name another.+\n", err)
    assert main(["replay", str(tmp_path / "runs.jsonl"), "--html", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), "Is a directory" in err) == ("", 1, True)


def test_what_was_done_has_one_word():
    """A trip's action wins over a failure; what was only observed did what it did."""
    words = ["ran", "ran", "nudged", "reused", "refused", "concluded", "aborted"]
    assert [report.decision(action) for action in Action] == words
    assert report.decision(None, failed=True) == report.decision(Action.OBSERVE, failed=True) == "failed"
    assert report.decision(Action.NUDGE, failed=True) == "nudged"


def test_a_wrong_word_is_an_error(tmp_path):
    """A decision that the page could not show is refused by name."""
    with pytest.raises(ValueError, match="'blocked' of a call of a must be one of ran, failed, nudged"):
        report.write(tmp_path / "r.html", [Run("x", 0, [Call("a", 1, "blocked")])])


def test_digests_do_not_stand_in_the_file():
    """Small numbers mark equal calls, turn by turn; equal arguments to another tool are another call."""
    data = Columns()
    data.add(Run("x", 0, [Call("a", 10**18), Call("b", 10**18), Call("a", 5), Call("a", 10**18)]))
    data.add(Run("x", 1, [Call("a", 5)]))
    assert data.to_json()["calls"]["same"] == [0, 1, 2, 0, 0]
    assert str(10**18) not in json.dumps(data.to_json())


def test_all_is_counted_however_much_it_is():
    """Calls beyond the timeline's limit are counted by tool, mode and time, and reported as left out."""
    columns = Columns(most_calls=10)
    for _ in range(4):
        columns.add(made.every_decision())
    data = columns.to_json()
    assert (len(data["calls"]["tool"]), data["totals"]) == (7, {"turns": 4, "calls": 28, "looping": 4, "kept_out": 16})
    assert data["counts"] == [[4] * 7 + [0]]
    assert sum(sum(bins) for _, _, bins in data["over"]["rows"]) == 20
    assert MOST_CALLS >= 100_000


def test_times_count_only_if_every_call_has_one():
    """One call without a time, and the order of calls takes the place of the clock."""
    for at, timed in ((5.0, True), (None, False), (float("nan"), False)):
        columns = Columns()
        columns.add(Run("x", 0, [Call("a", 1, at=1.0), Call("a", 1, "refused", "cycle", at)]))
        assert columns.to_json()["over"]["timed"] is timed
        assert (columns.to_json()["at"] is not None) is timed


def test_names_are_bounded_in_length_and_number():
    """A model may invent names without end: they are cut, and the rest are one."""
    columns = Columns()
    columns.add(Run("x", 0, [Call(f"{n}" + "y" * 500, n) for n in range(12_000)]))
    names = columns.to_json()["tools"]
    assert len(names) <= 10_001
    assert max(map(len, names)) == 64
    assert names[-1] == "(others)"


def test_tokens_of_all_turns_are_added_up():
    """Also of turns that the timeline has no room for; costs only where there are prices."""
    columns = Columns(most_calls=10)
    for spent in (
        Spent(10, 4, requests=3, agents=2),
        None,
        Spent(20, 5, 0.5, currency="EUR"),
        Spent(30, 6, 0.25, 0.125),
    ):
        columns.add(made.plain(length=4)._replace(spent=spent))
    assert columns.to_json()["spent"] == {
        "tokens": 60,
        "in_loops": 15,
        "currency": "EUR",
        "cost": 0.75,
        "cost_in_loops": 0.125,
        "requests": 3,
        "agents": 0,
        "turns": [(10, 4, 3, 2), None],
    }


def test_replay_reports_the_tokens_of_spans(tmp_path, capfdbinary):
    """Those of the model requests in the trace."""
    lines = "".join(json.dumps(line) + "\n" for line in stuck_trace(3))
    (tmp_path / "spans.jsonl").write_text(lines)
    main(["replay", str(tmp_path / "spans.jsonl"), "--json", "--html", str(tmp_path / "r.html")])
    capfdbinary.readouterr()
    spent = data_of(tmp_path / "r.html")["spent"]
    assert (spent["tokens"], spent["in_loops"], spent["cost"]) == (450, 225, None)


def test_a_replay_begins_with_two_figures_and_a_row_for_each_loop(tmp_path, capfd):
    """The row is that of the tables; a turn ends once, and the limit that ended it is named."""
    (tmp_path / "runs.jsonl").write_text(json.dumps(recorded.stuck(times=600)) + "\n")
    assert main(["replay", str(tmp_path / "runs.jsonl"), "--html", str(tmp_path / "r.html")]) == 0
    data, row = data_of(tmp_path / "r.html"), "read_file x600: 2 ran, 10 refused, run ended at 13"
    row += " (598 of 600 would have been refused)"
    assert row in capfd.readouterr().out
    assert data["loops"] == {"rows": [["stuck", "1", row]], "all": 1}
    assert data["lead"].splitlines() == [
        "1 of 1 run looped: 598 of 600 calls would have been refused.",
        "Guarded: 2 ran, 10 refused, 1 turn ended by the guard.",
    ]
    calls = [
        (data["decisions"][code], data["whys"][why])
        for code, why in zip(data["calls"]["decision"], data["calls"]["why"], strict=True)
    ]
    assert calls[:3] == [("ran", ""), ("nudged", "limit 2"), ("refused", "limit 3")]
    assert calls[12:] == [("aborted", "after 10 refusals"), *[("after", "")] * 587]


def test_a_turn_whose_model_is_only_told_is_no_looping_one():
    """A nudge alone, unless it stands for a refusal that was not made; a refusal is one however it is marked."""
    looping = []
    for decision, is_loop in (("nudged", None), ("nudged", False), ("nudged", True), ("refused", None), ("ran", None)):
        columns = Columns()
        columns.add(Run("x", 1, [Call("a", 1, decision, "cycle", is_loop=is_loop)]))
        data = columns.to_json()
        assert data["turns"]["looping"] == [data["totals"]["looping"]]
        looping += data["turns"]["looping"]
    assert looping == [0, 0, 1, 1, 0]


def test_a_replayed_turn_that_is_only_told_is_no_looping_one(tmp_path):
    """The lead is that of the summary: told, not stopped."""
    (tmp_path / "runs.jsonl").write_text(json.dumps(recorded.stuck(times=2)) + "\n")
    assert main(["replay", str(tmp_path / "runs.jsonl"), "--html", str(tmp_path / "r.html")]) == 0
    data = data_of(tmp_path / "r.html")
    assert [data["decisions"][code] for code in data["calls"]["decision"]] == ["ran", "nudged"]
    assert data["lead"] == "No loop in 2 calls of 1 run. 1 run told, not stopped."
    assert (data["totals"]["looping"], data["turns"]["looping"]) == (0, [0])


def test_rows_of_loops_are_bounded():
    """Later ones are counted."""
    columns = Columns()
    for _ in range(70):
        columns.add(made.ping_pong()._replace(loops=["a x3: 2 ran", "b x3: 2 ran"]))
    loops = columns.to_json()["loops"]
    assert (len(loops["rows"]), loops["all"]) == (100, 140)
