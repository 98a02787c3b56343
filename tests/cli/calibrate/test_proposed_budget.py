"""A budget that calibrate proposes: three times what good runs took, which trips none of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from otel_loopguard import Ledger, Policy
from otel_loopguard.cli.calibrate.proposed_budget import MostSpent
from otel_loopguard.cli.main import main
from otel_loopguard.engine.detectors.run_budget import SCOPES
from otel_loopguard.policy_files.load import load_file
from tests.cli.replay import made
from tests.cli.replay.test_replayed_ledgers import acts, judged, lines_of, program
from tests.models.test_ledger import PRICES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PRICED = '[cost_per_million_tokens."gpt-*"]\ninput = 2.0\noutput = 8.0\n'


def calibrated(folder: Path, lines: list[Any], policy: str = "", *arguments: str) -> str:
    """The text that calibrate writes for a recording, with its proposal set."""
    recording, base, output = folder / "runs.jsonl", folder / "base.toml", folder / "policy.toml"
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    base.write_text(policy)
    assert main(["calibrate", str(recording), "--policy", str(base), "-o", str(output), *arguments]) == 0
    text = output.read_text()
    head, table, proposal = text.partition("# [budget.tree]\n")
    output.write_text(head + re.sub("^# ", "", table + proposal, flags=re.MULTILINE))
    assert main(["policy", "check", str(output)]) == 0
    return text


def budget_of(folder: Path) -> Mapping[str, Any]:
    """The budget of the policy that was written, once it is set."""
    loaded = load_file(str(folder / "policy.toml"))
    assert not loaded.problems
    return loaded.policy.budget


def test_it_is_three_times_what_the_largest_run_took_and_trips_none(tmp_path: Path) -> None:
    """By the ledger on the span of its turn: requests, calls, tokens, cost, seconds, agents and their levels."""
    recording, ledger = program(Policy(cost_per_million_tokens=PRICES))
    lines = lines_of(recording)
    text = calibrated(tmp_path, lines, PRICED)
    budget = budget_of(tmp_path)
    assert set(budget["tree"]) == set(SCOPES["tree"]) - {"input_tokens", "output_tokens"}
    for account, limit in budget["tree"].items():
        most = getattr(ledger, account)
        assert limit >= 3 * most
        assert limit < 3.03 * most + (account == "seconds")
    assert re.search(r"^# requests = 81  # \S+ has 27$", text, re.MULTILINE)
    for times, trips in ((3, False), (1, True)):
        tree = {account: type(limit)(limit * times / 3) for account, limit in budget["tree"].items()}
        turns = judged(lines, Policy(cost_per_million_tokens=PRICES, budget={"tree": tree}))
        assert any(acts(turn) for turn in turns.values()) is trips


@pytest.mark.parametrize("policy", ["", "[budget.turn]\ncalls = 500\n"], ids=["no budget", "a budget"])
def test_a_recording_that_tells_calls_has_a_budget_of_calls(policy: str, tmp_path: Path) -> None:
    """Of its good runs alone; a policy that has a budget keeps that one."""
    runs = [read(f"run {number}", 5 + number % 3) for number in range(9)]
    text = calibrated(tmp_path, [*runs, read("failed", 40, success=False), made.stuck("loop", times=30)], policy)
    assert ("# calls = 21  # run_8 has 7" in text) is not bool(policy)
    assert budget_of(tmp_path) == ({"turn": {"calls": 500}} if policy else {"tree": {"calls": 21}})


def test_a_limit_of_millions_is_a_whole_number() -> None:
    """A count that is written with an exponent is no count to a policy."""
    most = MostSpent()
    most.add(Ledger(requests=70_001, input_tokens=411_522_633, cost=1_234.5678), "a run")
    text = "\n".join(most.proposal(Policy(cost_per_million_tokens=PRICES)))
    assert "tokens = 1234567899  #" in text
    assert "requests = 210003  #" in text
    assert "cost = 3710  #" in text


def read(name: str, pages: int, **more: Any) -> Any:
    """A run that reads so many pages."""
    calls = [made.call("read_page", {"page": page}, f"page {page}", page) for page in range(pages)]
    return made.run(name, calls, **more)


def test_a_run_beyond_the_budget_of_the_policy_is_named_and_raises_nothing(tmp_path: Path) -> None:
    """Its owner has declared the budget."""
    policy = "[budget.turn]\ncalls = 6\n"
    text = calibrated(tmp_path, [read(f"run {number}", 5) for number in range(9)] + [read("long", 9)], policy)
    assert "- long: run_budget of read_page at turn 1, call 7" in text
    assert budget_of(tmp_path) == {"turn": {"calls": 6}}
