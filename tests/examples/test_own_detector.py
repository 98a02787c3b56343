"""The example of a detector of one's own nudges at the 25th, 50th and 100th call: live, in ``replay``, in ``watch``."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from otel_loopguard import Guard, Outcome, Policy, ToolCall, load_policy
from otel_loopguard.cli.main import main
from tests.cli.watch.messages import call
from tests.cli.watch.test_turns import Live, replayed
from tests.instrumentation.processes import ROOT

PLACES = [25, 50, 100]


@pytest.fixture
def policy_file(tmp_path):
    """A policy file beside a copy of the example."""
    shutil.copy(ROOT / "examples" / "own_detector.py", tmp_path)
    (tmp_path / "mine.toml").write_text('detectors = ["own_detector:ROW"]\n')
    yield str(tmp_path / "mine.toml")
    sys.modules.pop("own_detector", None)


def told(policy):
    """The places of the nudges among calls that bring something new each, and what the model reads."""
    turn, found = Guard(policy).turn(), []
    for place in range(1, 121):
        one = ToolCall("read_file", {"path": place})
        assert turn.begin(one).runs
        decision = turn.end(one, Outcome(f"text {place} of a long row of texts"))
        if decision.message:
            found.append((place, decision.message))
    return found


def test_it_nudges_live(policy_file):
    """The model reads the sentence with the result."""
    assert [place for place, _ in told(load_policy(policy_file))] == PLACES
    assert told(load_policy(policy_file))[0][1] == (
        "[loopguard] This is call 25 of read_file in this turn. Is there a way that takes fewer calls?"
    )


def test_it_counts_the_calls_of_each_tool_alone(policy_file):
    """Twenty calls of each of three tools are no marathon."""
    turn = Guard(load_policy(policy_file)).turn()
    for number in range(60):
        one = ToolCall(("read_file", "search", "list_folder")[number % 3], {"number": number})
        turn.begin(one)
        assert turn.end(one, Outcome(f"text {number} of a long row of texts")).message is None


def test_it_nudges_in_code(policy_file):
    """``Policy(detectors=[ROW])`` takes it, too, beside a plain function."""
    (row,) = load_policy(policy_file).detectors
    assert [place for place, _ in told(Policy(detectors=[row, lambda *_: None]))] == PLACES
    assert [place for place, _ in told(Policy(detectors=[row], modes={"marathon": {"nudge": 40}}))] == [40, 80]


def test_replay_finds_the_same(policy_file, tmp_path, capsys):
    """A recorded run of 120 calls has its three nudges, in a preset that counts calls, too."""
    made = [{"tool": "read_file", "args": {"path": n}, "result": f"text {n} of a long row"} for n in range(120)]
    (tmp_path / "runs.jsonl").write_text(json.dumps({"run_id": "a", "turns": [{"calls": made}]}) + "\n")
    for rest in ("", 'preset = "repeat_hint"\n', "[modes.marathon]\nnudge = 25\n"):
        (tmp_path / "mine.toml").write_text(f'detectors = ["own_detector:ROW"]\n{rest}')
        assert main(["replay", "--policy", policy_file, "--json", str(tmp_path / "runs.jsonl")]) == 0
        trips = json.loads(capsys.readouterr().out)["trips"]
        assert [(trip["mode"], trip["action"], trip["call"] + 1) for trip in trips] == [
            ("marathon", "nudge", place) for place in PLACES
        ]


def test_watch_finds_the_same(policy_file):
    """The spans of a program without a guard are judged with it as they come, as ``replay`` judges them."""
    policy = load_policy(policy_file)
    spans = [call(n, "search", f'{{"page": {n}}}', f"page {n} of a long book", lasts=0.5) for n in range(120)]
    seen = Live(policy=policy).all(*((float(n), one) for n, one in enumerate(spans)))
    assert [(one.mode, one.count) for one in seen.trips] == [("marathon", place) for place in PLACES]
    assert seen.trips == replayed(spans, policy)
