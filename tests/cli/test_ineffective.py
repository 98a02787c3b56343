"""Limits that no call reaches, found by asking the guard."""

from __future__ import annotations

import pytest

from otel_loopguard import Guard, Outcome, ToolCall
from otel_loopguard.cli.ineffective import ineffective
from otel_loopguard.cli.main import main
from otel_loopguard.core.policy.load import load_file


@pytest.fixture(name="found")
def _found(tmp_path):
    def found(text):
        path = tmp_path / "loop.toml"
        path.write_text(text)
        loaded = load_file(str(path))
        assert not loaded.problems
        return loaded, [str(problem).partition(": ")[2] for problem in ineffective(loaded)]

    return found


def first_refused(policy, tool):
    """The place of the first refusal in a row of equal calls with equal results."""
    with Guard(policy).turn() as turn:
        for place in range(1, 40):
            call = ToolCall(tool, {"path": "a.txt"})
            if not turn.begin(call).runs:
                return place
            turn.end(call, Outcome("the text of the file, which is the same each time"))
    return None


@pytest.mark.parametrize("table", ["", "tools.read_file."])
@pytest.mark.parametrize("block", [2, 4, 7, 8, 10, 11, 30, 1_000])
def test_a_limit_is_reported_if_and_only_if_another_one_refuses_before_it(found, table, block):
    """The report of `generic_repeat.block` is that of the guard, for all tools and for one."""
    loaded, problems = found(f"{table}modes.generic_repeat.block = {block}\n")
    refused = first_refused(loaded.policy, "read_file")
    assert bool(problems) == (refused != block)
    if problems:
        assert problems == [
            f"{table}modes.generic_repeat.block = {block}: has no effect: of equal calls with equal results, "
            f"no_novelty refuses the {refused}th; raise that limit, too."
        ]


@pytest.mark.parametrize(
    ("text", "named", "reason"),
    [
        ("modes.generic_repeat.nudge = 5", "modes.generic_repeat.nudge", ", generic_repeat refuses the "),
        ("max_calls = 5\nmodes.error_repeat.block = 12", "modes.error_repeat.block", "refuses the 6th"),
        ("tools.read_file.cap = 4\ntools.read_file.modes.generic_repeat.block = 7", "tools.read_file.modes", "the 5th"),
        ("max_calls = 6\ntools.read_file.cap = 9", "tools.read_file.cap", "global_circuit_breaker refuses the 7th"),
        ("order = ['generic_repeat']\nmodes.error_repeat.block = 4", "modes.error_repeat.block", "`order` leaves"),
        ("modes.generic_repeat.action = 'off'\nmodes.generic_repeat.block = 5", "modes.generic_repeat.block", "9th"),
        ("action = 'observe'\nmodes.generic_repeat.block = 12", "modes.generic_repeat.block", "no_novelty"),
    ],
)
def test_settings_of_every_table_are_judged(found, text, named, reason):
    """Another mode, the same mode's own limit, a cap, or the order may come before a limit."""
    _, problems = found(text)
    assert [one.partition(" = ")[0] for one in problems if one.startswith(named)] != []
    assert any(reason in one for one in problems)


@pytest.mark.parametrize(
    "text",
    [
        "modes.generic_repeat.block = 10\nmodes.no_novelty.block = 12",
        "modes.generic_repeat.block = 3",
        "modes.generic_repeat.block = 0",
        "modes.generic_repeat.block = 8\nmodes.generic_repeat.nudge = 5",
        "tools.read_file.cap = 4",
        "tools.read_file.cap = 100",
        "max_calls = 30",
        "tools.search_docs.query = 'auto'\ntools.search_docs.modes.similar_query.block = 6",
        "tools.'get_*'.kind = 'poll'\ntools.'get_*'.modes.poll_no_progress.block = 30",
        "preset = 'chat_turn'",
        "modes.global_circuit_breaker.no_news_block = 300",
        "tools.get_status.modes.global_circuit_breaker.block = 31",
    ],
)
def test_settings_with_an_effect_are_not_reported(found, text):
    """A limit that decides, one that is switched off or has its default, and one that no loop of one tool shows."""
    assert found(text)[1] == []


def test_policy_check_names_them(tmp_path, capsys):
    """A setting without effect has its line, its value and what comes before it; the exit status is 1."""
    path = tmp_path / "loop.toml"
    path.write_text("[modes.generic_repeat]\nblock = 10\n")
    assert main(["policy", "check", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}, line 2: modes.generic_repeat.block = 10: has no effect: ")
